"""Rows in files that are read a chunk at a time: shards, columnar files, compressed arrays.

A source is one file, or one array in it.  It can be cut at its edges without reading anything
twice: they are the borders of what the format compresses or stores as a unit.  Chunks are joined to
parts of about PART_BYTES, which are read ahead (ahead.py) one after the other.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .ahead import METER, PART_BYTES
from .base import Rows, compute_dtype
from .dense import DenseBlock, DenseRows


class Source(Protocol):
    """Rows of one file."""

    name: str  # for messages: the file, and the array in it
    shape: tuple[int, int]
    dtype: np.dtype[Any]  # of what `read` returns
    edges: Sequence[int]  # 0 < ... < n

    def read(self, lo: int, hi: int) -> NDArray[Any]:
        """Rows lo..hi (hi - lo, d), for any thread; possibly a view of a mapped file."""


class ChunkedRows(Rows):
    """The rows of some sources, one after the other."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = list(sources)
        self.firsts = np.cumsum([0, *(source.shape[0] for source in sources)])  # of each, and n
        self.shape = (int(self.firsts[-1]), sources[0].shape[1])
        self.stored = np.result_type(*(source.dtype for source in sources))
        self.dtype = compute_dtype(self.stored)
        edges = [
            first + np.asarray(_joined(source.edges, self.stored_row_bytes))
            for first, source in zip(self.firsts, sources, strict=False)
        ]
        self._borders = np.unique(np.concatenate([[0], *edges]))

    def part(self, lo: int, hi: int) -> DenseRows:
        METER.add((hi - lo) * self.stored_row_bytes)
        some = [self.sources[k].read(*cut) for k, cut in self._cuts(lo, hi)]
        rows = DenseRows(some[0] if len(some) == 1 else np.concatenate(some))
        rows.will_need()
        return rows

    def block(self, lo: int, hi: int) -> DenseBlock:
        return self.part(lo, hi).block(0, hi - lo)

    def gather(self, index: NDArray[np.intp]) -> DenseBlock:
        """Reads the parts that hold these rows, one after the other."""
        out = np.empty((len(index), self.shape[1]), self.stored)
        place = np.searchsorted(self._borders, index, side="right") - 1
        for k in np.unique(place):
            mine = np.flatnonzero(place == k)
            lo, hi = int(index[mine].min()), int(index[mine].max()) + 1
            out[mine] = self.part(lo, hi).X[index[mine] - lo]
        return DenseRows(out).block(0, len(out))

    def borders(self) -> Sequence[int]:
        return self._borders.tolist()  # type: ignore[no-any-return]

    @property
    def on_disk(self) -> bool:
        return True

    @property
    def stored_row_bytes(self) -> int:
        return self.shape[1] * self.stored.itemsize

    def _cuts(self, lo: int, hi: int) -> list[tuple[int, tuple[int, int]]]:
        """Which rows of which sources make up the rows lo..hi."""
        first, last = np.searchsorted(self.firsts, [lo, hi - 1], side="right") - 1
        starts, ends = self.firsts[:-1].tolist(), self.firsts[1:].tolist()
        return [
            (k, (max(lo, starts[k]) - starts[k], min(hi, ends[k]) - starts[k]))
            for k in range(int(first), int(last) + 1)
            if starts[k] < ends[k]
        ]


def even_edges(n: int, row_bytes: int) -> list[int]:
    """Edges for rows that can be cut anywhere, such as those of a mapped file."""
    return [*range(0, n, max(1, PART_BYTES // max(1, row_bytes))), n]


def _joined(edges: Sequence[int], row_bytes: int) -> list[int]:
    """Those edges that cut parts of about PART_BYTES."""
    kept = [edges[0]]
    for edge, after in pairwise(edges[1:]):
        if (after - kept[-1]) * row_bytes > PART_BYTES:
            kept.append(edge)
    return [*kept, edges[-1]]
