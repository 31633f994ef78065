"""Sparse rows: a SciPy CSR matrix."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .base import Rows, compute_dtype
from .kernel import KernelRows, kernel_rows


class CSRRows(Rows):
    """Rows of a CSR matrix whose structure was checked (sparse_input.py); float32 or float64."""

    def __init__(self, X: Any) -> None:
        X = sparse.csr_array(X)
        self.dtype = compute_dtype(X.dtype)
        self.X = X.astype(self.dtype, copy=False)
        self.shape = (X.shape[0], X.shape[1])

    def block(self, lo: int, hi: int) -> Any:
        return self.X[lo:hi]

    def gather(self, index: NDArray[np.intp]) -> Any:
        return self.X[index]

    def take(self, order: NDArray[np.intp]) -> tuple[KernelRows, NDArray[np.intp]]:
        return kernel_rows(self.X), order

    @property
    def row_bytes(self) -> int:
        index_bytes = self.X.indices.dtype.itemsize
        return 1 + self.X.nnz * (self.dtype.itemsize + index_bytes) // max(1, self.shape[0])
