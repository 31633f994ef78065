"""The multinomial objective and its gradient, in one pass over the rows.

    P(W, b) = Σ_i w_i ( ln Σ_c exp s_ic - s_iy ) + lam/2 ‖W‖²,    s_i = W x_i + b,   w_i = c_i/n

Coordinates.  theta = [W, b'] (C, d + 1) with b' = b + W x̄, the score of the mean row
x̄ = Σ w_i x_i / Σ w_i: as if the features were centred, without touching them.  The gradient in
these coordinates is [G + lam W - g x̄ᵀ, g] with, for p_i the softmax of s_i,

    G = Σ_i w_i (p_i - e_y) x_iᵀ  (C, d)         g = Σ_i w_i (p_i - e_y)  (C,)

Centred, W and b' hardly disturb each other, which is what the curvature relies on.  Without an
intercept x̄ is 0 and so are b' and its gradient.

A block of rows is turned into scores, residuals and gradient while it is in a core's cache; the
n x C scores never exist.  Each thread has sums of its own; where the threads' gradients together
would take too much memory (ten thousand classes), all add to one, each to its own classes, from the
residuals of a larger block that all of them have made.  Weights are float64 whatever the rows are:
they may span many decades.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..metrics import measure
from ..rows import Rows, SubsetRows, map_blocks, one_blas_thread
from ..rows.cores import num_threads
from ..rows.threads import PARTS_A_THREAD, each_part
from .doubts import Collector, Doubts, Wanted
from .intercepts import DENSE, ClassCurvature, ClassDiagonal, ClassMatrix
from .softmax import LOSS, N_SUMS, curvature_rows, residuals, root_rows

TRACE_ROUNDING = 32.0  # units in the last place that sums of squares over a block's rows may lose
SCRATCH_BYTES = 2**20  # of a product on its way into the gradient
SUMS_BYTES = 512 * 2**20  # of all threads' gradients together, before they share one
SHARED_BYTES = 512 * 2**20  # of a block's residuals, and of its rows, where they do


class Point(NamedTuple):
    """The objective at theta, and what one pass learns beside it."""

    theta: NDArray[Any]  # (C, d + 1)
    lam: float
    objective: float
    gradient: NDArray[Any]  # (C, d + 1), with the penalty's part
    g: NDArray[np.float64]  # (C,) the intercepts' gradient, summed in float64
    own: NDArray[np.float64]  # (C,) Σ over a class's own rows of w (1 - p_y)
    sums: NDArray[np.float64]  # (N_SUMS,) as softmax.py names them
    A: ClassCurvature | None  # Σ w_i (diag p_i - p_i p_iᵀ) where it was asked for
    doubts: Doubts | None = None  # where they were asked for

    def at_lam(self, lam: float) -> "Point":
        """The same theta under another penalty: no pass, only the penalty's part changes."""
        W, change = self.theta[:, :-1], lam - self.lam
        gradient = self.gradient.copy()
        gradient[:, :-1] += W.dtype.type(change) * W
        objective = self.objective + 0.5 * change * sq_norm(W)
        return self._replace(lam=lam, objective=objective, gradient=gradient)


class _Sums:
    """One thread's share of the sums over rows."""

    def __init__(self, C: int, d: int, dtype: Any, collector: Collector | None = None) -> None:
        self.collector = collector
        self.sums = np.zeros(N_SUMS)
        self.g = np.zeros(C)
        self.own = np.zeros(C)
        self.a = np.zeros(C)
        self.pp = np.zeros((C, C)) if C <= DENSE else np.zeros((0, 0))  # Σ w p pᵀ
        self.G = np.zeros((C, d), dtype)
        chunk = max(1, SCRATCH_BYTES // max(1, d * self.G.itemsize))
        self.scratch = np.empty((min(C, chunk), d), dtype)
        # of one block after another: fresh pages for each would cost as much as its softmax
        self._scores = self._roots = np.empty((0, C), dtype)
        self._outer = np.empty(self.pp.shape, dtype)

    def scores(self, rows: int) -> NDArray[Any]:
        """Room for a block's scores."""
        if len(self._scores) < rows:
            self._scores = np.empty((rows, self._scores.shape[1]), self._scores.dtype)
        return self._scores[:rows]

    def add_outer(self, R: NDArray[Any], w: NDArray[np.float64], y: NDArray[np.int32]) -> None:
        """Σ w p pᵀ, from the residuals R = w (p - e_y)."""
        if len(self._roots) < len(R):
            self._roots = np.empty_like(R)
        roots = self._roots[: len(R)]
        root_rows(R, w, y, roots)
        self.pp += np.matmul(roots.T, roots, out=self._outer)

    def merge(self, other: "_Sums", but: str = "") -> None:
        for name in {"sums", "g", "own", "a", "pp", "G"} - {but}:
            mine = getattr(self, name)
            mine += getattr(other, name)
        if self.collector is not None and other.collector is not None:
            self.collector.merge(other.collector)


@dataclass
class Readings:
    """How often all rows were read, by whatever arithmetic; without a gradient it counts half."""

    passes: float = 0.0


@dataclass
class Multinomial:
    """Rows, their classes and weights."""

    rows: Rows
    y: NDArray[np.int32]  # (n,)
    w: NDArray[np.float64]  # (n,) c_i / n
    n_classes: int
    intercept: bool = True
    readings: Readings = field(default_factory=Readings)
    sizes: NDArray[Any] = field(init=False)  # (n,) ‖x_i‖

    def __post_init__(self) -> None:
        self._wide: Multinomial | None = None
        self._moments()

    @property
    def passes(self) -> float:
        """How often all rows were read."""
        return self.readings.passes

    def _moments(self) -> None:
        """x̄ (d,), the classes' weights (C,), Σ w ‖x‖², and the trace of Σ w (x - x̄)(x - x̄)ᵀ."""
        n, d = self.rows.shape
        self.class_weight = np.bincount(self.y, self.w, self.n_classes)
        self.total = float(self.class_weight.sum())
        self.sizes = np.empty(n, self.rows.dtype)
        shares = (self.w / self.total).astype(self.rows.dtype)

        def start() -> NDArray[np.float64]:
            return np.zeros(d)

        def work(mine: NDArray[np.float64], lo: int, hi: int, block: Any) -> None:
            with np.errstate(over="ignore", invalid="ignore"):  # the caller asks if all are finite
                mine += shares[lo:hi] @ block
                self.sizes[lo:hi] = np.sqrt(block.row_squares())

        parts = map_blocks(self.rows, start, work)
        with np.errstate(over="ignore", invalid="ignore"):
            self.mean = np.sum(parts, axis=0).astype(self.rows.dtype)
            if not self.intercept:
                self.mean[:] = 0.0
            self.squares = float(self.w @ self.sizes.astype(np.float64) ** 2)  # NaN where a row is
            mean_square = float(np.sum(self.mean.astype(np.float64) ** 2))
        # Far from zero a difference of large numbers: never below the truth, as a bound must be.
        rounding = TRACE_ROUNDING * float(np.finfo(self.rows.dtype).eps) * self.squares
        self.trace = max(self.squares - self.total * mean_square, 0.0) + rounding

    def widened(self) -> "Multinomial":
        """The same problem in float64."""
        if self._wide is None:
            parts = self.y, self.w, self.n_classes, self.intercept, self.readings
            self._wide = Multinomial(self.rows.widened(), *parts)
        return self._wide

    def lam_of(self, C: float) -> float:
        """lam for scikit-learn's C, under which two classes share one row: 1/(n C), or twice that.

        The softmax of rows -w/2 and w/2 has half of w's squared norm.
        """
        return (2.0 if self.n_classes == 2 else 1.0) / (float(np.count_nonzero(self.w)) * C)

    @property
    def longest(self) -> float:
        """At least ‖x_i‖ of every row of positive weight."""
        return float(np.sqrt(self.squares / self.w[self.w > 0].min()))

    def start(self) -> NDArray[Any]:
        """theta at W = 0, with the best intercepts there: the classes' log shares."""
        theta = np.zeros((self.n_classes, self.rows.shape[1] + 1), self.rows.dtype)
        if self.intercept:
            shares = np.log(self.class_weight / self.total)
            theta[:, -1] = shares - shares.mean()
        return theta

    def model(self, theta: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """(W, b), as raw features want them."""
        W = np.ascontiguousarray(theta[:, :-1])
        return W, theta[:, -1] - W @ self.mean

    def theta(self, W: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        """The way back from (W, b)."""
        W = np.asarray(W, self.rows.dtype)
        centred = b + W @ self.mean if self.intercept else np.zeros(len(W))
        return np.column_stack([W, centred]).astype(self.rows.dtype)

    def sample(self, index: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Some rows, centred, and weights that make them stand for all."""
        w = self.w[index] * (self.total / self.w[index].sum())
        return self.rows.dense(index) - self.mean, w.astype(self.rows.dtype)

    def separated(self, W: NDArray[Any], b: NDArray[Any]) -> bool:
        """Has every row of positive weight its own class on top?"""
        active = np.flatnonzero(self.w)
        rows = SubsetRows(self.rows, active)
        return measure(rows, self.y[active], W, b)["top1"] == 1.0

    def at(
        self,
        theta: NDArray[Any],
        lam: float,
        second: bool = False,
        wanted: Wanted | None = None,
    ) -> Point:
        """Objective and gradient: one pass.

        `second` asks for A too, or for its diagonal, `wanted` for doubts.
        """
        self.readings.passes += 1.0
        sums = self._pass(theta, second, gradient=True, wanted=wanted)
        W = theta[:, :-1]
        gradient = np.zeros(theta.shape, theta.dtype)
        gradient[:, :-1] = sums.G
        gradient[:, :-1] += W.dtype.type(lam) * W
        if self.intercept:
            gradient[:, :-1] -= np.outer(sums.g.astype(self.mean.dtype), self.mean)
            gradient[:, -1] = sums.g
        objective = float(sums.sums[LOSS] + 0.5 * lam * sq_norm(W))
        A = self._classes(sums) if second else None
        doubts = sums.collector.doubts() if sums.collector else None
        return Point(theta, lam, objective, gradient, sums.g, sums.own, sums.sums, A, doubts)

    def classes_at(self, theta: NDArray[Any]) -> tuple[NDArray[np.float64], ClassCurvature]:
        """g and A, or its diagonal: half a pass, since nothing is multiplied back."""
        self.readings.passes += 0.5
        sums = self._pass(theta, second=True, gradient=False)
        return sums.g, self._classes(sums)

    def _pass(
        self,
        theta: NDArray[Any],
        second: bool,
        gradient: bool,
        wanted: Wanted | None = None,
    ) -> _Sums:
        C, d, dtype = self.n_classes, self.rows.shape[1], self.rows.dtype
        W, b = self.model(theta)
        WT, b = np.ascontiguousarray(W.T), b.astype(dtype)

        def residuals_of(mine: _Sums, lo: int, hi: int, block: Any, S: NDArray[Any]) -> None:
            block.product(WT, S)
            w, y = self.w[lo:hi], self.y[lo:hi]
            residuals(S, b, w, y, self.sizes[lo:hi], mine.g, mine.own, mine.sums)
            if second:
                curvature_rows(S, w, y, mine.a)
                if len(mine.pp):
                    mine.add_outer(S, w, y)
            if mine.collector is not None:
                mine.collector.add(S, w, self.sizes[lo:hi], lo)

        if gradient and num_threads() * WT.nbytes > SUMS_BYTES:
            with one_blas_thread():
                return self._shared_pass(residuals_of, wanted)

        few = wanted and wanted.of_part(num_threads())

        def start() -> _Sums:
            return _Sums(C, d if gradient else 0, dtype, few and Collector(few))

        def work(mine: _Sums, lo: int, hi: int, block: Any) -> None:
            S = mine.scores(hi - lo)
            residuals_of(mine, lo, hi, block, S)
            if gradient:
                block.add_product(S, mine.G, mine.scratch)

        first, *others = map_blocks(self.rows, start, work, C * dtype.itemsize)
        if wanted is not None and first.collector is not None:
            first.collector = Collector(wanted).merge(first.collector)
        for other in others:
            first.merge(other)
        return first

    def _shared_pass(self, residuals_of: Callable[..., None], wanted: Wanted | None) -> _Sums:
        """The same with one gradient for all threads."""
        C, (n, d), dtype = self.n_classes, self.rows.shape, self.rows.dtype
        total = _Sums(C, d, dtype, wanted and Collector(wanted))
        step = max(1, SHARED_BYTES // max(self.rows.row_bytes, C * dtype.itemsize))
        R = np.empty((min(step, n), C), dtype)
        few = wanted and wanted.of_part(PARTS_A_THREAD * num_threads())
        for lo in range(0, n, step):
            hi = min(lo + step, n)
            parts: dict[int, _Sums] = {}
            least = total.collector.least if total.collector else 0.0

            def scores(
                first: int, last: int, lo: int = lo, parts: Any = parts, least: float = least
            ) -> None:
                mine = parts[first] = _Sums(C, 0, dtype, few and Collector(few, least))
                block = self.rows.block(lo + first, lo + last)
                residuals_of(mine, lo + first, lo + last, block, R[first:last])

            each_part(np.full(hi - lo, float(C * d)), scores)
            for _, part in sorted(parts.items()):  # in order: the same sums in every run
                total.merge(part, but="G")
            block = self.rows.block(lo, hi)

            def products(first: int, last: int, block: Any = block, rows: int = hi - lo) -> None:
                own = total.G[first:last]
                block.add_product(R[:rows, first:last], own, np.empty_like(total.scratch))

            each_part(np.full(C, float((hi - lo) * d)), products)
            self.rows.release()
        return total

    def _classes(self, sums: _Sums) -> ClassCurvature:
        if not len(sums.pp):
            return ClassDiagonal(sums.a)
        A = -sums.pp
        np.fill_diagonal(A, sums.a)  # Σ w p - Σ w p², without its cancellation
        return ClassMatrix(A)


def sq_norm(A: NDArray[Any]) -> float:
    """‖A‖² in float64."""
    return float(np.einsum("cd,cd->", A, A, dtype=np.float64))
