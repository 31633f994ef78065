"""A random order for rows in files: chunks in a random order, and rows shuffled within a buffer.

In an order over all rows, every row would be read from another place of the file.  Here the file is
cut into chunks, which are shuffled; as many as fill a buffer are read together, and rows are
shuffled among those of one buffer.  Many small chunks mix rows better than a few large ones, and
4 MB are enough for a disk to read at nearly full speed.  benchmarks/shuffle.py measures how much
accuracy this costs.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

CHUNK_BYTES = 4 * 2**20
BUFFER_BYTES = 64 * CHUNK_BYTES


def even_edges(n: int, row_bytes: int) -> list[int]:
    """Edges for rows that can be cut anywhere, such as those of a mapped file."""
    return [*range(0, n, max(1, CHUNK_BYTES // max(1, row_bytes))), n]


def by_chunks(
    index: NDArray[np.intp], borders: Sequence[int], row_bytes: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Positions in `index` in a random order; rows borders[k]..borders[k + 1] are a chunk."""
    sizes = np.diff(borders) * row_bytes
    if sizes.sum() <= BUFFER_BYTES:
        return rng.permutation(len(index))
    chunks = rng.permutation(len(sizes))
    buffer = np.empty(len(chunks), np.intp)  # of each chunk
    buffer[chunks] = (np.cumsum(sizes[chunks]) - 1) // BUFFER_BYTES
    return np.lexsort((rng.random(len(index)), buffer[chunk_of(index, borders)]))


def chunk_of(index: NDArray[np.intp], borders: ArrayLike) -> NDArray[np.intp]:
    """The chunk of each row."""
    return np.searchsorted(borders, index, side="right") - 1
