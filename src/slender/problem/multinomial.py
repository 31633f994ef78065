"""The multinomial objective and its gradient, in one pass over the rows.

    P(W, b) = Σ_i w_i ( ln Σ_c exp s_ic - s_iy ) + lam/2 ‖W‖²,    s_i = W x_i + b,   w_i = c_i/n

Coordinates.  theta = [W, b'] (C, d + 1) with b' = b + W x̄, the score of the mean row
x̄ = Σ w_i x_i / Σ w_i: as if the features were centred, without changing them.  The gradient in
these coordinates is [G + lam W - g x̄ᵀ, g] with, for p_i the softmax of s_i,

    G = Σ_i w_i (p_i - e_y) x_iᵀ  (C, d)         g = Σ_i w_i (p_i - e_y)  (C,)

In centred coordinates W and b' are nearly independent, which the curvature relies on.  Without an
intercept x̄ is 0 and so are b' and its gradient.

Rows are read by one pass (passes/softmax.py).  Weights are float64 for rows of any dtype, since
they may span many decades.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data import Examples, Sample
from ..metrics import measure
from ..passes import MomentsPass, SoftmaxPass, SoftmaxSums
from ..passes.doubts import Doubts, Wanted
from ..passes.residuals import LOSS
from ..rows import Rows
from .intercepts import DENSE, ClassCurvature, ClassDiagonal, ClassMatrix

TRACE_ROUNDING = 32.0  # error of sums of squares over a block's rows, in units in the last place


class Point(NamedTuple):
    """The objective at theta, and what the same pass computes besides."""

    theta: NDArray[Any]  # (C, d + 1)
    lam: float
    objective: float
    gradient: NDArray[Any]  # (C, d + 1), including the penalty
    g: NDArray[np.float64]  # (C,) gradient of the intercepts, summed in float64
    own: NDArray[np.float64]  # (C,) Σ w (1 - p_y) over the rows of each class
    sums: NDArray[np.float64]  # (N_SUMS,) as named in passes/residuals.py
    A: ClassCurvature | None  # Σ w_i (diag p_i - p_i p_iᵀ), if requested
    doubts: Doubts | None = None  # if requested

    def at_lam(self, lam: float) -> "Point":
        """The same theta with another penalty: needs no pass, since only the penalty changes."""
        W, change = self.theta[:, :-1], lam - self.lam
        gradient = self.gradient.copy()
        gradient[:, :-1] += W.dtype.type(change) * W
        objective = self.objective + 0.5 * change * sq_norm(W)
        return self._replace(lam=lam, objective=objective, gradient=gradient)


class Multinomial:
    """The problem of these examples, whose y are class indices and whose w are weights c_i / n."""

    def __init__(self, examples: Examples, n_classes: int, intercept: bool = True) -> None:
        self.examples, self.n_classes, self.intercept = examples, n_classes, intercept
        self._wide: Multinomial | None = None
        self.probes: NDArray[Any] | None = None  # the rows that rounding.py measures
        self._moments()

    @property
    def rows(self) -> Rows:
        return self.examples.rows

    @property
    def y(self) -> NDArray[np.int32]:
        return self.examples.y

    @property
    def w(self) -> NDArray[np.float64]:
        return self.examples.w

    @property
    def sizes(self) -> NDArray[Any]:
        """(n,) ‖x_i‖."""
        return self.examples.sizes

    @property
    def passes(self) -> float:
        """How often all rows were read; a pass without a gradient counts as half of one."""
        return self.examples.read.passes

    def _moments(self) -> None:
        """x̄ (d,), weights of the classes (C,), Σ w ‖x‖², and the trace of Σ w (x - x̄)(x - x̄)ᵀ."""
        rows = self.rows
        self.class_weight = np.bincount(self.y, self.w, self.n_classes)
        self.total = float(self.class_weight.sum())
        self.moments = self.examples.reduce(MomentsPass(self.total))
        self.squares = self.moments.squares  # NaN if X has one
        with np.errstate(over="ignore", invalid="ignore"):
            self.mean = self.moments.mean.astype(rows.dtype)
            if not self.intercept:
                self.mean[:] = 0.0
            mean_square = float(np.sum(self.mean.astype(np.float64) ** 2))
        # Far from zero this is a difference of large numbers: make it an upper bound on the trace.
        rounding = TRACE_ROUNDING * float(np.finfo(rows.dtype).eps) * self.squares
        self.trace = max(self.squares - self.total * mean_square, 0.0) + rounding

    def widened(self) -> "Multinomial":
        """The same problem in float64."""
        if self._wide is None:
            self._wide = Multinomial(self.examples.widened(), self.n_classes, self.intercept)
        return self._wide

    def lam_of(self, C: float) -> float:
        """lam for scikit-learn's C: 1/(n C), or twice that for two classes, which share one row w.

        The rows -w/2 and w/2 of the softmax together have half of the squared norm of w.
        """
        return (2.0 if self.n_classes == 2 else 1.0) / (float(np.count_nonzero(self.w)) * C)

    @property
    def longest(self) -> float:
        """An upper bound on ‖x_i‖ over the rows of positive weight."""
        return float(np.sqrt(self.squares / self.w[self.w > 0].min()))

    def start(self) -> NDArray[Any]:
        """theta at W = 0 with the best intercepts there, the log shares of the classes."""
        theta = np.zeros((self.n_classes, self.rows.shape[1] + 1), self.rows.dtype)
        if self.intercept:
            shares = np.log(self.class_weight / self.total)
            theta[:, -1] = shares - shares.mean()
        return theta

    def model(self, theta: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """(W, b) for raw features."""
        W = np.ascontiguousarray(theta[:, :-1])
        return W, theta[:, -1] - W @ self.mean

    def theta(self, W: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        """theta from (W, b), the inverse of `model`."""
        W = np.asarray(W, self.rows.dtype)
        centred = b + W @ self.mean if self.intercept else np.zeros(len(W))
        return np.column_stack([W, centred]).astype(self.rows.dtype)

    def sample(self, m: int, rng: np.random.Generator) -> Sample:
        """m random rows, centred, with weights that have the same sum as those of all rows."""
        X, y, w = self.examples.sample(m, rng)
        return Sample(X - self.mean, y, w.astype(self.rows.dtype))

    def separated(self, W: NDArray[Any], b: NDArray[Any]) -> bool:
        """Does every row of positive weight have the largest score for its own class?"""
        active = self.examples.subset(np.flatnonzero(self.w))
        return measure(active, W, b)["top1"] == 1.0

    def at(
        self,
        theta: NDArray[Any],
        lam: float,
        second: bool = False,
        wanted: Wanted | None = None,
    ) -> Point:
        """Objective and gradient at theta: one pass.

        `second` also requests A, or its diagonal with many classes; `wanted` requests doubts.
        """
        sums = self.examples.reduce(self._pass(theta, second, wanted))
        W = theta[:, :-1]
        gradient = np.zeros(theta.shape, theta.dtype)
        gradient[:, :-1] = sums.G
        gradient[:, :-1] += W.dtype.type(lam) * W
        if self.intercept:
            gradient[:, :-1] -= np.outer(sums.g.astype(self.mean.dtype), self.mean)
            gradient[:, -1] = sums.g
        objective = float(sums.sums[LOSS] + 0.5 * lam * sq_norm(W))
        A = self._classes(sums) if second else None
        at = theta, lam, objective, gradient, sums.g, sums.own, sums.sums
        return Point(*at, A, sums.doubts)

    def classes_at(self, theta: NDArray[Any]) -> tuple[NDArray[np.float64], ClassCurvature]:
        """g and A, or its diagonal: half a pass, since the product for the gradient is omitted."""
        sums = self.examples.reduce(self._pass(theta, second=True, gradient=False))
        return sums.g, self._classes(sums)

    def _pass(
        self,
        theta: NDArray[Any],
        second: bool,
        wanted: Wanted | None = None,
        gradient: bool = True,
    ) -> SoftmaxPass:
        W, b = self.model(theta)
        A: Any = "none"
        if second:
            A = "matrix" if self.n_classes <= DENSE else "diagonal"
        return SoftmaxPass(
            np.ascontiguousarray(W.T), b.astype(self.rows.dtype), A, wanted, gradient
        )

    def _classes(self, sums: SoftmaxSums) -> ClassCurvature:
        if not len(sums.pp):
            return ClassDiagonal(sums.a)
        A = -sums.pp
        np.fill_diagonal(A, sums.a)  # Σ w p - Σ w p², without cancellation
        return ClassMatrix(A)


def sq_norm(A: NDArray[Any]) -> float:
    """‖A‖² in float64."""
    return float(np.einsum("cd,cd->", A, A, dtype=np.float64))
