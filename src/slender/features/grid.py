"""Where patches lie: on a grid, at several scales, the same for every channel.

A scale is the side b of a cell in pixels.  A patch has 4 x 4 cells, so it is a square of 4 b
pixels, and lies inside the image.  Patches start every `step` pixels, whatever their scale; what is
left over at the borders is the same on both sides, up to a pixel.

Neighbouring patches share cells.  `Grid` therefore lists the places where cells start, each once,
and for every patch which of them are its own: a channel computes its cells first, and gathers.

A large image is cut into bands of rows, so that the memory for its descriptors is bounded.  A band
has the patches that start in it, and so many rows more that its descriptors are those of the whole
image.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import kernel

CELLS = 4  # on each side of a patch
BAND_PIXELS = 2**17  # of a band without its margins: 4 MB of orientation planes
PIECE = 1024  # patches described at a time: their descriptors stay in a core's cache

Places = NDArray[np.int64]


class Axis(NamedTuple):
    """The patches along one side of an image."""

    cells: Places  # where cells start, increasing
    own: Places  # (patches, CELLS): which of them belong to a patch


class Grid(NamedTuple):
    """The patches of one scale, row by row."""

    cell: int
    rows: Axis
    columns: Axis

    def pieces(self) -> Iterator[Places]:
        """Parts of rows.own: some rows of patches at a time."""
        high = max(1, PIECE // len(self.columns.own))
        for low in range(0, len(self.rows.own), high):
            yield self.rows.own[low : low + high]

    def gather(
        self,
        cells: NDArray[np.float32],
        rows: Places,
        out: NDArray[np.float32],
        turned: bool = False,
    ) -> None:
        """out = the cells of each patch of a piece, one after another.

        `cells` is (cell rows, cell columns, an even number of values); with `turned` columns come
        first.
        """
        half = cells.shape[2] // 2  # two values are moved as one
        along = half * cells.shape[1]
        down, right = (half, along) if turned else (along, half)
        flat, target = cells.view(np.float64).ravel(), out.view(np.float64)
        _gather(flat, down * rows, right * self.columns.own, (0,) * half, target)


class Band(NamedTuple):
    """Rows of an image, and the patches that are computed from them; places count from `top`."""

    top: int
    bottom: int
    grids: list[Grid]


def starts(length: int, cell: int, step: int) -> Places:
    """The first pixels of the patches along a side of this length; none if it is too short."""
    room = length - CELLS * cell
    return np.arange(room % step // 2, room + 1, step) if room >= 0 else np.empty(0, np.int64)


def axis(first: Places, cell: int) -> Axis:
    places = first[:, None] + cell * np.arange(CELLS)
    used = np.zeros(places.max() + 1, bool)
    used[places] = True
    return Axis(np.flatnonzero(used), (np.cumsum(used) - 1)[places])


def margin(cell: int) -> int:
    """Rows beyond a patch that have an influence on it: smoothing, gradient, a cell's window."""
    return 2 * cell + 2


def n_patches(height: int, width: int, scales: Sequence[int], step: int) -> int:
    """The number of patches of an image at all scales."""
    sides = ((starts(height, cell, step), starts(width, cell, step)) for cell in scales)
    return sum(len(rows) * len(columns) for rows, columns in sides)


def bands(
    height: int, width: int, scales: Sequence[int], step: int, pixels: int = BAND_PIXELS
) -> Iterator[Band]:
    """The bands of an image, from top to bottom; most images are one."""
    largest = max(scales)
    # At least two patches high: a band reads a patch and its margins beyond what it answers for.
    high = max(2 * CELLS * largest, pixels // width)
    count = max(1, -(-(height - CELLS * min(scales) + 1) // high))
    for band in range(count):
        low, end = band * high, (band + 1) * high if band < count - 1 else height
        inside = [(cell, _within(starts(height, cell, step), low, end)) for cell in scales]
        reach = [(cell, first) for cell, first in inside if len(first) and width >= CELLS * cell]
        if not reach:
            continue
        top = max(0, min(first[0] - margin(cell) for cell, first in reach))
        bottom = min(height, max(first[-1] + CELLS * cell + margin(cell) for cell, first in reach))
        grids = [
            Grid(cell, axis(first - top, cell), axis(starts(width, cell, step), cell))
            for cell, first in reach
        ]
        yield Band(int(top), int(bottom), grids)


def _within(places: Places, low: int, end: int) -> Places:
    return places[(places >= low) & (places < end)]


def large_enough(image: NDArray[np.uint8], scales: Sequence[int]) -> NDArray[np.uint8]:
    """The image, with its border pixels repeated until it holds one patch of the smallest scale."""
    missing = [max(0, CELLS * min(scales) - side) for side in image.shape[:2]]
    if not any(missing):
        return image
    return np.pad(image, [*((m // 2, m - m // 2) for m in missing), (0, 0)], mode="edge")


@kernel()
def _gather(cells, rows, columns, like, out):  # type: ignore[no-untyped-def]
    """A cell starts at rows[i, r] + columns[j, c]; `like` is as long: the compiler knows tuples."""
    width, n = len(like), len(columns)
    for i in range(len(rows)):
        for j in range(n):
            target = out[i * n + j]
            for r in range(CELLS):
                for c in range(CELLS):
                    first = rows[i, r] + columns[j, c]
                    for k in range(width):
                        target[(r * CELLS + c) * width + k] = cells[first + k]
