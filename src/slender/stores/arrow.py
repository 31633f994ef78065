"""Arrow and Feather: record batches, mapped; as files, or as streams, which `datasets` writes."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage import FileError, plain_file
from . import columns
from .base import Ask, FileRows, reading

WHAT = "an Arrow file"
FILE_MARK, OLD_MARK = b"ARROW1", b"FEA1"


class Arrow:
    suffixes = (".arrow", ".feather", ".ipc")

    def open(self, path: Path, ask: Ask) -> FileRows:
        return ArrowRows(path, ask)

    def labels(self, path: Path, ask: Ask) -> NDArray[Any]:
        with reading(path, WHAT):
            schema = _schema(path)
            name = columns.label_column(path, schema, ask.label)
            table = None if name is None else _Batches(path, schema, [name]).table()
            return columns.labels(path, table, name)


class ArrowRows(FileRows):
    """The columns of features, read by record batches."""

    def __init__(self, path: Path, ask: Ask) -> None:
        self.path, self.name = path, str(path)
        with reading(path, WHAT):
            schema = _schema(path)
            label = columns.label_column(path, schema, ask.label)
            self.columns = columns.feature_columns(path, schema, ask.key, label)
            self._batches = _Batches(path, schema, self.columns)
            self.starts = self._batches.starts()
            n = self.starts[-1]
            width, self.dtype = columns.width_and_dtype(
                schema, self.columns, lambda: (self._read(0, 1, None) or [np.empty((0, 0))])[0]
            )
        self.shape = (n, width)
        self.edges = sorted({0, *self.starts})

    def read(self, lo: int, hi: int) -> NDArray[Any]:
        with reading(self.path, WHAT):
            parts = self._read(lo, hi, self.shape[1])
        if not parts:
            return np.empty((0, self.shape[1]), self.dtype)
        # copied, so that the thread that reads ahead reads the pages of the map
        return parts[0].copy() if len(parts) == 1 else np.concatenate(parts)

    def _read(self, lo: int, hi: int, width: int | None) -> list[NDArray[Any]]:
        parts = []
        for number, (first, last) in enumerate(pairwise(self.starts)):
            if first < hi and lo < last:
                start = max(lo, first)
                some = self._batches[number].slice(start - first, min(hi, last) - start)
                parts.append(columns.matrix(self.name, some, self.columns, start, width))
        return parts


class _Batches:
    """The record batches of a file, with some of its columns."""

    def __init__(self, path: Path, schema: Any, names: list[str]) -> None:
        self.path, self.schema, self.names = path, schema, names
        self.is_stream = _begin(path) != FILE_MARK
        self.reader = self._reader(names)
        # a stream has no list of its batches; mapped, they cost no memory
        self.read = list(self.reader) if self.is_stream else None

    def __len__(self) -> int:
        return self.reader.num_record_batches if self.read is None else len(self.read)

    def __getitem__(self, number: int) -> Any:
        return self.reader.get_batch(number) if self.read is None else self.read[number]

    def _reader(self, names: list[str]) -> Any:
        pa = columns.arrow(self.path, "Arrow")
        fields = [self.schema.names.index(name) for name in names]
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        opened = pa.ipc.open_stream if self.is_stream else pa.ipc.open_file
        return opened(pa.memory_map(str(self.path)), options=options)

    def starts(self) -> list[int]:
        """The number of the first row of each batch, and that of all rows."""
        if self.read is not None:
            sizes = [batch.num_rows for batch in self.read]
        else:  # of a compressed file, one column is less to decode than all
            one = self._reader(self.names[:1])
            sizes = [one.get_batch(number).num_rows for number in range(len(self))]
        return [0, *np.cumsum(sizes, dtype=int).tolist()]

    def table(self) -> Any:
        """All rows."""
        pa = columns.arrow(self.path, "Arrow")
        schema = pa.schema([self.schema.field(name) for name in self.names])
        return pa.Table.from_batches([self[k] for k in range(len(self))], schema)


def _begin(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(FILE_MARK))


def _schema(path: Path) -> Any:
    pa = columns.arrow(path, "Arrow")
    begin = _begin(plain_file(path))
    if begin.startswith(OLD_MARK):
        raise FileError(f"{path}: is Feather of version 1; write it again as version 2")
    opened = pa.ipc.open_file if begin == FILE_MARK else pa.ipc.open_stream
    return opened(pa.memory_map(str(path))).schema
