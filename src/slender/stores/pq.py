""".pq: rows as codes, what `slender compress` writes.  Shards share one codebook."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..rows import ChunkedCodeRows
from ..rows.shuffling import even_edges
from ..storage import FileError, plain_file
from .base import ArrayRows, Ask, FileRows, NoLabelsError, check_nameless

PARQUET_MARK = b"PAR1"  # some name such files .pq


class Pq:
    suffixes = (".pq",)

    def open(self, path: Path, ask: Ask) -> FileRows:
        check_nameless(path, "X", ask.key)
        with plain_file(path).open("rb") as file:
            if file.read(len(PARQUET_MARK)) == PARQUET_MARK:
                raise FileError(f"{path}: is a Parquet file; rename it {path.stem}.parquet")
        from ..compress.matrix import CompressedMatrix  # noqa: PLC0415  (slow to import)

        return CodedRows(str(path), CompressedMatrix.load(path))

    def labels(self, path: Path, ask: Ask) -> NDArray[Any]:
        raise NoLabelsError(f"{path}: compressed rows hold no labels; give them in another file")


class CodedRows(FileRows):
    """Rows that are decoded when they are read; estimators read the codes."""

    alone = True

    def __init__(self, name: str, M: Any, first: int = 0) -> None:
        self.name, self.M, self.first = name, M, first
        self.shape, self.dtype = M.shape, M.dtype
        self.edges = even_edges(len(M), M.codes.shape[1])

    def read(self, lo: int, hi: int) -> NDArray[Any]:
        return np.asarray(self.M[lo:hi].toarray())

    def whole(self) -> Any:
        return self.M

    def part(self, lo: int, hi: int) -> "CodedRows":
        return CodedRows(self.name, self.M[lo:hi], self.first + lo)

    def where(self, i: int) -> str:
        return f"{self.name}, row {self.first + i}"

    def check_like(self, first: FileRows) -> None:
        super().check_like(first)
        if not np.array_equal(self.M.codebooks, first.whole().codebooks):
            raise FileError(
                f"{self.name} and {first.name} have different codebooks; compress the shards with "
                f"the same one (--like {first.name})"
            )

    def joined(self, files: Sequence[FileRows]) -> ChunkedCodeRows:
        codes = [ArrayRows(file.name, file.whole().codes) for file in files]
        return ChunkedCodeRows(codes, self.M.codebooks)
