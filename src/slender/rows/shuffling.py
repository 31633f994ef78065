"""A random order for rows in files: parts in a random order, and rows shuffled within a buffer.

In an order over all rows, every row would be read from another place of the file.  Here the parts
of the file are shuffled, several of them fill a buffer of BUFFER_BYTES, and rows are shuffled among
those of one buffer.  benchmarks/shuffle.py measures what this costs in accuracy.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .ahead import PART_BYTES

BUFFER_BYTES = 8 * PART_BYTES


def by_parts(
    index: NDArray[np.intp], borders: Sequence[int], row_bytes: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Positions in `index`; rows borders[k]..borders[k + 1] are a part."""
    sizes = np.diff(borders) * row_bytes
    if sizes.sum() <= BUFFER_BYTES:
        return rng.permutation(len(index))
    parts = rng.permutation(len(sizes))
    buffer = np.empty(len(parts), np.intp)  # of each part
    buffer[parts] = (np.cumsum(sizes[parts]) - 1) // BUFFER_BYTES
    return np.lexsort((rng.random(len(index)), buffer[part_of(index, borders)]))


def part_of(index: NDArray[np.intp], borders: Sequence[int]) -> NDArray[np.intp]:
    """The part of each row."""
    return np.searchsorted(borders, index, side="right") - 1
