"""Local colour: mean and standard deviation of R, G and B over the cells of every patch of a grid.

A descriptor has 96 numbers: cell rows first, then columns, and for each cell the means of R, G and
B, then their deviations, with 1 for the brightest value.  A cell is b x b pixels, each of weight 1.

Sums over cells are differences of integral images, in whole numbers: a mean is exact before it is
rounded to float32, and equal pixels have the deviation 0.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..kernels import kernel
from .grid import CELLS, Grid
from .scratch import scratch

MOMENTS = 6  # of a cell: three means, three deviations
SIZE = CELLS * CELLS * MOMENTS
MAX_CELL = 256  # the sum of squares over a larger cell may not fit in 32 bits

Floats = NDArray[np.float32]


def descriptors(image: NDArray[np.uint8], grids: Sequence[Grid]) -> Iterator[Floats]:
    """The descriptors (patches, 96) of an RGB image, piece after piece of each grid.

    A piece is overwritten by the next one.
    """
    height, width, _ = image.shape
    sums = scratch("integral", (height + 1, width + 1, MOMENTS), np.uint32)
    _integral(image, sums)
    for grid in grids:
        rows, columns = grid.rows.cells, grid.columns.cells
        cells = scratch("colours", (len(rows), len(columns), MOMENTS))
        _cells(sums, rows, columns, grid.cell, cells)
        for own in grid.pieces():
            out = scratch("colour", (len(own) * len(grid.columns.own), SIZE))
            grid.gather(cells, own, out)
            yield out


@kernel()
def _integral(image, sums):  # type: ignore[no-untyped-def]
    """(height + 1, width + 1, 6): sums of values and of squares, modulo 2^32.

    A difference of such sums is right if it is below 2^32 itself.
    """
    height, width, _ = image.shape
    sums[0] = 0
    sums[:, 0] = 0
    for y in range(height):
        r = g = b = rr = gg = bb = np.uint32(0)
        for x in range(width):
            R, G, B = (
                np.uint32(image[y, x, 0]),
                np.uint32(image[y, x, 1]),
                np.uint32(image[y, x, 2]),
            )
            r, g, b = np.uint32(r + R), np.uint32(g + G), np.uint32(b + B)
            rr, gg, bb = np.uint32(rr + R * R), np.uint32(gg + G * G), np.uint32(bb + B * B)
            above, here = sums[y, x + 1], sums[y + 1, x + 1]
            here[0], here[1], here[2] = above[0] + r, above[1] + g, above[2] + b
            here[3], here[4], here[5] = above[3] + rr, above[4] + gg, above[5] + bb


@kernel()
def _cells(sums, rows, columns, cell, out):  # type: ignore[no-untyped-def]
    """(cell rows, cell columns, 6): means and deviations of every cell."""
    n = cell * cell
    for i in range(len(rows)):
        top, bottom = sums[rows[i]], sums[rows[i] + cell]
        for j in range(len(columns)):
            left, right = columns[j], columns[j] + cell
            for k in range(3):
                total = _over(top, bottom, left, right, k)
                squares = _over(top, bottom, left, right, k + 3)
                out[i, j, k] = total / (255.0 * n)
                out[i, j, k + 3] = np.sqrt(float(n * squares - total * total)) / (255.0 * n)


@kernel(inline="always")
def _over(top, bottom, left, right, k):  # type: ignore[no-untyped-def]
    """A sum over a cell, from its corners."""
    return np.int64(np.uint32(bottom[right, k] - bottom[left, k] - top[right, k] + top[left, k]))
