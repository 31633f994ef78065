"""Parquet: rows in row groups, each decoded as a whole.

A row group larger than LARGE is decoded batch by batch, in order: a read that goes on where the
last one ended costs nothing extra, any other begins again at the start of its row group.
"""

import threading
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage import plain_file
from . import columns
from .base import Ask, FileRows, reading

WHAT = "a Parquet file"
LARGE = 64 * 2**20  # bytes of the rows of a row group
BATCH = 16 * 2**20  # bytes of rows that are decoded at a time, in a large one


class Parquet:
    suffixes = (".parquet",)

    def open(self, path: Path, ask: Ask) -> FileRows:
        return ParquetRows(path, ask)

    def labels(self, path: Path, ask: Ask) -> NDArray[Any]:
        with reading(path, WHAT), _file(path) as file:
            name = columns.label_column(path, file.schema_arrow, ask.label)
            table = None if name is None else file.read([name], use_threads=False)
            return columns.labels(path, table, name)


class ParquetRows(FileRows):
    """The columns of features, read by row groups."""

    def __init__(self, path: Path, ask: Ask) -> None:
        self.path, self.name = path, str(path)
        with reading(path, WHAT), _file(path) as file:
            schema, meta = file.schema_arrow, file.metadata
            label = columns.label_column(path, schema, ask.label)
            self.columns = columns.feature_columns(path, schema, ask.key, label)
            sizes = [meta.row_group(g).num_rows for g in range(meta.num_row_groups)]
            self.groups = [0, *np.cumsum(sizes, dtype=int).tolist()]
            n = self.groups[-1]
            width, self.dtype = columns.width_and_dtype(
                schema, self.columns, lambda: self._first_row(file, n)
            )
        self.shape = (n, width)
        self.step = max(1, BATCH // max(1, width * self.dtype.itemsize))  # rows of a batch
        cuts = (self._cuts(lo, hi) for lo, hi in pairwise(self.groups))
        self.edges = sorted({0, n, *chain.from_iterable(cuts)})
        self._lock, self._cursor = threading.Lock(), _Cursor(-1, 0, iter(()))

    def _large(self, lo: int, hi: int) -> bool:
        return (hi - lo) * self.shape[1] * self.dtype.itemsize > LARGE

    def _cuts(self, lo: int, hi: int) -> Iterable[int]:
        """Where the row group lo..hi may be cut."""
        return range(lo, hi, self.step) if self._large(lo, hi) else (lo,)

    def _first_row(self, file: Any, n: int) -> NDArray[Any]:
        if n == 0:
            return np.empty((0, 0))
        batch = next(file.iter_batches(1, columns=self.columns, use_threads=False))
        return columns.matrix(self.name, batch, self.columns, 0)

    def read(self, lo: int, hi: int) -> NDArray[Any]:
        parts = []
        with reading(self.path, WHAT):
            for g, (first, last) in enumerate(pairwise(self.groups)):
                if first < hi and lo < last:
                    parts += self._group(g, max(lo, first), min(hi, last))
        if not parts:
            return np.empty((0, self.shape[1]), self.dtype)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _group(self, g: int, lo: int, hi: int) -> list[NDArray[Any]]:
        """Rows lo..hi, all of row group g."""
        first, last = self.groups[g], self.groups[g + 1]
        if self._large(first, last):
            with self._lock:
                return self._stream(g, lo, hi)
        with _file(self.path) as file:
            table = file.read_row_group(g, self.columns, use_threads=False)
        return [self._matrix(table, first)[lo - first : hi - first]]

    def _matrix(self, table: Any, first: int) -> NDArray[Any]:
        return columns.matrix(self.name, table, self.columns, first, self.shape[1])

    def _stream(self, g: int, lo: int, hi: int) -> list[NDArray[Any]]:
        if self._cursor.group != g or self._cursor.row > lo:
            self._cursor.close()
            self._cursor = _Cursor(g, self.groups[g], self._batches(g))
        parts, cursor = [], self._cursor
        while cursor.row < hi:
            batch = cursor.next(hi)
            skipped = max(0, lo - (cursor.row - batch.num_rows))
            if skipped < batch.num_rows:
                first = cursor.row - batch.num_rows
                parts.append(self._matrix(batch, first)[skipped:])
        if cursor.row == self.groups[g + 1]:
            cursor.close()
        return parts

    def _batches(self, g: int) -> Iterator[Any]:
        with _file(self.path) as file:
            yield from file.iter_batches(self.step, [g], self.columns, use_threads=False)


class _Cursor:
    """How far a row group has been decoded."""

    def __init__(self, group: int, row: int, batches: Iterator[Any]) -> None:
        self.group, self.row, self.batches = group, row, batches
        self.left: Any = None  # of a batch whose first rows were read

    def next(self, hi: int) -> Any:
        """The next rows, up to `hi`."""
        batch = next(self.batches) if self.left is None else self.left
        taken = min(batch.num_rows, hi - self.row)
        self.left = batch.slice(taken) if taken < batch.num_rows else None
        self.row += taken
        return batch.slice(0, taken)

    def close(self) -> None:
        """Close the file."""
        self.batches, self.left, self.group = iter(()), None, -1


def _file(path: Path) -> Any:
    return columns.arrow(path, "Parquet", "pyarrow.parquet").ParquetFile(plain_file(path))
