"""A block of rows: the methods of every kind, so that no other code depends on the kind.

    X @ B, G @ X               products, new arrays
    X.product(B, out)          out = X B, in existing memory
    X.scores(B)                X B as a pass computes it
    X.add_product(G, out, scratch)    out += Gᵀ X, likewise
    X.add_by_class(w, y, out)  out[y_i] += w_i x_i, in float64
    X.row_squares(), X.column_squares()
    X.times_rows(factor)       row i times factor[i]
    X.scaled(scale)            column j times scale[j]
    X.astype(dtype)            the same rows, computed in another dtype
    X[lo:hi]                   some of the rows
    X.first_bad()              the first NaN or infinity
    X.toarray(), X.matrix()    the numbers: dense, or in the format of the block
    X.kernel_rows()            for a compiled kernel (kernel.py)

Each kind is in the file of the store that returns it: dense.py, csr.py, codes.py.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .kernel import KernelRows, add_rows

Bad = tuple[int, int, float]  # row, column, value


class Block(ABC):
    """Some rows.  Results may share their memory and must not be written to."""

    __slots__ = ("dtype", "shape")
    __array_ufunc__ = None  # so that array @ block calls __rmatmul__

    is_sparse: ClassVar[bool] = False  # are most numbers zero, and not stored?
    shape: tuple[int, int]
    dtype: np.dtype[Any]

    @property
    def nnz(self) -> int:
        """Number of stored values: those that a product uses."""
        return self.shape[0] * self.shape[1]

    @abstractmethod
    def __matmul__(self, B: NDArray[Any]) -> NDArray[Any]:
        """X B for B (d, m) or (d,)."""

    @abstractmethod
    def __rmatmul__(self, G: NDArray[Any]) -> NDArray[Any]:
        """G X for G (m, rows) or (rows,)."""

    @abstractmethod
    def __getitem__(self, rows: slice) -> "Block":
        """Some of the rows."""

    def product(self, B: NDArray[Any], out: NDArray[Any]) -> None:
        """out = X B."""
        out[:] = self @ B

    def scores(self, B: NDArray[Any]) -> NDArray[Any]:
        """X B as a pass computes it; a device may round the rows there."""
        return self @ B

    def add_product(self, G: NDArray[Any], out: NDArray[Any], scratch: NDArray[Any]) -> None:
        """out += Gᵀ X; `scratch` has the shape of some rows of out, and may be overwritten."""
        out += G.T @ self

    def add_by_class(
        self, w: NDArray[np.float64], y: NDArray[Any], out: NDArray[np.float64], first: int = 0
    ) -> None:
        """out[y_i - first] += w_i x_i, for the rows whose class is one of those of `out`."""
        add_rows(self.kernel_rows(), w, y, first, out)

    @abstractmethod
    def row_squares(self) -> NDArray[Any]:
        """‖x_i‖² of every row."""

    @abstractmethod
    def column_squares(self) -> NDArray[Any]:
        """The sum of squares of every column."""

    @abstractmethod
    def times_rows(self, factor: NDArray[Any]) -> "Block":
        """Row i times factor[i], in this dtype."""

    @abstractmethod
    def scaled(self, scale: NDArray[Any]) -> "Block":
        """Column j times scale[j], in this dtype."""

    @abstractmethod
    def astype(self, dtype: Any) -> "Block":
        """The same rows, computed in another dtype."""

    @abstractmethod
    def first_bad(self) -> Bad | None:
        """Row, column and value of the first NaN or infinity; None if there is none."""

    @abstractmethod
    def toarray(self) -> NDArray[Any]:
        """The rows as a dense array."""

    def matrix(self) -> Any:
        """The rows for other libraries: a SciPy CSR matrix if sparse, else an array."""
        return self.toarray()

    @abstractmethod
    def kernel_rows(self) -> KernelRows:
        """The rows as a compiled kernel reads them."""


def first_not_finite(values: NDArray[Any]) -> tuple[int, ...] | None:
    """The index of the first NaN or infinity, or None, which a single sum usually shows."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return None
    bad = np.argwhere(~np.isfinite(values))
    if len(bad) == 0:  # only the sum overflowed
        return None
    return tuple(bad[0].tolist())
