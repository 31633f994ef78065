"""The verbs of a row store, and the block products every store gets from them.

    block(lo, hi)    rows lo..hi as something that multiplies: an array or a CSR matrix
    gather(index)    those rows, likewise
    take(order)      rows a kernel can read, and where each example of `order` lies in them
    each_block       work on every block, on all cores (threads.py)
    matmat, rmatmat  X B and Xᵀ G by row blocks, so that nothing is ever widened or copied whole

A kernel reads what `take` returned through `dot(X, i, w)` and `axpy(X, a, i, w)` (kernel.py).
float64 rows compute in float64; everything narrower (float32, float16, integers) in float32.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernel import KernelRows, kernel_rows
from .threads import map_blocks

# Bytes of one widened block: large enough for BLAS to run at full speed, small enough that a block
# and its product stay far below the memory a fit may use.
BLOCK_BYTES = 16 * 2**20


def blocks(n: int, row_bytes: int, block_bytes: int | None = None) -> Iterator[tuple[int, int]]:
    """(lo, hi) over n rows, each block at most `block_bytes` but never less than one row."""
    step = max(1, (block_bytes or BLOCK_BYTES) // max(1, row_bytes))
    for lo in range(0, n, step):
        yield lo, min(lo + step, n)


def compute_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float64 stays float64; all else is computed in float32."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


class Rows(ABC):
    """A matrix of n rows and d columns that is only ever read by rows or by blocks of rows."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]  # of the arithmetic, not of the storage

    @abstractmethod
    def block(self, lo: int, hi: int) -> Any:
        """Rows lo..hi in the arithmetic's dtype: a dense array or a CSR matrix."""

    @abstractmethod
    def gather(self, index: NDArray[np.intp]) -> Any:
        """The rows `index`, as a block of their own."""

    def take(self, order: NDArray[np.intp]) -> tuple[KernelRows, NDArray[np.intp]]:
        """Rows a kernel can read, and the place in them of each example of `order`."""
        rows = kernel_rows(self.gather(order))
        self.release()
        return rows, np.arange(len(order))

    def dense(self, index: NDArray[np.intp]) -> NDArray[Any]:
        """The rows `index` as a dense array."""
        block = self.gather(index)
        return block if isinstance(block, np.ndarray) else block.toarray()

    @property
    def row_bytes(self) -> int:
        """Bytes of one row in the arithmetic's dtype, on average."""
        return self.shape[1] * self.dtype.itemsize

    def release(self) -> None:  # noqa: B027  (most stores hold nothing to give back)
        """Give back memory that only speeds up the next read: pages of a mapped file."""

    def each_block(self, work: Callable[[int, int, Any], None], out_bytes: int = 0) -> None:
        """work(lo, hi, block) for every block, on all cores."""
        map_blocks(self, lambda: None, lambda _, lo, hi, block: work(lo, hi, block), out_bytes)

    def matmat(self, B: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """X B for B (d, m)."""
        result = np.empty((self.shape[0], B.shape[1]), self.dtype) if out is None else out

        def work(lo: int, hi: int, block: Any) -> None:
            product(block, B, result[lo:hi])

        self.each_block(work, B.shape[1] * self.dtype.itemsize)
        return result

    def rmatmat(self, G: NDArray[Any]) -> NDArray[Any]:
        """Xᵀ G for G (n, m)."""

        def start() -> NDArray[Any]:
            return np.zeros((self.shape[1], G.shape[1]), self.dtype)

        def work(mine: NDArray[Any], lo: int, hi: int, block: Any) -> None:
            mine += block.T @ G[lo:hi]

        first, *others = map_blocks(self, start, work, G.shape[1] * self.dtype.itemsize)
        for other in others:
            first += other
        return first

    def sqnorms(self) -> NDArray[Any]:
        """‖x_i‖² for every row."""
        out = np.empty(self.shape[0], self.dtype)

        def work(lo: int, hi: int, block: Any) -> None:
            out[lo:hi] = sum_squares(block, axis=1)

        self.each_block(work)
        return out


def product(block: Any, B: NDArray[Any], out: NDArray[Any]) -> None:
    """out = block B for a dense or CSR block."""
    if isinstance(block, np.ndarray):
        np.matmul(block, B, out=out)
    else:
        out[:] = block @ B


def add_product(G: NDArray[Any], block: Any, out: NDArray[Any], scratch: NDArray[Any]) -> None:
    """out += Gᵀ block for a dense or CSR block; `scratch` is an array like out."""
    if isinstance(block, np.ndarray):
        out += np.matmul(G.T, block, out=scratch)
    else:
        out += (block.T @ G).T


def sum_squares(block: Any, axis: int) -> NDArray[Any]:
    """Sums of squares over the rows (axis 0) or the columns (axis 1) of a dense or CSR block."""
    if isinstance(block, np.ndarray):
        return np.einsum("ij,ij->j" if axis == 0 else "ij,ij->i", block, block)
    return np.asarray(block.multiply(block).sum(axis=axis)).ravel()
