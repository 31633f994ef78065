"""Objective and gradient of the softmax at (W, b), and what else a pass can compute there.

With p_i the softmax of s_i = W x_i + b and w_i the rows' weights,

    loss    Σ w_i ( ln Σ_c exp s_ic - s_iy )
    G, g    Σ w_i (p_i - e_y) x_iᵀ  (C, d)  and  Σ w_i (p_i - e_y)  (C,)
    A       Σ w_i ( diag p_i - p_i p_iᵀ ), or its diagonal alone
    doubts  the pairs of a row and a class with the largest curvature (doubts.py)

Scores, residuals and gradient of a block are computed while it is in the cache of a core; the
n x C scores are never stored.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, dtype_of, is_numpy, to_numpy, zeros
from ..data import Part
from ..data.examples import SCRATCH_BYTES, GradientPass, bytes_of
from .doubts import Collector, Doubts, Wanted
from .residuals import N_SUMS, curvature_rows, residuals, root_rows
from .softmax_tensors import TensorCollector, add_tensors, finish_tensors

SUMMED = ("sums", "g", "own", "a", "pp", "G")


class SoftmaxSums:
    """The sums, and memory for the scores of a block."""

    def __init__(self, b: Array, d: int, dtype: Any, matrix: bool, collector: Any) -> None:
        C, wide = len(b), np.float64
        self.sums = zeros((N_SUMS,), b, wide)  # as named in residuals.py
        self.g = zeros((C,), b, wide)
        self.own = zeros((C,), b, wide)  # Σ w (1 - p_y) over the rows of each class
        self.a = zeros((C,), b, wide)  # Σ w p (1 - p)
        self.pp = zeros((C, C) if matrix else (0, 0), b, wide)  # Σ w p pᵀ
        self.G = zeros((C, d), b, dtype)
        self.waiting: list[Any] = []  # on a device: rows that are not in `sums` and `own` yet,
        self.scale = 1.0  # and what the weights in all other sums were multiplied by
        self.chunk_error: Any = 0.0  # of a device's sums over a chunk, relative to Σ r ‖x‖,
        self.chunks = 0  # and the number of such sums that G adds up
        self.split: Any = None  # W as a device multiplies it, for all chunks of a pass,
        self.columns: Any = None  # and what its kernel adds up of their columns
        self.collector = collector
        self.wanted: Wanted | None = None  # from all parts together
        chunk = max(1, SCRATCH_BYTES // max(1, d * np.dtype(dtype).itemsize))
        here = is_numpy(b)
        self.scratch = np.empty((min(C, chunk) if here else 0, d), dtype)
        # reused for every block: new memory for each would cost as much as its softmax
        self._scores = self._roots = np.empty((0, C), dtype)
        self._outer = np.empty(self.pp.shape if here else (0, 0), dtype)

    def __getstate__(self) -> dict[str, Any]:
        """What travels from one machine to another: the sums, without the memory for a block."""
        state = self.__dict__.copy()
        for name in ("scratch", "_scores", "_roots", "_outer"):
            state[name] = state[name][:0]
        return {**state, "split": None}

    def __sizeof__(self) -> int:
        return bytes_of(self.__getstate__())

    def at_home(self) -> "SoftmaxSums":
        """The sums of a pass over tensors, as arrays of this machine."""
        for name in SUMMED:
            setattr(self, name, to_numpy(getattr(self, name)))
        self.chunk_error, self.split = float(self.chunk_error), None
        if self.collector is not None:
            self.collector = self.collector.at_home()
            self.wanted = self.collector.wanted
        return self

    def __iadd__(self, other: "SoftmaxSums") -> "SoftmaxSums":
        for name in SUMMED:
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine.shape == theirs.shape:  # not a gradient that all threads share
                mine += theirs
        self.chunk_error = max(self.chunk_error, other.chunk_error)
        self.chunks += other.chunks
        if other.collector is not None:
            self._whole().merge(other.collector)
        return self

    @property
    def summing(self) -> float:
        """The error of the sums in G, relative to Σ r ‖x‖, beyond that of this machine's blocks.

        To add a chunk of a device rounds by half a unit in the last place at most; these errors are
        independent.
        """
        joining = 0.5 * float(np.finfo(dtype_of(self.G)).eps) * np.sqrt(self.chunks)
        return float(self.chunk_error) + float(joining)

    @property
    def doubts(self) -> Doubts | None:
        return None if self.collector is None else self._whole().doubts()

    def _whole(self) -> Collector:
        """The collector for all parts, including the pairs of this one."""
        assert self.collector is not None
        assert self.wanted is not None
        if self.collector.wanted is not self.wanted:
            self.collector = Collector(self.wanted).merge(self.collector)
        return self.collector

    def scores(self, rows: int) -> NDArray[Any]:
        """Memory for the scores of a block."""
        if len(self._scores) < rows:
            self._scores = np.empty((rows, self._scores.shape[1]), self._scores.dtype)
        return self._scores[:rows]

    def add_outer(self, R: NDArray[Any], w: NDArray[np.float64], y: NDArray[np.int32]) -> None:
        """Add Σ w p pᵀ, from the residuals R = w (p - e_y)."""
        if len(self._roots) < len(R):
            self._roots = np.empty_like(R)
        roots = self._roots[: len(R)]
        root_rows(R, w, y, roots)
        self.pp += np.matmul(roots.T, roots, out=self._outer)


@dataclass(frozen=True)
class SoftmaxPass(GradientPass[SoftmaxSums]):
    """At Wᵀ (d, C), contiguous, and b (C,); the examples need a column "sizes", the row norms.

    `A` requests A or its diagonal.  Without the gradient the pass counts as half, since one of its
    two products is omitted.
    """

    WT: NDArray[Any]
    b: NDArray[Any]
    A: Literal["none", "diagonal", "matrix"] = "none"
    wanted: Wanted | None = None
    with_gradient: bool = True
    needs_sizes: ClassVar[bool] = True
    measures_sums: ClassVar[bool] = True

    @property
    def readings(self) -> float:
        return 1.0 if self.with_gradient else 0.5

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        return len(self.b)

    def start_part(
        self, d: int, dtype: Any, parts: int, before: SoftmaxSums | None = None
    ) -> SoftmaxSums:
        collector: Any = None
        if self.wanted is not None and not is_numpy(self.b):
            collector = TensorCollector(self.wanted)
        elif self.wanted is not None:
            known = before.collector if before is not None else None
            few = self.wanted if parts == 1 else self.wanted.of_part(parts)
            collector = Collector(few, known.least if known else 0.0)
        width = d if self.with_gradient else 0
        sums = SoftmaxSums(self.b, width, dtype, self.A == "matrix", collector)
        sums.wanted = self.wanted
        return sums

    def add(self, sums: SoftmaxSums, part: Part) -> None:
        if not is_numpy(self.b):
            add_tensors(self, sums, part)
            return
        S = sums.scores(len(part.w))
        self.residuals(sums, part, S)
        if self.with_gradient:
            part.block.add_product(S, sums.G, sums.scratch)

    def residuals(self, sums: SoftmaxSums, part: Part, out: NDArray[Any]) -> None:
        self.scores(part, out)
        w, y, sizes = part.w, part.y, part.columns["sizes"]
        residuals(out, self.b, w, y, sizes, sums.g, sums.own, sums.sums)
        if self.A != "none":
            curvature_rows(out, w, y, sums.a)
        if self.A == "matrix":
            sums.add_outer(out, w, y)
        if sums.collector is not None:
            sums.collector.add(out, w, sizes, part.first)

    def finish(self, sums: SoftmaxSums) -> None:
        if not is_numpy(self.b):
            finish_tensors(self, sums)

    def scores(self, part: Part, out: NDArray[Any]) -> None:
        """out = W x of every row."""
        part.block.product(self.WT, out)

    def tensor_scores(self, sums: SoftmaxSums, part: Part) -> tuple[Array, Array | None]:
        """S and f on a device, where W x = f S for every row; f is None if it is 1.

        Who reads S next multiplies by f, which saves a pass over it.
        """
        block: Any = part.block
        if sums.split is None:
            sums.split = block.arithmetic.split(self.WT)
        return block.arithmetic.unscaled(block.ready, sums.split)  # type: ignore[no-any-return]

    def row_bytes(self, dtype: Any) -> int:
        """A device holds several arrays in float64, where it has no kernel or A is a matrix."""
        wide = self.A == "matrix" or dtype == np.float64
        arrays = 5 if wide and not is_numpy(self.b) else 1
        return arrays * super().row_bytes(dtype)

    def gradient(self, sums: SoftmaxSums) -> NDArray[Any]:
        return sums.G

    def gradient_bytes(self, d: int, dtype: Any) -> int:
        return self.n_classes * d * int(dtype.itemsize) if self.with_gradient else 0


@dataclass(frozen=True)
class FactoredPass(SoftmaxPass):
    """For W in factors: the scores are W z_i with z_i = Uᵀ x_i.

    z_i is row i of the column "Z" if the examples have one, else it is computed.
    """

    U: Any = None  # (d, r)

    def scores(self, part: Part, out: NDArray[Any]) -> None:
        np.matmul(self._inside(part), self.WT, out=out)

    def tensor_scores(self, sums: SoftmaxSums, part: Part) -> tuple[Array, Array | None]:
        return self._inside(part) @ self.WT, None

    def _inside(self, part: Part) -> Array:
        """z of every row."""
        return part.columns["Z"] if "Z" in part.columns else part.block @ self.U
