"""Rows on a device, as tensors of torch, and one pass over them: a loop over large blocks.

Some of the rows are gathered block by block, and changes (columns scaled, rows divided by their
norms) are made when a block is read, so that nothing of the size of X is copied.  `widened()` is
the next finer arithmetic: halves in more pieces (rows/arithmetic.py), then float64.

Labels and weights of length n are on the device too.  A pass may come with arrays of NumPy, from a
solver whose small algebra is on the host (rank-one descent): they are sent, and its sums come back.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..arrays import contiguous, dtype_of, is_numpy, like, to_numpy
from ..device import row_sums
from ..device.summing import probes_of
from ..rows import Rows
from ..rows.arithmetic import ROOM, Arithmetic, Plain, ieee
from ..rows.base import ProductError
from ..rows.block import Bad
from ..rows.classwork import ClassWork
from ..rows.tensor import Resident, Store, TensorBlock, fastest
from . import room
from .examples import Examples, Part, Pass, Sample, Sums

CHUNK_ROWS = 65536  # enough for a GPU to run at full speed
CHUNK_BYTES = 2**28  # of a block's rows, or of their output and the copies of gathered rows
CPU_CHUNK_BYTES = 2**24


class TensorRows(Rows):
    """Rows of a store on a device; `index` are those that take part."""

    def __init__(
        self,
        store: Store | Tensor,
        arithmetic: Arithmetic | None = None,
        index: NDArray[np.intp] | None = None,
    ) -> None:
        self.store: Store = Resident(store) if isinstance(store, Tensor) else store
        self.index = index
        n, d = self.store.shape
        self.shape = (n if index is None else len(index), d)
        self.dtype = np.dtype(np.float64 if self.store.stored == torch.float64 else np.float32)
        self.arithmetic = arithmetic or fastest(self.store, self.dtype)
        self.changes: tuple[tuple[str, Any], ...] = ()  # "scaled" by, "normalised"
        self._index: Tensor | None = None  # the same as `index`, where the rows are
        self._whole: Tensor | None = None  # all rows, for work by classes

    @property
    def device(self) -> torch.device:
        return self.store.device

    def as_rows(self) -> "TensorRows":
        return self

    def with_labels(self, y: NDArray[Any], w: NDArray[np.float64]) -> "TensorExamples":
        """The examples of these rows."""
        return TensorExamples(self, y, w)

    # -- other rows ------------------------------------------------------------------------------

    def subset(self, index: NDArray[np.intp]) -> "TensorRows":
        other = self._copy()
        other.index = np.asarray(index if self.index is None else self.index[index])
        other.shape, other._index = (len(other.index), self.shape[1]), None
        return other

    def _copy(self) -> "TensorRows":
        other = copy(self)
        other._whole = None
        return other

    def part(self, lo: int, hi: int) -> "TensorRows":
        return self.subset(np.arange(lo, hi))

    def scaled(self, scale: Any) -> "TensorRows":
        return self._changed("scaled", like(scale, self._any(), self.dtype))

    def normalised(self) -> "TensorRows":
        return self._changed("normalised", None)

    def _changed(self, verb: str, by: Any) -> "TensorRows":
        other = self._copy()
        other.changes = (*self.changes, (verb, by))
        other.arithmetic = Plain(self.dtype)  # the changed rows are no halves any more
        return other

    def widened(self) -> "TensorRows":
        if self.dtype == np.float64:
            return self
        other = self._copy()
        finer = self.arithmetic.finer()
        if finer is not None:
            other.arithmetic = finer
        else:
            other.dtype = np.dtype(np.float64)
            other.arithmetic = Plain(other.dtype)
        return other

    def precise(self, dtype: Any) -> "TensorRows":
        rows = self.widened() if self.arithmetic.pieces == 1 else self  # a fit only begins so
        while np.result_type(rows.dtype, dtype) != rows.dtype:
            rows = rows.widened()
        return rows

    def placed(self, values: NDArray[Any]) -> Any:
        return like(values, self._any(), values.dtype)

    def rounded(self, theta: Any) -> Any:
        if not self.arithmetic.pieces:
            return theta
        W = self.arithmetic.rounded(theta[:, :-1])
        return torch.cat([W, theta[:, -1:]], dim=1)

    def rounded_factor(self, B: Any) -> Any:
        return B if self.arithmetic.row_unit else self.arithmetic.rounded(B)

    @property
    def row_unit(self) -> float:
        return self.arithmetic.row_unit

    def product_error(self) -> ProductError:
        of_rows = self.arithmetic.row_underflow
        return ProductError(self.arithmetic.unit, self.arithmetic.underflow, of_rows)

    def beside(self, Z: Any) -> "TensorRows":
        """Rows computed from these, with all digits."""
        Z = like(Z, self._any())
        return TensorRows(Z, Plain(dtype_of(Z)))

    def unrounded(self) -> "TensorRows":
        """The same rows, multiplied by a matrix as it is, not by its halves."""
        other = self._copy()
        other.arithmetic = Plain(self.dtype)
        return other

    # -- reading ---------------------------------------------------------------------------------

    @property
    def row_bytes(self) -> int:
        return self.shape[1] * self.dtype.itemsize

    def block(self, lo: int, hi: int) -> TensorBlock:
        if self.index is None:
            return self._block(self.store.block(lo, hi))
        return self._block(self.store.gather(self.index[lo:hi]))

    def gather(self, index: Any) -> TensorBlock:
        """The rows `index`: an array, or a tensor on the device."""
        here, places = not self.store.resident, self._places()
        index = to_numpy(index) if here else torch.as_tensor(index, device=self.device)
        return self._block(self.store.gather(index if places is None else places[index]))

    def chunks(self, out_bytes: int = 0) -> Iterator[tuple[int, int, TensorBlock]]:
        """(lo, hi, block) for all rows; `out_bytes` is the size of the output per row."""
        most = CHUNK_BYTES if self.device.type == "cuda" else CPU_CHUNK_BYTES
        gathered = 0 if self.index is None else self.shape[1] * self.store.stored.itemsize
        step = max(1, min(CHUNK_ROWS, most // max(1, self.row_bytes, out_bytes + gathered)))
        for lo, hi, X in self.store.chunks(self._places(), step):
            yield lo, hi, self._block(X)

    def _places(self) -> Any:
        """`index` as the store reads it: for rows on the device it is sent there, once."""
        if self.index is None or not self.store.resident:
            return self.index
        if self._index is None:
            self._index = torch.as_tensor(self.index, device=self.device)
        return self._index

    def _block(self, X: Tensor) -> TensorBlock:
        block = TensorBlock(X, self.arithmetic, self.dtype)
        for verb, by in self.changes:
            if verb == "scaled":
                block = block.scaled(by)
            else:
                norms = block.row_squares().sqrt()
                block = block.times_rows(torch.where(norms > 0, 1.0 / norms, 1.0))
        return block

    def where(self, i: int) -> str:
        return self.store.where(i if self.index is None else int(self.index[i]))

    def _any(self) -> Tensor:
        """A tensor on the device, without rows."""
        return torch.empty(0, device=self.device)

    # -- work on all rows, block by block --------------------------------------------------------

    def each_block(self, work: Any, out_bytes: int = 0) -> None:
        for lo, hi, block in self.chunks(out_bytes):
            work(lo, hi, block)

    def each_class(self, work: ClassWork) -> None:
        if self._whole is None:
            self._whole = self._all()
        work.run_on_device(self._whole)

    def _all(self) -> Tensor:
        """All rows in one tensor, whose rows are contiguous; a copy, unless they are one."""
        n, d = self.shape
        if self.store.resident and self.index is None and not self.changes:
            X = self.store.block(0, n)
            if X.stride(1) == 1:
                return X
        itemsize = self.dtype.itemsize if self.changes else self.store.stored.itemsize
        room.check(
            n * d * itemsize,
            self.device,
            "A copy of all rows, of which each class visits one after the other,",
            "use curvature='lowrank', which needs fewer numbers of each row, or device='cpu'",
        )
        whole = None
        for lo, hi, block in self.chunks():
            if whole is None:
                whole = block.X.new_empty((n, d))
            whole[lo:hi] = block.X
        assert whole is not None
        return whole

    def first_bad(self) -> Bad | None:
        for lo, _, block in self._suspicious():
            bad = block.first_bad()
            if bad is not None:
                return lo + bad[0], bad[1], bad[2]
        return None

    def _suspicious(self) -> Iterator[tuple[int, int, TensorBlock]]:
        """The blocks whose sums of squares are not finite, found by one reading of each number."""
        none = torch.zeros(min(CHUNK_ROWS, self.shape[0]), dtype=torch.float64, device=self.device)
        sums, edges = [], []
        for lo, hi, block in self.chunks():
            edges.append((lo, hi))
            sums.append(row_sums.moments(block.X, none[: hi - lo], torch.float32)[1].sum())
        finite = torch.stack(sums).isfinite().tolist() if sums else []
        for (lo, hi), good in zip(edges, finite, strict=True):
            if not good:
                yield lo, hi, self.block(lo, hi)

    def matmat(self, B: Any, out: Any = None) -> Any:
        dtype = torch.float64 if self.dtype == np.float64 else torch.float32
        if out is None:
            out = self._room(B.shape[1], dtype)
        for lo, hi, S in self._products(B):
            out[lo:hi] = S
        return out

    def projected(self, B: Any, offset: Any = None) -> "TensorRows":
        """The rows Bᵀ x + offset; those of rows in half precision are kept in float16 if they fit.

        They have as many digits as the rows that they are computed from, in half of the memory.
        """
        if self.store.stored.itemsize == 2:
            Z = self._halved(B, offset)
            if Z is not None:
                return TensorRows(Z, Plain(self.dtype))
        Z = self.matmat(B)
        return self.beside(Z if offset is None else Z.add_(offset))

    def _halved(self, B: Any, offset: Any) -> Tensor | None:
        """X B + offset in float16; None if a number is too large for it."""
        Z, largest = self._room(B.shape[1], torch.float16), self._any().new_zeros(())
        for lo, hi, S in self._products(B):
            Z[lo:hi] = S if offset is None else S.add_(offset)
            largest = largest.maximum(torch.stack(torch.aminmax(S)).abs().max())
        return Z if largest.item() <= torch.finfo(Z.dtype).max else None

    def _room(self, columns: int, dtype: torch.dtype) -> Tensor:
        """For a product of all rows."""
        room.check(
            self.shape[0] * columns * dtype.itemsize,
            self.device,
            f"The product of all rows with {columns} columns",
            "use a smaller rank, or device='cpu'",
        )
        return torch.empty((self.shape[0], columns), dtype=dtype, device=self.device)

    def _products(self, B: Any) -> Iterator[tuple[int, int, Tensor]]:
        """X B, chunk by chunk."""
        plain = self.arithmetic.row_unit or not self.shape[1]
        arithmetic = Plain(self.dtype) if plain else self.arithmetic
        split = arithmetic.split(like(B, self._any(), self.dtype))
        for lo, hi, block in self.chunks(B.shape[1] * self.dtype.itemsize):
            with ieee():
                S, factor = arithmetic.unscaled(arithmetic.ready(block.X), split)
            yield lo, hi, S if factor is None else S.mul_(factor)

    def sqnorms(self) -> Any:
        return torch.cat([block.row_squares() for _, _, block in self.chunks()])


@dataclass
class TensorExamples(Examples):
    """Examples on a device; `y` and `w` are on the host, `there` has both on the device."""

    rows: Any  # TensorRows
    there: dict[str, Any] = field(default_factory=dict)
    probes: dict[tuple[int, int], Tensor] = field(default_factory=dict)  # device/summing.py

    def __post_init__(self) -> None:
        if self.there:
            return
        device = self.rows.device
        y = torch.as_tensor(np.asarray(self.y), device=device)
        self.there = {
            "y": y.long() if y.ndim == 1 else y,
            "w": torch.as_tensor(self.w, dtype=torch.float64, device=device),
        }

    @cached_property
    def scale(self) -> float:
        """A power of two that makes the largest weight, and so residuals, fit into halves."""
        return float(np.ldexp(1.0, ROOM + 1 - int(np.frexp(self.w.max(initial=0.0))[1])))

    def reduce(self, p: Pass[Sums]) -> Sums:
        """The sums of a pass over all examples."""
        self.read.passes += p.readings
        rows: TensorRows = self.rows
        (n, d), dtype = rows.shape, rows.dtype
        if p.writes_sizes:
            self.columns["sizes"] = self._empty(n)
        elif p.needs_sizes and "sizes" not in self.columns:
            self.columns["sizes"] = rows.sqnorms().sqrt()
        if p.needs_sizes and "scaled" not in self.columns:  # halves have few small numbers
            self.columns["scaled"] = (self.there["w"] * self.scale).to(self._empty(0).dtype)
        there, visiting = _sent(p, self._empty(0))
        sums: Any = there.start(d, dtype)
        measured = self._measured() if p.measures_sums and dtype != np.float64 else -1
        with ieee():
            for lo, hi, block in rows.chunks(p.row_bytes(dtype)):
                columns: dict[str, Any] = {name: of[lo:hi] for name, of in self.columns.items()}
                columns["scale"] = self.scale
                if lo <= measured < hi:
                    columns["probes"] = self._probes(lo, hi, block)
                y, w = self.there["y"][lo:hi], self.there["w"][lo:hi]
                there.add(sums, Part(self.first + lo, block, y, w, columns))
        there.finish(sums)
        return _home(sums) if visiting else sums

    def weights(self, index: Any) -> Any:
        return self.there["w"][index]

    def _measured(self) -> int:
        """A row of the chunk on which sums are measured: the first that has something to add."""
        if "measured" not in self.there:
            adds = self.columns["sizes"] * (self.there["w"] > 0) > 0
            self.there["measured"] = int(adds.to(torch.int8).argmax())
        return self.there["measured"]

    def _probes(self, lo: int, hi: int, block: TensorBlock) -> Tensor:
        if (lo, hi) not in self.probes:
            self.probes[lo, hi] = probes_of(block)
        return self.probes[lo, hi]

    def _empty(self, n: int) -> Any:
        wide = torch.float64 if self.rows.dtype == np.float64 else torch.float32
        return torch.empty(n, dtype=wide, device=self.rows.device)

    def times(self, B: Any) -> Any:
        """X B with all digits of the dtype: a solver keeps the product, and computes with it."""
        self.read.passes += 1.0
        return self.rows.unrounded().matmat(contiguous(B))

    def beside(self, Z: Any) -> "TensorExamples":
        return TensorExamples(self.rows.beside(Z), self.y, self.w, there=self.there)

    def widened(self) -> "TensorExamples":
        rows = self.rows.widened()
        columns = self.columns if rows.dtype == self.rows.dtype else {}
        given = rows, self.y, self.w, columns, self.read
        return TensorExamples(*given, there=self.there, probes=self.probes)

    def sample(self, m: int, rng: np.random.Generator) -> Sample:
        X, y, w, row = super().sample(m, rng)
        return Sample(X, like(y, X, np.int64), like(w, X, np.float64), row)


def _sent(p: Any, there: Any) -> tuple[Any, bool]:
    """The pass with its arrays on the device, and whether they come from the host."""
    parts = {each.name: getattr(p, each.name) for each in fields(p)} if is_dataclass(p) else {}
    moved = {name: like(of, there) for name, of in parts.items() if is_numpy(of)}
    for name, of in parts.items():
        if hasattr(of, "_fields") and any(map(is_numpy, of)):  # a tuple with arrays
            moved[name] = of._make(like(one, there) if is_numpy(one) else one for one in of)
    return (replace(p, **moved), True) if moved else (p, False)


def _home(sums: Any) -> Any:
    """The same sums as arrays of NumPy."""
    if hasattr(sums, "at_home"):
        return sums.at_home()
    return to_numpy(sums) if isinstance(sums, torch.Tensor) else sums
