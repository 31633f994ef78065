"""Sparse rows: a SciPy CSR matrix."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .base import Rows, compute_dtype
from .block import Bad, Block, first_not_finite
from .kernel import CSR, KernelRows, read_only


class CSRBlock(Block):
    """Rows of a csr_array, whose memory it shares."""

    __slots__ = ("X",)
    is_sparse = True

    def __init__(self, X: Any) -> None:
        self.X, self.shape, self.dtype = X, X.shape, X.dtype  # (rows, d)

    @property
    def nnz(self) -> int:
        return int(self.X.nnz)

    def __matmul__(self, B: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self.X @ B)

    def __rmatmul__(self, G: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(G @ self.X)

    def __getitem__(self, rows: slice) -> "CSRBlock":
        return CSRBlock(self.X[rows])

    def row_squares(self) -> NDArray[Any]:
        return np.asarray(self.X.multiply(self.X).sum(axis=1)).ravel()

    def column_squares(self) -> NDArray[Any]:
        return np.asarray(self.X.multiply(self.X).sum(axis=0)).ravel()

    def times_rows(self, factor: NDArray[Any]) -> "CSRBlock":
        return CSRBlock(sparse.csr_array(sparse.diags_array(factor, dtype=self.dtype) @ self.X))

    def scaled(self, scale: NDArray[Any]) -> "CSRBlock":
        return CSRBlock(sparse.csr_array(self.X @ sparse.diags_array(scale, dtype=self.dtype)))

    def astype(self, dtype: Any) -> "CSRBlock":
        return CSRBlock(self.X.astype(dtype, copy=False))

    def first_bad(self) -> Bad | None:
        place = first_not_finite(self.X.data)
        if place is None:
            return None
        (k,) = place
        i = int(np.searchsorted(self.X.indptr, k, side="right")) - 1
        return i, int(self.X.indices[k]), float(self.X.data[k])

    def toarray(self) -> NDArray[Any]:
        return np.asarray(self.X.toarray())

    def matrix(self) -> Any:
        return self.X

    def kernel_rows(self) -> KernelRows:
        return CSR(*read_only(self.X.data, self.X.indices, self.X.indptr))


class CSRRows(Rows):
    """Rows of a CSR matrix whose structure was checked (sparse_input.py); float32 or float64."""

    def __init__(self, X: Any) -> None:
        X = sparse.csr_array(X)
        self.dtype = compute_dtype(X.dtype)
        self.X = X.astype(self.dtype, copy=False)
        self.shape = (X.shape[0], X.shape[1])

    def block(self, lo: int, hi: int) -> CSRBlock:
        return CSRBlock(self.X[lo:hi])

    def part(self, lo: int, hi: int) -> "CSRRows":
        return self if hi - lo == self.shape[0] else CSRRows(self.X[lo:hi])

    def gather(self, index: NDArray[np.intp]) -> CSRBlock:
        return CSRBlock(self.X[index])

    def take(self, order: NDArray[np.intp]) -> tuple[KernelRows, NDArray[np.intp]]:
        return CSRBlock(self.X).kernel_rows(), order

    @property
    def row_bytes(self) -> int:
        index_bytes = self.X.indices.dtype.itemsize
        return 1 + self.X.nnz * (self.dtype.itemsize + index_bytes) // max(1, self.shape[0])
