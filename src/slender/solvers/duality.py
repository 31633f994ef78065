"""The SVM's duality gap, proved in spite of rounding.

Symbols as in patterns.py; sums are in units of 1/lam.  W are the weights the model keeps, float32
if its rows are, and β the dual coefficients, float64.  Weak duality holds for any pair of them,

    P(W) - P*  <=  P(W) - D(β),    P = ½ ‖W‖² + Σ U_i loss_i,    D = Σ β_i^{y_i} - ½ ‖Σ β_i x_iᵀ‖²

so that W need not be Σ β x, and a W that drifted from it, was averaged or rounded counts as it is.
What is left is to compute both sides of the right pair.  Here eps is a dtype's, and a sum of m
products is off by at most eps sqrt(m) Σ|products|: twice the unit roundoff times the square root of
Higham and Mary's probabilistic analysis (2019), and for m <= 4 the worst case.

D.  β is first made feasible: a coefficient that rounding left beyond its bound is put on it, and
that of the own class is set to what the others add up to (`mend`).  V = Σ β x is added up anew, in
float64, from the few coefficients there are.  With a_c = Σ_i |β_ic| ‖x_i‖ it is off by at most
e_c = eps sqrt(n) a_c in the c-th row, and D by at most

    r_D = ‖V‖ ‖e‖ + ½ ‖e‖² + eps sqrt(n) (Σ β_i^{y_i} + ½ ‖V‖²).

P.  A score of the dtype of the rows is off by at most

    δ_i = eps ( sqrt(d + 2) max_c ‖W_c‖ ‖x_i‖ + 1 ),

the 1 for the margin's own, and a margin, the difference of two, by 2 δ_i.  So the class that
attains the loss is among those within 4 δ_i of the least margin.  Scores of float32 only say which
classes these are, mostly one, and those few are computed again in float64: a loss of float64 at the
price of a product in float32.  With the δ_i of float64,

    r_P = Σ_i U_i 2 δ_i + eps sqrt(n) P,

the sum over those examples alone that may have a loss at all.  The gap is P + r_P - (D - r_D).
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
HEADROOM = 16.0  # between a score and the largest number


class Kept(NamedTuple):
    """Weights and intercepts as a model keeps them."""

    W: NDArray[Any]  # (C, d)
    c: NDArray[Any]  # (C,)


class Dual(NamedTuple):
    """A feasible point of the dual."""

    W: NDArray[np.float64]  # (C, d) Σ β x
    b: NDArray[np.float64]  # (C,) weights of the constant column
    value: float  # D - r_D

    def rounded(self, dtype: Any, bias: float, length: float = 1.0) -> Kept:
        """`length` times the weights as numbers of this dtype."""
        W = np.multiply(self.W, length, out=np.empty(self.W.shape, dtype), casting="same_kind")
        return Kept(W, (length * bias * self.b).astype(dtype))


class Primal(NamedTuple):
    """The objective at some weights, and what each example has to do with the gap."""

    value: float  # P
    rounding: float  # r_P
    blur: float  # what the scores' own dtype hides: the gap of which a kernel can see nothing
    parts: NDArray[np.float64]  # (n,) of the gap at W / length, to the digits of the scores
    factor: float  # times this W would be better


class SVMProblem(NamedTuple):
    """Examples as the SVM's dual solvers see them."""

    form: Form
    rows: Rows
    U: NDArray[np.float64]  # (n,) the bound of each example, c_i/(lam Σ c)
    sq: NDArray[np.float64]  # (n,) ‖[x_i, bias]‖²
    bias: float
    n_rows: int  # class rows of W
    lam: float = 1.0  # values and gaps are in units of 1/lam
    whole: bool = True  # are these all the rows there were?  Else no gap is a proof.


def row_squares(rows: Rows) -> NDArray[np.float64]:
    """‖x_i‖² in float64."""
    out = np.empty(rows.shape[0])

    def work(lo: int, hi: int, block: Any) -> None:
        add_squares(block.kernel_rows(), np.arange(hi - lo), np.zeros(rows.shape[1]), out[lo:hi])

    rows.each_block(work)
    return out


@kernel(fastmath=FAST)
def add_squares(X, index, x, out):  # type: ignore[no-untyped-def]
    for j in range(len(index)):  # x is 0 before and after: verbs alone, so that any rows will do
        axpy(X, 1.0, index[j], x)
        out[j] = dot(X, index[j], x)
        axpy(X, -1.0, index[j], x)


def dual_point(problem: SVMProblem, patterns: Patterns) -> Dual:
    """V and D - r_D; the patterns are mended."""
    rows, n_rows = problem.rows, problem.n_rows
    mend_all(problem.form, problem.U, patterns)
    W, b = primal_weights(rows, patterns, n_rows, problem.bias)
    linear, square = largest(patterns).sum(), squared_norms(W, b).sum()
    unit = EPS * np.sqrt(rows.shape[0])
    off = unit * float(np.linalg.norm(magnitudes(patterns, problem.sq, n_rows)))
    rounding = np.sqrt(square) * off + 0.5 * off**2 + unit * (linear + 0.5 * square)
    return Dual(W, b, float(linear - 0.5 * square - rounding))


def primal_point(problem: SVMProblem, patterns: Patterns, at: Kept, length: float = 1.0) -> Primal:
    """P and r_P at these weights; every example's part of the gap."""
    W, c = at
    form, rows, U, sq, bias = problem[:5]
    n, d = rows.shape
    wide, wide_c = W.astype(np.float64, copy=False), c.astype(np.float64)
    squares = squared_norms(W, wide_c / (bias or 1.0))  # without a constant column c is 0
    lengths = np.sqrt(squares.max() * sq)  # at least |scores|
    delta = EPS * (np.sqrt(d + 2) * lengths + 1.0)
    # in the dtype of the weights, if that can hold them
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
    """t that minimises ½ t² square + Σ U_i max(0, 1 - t margin_i), parabolas between 1/margins."""
    ahead = (margins > 0.0) & (U > 0.0)
    with np.errstate(over="ignore"):
        ends = 1.0 / margins[ahead]
    order = np.argsort(ends)
    ends, pull = ends[order], (U[ahead] * margins[ahead])[order]
    # the sum of U margin over the examples that still have a loss below each end
    left = np.cumsum(pull[::-1])[::-1] + U[~ahead] @ margins[~ahead]
    if not len(ends) or square == 0.0:
        return 1.0
    k = min(int(np.searchsorted(ends * square - left, 0.0)), len(ends) - 1)
    t = min(left[k] / square, ends[k])
    return float(max(t, ends[k - 1]) if k > 0 else t)


def gap_between(primal: Primal, dual: float) -> float:
    """P + r_P less a dual value, never below 0; infinite where a number overflowed."""
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
