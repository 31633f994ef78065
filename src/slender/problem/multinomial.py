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

from copy import copy as copy_of
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import (
    Array,
    astype,
    column_stack,
    contiguous,
    copy,
    dtype_of,
    like,
    namespace,
    set_diagonal,
    sq_norm,
    to_numpy,
    zeros,
)
from ..data import Examples, Sample
from ..metrics import measure
from ..passes import ClassSumsPass, MomentsPass, SoftmaxPass
from ..passes.doubts import Doubts, Wanted
from ..passes.residuals import LOSS, LSE
from ..rows import Block, Rows
from .intercepts import DENSE, ClassCurvature, ClassDiagonal, ClassMatrix

TRACE_ROUNDING = 32.0  # error of sums of squares over a block's rows, in units in the last place
LITTLE = 1e-4  # share of the variance of the rows that a fit may begin without
CHUNK = 1024  # classes of a gradient computed in float64 at a time


class Point(NamedTuple):
    """The objective at theta, and what the same pass computes besides."""

    theta: Array  # (C, d + 1)
    lam: float
    objective: float
    gradient: Array  # (C, d + 1), including the penalty
    g: Array  # (C,) gradient of the intercepts, summed in float64
    own: Array  # (C,) Σ w (1 - p_y) over the rows of each class
    sums: NDArray[np.float64]  # (N_SUMS,) as named in passes/residuals.py
    A: ClassCurvature | None  # Σ w_i (diag p_i - p_i p_iᵀ), if requested
    doubts: Doubts | None = None  # if requested
    summing: float = 0.0  # error of the sums in the gradient, relative to Σ r ‖x‖, on a device
    joining: float = 0.0  # error of ‖∇_W‖ from adding up its terms G, lam W and -g x̄ᵀ

    def at_lam(self, lam: float) -> "Point":
        """The same theta with another penalty: needs no pass, since only the penalty changes.

        The rounding of lam W at the old lam stays, which may be large beside the new lam W.
        """
        W, change = self.theta[:, :-1], lam - self.lam
        gradient = copy(self.gradient)
        gradient[:, :-1] += float(change) * W
        objective = self.objective + 0.5 * change * sq_norm(W)
        joining = self.joining + _joining(gradient, abs(change) * np.sqrt(sq_norm(W)))
        return self._replace(lam=lam, objective=objective, gradient=gradient, joining=joining)


class Multinomial:
    """The problem of these examples, whose y are class indices and whose w are weights c_i / n.

    Its arrays are where the rows are.  With `home` they are NumPy's wherever the rows are, for a
    solver whose algebra is too small to be worth a device.
    """

    def __init__(
        self, examples: Examples, n_classes: int, intercept: bool = True, home: bool = False
    ) -> None:
        self.examples, self.n_classes, self.intercept = examples, n_classes, intercept
        self.home = home
        self._wide: Multinomial | None = None
        self.probed: tuple[NDArray[np.intp], Block] | None = None  # rows that rounding.py measures
        self.bounds: tuple[Point, Any] | None = None  # and what it found last
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
    def sizes(self) -> Array:
        """(n,) ‖x_i‖, where the rows are."""
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
            mean = self.moments.mean.astype(rows.dtype)
            if not self.intercept:
                mean[:] = 0.0
            mean_square = float(np.sum(mean.astype(np.float64) ** 2))
        self.mean = mean if self.home else rows.placed(mean)
        # Far from zero this is a difference of large numbers: make it an upper bound on the trace.
        rounding = TRACE_ROUNDING * float(np.finfo(rows.dtype).eps) * self.squares
        self.trace = max(self.squares - self.total * mean_square, 0.0) + rounding

    def fine_enough(self) -> "Multinomial":
        """The same problem in an arithmetic that rounds the rows by little beside their spread.

        Rows far from zero lose what tells them apart if few digits are kept.
        """
        lost = self.rows.row_unit**2 * self.squares
        return self if lost <= LITTLE * self.trace else self.widened().fine_enough()

    @property
    def halved(self) -> bool:
        """Are rows multiplied in half precision, so that `widened` has more pieces of halves?"""
        rows = self.rows
        return bool(rows.dtype != np.float64 and rows.widened().dtype == rows.dtype)

    def widened(self) -> "Multinomial":
        """The same problem in the next finer arithmetic: float64, after halves in more pieces."""
        if self._wide is None and self.halved:  # the same numbers
            self._wide = copy_of(self)
            self._wide.examples = self.examples.widened()
            self._wide.probed = self._wide.bounds = None
        elif self._wide is None:
            settings = self.n_classes, self.intercept, self.home
            self._wide = Multinomial(self.examples.widened(), *settings)
        return self._wide

    def lam_of(self, C: float) -> float:
        """lam for scikit-learn's C: 1/(n C), or twice that for two classes, which share one row w.

        The rows -w/2 and w/2 of the softmax together have half of the squared norm of w.
        """
        return (2.0 if self.n_classes == 2 else 1.0) / (self.examples.n_active * C)

    @property
    def longest(self) -> float:
        """An upper bound on ‖x_i‖ over the rows of positive weight."""
        return float(np.sqrt(self.squares / self.w[self.w > 0].min()))

    def start(self) -> Array:
        """theta at W = 0 with the best intercepts there, the log shares of the classes."""
        theta = zeros((self.n_classes, self.rows.shape[1] + 1), self.mean, self.rows.dtype)
        if self.intercept:
            shares = np.log(self.class_weight / self.total)
            theta[:, -1] = like(shares - shares.mean(), theta, self.rows.dtype)
        return theta

    def model(self, theta: Array) -> tuple[Array, Array]:
        """(W, b) for raw features."""
        W = contiguous(theta[:, :-1])
        return W, theta[:, -1] - W @ self.mean

    def theta(self, W: Array, b: Array) -> Array:
        """theta from (W, b), the inverse of `model`."""
        W = like(W, self.mean, self.rows.dtype)
        centred = zeros((len(W),), W, self.rows.dtype)
        if self.intercept:
            centred = astype(like(b, W) + W @ self.mean, self.rows.dtype)
        return column_stack(W, centred)

    def sample(self, m: int, rng: np.random.Generator) -> Sample:
        """m random rows, centred, with weights that have the same sum as those of all rows."""
        X, y, w, row = self.examples.sample(m, rng)
        return Sample(X - self.mean, y, astype(w, self.rows.dtype), row)

    def separated(self, W: Array, b: Array) -> bool:
        """Does every row of positive weight have the largest score for its own class?"""
        active = self.examples.subset(self.examples.active)
        return measure(active, W, b)["top1"] == 1.0

    def at(
        self,
        theta: Array,
        lam: float,
        second: bool = False,
        wanted: Wanted | None = None,
    ) -> Point:
        """Objective and gradient at theta: one pass.

        `second` also requests A, or its diagonal with many classes; `wanted` requests doubts.
        Rows in half precision are multiplied by weights in half precision: then the point has the
        rounded theta.
        """
        self.bounds = None  # the arrays of the last point would take memory meanwhile
        theta = self.rows.rounded(theta)
        sums = self.examples.reduce(self._pass(theta, second, wanted))
        W = theta[:, :-1]
        gradient = zeros(theta.shape, theta, self.rows.dtype)
        gradient[:, :-1] = sums.G
        gradient[:, :-1] += float(lam) * W
        if self.intercept:
            g = astype(sums.g, self.rows.dtype)
            gradient[:, :-1] -= g[:, None] * self.mean
            gradient[:, -1] = g
        figures = to_numpy(sums.sums)
        square = sq_norm(W)
        objective = float(figures[LOSS] + 0.5 * lam * square)
        A = _classes(sums.a, sums.pp) if second else None
        at = theta, lam, objective, gradient, sums.g, sums.own, figures
        joining = _joining(gradient, lam * np.sqrt(square), self._shift(sums.g))
        return Point(*at, A, sums.doubts, sums.summing, joining)

    def at_zero(self, theta: Array, lam: float, second: bool = False) -> Point:
        """`at` for a theta with W = 0: one reading of the rows, without a product."""
        p, doubt, loss, b = _of_intercepts(theta[:, -1])
        weight, total = self.class_weight, self.total
        sums = self.examples.reduce(ClassSumsPass(like(doubt, theta, np.float64)))
        figures = to_numpy(sums.sums)
        figures[LOSS], figures[LSE] = weight @ loss, weight @ (loss + b)

        def there(values: NDArray[np.float64]) -> Array:
            return like(values, theta, np.float64)

        M, p_there, g = sums.M, there(p), there(total * p - weight)
        everything = M.sum(0)
        gradient = zeros(theta.shape, theta, self.rows.dtype)
        for lo in range(0, self.n_classes, CHUNK):
            some = slice(lo, lo + CHUNK)
            G = p_there[some, None] * everything - M[some]
            if self.intercept:
                G -= g[some, None] * astype(self.mean, np.float64)
            gradient[some, :-1] = astype(G, self.rows.dtype)
        if self.intercept:
            gradient[:, -1] = astype(g, self.rows.dtype)
        A = None
        if second:
            dense = self.n_classes <= DENSE
            pp = total * np.outer(p, p) if dense else np.empty((0, 0))
            A = _classes(there(total * p * doubt), there(pp))
        at = theta, lam, float(figures[LOSS]), gradient, g, there(weight * doubt), figures
        return Point(*at, A, joining=_joining(gradient, self._shift(g)))

    def _shift(self, g: Array) -> float:
        """‖g x̄ᵀ‖, which centring subtracts from the gradient."""
        return float(np.sqrt(sq_norm(g[:, None]) * sq_norm(self.mean[:, None])))

    def class_means(self, point: Point) -> Array:
        """(C, d) the means of the rows of each class, centred, from a point with W = 0.

        All rows have the same p there, so that G = p Σ w_i x_iᵀ - Σ w_i e_y x_iᵀ.
        """
        p = namespace(point.theta).exp(point.theta[:, -1:])
        total = zeros((self.rows.shape[1],), point.theta, self.rows.dtype)  # of centred rows
        if not self.intercept:
            total = like(self.total * self.moments.mean, total, self.rows.dtype)
        sums = (p / p.sum()) * total - point.gradient[:, :-1]
        tiny = float(np.finfo(np.float32).tiny)
        weight = like(np.maximum(self.class_weight, tiny), sums, self.rows.dtype)
        return sums / weight[:, None]

    def classes_at(self, theta: Array) -> tuple[Array, ClassCurvature]:
        """g and A, or its diagonal: half a pass, since the product for the gradient is omitted."""
        theta = self.rows.rounded(theta)
        sums = self.examples.reduce(self._pass(theta, second=True, gradient=False))
        return sums.g, _classes(sums.a, sums.pp)

    def _pass(
        self,
        theta: Array,
        second: bool,
        wanted: Wanted | None = None,
        gradient: bool = True,
    ) -> SoftmaxPass:
        W, b = self.model(theta)
        A: Any = "none"
        if second:
            A = "matrix" if self.n_classes <= DENSE else "diagonal"
        return SoftmaxPass(contiguous(W.T), astype(b, self.rows.dtype), A, wanted, gradient)


def _joining(gradient: Array, *terms: float) -> float:
    """A bound on the rounding errors of terms with these norms that were added to a gradient.

    Half a unit in the last place for each factor of a term, for their product, which may underflow,
    and for each sum.
    """
    W_part = gradient[:, :-1]
    info = np.finfo(dtype_of(gradient))
    size = len(terms) * np.sqrt(sq_norm(W_part)) + 4.0 * sum(terms)
    return float(0.5 * info.eps * size + info.tiny * np.sqrt(float(np.prod(W_part.shape))))


def _classes(a: Array, pp: Array) -> ClassCurvature:
    """A from Σ w p (1 - p) and Σ w p pᵀ, or its diagonal if the latter was not computed."""
    if not len(pp):
        return ClassDiagonal(a)
    A = -pp
    set_diagonal(A, a)  # Σ w p - Σ w p², without cancellation
    return ClassMatrix(A)


def _of_intercepts(there: Array) -> tuple[NDArray[np.float64], ...]:
    """p, 1 - p and -ln p of the softmax of b, and b, in float64 on this machine.

    Only the largest p can be close to 1: there 1 - p is the sum of the others.
    """
    b = to_numpy(there).astype(np.float64)
    top = int(np.argmax(b))
    e = np.exp(b - b[top])
    others = np.delete(e, top).sum()
    p = e / (1.0 + others)
    doubt = 1.0 - p
    doubt[top] = others / (1.0 + others)
    return p, doubt, np.log1p(others) - (b - b[top]), b
