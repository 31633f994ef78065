"""The methods of a row store, and the products by blocks that every store inherits.

    block(lo, hi)    rows lo..hi as a Block (block.py)
    select(index)    the rows `index` as a Block
    gather(index)    those rows decoded, for a sample or a mini-batch: dense or CSR
    dense(index)     those rows as a dense array
    take(order)      rows that a kernel can read, and the position of each example of `order`
    scaled(scale)    the same rows with their columns scaled
    normalised()     the same rows, each divided by its norm
    widened()        the same rows computed in float64, if float32 is not accurate enough
    precise(dtype)   the same rows for products with all digits of float32, or of dtype
    first_bad()      the first NaN or infinity
    where(i)         where row i comes from, for messages
    random_order     a random order of some rows in which the store can read them
    part(lo, hi)     rows lo..hi as a store of their own, read from their file if they are in one
    parts()          all rows by such parts, read ahead
    each_block       calls a function on every block, on all cores (threads.py)
    each_class       runs work that reads these rows for many classes, where they are
    each_row         calls a function of rows that gives something for each, where they are
    matmat, rmatmat  X B and Xᵀ G by row blocks, so that X is never widened or copied as a whole

A kernel reads what `take` returned through `dot(X, i, w)` and `axpy(X, a, i, w)` (kernel.py).
Rows whose numbers float32 represents exactly (float32, float16, integers of up to 16 bits) are
computed in float32, all others in float64.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from . import threads
from .ahead import each_part_read
from .block import Bad, Block
from .classwork import ClassWork
from .kernel import KernelRows
from .shuffling import by_chunks, even_edges

# Bytes of one widened block: large enough for BLAS to run at full speed, small enough that a block
# and its product stay far below the memory that a fit may use.
BLOCK_BYTES = 16 * 2**20


# With thousands of classes, the matrix that a block is multiplied by is read from memory for every
# block anyway.  So blocks have many rows, which share it, though they do not stay in cache.
WIDE_BYTES, FEWEST_ROWS, LARGEST_BYTES = 8 * 2**10, 256, 32 * 2**20


def blocks(n: int, row_bytes: int, block_bytes: int | None = None) -> Iterator[tuple[int, int]]:
    """(lo, hi) over n rows, in blocks of at most `block_bytes`, but of at least one row."""
    step = max(1, (block_bytes or BLOCK_BYTES) // max(1, row_bytes))
    for lo in range(0, n, step):
        yield lo, min(lo + step, n)


def compute_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float32 if it represents every number of the dtype exactly, else float64."""
    return np.dtype(np.float32 if np.can_cast(dtype, np.float32) else np.float64)


class ProductError(NamedTuple):
    """How residuals R, and rows, are rounded before they are multiplied."""

    unit: float = 0.0  # each entry of R by this share of it,
    underflow: float = 0.0  # and by this share of the largest weight;
    of_rows: float = 0.0  # a number of X by this share of the longest row, beside `row_unit`


class Rows(ABC):
    """A matrix of n rows and d columns that is only ever read by rows or by blocks of rows."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]  # of the arithmetic, not of the storage

    @abstractmethod
    def block(self, lo: int, hi: int) -> Block:
        """Rows lo..hi in the dtype of the arithmetic."""

    @abstractmethod
    def gather(self, index: NDArray[np.intp]) -> Block:
        """The rows `index`, decoded: a dense block or a CSR one."""

    @abstractmethod
    def part(self, lo: int, hi: int) -> "Rows":
        """Rows lo..hi as a store of their own, read from their file if they are in one."""

    def to_send(self, lo: int, hi: int) -> NDArray[Any]:
        """Rows lo..hi as an array to send: in half precision if they are stored so.

        bfloat16, which NumPy lacks, is sent as its bits (uint16).
        """
        return self.block(lo, hi).toarray()

    def select(self, index: NDArray[np.intp]) -> Block:
        """The rows `index`, in the form that `block` returns."""
        return self.gather(index)

    def take(self, order: NDArray[np.intp]) -> tuple[KernelRows, NDArray[np.intp]]:
        """Rows that a kernel can read, and the position in them of each example of `order`."""
        rows = self.gather(order).kernel_rows()
        self.release()
        return rows, np.arange(len(order))

    def dense(self, index: NDArray[np.intp]) -> NDArray[Any]:
        """The rows `index` as a dense array."""
        return self.gather(index).toarray()

    def scaled(self, scale: NDArray[Any]) -> "Rows":
        """Row i is x_i * scale."""
        return ScaledRows(self, scale)

    def normalised(self) -> "Rows":
        """Row i is x_i / ‖x_i‖; all-zero rows stay zero."""
        return NormalisedRows(self)

    def widened(self) -> "Rows":
        """The same rows, computed in float64."""
        return self if self.dtype == np.float64 else WidenedRows(self)

    def precise(self, dtype: Any) -> "Rows":
        """The same rows for products with all digits of float32, and of this dtype if it is wider.

        On this machine a product has those of both factors anyway.
        """
        return self

    @property
    def device(self) -> Any:
        """The `torch.device` that they are computed on; None: the cores of their machine."""
        return None

    def placed(self, values: NDArray[Any]) -> Array:
        """`values` where the rows are computed with: a solver's arrays are made like them."""
        return values

    def rounded(self, theta: Array) -> Array:
        """theta [W, b] as products with these rows use it: not changed, except by halves."""
        return theta

    def rounded_factor(self, B: Array) -> Array:
        """B (d, m) as the product X B uses it."""
        return B

    def product_error(self) -> ProductError:
        """What a product with residuals loses."""
        return ProductError()

    @property
    def row_unit(self) -> float:
        """The relative rounding error of a number of the rows in a pass."""
        return 0.0

    def where(self, i: int) -> str:
        """Where row i comes from, for messages."""
        return f"row {i}"

    def random_order(self, index: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
        """Positions in `index` in a random order in which the store can read these rows.

        Solvers that visit rows in random order ask for it before every pass.
        """
        if not self.on_disk:
            return rng.permutation(len(index))
        return by_chunks(index, self.chunk_borders(), self.stored_row_bytes, rng)

    def chunk_borders(self) -> Sequence[int]:
        """Row numbers, from 0 to n, between chunks: in a random order, each is read as a whole."""
        return even_edges(self.shape[0], self.stored_row_bytes)

    @property
    def row_bytes(self) -> int:
        """Bytes of one gathered row, on average."""
        return self.shape[1] * self.dtype.itemsize

    @property
    def on_disk(self) -> bool:
        """Are the rows in a file, so that they should be read ahead?"""
        return False

    @property
    def stored_row_bytes(self) -> int:
        """Bytes of a row as it is stored, on average."""
        return self.row_bytes

    def borders(self) -> Sequence[int]:
        """Row numbers, from 0 to n, that no block may cross."""
        return (0, self.shape[0])

    def block_rows(self, out_bytes: int) -> int:
        """Largest number of rows in a block that stays in cache; `out_bytes` is a row's output."""
        size = max(1, self.row_bytes, out_bytes)
        fewest = min(FEWEST_ROWS, LARGEST_BYTES // size) if size > WIDE_BYTES else 1
        return max(1, threads.CACHE_BYTES // size, fewest)

    def parts(
        self, part_bytes: int | None = None, start: int = 0
    ) -> Iterator[tuple[int, int, "Rows"]]:
        """(lo, hi, rows lo..hi) for all rows, read ahead if they are in a file.

        Parts that begin before `start` are left out.
        """
        cuts = [
            (first + lo, first + hi)
            for first, last in pairwise(self.borders())
            for lo, hi in blocks(last - first, self.row_bytes, part_bytes)
            if first + lo >= start
        ]
        yield from each_part_read(self, cuts)

    def will_need(self) -> None:  # noqa: B027  (most stores have nothing to read)
        """Start reading the rows of a mapped file."""

    def release(self) -> None:  # noqa: B027  (most stores have nothing to release)
        """Release memory that only speeds up the next read: pages of a mapped file."""

    def each_block(self, work: Callable[[int, int, Block], None], out_bytes: int = 0) -> None:
        """Call work(lo, hi, block) for every block, on all cores."""
        threads.map_blocks(
            self, lambda: None, lambda _, lo, hi, block: work(lo, hi, block), out_bytes
        )

    def each_class(self, work: ClassWork) -> None:
        """Run work that reads these rows for many classes."""
        work.run(self)

    def each_row(self, function: Callable[["Rows"], NDArray[Any]]) -> NDArray[Any]:
        """function(rows), which has an entry for each row that depends on no other row."""
        return function(self)

    def first_bad(self) -> Bad | None:
        """Row, column and value of the first NaN or infinity; None if there is none."""
        found: list[Bad] = []

        def work(lo: int, hi: int, block: Block) -> None:
            bad = block.first_bad()
            if bad is not None:
                found.append((lo + bad[0], *bad[1:]))

        self.each_block(work)
        return min(found, default=None)

    def matmat(self, B: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """X B for B (d, m)."""
        result = np.empty((self.shape[0], B.shape[1]), self.dtype) if out is None else out

        def work(lo: int, hi: int, block: Block) -> None:
            block.product(B, result[lo:hi])

        self.each_block(work, B.shape[1] * self.dtype.itemsize)
        return result

    def rmatmat(self, G: NDArray[Any]) -> NDArray[Any]:
        """Xᵀ G for G (n, m)."""

        def start() -> NDArray[Any]:
            return np.zeros((self.shape[1], G.shape[1]), self.dtype)

        def work(mine: NDArray[Any], lo: int, hi: int, block: Block) -> None:
            mine += (G[lo:hi].T @ block).T

        first, *others = threads.map_blocks(self, start, work, G.shape[1] * self.dtype.itemsize)
        for other in others:
            first += other
        return first

    def sqnorms(self) -> NDArray[Any]:
        """‖x_i‖² for every row."""
        out = np.empty(self.shape[0], self.dtype)

        def work(lo: int, hi: int, block: Block) -> None:
            out[lo:hi] = block.row_squares()

        self.each_block(work)
        return out


class DerivedRows(Rows):
    """Rows computed from those of another store when they are read; nothing is stored."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.shape, self.dtype = rows.shape, rows.dtype

    def block_rows(self, out_bytes: int) -> int:
        return self.rows.block_rows(out_bytes)

    @property
    def row_bytes(self) -> int:
        return self.rows.row_bytes

    @property
    def on_disk(self) -> bool:
        return self.rows.on_disk

    @property
    def stored_row_bytes(self) -> int:
        return self.rows.stored_row_bytes

    def borders(self) -> Sequence[int]:
        return self.rows.borders()

    def where(self, i: int) -> str:
        return self.rows.where(i)

    def random_order(self, index: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
        return self.rows.random_order(index, rng)

    def release(self) -> None:
        self.rows.release()

    def _over(self, rows: Rows) -> Any:
        """The same change of other rows."""
        other = copy(self)
        other.rows, other.shape = rows, (rows.shape[0], self.shape[1])
        return other


class ChangedRows(DerivedRows):
    """All rows of another store, each changed."""

    @abstractmethod
    def changed(self, block: Block) -> Block:
        """The changed block."""

    def block(self, lo: int, hi: int) -> Block:
        return self.changed(self.rows.block(lo, hi))

    def part(self, lo: int, hi: int) -> Rows:
        return self._over(self.rows.part(lo, hi))  # type: ignore[no-any-return]

    def gather(self, index: NDArray[np.intp]) -> Block:
        return self.changed(self.rows.gather(index))

    def select(self, index: NDArray[np.intp]) -> Block:
        return self.changed(self.rows.select(index))


class ScaledRows(ChangedRows):
    """Row i is x_i * scale, for a diagonal change of coordinates."""

    def __init__(self, rows: Rows, scale: NDArray[Any]) -> None:
        super().__init__(rows)
        self.scale = scale.astype(self.dtype)  # (d,)

    def changed(self, block: Block) -> Block:
        return block.scaled(self.scale)


class WidenedRows(ChangedRows):
    """Rows of a float32 store, computed in float64."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self.dtype = np.dtype(np.float64)

    def changed(self, block: Block) -> Block:
        return block.astype(self.dtype)

    def block_rows(self, out_bytes: int) -> int:
        return max(1, self.rows.block_rows(out_bytes) // 2)

    @property
    def row_bytes(self) -> int:
        return 2 * self.rows.row_bytes


class NormalisedRows(ChangedRows):
    """Row i is x_i / ‖x_i‖, scaled when it is read; all-zero rows stay zero."""

    def changed(self, block: Block) -> Block:
        norms = np.sqrt(block.row_squares())
        return block.times_rows(np.divide(1.0, norms, out=np.ones_like(norms), where=norms > 0))
