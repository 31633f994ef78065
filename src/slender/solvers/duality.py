"""The duality gap of the SVM, as a bound that includes rounding errors.

Symbols as in patterns.py; sums are in units of 1/lam.  W are the weights of the model, float32 if
its rows are, and β the dual coefficients, float64.  Weak duality holds for any pair of them,

    P(W) - P*  <=  P(W) - D(β),    P = ½ ‖W‖² + Σ U_i loss_i,    D = Σ β_i^{y_i} - ½ ‖Σ β_i x_iᵀ‖²

so W need not be Σ β x: it may have drifted, or been averaged or rounded.  It remains to compute
P(W) and D(β), with bounds on their rounding errors.  Let eps be the machine epsilon of a dtype.  A
sum of m products is off by at most eps sqrt(m) Σ|products|: twice the unit roundoff, times the
square root from the probabilistic analysis of Higham and Mary (2019); for m <= 4 this also covers
the worst case.

D.  β is first made feasible (`mend`): a coefficient that is beyond its bound because of rounding is
set to the bound, and that of the own class to minus the sum of the others.  V = Σ β x is computed
in float64, from the few coefficients that are not zero.  With a_c = Σ_i |β_ic| ‖x_i‖, row c of V is
off by at most e_c = eps sqrt(n) a_c, and D by at most

    r_D = ‖V‖ ‖e‖ + ½ ‖e‖² + eps sqrt(n) (Σ β_i^{y_i} + ½ ‖V‖²).

P.  A score computed in the dtype of the rows is off by at most

    δ_i = eps ( sqrt(d + 2) max_c ‖W_c‖ ‖x_i‖ + 1 ),

where the 1 is for rounding of the margin itself.  A margin, the difference of two scores, is off by
at most 2 δ_i.  So the class that attains the loss is among those within 4 δ_i of the smallest
margin.  float32 scores only select these classes, usually one; their scores are then computed again
in float64.  This gives a float64 loss at the cost of a float32 product.  With the δ_i of float64,

    r_P = Σ_i U_i 2 δ_i + eps sqrt(n) P,

where the sum is over the examples that may have a loss.  The gap is P + r_P - (D - r_D).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import kernel
from ..rows import Rows
from ..rows.kernel import axpy, dot
from .patterns import FAST, FREE, Patterns, largest, magnitudes, own_slots, primal_weights
from .svm_forms import Exact, Form, mend, survey_one

EPS = float(np.finfo(np.float64).eps)
HEADROOM = 16.0  # factor between the largest score and the largest number of the dtype


class Kept(NamedTuple):
    """Weights and intercepts of a model."""

    W: NDArray[Any]  # (C, d)
    c: NDArray[Any]  # (C,)


class Dual(NamedTuple):
    """A feasible point of the dual."""

    W: NDArray[np.float64]  # (C, d) Σ β x
    b: NDArray[np.float64]  # (C,) weights of the constant column
    value: float  # D - r_D

    def rounded(self, dtype: Any, bias: float, length: float = 1.0) -> Kept:
        """`length` times the weights, rounded to this dtype."""
        W = np.multiply(self.W, length, out=np.empty(self.W.shape, dtype), casting="same_kind")
        return Kept(W, (length * bias * self.b).astype(dtype))


class Primal(NamedTuple):
    """The objective at some weights, and the part of the gap that each example holds."""

    value: float  # P
    rounding: float  # r_P
    blur: float  # a smaller gap is lost in the rounding of scores in their dtype
    parts: NDArray[np.float64]  # (n,) of the gap at W / length, as accurate as the scores
    factor: float  # the best multiple of W


class SVMProblem(NamedTuple):
    """The examples and constants of the SVM's dual problem."""

    form: Form
    rows: Rows
    U: NDArray[np.float64]  # (n,) the bound of each example, c_i/(lam Σ c)
    sq: NDArray[np.float64]  # (n,) ‖[x_i, bias]‖²
    bias: float
    n_rows: int  # class rows of W
    lam: float = 1.0  # values and gaps are in units of 1/lam
    whole: bool = True  # False if rows of earlier calls are missing: then no gap is proved


def row_squares(rows: Rows) -> NDArray[np.float64]:
    """‖x_i‖² in float64."""
    out = np.empty(rows.shape[0])

    def work(lo: int, hi: int, block: Any) -> None:
        add_squares(block.kernel_rows(), np.arange(hi - lo), np.zeros(rows.shape[1]), out[lo:hi])

    rows.each_block(work)
    return out


@kernel(fastmath=FAST)
def add_squares(X, index, x, out):  # type: ignore[no-untyped-def]
    for j in range(len(index)):  # x is 0 before and after; axpy and dot work for every kind of rows
        axpy(X, 1.0, index[j], x)
        out[j] = dot(X, index[j], x)
        axpy(X, -1.0, index[j], x)


def dual_point(problem: SVMProblem, patterns: Patterns) -> Dual:
    """V and D - r_D; makes the patterns feasible."""
    rows, n_rows = problem.rows, problem.n_rows
    mend_all(problem.form, problem.U, patterns)
    W, b = primal_weights(rows, patterns, n_rows, problem.bias)
    linear, square = largest(patterns).sum(), squared_norms(W, b).sum()
    unit = EPS * np.sqrt(rows.shape[0])
    off = unit * float(np.linalg.norm(magnitudes(patterns, problem.sq, n_rows)))
    rounding = np.sqrt(square) * off + 0.5 * off**2 + unit * (linear + 0.5 * square)
    return Dual(W, b, float(linear - 0.5 * square - rounding))


def primal_point(problem: SVMProblem, patterns: Patterns, at: Kept, length: float = 1.0) -> Primal:
    """P and r_P at these weights, and the part of the gap that each example holds."""
    W, c = at
    form, rows, U, sq, bias = problem[:5]
    n, d = rows.shape
    wide, wide_c = W.astype(np.float64, copy=False), c.astype(np.float64)
    squares = squared_norms(W, wide_c / (bias or 1.0))  # without a constant column c is 0
    lengths = np.sqrt(squares.max() * sq)  # bounds on |scores|
    delta = EPS * (np.sqrt(d + 2) * lengths + 1.0)
    # scores are computed in the dtype of the weights, unless they might overflow
    dtype = W.dtype if lengths.max() < np.finfo(W.dtype).max / HEADROOM else np.dtype(np.float64)
    coarser = float(np.finfo(dtype).eps) / EPS
    WT = np.ascontiguousarray(W.T, dtype)
    margins, doubts, parts = np.zeros(n), np.zeros(n), np.zeros(n)

    def work(lo: int, hi: int, block: Any) -> None:
        S = np.empty((hi - lo, len(W)), dtype)
        block.product(WT, S)
        S += c
        exact = Exact(block.kernel_rows(), np.arange(hi - lo), wide, wide_c, delta, coarser)
        survey_block(form, lo, S, U, patterns, exact, length, margins, doubts, parts)

    rows.each_block(work, len(W) * dtype.itemsize)
    square = float(squares.sum())
    value = float(U @ np.maximum(0.0, 1.0 - margins)) + 0.5 * square
    rounding = float(U @ doubts + EPS * np.sqrt(n) * value)
    blur = coarser * EPS * lengths
    factor = best_factor(margins - blur, U, square)
    return Primal(value, rounding, 0.5 * float(U @ blur), parts, factor)


def best_factor(margins: NDArray[np.float64], U: NDArray[np.float64], square: float) -> float:
    """t that minimises ½ t² square + Σ U_i max(0, 1 - t margin_i).

    The function is a parabola between two neighbouring 1/margin_i.
    """
    ahead = (margins > 0.0) & (U > 0.0)
    with np.errstate(over="ignore"):
        ends = 1.0 / margins[ahead]
    order = np.argsort(ends)
    ends, pull = ends[order], (U[ahead] * margins[ahead])[order]
    # for each end, Σ U margin over the examples that have a loss just below it
    left = np.cumsum(pull[::-1])[::-1] + U[~ahead] @ margins[~ahead]
    if not len(ends) or square == 0.0:
        return 1.0
    k = min(int(np.searchsorted(ends * square - left, 0.0)), len(ends) - 1)
    t = min(left[k] / square, ends[k])
    return float(max(t, ends[k - 1]) if k > 0 else t)


def gap_between(primal: Primal, dual: float) -> float:
    """P + r_P minus a dual value, at least 0; infinite if a number overflowed."""
    gap = primal.value + primal.rounding - dual
    return max(0.0, gap) if np.isfinite(gap) else np.inf


def squared_norms(W: NDArray[Any], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """‖[W_c, b_c]‖² of every class row."""
    own = np.einsum("cd,cd->c", W, W, dtype=np.float64)
    return np.asarray(own + b**2)


@kernel()
def mend_all(form, U, patterns):  # type: ignore[no-untyped-def]
    for i in range(len(U)):
        mend(form, i, U[i], patterns)


@kernel(fastmath=FAST)
def survey_block(form, lo, S, U, patterns, exact, length, margins, doubts, parts):  # type: ignore[no-untyped-def]
    for j in range(len(S)):
        i = lo + j
        margins[i], doubts[i] = survey_one(form, i, j, S[j], exact)
        linear, inner = 0.0, 0.0  # β^y, or α, and βᵀ s
        for q in own_slots(patterns, i):
            beta, c = patterns.beta[q], patterns.classes[q]
            if c != FREE:
                linear, inner = max(linear, abs(beta)), inner + beta * S[j, c]
        loss = max(0.0, 1.0 - margins[i] / length)
        parts[i] = max(0.0, U[i] * loss - linear + inner / length)
