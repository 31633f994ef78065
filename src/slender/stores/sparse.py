"""Sparse rows of one file, in memory."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from ..rows import Rows, as_rows
from ..rows.shuffling import even_edges
from ..storage import FileError
from .base import FileRows


class SparseRows(FileRows):
    """A CSR matrix."""

    def __init__(self, name: str, X: Any) -> None:
        self.name, self.X = name, X
        self.shape, self.dtype = X.shape, X.dtype
        self.edges = even_edges(X.shape[0], X.shape[1] * X.dtype.itemsize)  # of dense rows

    def read(self, lo: int, hi: int) -> NDArray[Any]:
        return self.X[lo:hi].toarray()  # type: ignore[no-any-return]

    def whole(self) -> Any:
        return self.X

    def part(self, lo: int, hi: int) -> "SparseRows":
        return SparseRows(self.name, self.X[lo:hi])

    def joined(self, files: Sequence[FileRows]) -> Rows:
        return as_rows(self.X)

    def check_like(self, first: FileRows) -> None:
        raise FileError(
            f"{first.name} and {self.name} hold sparse rows, which are read from one file only; "
            "join them, for instance with scipy.sparse.vstack"
        )
