"""Rows in files that are read a chunk at a time: shards, columnar files, compressed arrays.

A source is one file, or one array in it.  It can be cut at its edges without reading anything
twice: they are the borders of what the format compresses or stores as a unit.  Chunks are joined to
parts of about PART_BYTES, which are read ahead (ahead.py) one after the other.

Rows in a random order are read by smaller chunks (shuffling.py).  Who asks for such an order will
gather its rows, and `gather` then keeps the chunks of a buffer for the next ones.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from . import shuffling
from .ahead import METER, PART_BYTES
from .base import Rows, compute_dtype
from .block import Block
from .dense import DenseRows
from .shuffling import chunk_of


class Source(Protocol):
    """Rows of one file."""

    name: str  # for messages: the file, and the array in it
    shape: tuple[int, int]
    dtype: np.dtype[Any]  # of what `read` returns
    edges: Sequence[int]  # 0, ..., n

    def read(self, lo: int, hi: int) -> NDArray[Any]:
        """Rows lo..hi (hi - lo, d), for any thread; possibly a view of a mapped file."""

    def where(self, i: int) -> str:
        """The file of row i, and the number of the row in it."""


class ChunkedRows(Rows):
    """The rows of some sources, one after the other."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = list(sources)
        self.firsts = np.cumsum([0, *(source.shape[0] for source in sources)])  # of each, and n
        self.shape = (int(self.firsts[-1]), sources[0].shape[1])
        self.stored_dtype = np.result_type(*(source.dtype for source in sources))
        self.dtype = compute_dtype(self.stored_dtype)
        self._borders = self._joined(PART_BYTES)
        self._chunks = self._joined(shuffling.CHUNK_BYTES)
        self._chunk_bytes = np.diff(self._chunks) * self.stored_row_bytes
        self._kept: OrderedDict[int, NDArray[Any]] = OrderedDict()  # chunks, the last used last
        self._keep = 0  # bytes of them, beside the last
        self._lock = threading.Lock()

    def rows_of(self, stored: NDArray[Any]) -> Rows:
        """Rows that were read."""
        return DenseRows(stored)

    def read(self, lo: int, hi: int) -> NDArray[Any]:
        """Rows lo..hi as they are stored."""
        METER.add((hi - lo) * self.stored_row_bytes)
        some = [self.sources[k].read(*cut) for k, cut in self._cuts(lo, hi)]
        if not some:
            return np.empty((0, self.sources[0].shape[1]), self.stored_dtype)
        return some[0] if len(some) == 1 else np.concatenate(some)

    def pick(self, index: NDArray[np.intp]) -> NDArray[Any]:
        """The rows `index` as they are stored; reads the chunks that hold them."""
        out = np.empty((len(index), self.sources[0].shape[1]), self.stored_dtype)
        chunk = chunk_of(index, self._chunks)
        by_chunk = np.argsort(chunk, kind="stable")
        needed, firsts = np.unique(chunk[by_chunk], return_index=True)
        pieces = np.split(by_chunk, firsts)[1:]  # before the first of all there is nothing
        places = dict(zip(needed.tolist(), pieces, strict=True))
        # those at hand first: the others take their place
        for k in sorted(places, key=lambda k: k not in self._kept):
            mine = places[k]
            out[mine] = self._chunk(k)[index[mine] - self._chunks[k]]
        return out

    def part(self, lo: int, hi: int) -> Rows:
        rows = self.rows_of(self.read(lo, hi))
        rows.will_need()
        return rows

    def block(self, lo: int, hi: int) -> Block:
        return self.part(lo, hi).block(0, hi - lo)

    def gather(self, index: NDArray[np.intp]) -> Block:
        return self.rows_of(self.pick(index)).block(0, len(index))

    def random_order(self, index: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
        self._keep = shuffling.BUFFER_BYTES
        return super().random_order(index, rng)

    def chunk_borders(self) -> Sequence[int]:
        return self._chunks.tolist()  # type: ignore[no-any-return]

    def where(self, i: int) -> str:
        k, (row, _) = self._cuts(i, i + 1)[0]
        return self.sources[k].where(row)

    def borders(self) -> Sequence[int]:
        return self._borders.tolist()  # type: ignore[no-any-return]

    @property
    def on_disk(self) -> bool:
        return True

    @property
    def stored_row_bytes(self) -> int:
        return self.shape[1] * self.stored_dtype.itemsize

    def _chunk(self, k: int) -> NDArray[Any]:
        """Chunk k as it is stored; those of one buffer are kept."""
        with self._lock:
            chunk = self._kept.pop(k, None)
            if chunk is None:
                chunk = self.read(int(self._chunks[k]), int(self._chunks[k + 1]))
                self.rows_of(chunk).will_need()
            self._kept[k] = chunk
            most = self._keep + self._chunk_bytes.max()
            while self._chunk_bytes[list(self._kept)].sum() > most:
                self._kept.popitem(last=False)
        return chunk

    def _joined(self, most: int) -> NDArray[np.intp]:
        """Row numbers, from 0 to n, between chunks of about `most` bytes."""
        edges = [
            first + np.asarray(_joined(source.edges, most // max(1, self.stored_row_bytes)))
            for first, source in zip(self.firsts, self.sources, strict=False)
        ]
        return np.unique(np.concatenate([[0], *edges]))

    def _cuts(self, lo: int, hi: int) -> list[tuple[int, tuple[int, int]]]:
        """Which rows of which sources make up the rows lo..hi."""
        first, last = np.searchsorted(self.firsts, [lo, hi - 1], side="right") - 1
        starts, ends = self.firsts[:-1].tolist(), self.firsts[1:].tolist()
        return [
            (k, (max(lo, starts[k]) - starts[k], min(hi, ends[k]) - starts[k]))
            for k in range(int(first), int(last) + 1)
            if starts[k] < ends[k]
        ]


def _joined(edges: Sequence[int], most: int) -> list[int]:
    """Those edges that cut chunks of about `most` rows."""
    kept = [edges[0]]
    for edge, after in pairwise(edges[1:]):
        if after - kept[-1] > most:
            kept.append(edge)
    return [*kept, edges[-1]]
