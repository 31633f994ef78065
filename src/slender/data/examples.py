"""Examples: rows, their classes and their weights, and one pass over all of them, `reduce`.

    sums = examples.reduce(p)

A pass p has settings and no data, so that it can be sent to where the examples are.  There it makes
empty sums, `p.start(d, dtype)`, and adds one block of examples after the other to them,
`p.add(sums, part)`; the sums of several threads are joined by +=.  Threads, the merging of sums and
the count of how often the rows were read are handled here, not in a pass.  `Examples` are on this
machine; `examples_of(rows, y, w)` are wherever the rows are.

One gradient (C, d) per thread may need more memory than there is (ten thousand classes).  Then all
threads add to the same gradient, each to its own classes, from the residuals of a larger block that
they have computed together.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, received
from ..rows import Block, DenseRows, Rows, map_blocks, one_blas_thread, some_of
from ..rows.cores import num_threads
from ..rows.threads import PARTS_A_THREAD, each_part

SCRATCH_BYTES = 2**20  # of a product before it is added to the gradient
SUMS_BYTES = 512 * 2**20  # of the gradients of all threads together; with more they share one
SHARED_BYTES = 512 * 2**20  # of the residuals of a block, and of its rows, if they share one


class Part(NamedTuple):
    """A block of examples."""

    first: int  # the number of its first row
    block: Block
    y: NDArray[Any]  # class of each row, or an indicator of its classes (rows, C)
    w: NDArray[np.float64]
    columns: dict[str, Array]  # other values per row; a pass may write to them


Sums = TypeVar("Sums")  # those of two parts of the examples are joined by +=


class Arrays:
    """Sums that consist of several arrays."""

    def __init__(self, *arrays: NDArray[np.float64]) -> None:
        self.arrays = arrays

    def __iter__(self) -> Iterator[NDArray[np.float64]]:
        return iter(self.arrays)

    def __iadd__(self, other: "Arrays") -> "Arrays":
        for mine, theirs in zip(self, other, strict=True):
            mine += theirs
        return self


def bytes_of(attributes: dict[str, Any]) -> int:
    """The size of the arrays among them."""
    return sum(int(getattr(value, "nbytes", 0)) for value in attributes.values())


class Pass(ABC, Generic[Sums]):
    """What one reading of the examples adds up."""

    needs_sizes: ClassVar[bool] = False  # does it read the column "sizes", the norms of the rows,
    writes_sizes: ClassVar[bool] = False  # or compute it?
    measures_sums: ClassVar[bool] = False  # does it need "probes", on a device (device/summing.py)?

    def __sizeof__(self) -> int:
        """What it takes to send: a cluster plans by that."""
        return bytes_of(vars(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """From another machine."""
        vars(self).update({name: received(value) for name, value in state.items()})

    @property
    def readings(self) -> float:
        """The number of passes that it counts as."""
        return 1.0

    @abstractmethod
    def start(self, d: int, dtype: Any) -> Sums:
        """Empty sums for rows of d numbers."""

    @abstractmethod
    def add(self, sums: Sums, part: Part) -> None:
        """Add one block, while it is in the cache of a core."""

    def finish(self, sums: Sums) -> None:
        """Called on a device, once all blocks are added."""

    def row_bytes(self, dtype: Any) -> int:
        """The size of the output per row."""
        return 0


class GradientPass(Pass[Sums]):
    """A pass in two halves, so that threads can share its largest sum, a gradient (C, d)."""

    n_classes: int

    @property
    def residual_columns(self) -> int:
        """The number of columns of the residuals; 0 if the labels determine them."""
        return self.n_classes

    def start(self, d: int, dtype: Any) -> Sums:
        return self.start_part(d, dtype, 1)

    @abstractmethod
    def start_part(self, d: int, dtype: Any, parts: int, before: Sums | None = None) -> Sums:
        """Empty sums for one of `parts` parts of the rows; `before` are the sums so far."""

    @abstractmethod
    def residuals(self, sums: Sums, part: Part, out: NDArray[Any]) -> None:
        """out = the residuals (rows, residual_columns); adds to all sums but the gradient."""

    def add_gradient(
        self, part: Part, residuals: Any, first: int, G: NDArray[Any], scratch: NDArray[Any]
    ) -> None:
        """Add a block to G, the rows of the gradient of the classes from `first` on."""
        part.block.add_product(residuals[:, first : first + len(G)], G, scratch)

    @abstractmethod
    def gradient(self, sums: Sums) -> NDArray[Any]:
        """The gradient among the sums; (C, 0) if none is requested."""

    @abstractmethod
    def gradient_bytes(self, d: int, dtype: Any) -> int:
        """The size of the gradient."""

    def row_bytes(self, dtype: Any) -> int:
        return self.residual_columns * int(dtype.itemsize)


class Sample(NamedTuple):
    """Some rows, dense, with weights that have the same sum as those of all rows."""

    X: NDArray[Any]  # (m, d)
    y: NDArray[Any]  # (m,)
    w: NDArray[np.float64]  # (m,)
    row: NDArray[np.intp]  # (m,) which rows, on the host


@dataclass
class Readings:
    """How often all rows were read, in float32 or float64."""

    passes: float = 0.0


@dataclass
class Examples:
    """Rows, their classes and their weights, in the memory of this machine or mapped into it."""

    rows: Rows
    y: NDArray[Any]  # (n,) or (n, C)
    w: NDArray[np.float64]  # (n,)
    columns: dict[str, Array] = field(default_factory=dict)  # of length n, each
    read: Readings = field(default_factory=Readings)
    first: int = 0  # the number of the first row, and
    parts: int = 1  # into how many parts all rows are divided, if these are one of them

    def reduce(self, p: Pass[Sums]) -> Sums:
        """The sums of a pass over all examples."""
        self.read.passes += p.readings
        (n, d), dtype, threads = self.rows.shape, self.rows.dtype, num_threads()
        if p.writes_sizes:
            self.columns["sizes"] = np.empty(n, dtype)
        elif p.needs_sizes and "sizes" not in self.columns:
            self.columns["sizes"] = np.sqrt(self.rows.sqnorms())

        def start() -> Sums:
            if isinstance(p, GradientPass):
                return p.start_part(d, dtype, threads * self.parts)
            return p.start(d, dtype)

        def work(sums: Sums, lo: int, hi: int, block: Block) -> None:
            p.add(sums, self._part(lo, hi, block))

        if isinstance(p, GradientPass) and p.gradient_bytes(d, dtype) * threads > SUMS_BYTES:
            with one_blas_thread():
                return self._share(p)
        first: Any
        first, *others = map_blocks(self.rows, start, work, p.row_bytes(dtype))
        for other in others:
            first += other
        return first  # type: ignore[no-any-return]

    def _part(self, lo: int, hi: int, block: Block) -> Part:
        columns = {name: column[lo:hi] for name, column in self.columns.items()}
        return Part(self.first + lo, block, self.y[lo:hi], self.w[lo:hi], columns)

    def _share(self, p: GradientPass[Sums]) -> Sums:
        """`reduce` with one gradient for all threads."""
        (n, d), C, dtype = self.rows.shape, p.residual_columns, self.rows.dtype
        total = p.start(d, dtype)
        step = max(1, SHARED_BYTES // max(self.rows.row_bytes, C * dtype.itemsize))
        R = np.empty((min(step, n), C), dtype)
        for lo, hi, part in self.rows.parts(step * self.rows.row_bytes):
            total = self._share_part(p, total, R[: hi - lo], lo, part)
        return total

    def _share_part(
        self, p: GradientPass[Sums], total: Any, R: NDArray[Any], lo: int, rows: Rows
    ) -> Any:
        """Residuals R by parts of the rows, then the gradient by parts of the classes."""
        (n, d), dtype = rows.shape, rows.dtype
        parts: dict[int, Any] = {}
        number = PARTS_A_THREAD * num_threads() * self.parts

        def residuals(first: int, last: int) -> None:
            mine = parts[first] = p.start_part(0, dtype, number, total)
            part = self._part(lo + first, lo + last, rows.block(first, last))
            p.residuals(mine, part, R[first:last])

        each_part(np.full(n, float(p.n_classes * d)), residuals)
        for _, part in sorted(parts.items()):  # in order: the same sums in every run
            total += part
        part, G = self._part(lo, lo + n, rows.block(0, n)), p.gradient(total)
        chunk = max(1, SCRATCH_BYTES // (d * dtype.itemsize))

        def products(first: int, last: int) -> None:
            scratch = np.empty((min(last - first, chunk), d), dtype)
            p.add_gradient(part, R, first, G[first:last], scratch)

        each_part(np.full(p.n_classes, float(n * d)), products)
        return total

    def times(self, B: NDArray[Any]) -> Array:
        """X B (n, m) for B (d, m): one more reading of the rows."""
        self.read.passes += 1.0
        return self.rows.matmat(np.ascontiguousarray(B))

    def beside(self, Z: Array) -> "Examples":
        """Examples with rows z_i that were computed from these, where Z is."""
        return Examples(DenseRows(Z), self.y, self.w)

    def project(self, B: NDArray[Any]) -> "Examples":
        """Examples with the rows z_i = Bᵀ x_i."""
        return self.beside(self.times(B))

    @property
    def sizes(self) -> Array:
        """(n,) ‖x_i‖, once a pass has computed them."""
        return self.columns["sizes"]

    @cached_property
    def active(self) -> NDArray[np.intp]:
        """The rows of positive weight."""
        return np.flatnonzero(self.w)

    @property
    def n_active(self) -> int:
        return len(self.active)

    def sample(self, m: int, rng: np.random.Generator) -> Sample:
        """m rows of positive weight, drawn without replacement."""
        index = rng.choice(self.active, m, replace=False)
        index.sort()  # faster for memory maps
        w = self.w[index]
        w *= self.w.sum() / w.sum()
        return Sample(self.rows.dense(index), self.y[index], w, index)

    def weights(self, index: Array) -> Array:
        """The weights of the rows `index`, which is an array where the rows are."""
        return self.w[index]

    def subset(self, index: NDArray[np.intp]) -> "Examples":
        """Some of the examples, without a copy of their rows."""
        return examples_of(some_of(self.rows, index), self.y[index], self.w[index])

    def widened(self) -> "Examples":
        """The same examples in float64; passes over both are counted together."""
        wide = examples_of(self.rows.widened(), self.y, self.w)
        wide.read = self.read
        return wide


def examples_of(rows: Rows, y: NDArray[Any], w: NDArray[np.float64]) -> Examples:
    """Examples where their rows are: on this machine, unless the rows know of another place."""
    elsewhere: Any = getattr(rows, "with_labels", None)
    return Examples(rows, y, w) if elsewhere is None else elsewhere(y, w)
