"""The verbs of a row store, and the block products every store gets from them.

    block(lo, hi)    rows lo..hi as something that multiplies: an array, a CSR matrix or codes
    select(index)    those rows, likewise
    gather(index)    those rows as an array or a CSR matrix
    take(order)      rows a kernel can read, and where each example of `order` lies in them
    scaled(scale)    the same rows with their columns scaled
    widened()        the same rows computed in float64, where float32 has no digits left
    each_block       work on every block, on all cores (threads.py)
    matmat, rmatmat  X B and Xᵀ G by row blocks, so that nothing is ever widened or copied whole

A kernel reads what `take` returned through `dot(X, i, w)` and `axpy(X, a, i, w)` (kernel.py).
Rows whose numbers float32 holds exactly (float32, float16, integers of 16 bits) compute in float32,
all others in float64.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import threads
from .blocks import as_array, product, row_squares
from .kernel import KernelRows, kernel_rows

# Bytes of one widened block: large enough for BLAS to run at full speed, small enough that a block
# and its product stay far below the memory a fit may use.
BLOCK_BYTES = 16 * 2**20


# Thousands of classes: what a block is multiplied with is read from memory for every block anyway,
# so that many rows share it, though they leave the cache.
WIDE_BYTES, FEWEST_ROWS, LARGEST_BYTES = 8 * 2**10, 256, 32 * 2**20


def blocks(n: int, row_bytes: int, block_bytes: int | None = None) -> Iterator[tuple[int, int]]:
    """(lo, hi) over n rows, each block at most `block_bytes` but never less than one row."""
    step = max(1, (block_bytes or BLOCK_BYTES) // max(1, row_bytes))
    for lo in range(0, n, step):
        yield lo, min(lo + step, n)


def compute_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float32 where it holds every number of the dtype exactly, float64 for all else."""
    return np.dtype(np.float32 if np.can_cast(dtype, np.float32) else np.float64)


class Rows(ABC):
    """A matrix of n rows and d columns that is only ever read by rows or by blocks of rows."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]  # of the arithmetic, not of the storage

    @abstractmethod
    def block(self, lo: int, hi: int) -> Any:
        """Rows lo..hi in the arithmetic's dtype, as something that multiplies from both sides."""

    @abstractmethod
    def gather(self, index: NDArray[np.intp]) -> Any:
        """The rows `index`: a dense array or a CSR matrix."""

    def select(self, index: NDArray[np.intp]) -> Any:
        """The rows `index` as a block of their own."""
        return self.gather(index)

    def take(self, order: NDArray[np.intp]) -> tuple[KernelRows, NDArray[np.intp]]:
        """Rows a kernel can read, and the place in them of each example of `order`."""
        rows = kernel_rows(self.gather(order))
        self.release()
        return rows, np.arange(len(order))

    def dense(self, index: NDArray[np.intp]) -> NDArray[Any]:
        """The rows `index` as a dense array."""
        return as_array(self.gather(index))

    def scaled(self, scale: NDArray[Any]) -> "Rows":
        """Row i is x_i * scale."""
        from .scaled import ScaledRows  # noqa: PLC0415  (which is a store itself)

        return ScaledRows(self, scale)

    def widened(self) -> "Rows":
        """The same rows, computed in float64."""
        from .widened import WidenedRows  # noqa: PLC0415  (which is a store itself)

        return self if self.dtype == np.float64 else WidenedRows(self)

    @property
    def row_bytes(self) -> int:
        """Bytes of one gathered row, on average."""
        return self.shape[1] * self.dtype.itemsize

    def block_rows(self, out_bytes: int) -> int:
        """Rows of a block, at most, if each is turned into `out_bytes`: what fits in a cache."""
        size = max(1, self.row_bytes, out_bytes)
        fewest = min(FEWEST_ROWS, LARGEST_BYTES // size) if size > WIDE_BYTES else 1
        return max(1, threads.CACHE_BYTES // size, fewest)

    def release(self) -> None:  # noqa: B027  (most stores hold nothing to give back)
        """Give back memory that only speeds up the next read: pages of a mapped file."""

    def each_block(self, work: Callable[[int, int, Any], None], out_bytes: int = 0) -> None:
        """work(lo, hi, block) for every block, on all cores."""
        threads.map_blocks(
            self, lambda: None, lambda _, lo, hi, block: work(lo, hi, block), out_bytes
        )

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
            mine += (G[lo:hi].T @ block).T

        first, *others = threads.map_blocks(self, start, work, G.shape[1] * self.dtype.itemsize)
        for other in others:
            first += other
        return first

    def sqnorms(self) -> NDArray[Any]:
        """‖x_i‖² for every row."""
        out = np.empty(self.shape[0], self.dtype)

        def work(lo: int, hi: int, block: Any) -> None:
            out[lo:hi] = row_squares(block)

        self.each_block(work)
        return out
