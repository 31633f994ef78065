"""Dense rows: an array or memory map of floats or integers of any size and byte order."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Rows, compute_dtype
from .block import Bad, Block, first_not_finite
from .half import widen
from .kernel import Dense, KernelRows, read_only
from .paged import PagedRows


class DenseBlock(Block):
    """Rows of an array, whose memory it shares."""

    __slots__ = ("X",)

    def __init__(self, X: NDArray[Any]) -> None:
        self.X, self.shape, self.dtype = X, X.shape, X.dtype  # (rows, d)

    def __matmul__(self, B: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self.X @ B)

    def __rmatmul__(self, G: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(G @ self.X)

    def __getitem__(self, rows: slice) -> "DenseBlock":
        return DenseBlock(self.X[rows])

    def product(self, B: NDArray[Any], out: NDArray[Any]) -> None:
        np.matmul(self.X, B, out=out)

    def add_product(self, G: NDArray[Any], out: NDArray[Any], scratch: NDArray[Any]) -> None:
        step = len(scratch)
        for lo in range(0, len(out), step):
            part = out[lo : lo + step]
            part += np.matmul(G[:, lo : lo + step].T, self.X, out=scratch[: len(part)])

    def row_squares(self) -> NDArray[Any]:
        return np.einsum("ij,ij->i", self.X, self.X)

    def column_squares(self) -> NDArray[Any]:
        return np.einsum("ij,ij->j", self.X, self.X)

    def times_rows(self, factor: NDArray[Any]) -> "DenseBlock":
        return DenseBlock(self.X * factor[:, None].astype(self.dtype, copy=False))

    def scaled(self, scale: NDArray[Any]) -> "DenseBlock":
        return DenseBlock(self.X * scale.astype(self.dtype, copy=False))

    def astype(self, dtype: Any) -> "DenseBlock":
        return DenseBlock(self.X.astype(dtype, copy=False))

    def first_bad(self) -> Bad | None:
        place = first_not_finite(self.X)
        return None if place is None else (place[0], place[1], float(self.X[place]))

    def toarray(self) -> NDArray[Any]:
        return self.X

    def kernel_rows(self) -> KernelRows:
        return Dense(*read_only(np.ascontiguousarray(self.X)))


class DenseRows(PagedRows):
    """Rows of a 2-d array, widened block by block, never as a whole."""

    def __init__(self, X: NDArray[Any]) -> None:
        self.X = np.asarray(X)  # a memory map becomes a plain view of itself, not a copy
        self.shape = (self.X.shape[0], self.X.shape[1])
        self.dtype = compute_dtype(self.X.dtype)
        super().__init__(self.X)
        # A kernel reads such an array in place; rows of any other are gathered and widened.
        self._readable = self.X.dtype == self.dtype and self.X.flags.c_contiguous

    def block(self, lo: int, hi: int) -> DenseBlock:
        return DenseBlock(self._widened(self.X[lo:hi]))

    def to_send(self, lo: int, hi: int) -> NDArray[Any]:
        return self.X[lo:hi] if self.X.dtype == np.float16 else self._widened(self.X[lo:hi])

    def gather(self, index: NDArray[np.intp]) -> DenseBlock:
        return DenseBlock(self._widened(self.X[index]))

    def take(self, order: NDArray[np.intp]) -> tuple[KernelRows, NDArray[np.intp]]:
        return (Dense(*read_only(self.X)), order) if self._readable else super().take(order)

    def like(self, stored: NDArray[Any]) -> "DenseRows":
        return type(self)(stored)

    def _widened(self, some: NDArray[Any]) -> NDArray[Any]:
        if some.dtype == np.float16:
            return widen(some)
        return some.astype(self.dtype, copy=False)


def rows_beside(rows: Rows, Z: NDArray[Any]) -> DenseRows:
    """Z (n, k), computed from these rows, as rows that are used where these are."""
    elsewhere: Any = getattr(rows, "beside", None)
    return DenseRows(Z) if elsewhere is None else elsewhere(Z)


def rows_projected(rows: Rows, B: NDArray[Any], offset: NDArray[Any] | None = None) -> Rows:
    """The rows Bᵀ x + offset, computed once and held where these are."""
    elsewhere: Any = getattr(rows, "projected", None)
    if elsewhere is not None:
        return elsewhere(B, offset)  # type: ignore[no-any-return]
    Z = rows.matmat(B)
    if offset is not None:
        Z += offset
    return rows_beside(rows, Z)
