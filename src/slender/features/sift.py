"""Dense SIFT: histograms of gradient orientations over the 4 x 4 cells of every patch of a grid.

For a scale with cells of b pixels (grid.py):

    S           grey image, smoothed by a Gaussian of deviation b / 6, less the 0.5 pixels that an
                image has anyway
    g           central differences of S, y upwards; 0 in the outermost pixels
    planes      |g| at eight orientations k 45°, anticlockwise from the x axis, divided linearly
                between the two neighbours of the angle of g
    cell        Σ over pixels of plane · max(0, 1 - |dx| / b) · max(0, 1 - |dy| / b) / b², where dx
                and dy are distances from the cell's centre: bilinear interpolation between cells
    descriptor  16 cells x 8 orientations, cell rows first, then columns, then orientations, times
                the window's weight of the cell; divided by its L2 norm, clamped at 0.2, divided by
                its L2 norm again

Patches of less contrast than CONTRAST are zeros: what is left of a gradient there is noise.

The window of Lowe is a Gaussian over the patch of deviation 2 b.  Here each cell has one weight,
the mean of the Gaussian over the cell, because a cell that several patches share is computed once.

The centre of cell k of a patch that starts at p is the pixel p + k b + b // 2.  OpenCV's SIFT has
the same order of numbers, orientations and interpolation.  Its keypoint of this patch has the
centre p + b // 2 + 1.5 b (a pixel if b is even), the size 2 b / 3, the angle 0 and the octave 0, of
`SIFT_create(sigma=b / 6)`.

Patches are not computed one by one.  After the planes come a triangular filter along y and one
along x, at the centres of cells only, and then a gather.  The eight orientations of a pixel are
neighbours in memory, so each filter adds up long rows of numbers.  (The same by OpenCV's
`sepFilter2D` and NumPy takes four to eight times as long.)
"""

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..kernels import kernel
from .grid import CELLS, Grid
from .scratch import scratch

ORIENTATIONS = 8
SIZE = CELLS * CELLS * ORIENTATIONS
CLAMP = np.float32(0.2)
CONTRAST = np.float32(1.0)  # norm of the 128 mean gradients, in grey levels (of 256) per pixel
CELL_PER_SIGMA = 6.0  # cells and smoothing grow together
CAMERA = 0.5  # deviation of the blur that an image comes with
WINDOW = 2.0  # deviation of the Gaussian over a patch, in cells
FAST = {"reassoc", "contract", "arcp", "nsz"}
TINY = np.float32(1e-30)
# atan(t) for 0 <= t <= 1 to 1e-5: Abramowitz and Stegun, 4.4.49; in units of 45 degrees
A1, A3, A5, A7, A9 = (
    np.float32(4 / np.pi * a) for a in (0.9998660, -0.3302995, 0.1801410, -0.0851330, 0.0208351)
)

Floats = NDArray[np.float32]


def descriptors(image: NDArray[np.uint8], grids: Sequence[Grid]) -> Iterator[Floats]:
    """The descriptors (patches, 128) of an RGB image, piece after piece of each grid.

    A piece is overwritten by the next one.
    """
    grey = scratch("grey", image.shape[:2])
    _grey(image, grey)
    for grid in grids:
        cells = _cells(_planes_of(grey, grid.cell), grid)
        for rows in grid.pieces():
            out = scratch("sift", (len(rows) * len(grid.columns.own), SIZE))
            grid.gather(cells, rows, out, turned=True)
            _normalise(out, window(), CONTRAST)
            yield out


def textured(X: Floats) -> Floats:
    """The descriptors that are not zeros."""
    kept = np.einsum("ij,ij->i", X, X) > 0
    return X if kept.all() else X[kept]


@cache
def gaussian(cell: int) -> Floats:
    """Half of the filter that smooths, from its middle on, up to four deviations."""
    variance = (cell / CELL_PER_SIGMA) ** 2 - CAMERA**2
    if variance <= 0:
        return np.ones(1, np.float32)
    t = np.arange(int(np.ceil(4 * np.sqrt(variance))) + 1)
    taps = np.exp(-0.5 * t**2 / variance)
    return (taps / (2 * taps.sum() - taps[0])).astype(np.float32)


@cache
def triangle(cell: int) -> Floats:
    """Half of the window of a cell along one side, from its centre on; the whole sums to 1."""
    return ((1 - np.arange(cell) / cell) / cell).astype(np.float32)


@cache
def window() -> Floats:
    """The weight of each number of a descriptor: the Gaussian's mean over the cell's triangle."""
    t = np.linspace(-1, 1, 2001)
    offsets = np.arange(CELLS) - (CELLS - 1) / 2
    values = (1 - abs(t)) * np.exp(-0.5 * ((offsets[:, None] + t) / WINDOW) ** 2)
    along = values.sum(axis=1) / (1 - abs(t)).sum()
    return np.outer(along, along).repeat(ORIENTATIONS).astype(np.float32)


def _planes_of(grey: Floats, cell: int) -> Floats:
    """(height, width, 8): the orientation planes of an image, smoothed for this scale."""
    smooth, planes = scratch("smooth", grey.shape), scratch("planes", (*grey.shape, ORIENTATIONS))
    _smooth(grey, gaussian(cell), smooth)
    _planes(smooth, planes)
    return planes


def _cells(planes: Floats, grid: Grid) -> Floats:
    """(cell columns, cell rows, 8): the histogram of every cell."""
    taps, half = triangle(grid.cell), grid.cell // 2
    height, width, _ = planes.shape
    rows, columns = grid.rows.cells, grid.columns.cells
    down = scratch("down", (len(rows), width * ORIENTATIONS))
    _filter(planes.reshape(height, -1), rows + half, taps, down)
    turned = scratch("turned", (width, len(rows), ORIENTATIONS))
    _turn(_pairs(down.reshape(len(rows), width, ORIENTATIONS)), _pairs(turned))
    across = scratch("across", (len(columns), len(rows) * ORIENTATIONS))
    _filter(turned.reshape(width, -1), columns + half, taps, across)
    return across.reshape(len(columns), len(rows), ORIENTATIONS)


def _pairs(A: Floats) -> NDArray[np.float64]:
    """Two numbers as one, for kernels that only move them."""
    return A.view(np.float64)


@kernel(fastmath=FAST)
def _grey(image, grey):  # type: ignore[no-untyped-def]
    """Luma of ITU-R BT.601."""
    height, width, _ = image.shape
    for y in range(height):
        for x in range(width):
            grey[y, x] = (
                np.float32(0.299) * image[y, x, 0]
                + np.float32(0.587) * image[y, x, 1]
                + np.float32(0.114) * image[y, x, 2]
            )


@kernel(fastmath=FAST)
def _smooth(grey, taps, out):  # type: ignore[no-untyped-def]
    """By a symmetric filter along both sides; beyond the borders the image is mirrored."""
    height, width = grey.shape
    reach = len(taps) - 1
    row = np.empty(width + 2 * reach, np.float32)
    for y in range(height):
        inner = row[reach : reach + width]
        for x in range(width):
            inner[x] = taps[0] * grey[y, x]
        for t in range(1, reach + 1):
            above, below = grey[abs(y - t)], grey[height - 1 - abs(height - 1 - y - t)]
            for x in range(width):
                inner[x] += taps[t] * (above[x] + below[x])
        for t in range(1, reach + 1):
            row[reach - t] = row[reach + t]
            row[reach + width - 1 + t] = row[reach + width - 1 - t]
        target = out[y]
        for x in range(width):
            target[x] = taps[0] * inner[x]
        for t in range(1, reach + 1):
            left, right = row[reach - t :], row[reach + t :]
            for x in range(width):
                target[x] += taps[t] * (left[x] + right[x])


@kernel(fastmath=FAST, error_model="numpy")
def _planes(S, planes):  # type: ignore[no-untyped-def]
    """The gradient's magnitude, divided between two orientations."""
    height, width = S.shape
    planes[:] = 0
    angle, size = np.zeros(width, np.float32), np.zeros(width, np.float32)
    for y in range(1, height - 1):
        above, here, below = S[y - 1], S[y], S[y + 1]
        for x in range(1, width - 1):
            dx = np.float32(0.5) * (here[x + 1] - here[x - 1])
            dy = np.float32(0.5) * (above[x] - below[x])
            a, b = abs(dx), abs(dy)
            t = min(a, b) / (max(a, b) + TINY)
            s = t * t
            u = t * (A1 + s * (A3 + s * (A5 + s * (A7 + s * A9))))
            u = np.float32(2) - u if b > a else u
            u = np.float32(4) - u if dx < 0 else u
            u = np.float32(8) - u if dy < 0 else u
            angle[x] = u
            size[x] = np.sqrt(dx * dx + dy * dy)
        for x in range(1, width - 1):
            k = np.int32(angle[x])
            share = size[x] * (angle[x] - k)
            planes[y, x, k & 7] = size[x] - share
            planes[y, x, (k + 1) & 7] = share


@kernel(fastmath=FAST)
def _filter(lines, centres, taps, out):  # type: ignore[no-untyped-def]
    """out[i] = Σ_t taps[|t|] lines[centres[i] + t]; lines beyond the first and last are zeros."""
    count, length = lines.shape
    for i in range(len(centres)):
        target, middle = out[i], lines[centres[i]]
        for x in range(length):
            target[x] = taps[0] * middle[x]
        for t in range(1, len(taps)):
            before, after = centres[i] - t, centres[i] + t
            weight = taps[t]
            if before >= 0 and after < count:
                one, other = lines[before], lines[after]
                for x in range(length):
                    target[x] += weight * (one[x] + other[x])
            elif before >= 0 or after < count:
                one = lines[before if before >= 0 else after]
                for x in range(length):
                    target[x] += weight * one[x]


@kernel()
def _turn(A, out):  # type: ignore[no-untyped-def]
    """out[x, y] = A[y, x], the eight orientations of a pixel together."""
    for y in range(A.shape[0]):
        for x in range(A.shape[1]):
            for k in range(ORIENTATIONS // 2):
                out[x, y, k] = A[y, x, k]


@kernel(fastmath=FAST, error_model="numpy")
def _normalise(X, weights, contrast):  # type: ignore[no-untyped-def]
    """Times the window; then norm 1, clamped, norm 1; zeros where there is too little contrast."""
    for i in range(len(X)):
        x, total = X[i], np.float32(0)
        for k in range(SIZE):
            x[k] *= weights[k]
            total += x[k] * x[k]
        if total < contrast * contrast:
            x[:] = 0
            continue
        most, clamped = CLAMP * np.sqrt(total), np.float32(0)
        for k in range(SIZE):
            x[k] = min(x[k], most)
            clamped += x[k] * x[k]
        scale = np.float32(1) / np.sqrt(clamped)
        for k in range(SIZE):
            x[k] *= scale
