"""What a compiled kernel may read: dense or CSR rows, through two verbs.

dot(X, i, w)        x_iᵀ w
axpy(X, a, i, w)    w += a x_i
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from ..verbs import method_of


class Dense(NamedTuple):
    """Dense rows."""

    data: NDArray[Any]  # (n, d)

    def dot(self, i: int, w: NDArray[Any]) -> Any:
        x = self.data[i]
        total = w.dtype.type(0)
        for j in range(len(w)):
            total += x[j] * w[j]
        return total

    def axpy(self, a: Any, i: int, w: NDArray[Any]) -> None:
        x = self.data[i]
        a = w.dtype.type(a)  # a float64 would turn the whole loop into float64
        for j in range(len(w)):
            w[j] += a * x[j]


class CSR(NamedTuple):
    """Compressed sparse rows."""

    data: NDArray[Any]  # (nnz,)
    indices: NDArray[Any]  # (nnz,) int32 or int64
    indptr: NDArray[Any]  # (n + 1,)

    def dot(self, i: int, w: NDArray[Any]) -> Any:
        total = w.dtype.type(0)
        for j in range(self.indptr[i], self.indptr[i + 1]):
            total += self.data[j] * w[self.indices[j]]
        return total

    def axpy(self, a: Any, i: int, w: NDArray[Any]) -> None:
        a = w.dtype.type(a)
        for j in range(self.indptr[i], self.indptr[i + 1]):
            w[self.indices[j]] += a * self.data[j]


KernelRows = Dense | CSR


def kernel_rows(block: Any) -> KernelRows:
    """The kernel's view of a dense or CSR block."""
    if isinstance(block, np.ndarray):
        return Dense(np.ascontiguousarray(block))
    return CSR(block.data, block.indices, block.indptr)


def dot(X: KernelRows, i: int, w: NDArray[Any]) -> Any:
    """x_iᵀ w."""
    return X.dot(i, w)


def axpy(X: KernelRows, a: Any, i: int, w: NDArray[Any]) -> None:
    """w += a x_i."""
    X.axpy(a, i, w)


@overload(dot)
def _dot(X, i, w):  # type: ignore[no-untyped-def]
    method = method_of(X, "dot")
    return lambda X, i, w: method(X, i, w)


@overload(axpy)
def _axpy(X, a, i, w):  # type: ignore[no-untyped-def]
    method = method_of(X, "axpy")
    return lambda X, a, i, w: method(X, a, i, w)
