"""Bounds on the rounding errors of the objective and the gradient of a pass: part of every proof.

The errors of a row's residual w (p - e_y) and loss are relative, since an error of a score changes
p in proportion to p: with r = w (1 - p_y), each entry of the residual is off by at most `share`
times the entry, and the loss by `loss` times r.  Both are measured, not guessed: for some rows the
same softmax is computed again from float64 scores, and the largest errors, times SAFETY, are used.
(A score of d products is off by sqrt(d) units in the last place if one product is much larger than
the others, and by a fifth of a unit on embeddings: it depends on the data.)

Errors of different rows are independent except for a mean that does not average out (`bias`: the
errors of exp and log favour one sign), so that sums over rows are off by at most

    objective   SIGMAS loss sqrt Σ r² + bias Σ r
    gradient    SIGMAS share sqrt Σ 2 r² ‖x‖² + (bias + SUMS eps) Σ r ‖x‖ + joining
    g_c         SIGMAS share sqrt(w_max Σ |R_c|) + bias Σ |R_c|                  R = w (p - e_y)

since ‖p - e_y‖² <= 2 (1 - p_y)².  `joining` is due to the addition of lam W and -g x̄ᵀ to G, and
matters where rows are won and lam W is nearly all of the gradient.  float64 errors cannot be
measured with a wider dtype: scores are taken to be off by sqrt(d) units (Higham and Mary 2019).

On a device.  Products of halves (rows/arithmetic.py) are exact for the weights of the point, which
are rounded before the pass.  Their residuals are rounded once more before they multiply the rows:
an entry R is off by at most `unit` |R| + `underflow` w_max.  The first part is one more relative
error of independent entries; the second is at most underflow w_max sqrt(C) Σ ‖x_i‖ in the gradient.
g adds up the residuals before they are rounded, in float64.

Rows of float32 that are written as halves lose numbers that are tiny beside the largest of their
block: each number is off by `of_rows` max ‖x‖, a score by sqrt(d) ‖w_c‖ times that, and the
gradient by sqrt(2 d) Σ r times that.  What else they lose is measured with the scores and the sums.

A device adds tens of thousands of rows in one product, some by cutting digits off rather than by
rounding: the pass has measured the error of such sums, relative to Σ r ‖x‖ (device/summing.py).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import (
    Array,
    astype,
    dtype_of,
    is_numpy,
    like,
    namespace,
    row_dots,
    to_numpy,
    zeros,
)
from ..passes.residuals import LOSS, N_SUMS, R_X, RR, RR_X, R, residuals
from .multinomial import Multinomial, Point

SAFETY = 2.0  # factor for the largest of many errors
SIGMAS = 3.0
SUMS = 0.5  # error of a product's sums over rows, in units in the last place
SOFTMAX = 4.0  # the same for exp, sums and quotients
PROBED, PROBE_BYTES = 64, 16 * 2**20  # rows measured; fewer if they are very wide
CHUNK = 1024  # classes of W widened at a time
FIRST_ORDER = 0.1  # with a larger error of the scores, relative errors say nothing
NOTHING = 1e-6  # share of the largest residual of a row: smaller entries are not measured,
UNDERFLOWN = 1e-30  # nor are those that the exponential in float32 may have cut off


class Rounding(NamedTuple):
    """Bounds on the errors of an objective, of the norm of a gradient, and of each class's g."""

    objective: float
    gradient: float
    g: NDArray[np.float64]  # (C,)


class Shares(NamedTuple):
    """Relative errors of the residual and the loss of a row, as defined above."""

    share: float
    loss: float
    bias: float


def none(problem: Multinomial) -> Rounding:
    """The bounds of exact arithmetic: zero."""
    return Rounding(0.0, 0.0, np.zeros(problem.n_classes))


def rounding(problem: Multinomial, point: Point) -> Rounding:
    """The bounds at a point; kept, since a point is asked about several times."""
    if problem.bounds is None or problem.bounds[0] is not point:
        problem.bounds = point, _rounding(problem, point)
    return problem.bounds[1]


def _rounding(problem: Multinomial, point: Point) -> Rounding:
    W, b = problem.model(point.theta)
    if problem.rows.dtype == np.float64:
        off = shares_of_float64(problem, W, b)
        if not np.isfinite(off.loss):
            return _of_scores(problem, point, _score_error(problem, W, b))
        return in_sums(problem, point, off)
    if problem.probed is None:
        index = probed(problem)
        problem.probed = index, problem.rows.gather(index)
    index, block = problem.probed
    wide, b = astype(block.toarray(), np.float64), astype(b, problem.rows.dtype)
    true = zeros((len(index), len(W)), W, np.float64)
    for lo in range(0, len(W), CHUNK):
        true[:, lo : lo + CHUNK] = wide @ astype(W[lo : lo + CHUNK], np.float64).T
    true += b
    off = measured(block.scores(W.T) + b, true, problem.y[index])
    lost = 2.0 * _of_rows(problem) * float(np.sqrt(float(row_dots(W, W).max())))
    return in_sums(problem, point, Shares(off.share + lost, off.loss + lost, off.bias + lost))


def _of_rows(problem: Multinomial) -> float:
    """A bound on the norm of what a row loses where its numbers are tiny beside others."""
    d = problem.rows.shape[1]
    return float(problem.rows.product_error().of_rows * problem.moments.longest * np.sqrt(d))


def in_sums(problem: Multinomial, point: Point, off: Shares) -> Rounding:
    """Bounds on the errors of the sums of a pass, from those of single rows."""
    s, dtype = point.sums, np.finfo(problem.rows.dtype)
    # Σ |R_c|: R_c < 0 only in rows of class c
    missed = np.maximum(to_numpy(point.g) + 2.0 * to_numpy(point.own), 0.0)
    lost = float(dtype.tiny) * problem.moments.reach  # to underflow
    product, heaviest = problem.rows.product_error(), float(problem.w.max())
    turned = SIGMAS * (off.share + product.unit) * np.sqrt(2.0 * s[RR_X])
    turned += (off.bias + SUMS * dtype.eps + point.summing) * s[R_X] + point.joining
    lost += product.underflow * heaviest * problem.moments.reach
    turned += np.sqrt(2.0) * _of_rows(problem) * s[R]
    return Rounding(
        objective=float(SIGMAS * off.loss * np.sqrt(s[RR]) + off.bias * s[R]),
        gradient=float(turned + lost * np.sqrt(problem.n_classes)),
        g=SIGMAS * off.share * np.sqrt(heaviest * missed) + off.bias * missed,
    )


def probed(problem: Multinomial) -> NDArray[np.intp]:
    """The rows to measure: some at regular intervals, and those with the largest w ‖x‖."""
    active = problem.examples.active
    m = int(np.clip(PROBE_BYTES // (8 * problem.rows.shape[1]), 1, min(PROBED, len(active))))
    evenly = active[np.linspace(0, len(active) - 1, m).astype(np.intp)]
    heavy = problem.moments.heavy[-max(1, m // 4) :]
    return np.union1d(evenly, heavy[problem.w[heavy] > 0])


def measured(scores: Array, true: Array, y: NDArray[np.int32]) -> Shares:
    """Errors of the rows with these scores, whose true scores are `true`."""
    xp, true = namespace(scores), like(true, scores, np.float64)
    if not float(abs(scores - true).max()) < FIRST_ORDER:
        return Shares(np.inf, np.inf, np.inf)
    softmax = _softmax if is_numpy(scores) else _softmax_there
    (got, loss), (want, true_loss) = softmax(scores, y), softmax(true, y)
    size = abs(want)
    seen = (size > NOTHING * xp.max(size, axis=1, keepdims=True)) & (size > UNDERFLOWN)
    errors = xp.where(seen, (got - want) / xp.where(seen, size, 1.0), 0.0)
    rows, y = like(np.arange(len(y)), scores), like(y, scores, np.int64)
    own = size[rows, y]
    known = own > UNDERFLOWN
    off = xp.where(known, (loss - true_loss) / xp.where(known, own, 1.0), 0.0)
    leans = xp.concat([off, errors[rows, y]])
    found = xp.stack(
        [abs(errors).max(), abs(off).max(), leans.mean(), ((leans - leans.mean()) ** 2).mean()]
    )
    largest, of_loss, mean, variance = to_numpy(found).tolist()
    bias = abs(mean) + 2.0 * np.sqrt(variance / len(leans))
    eps = float(np.finfo(dtype_of(scores)).eps)
    share, loss = SAFETY * max(largest, eps), SAFETY * max(of_loss, eps)
    return Shares(share, loss, max(bias, eps / 4))


def shares_of_float64(problem: Multinomial, W: Array, b: Array) -> Shares:
    eps, score = float(np.finfo(np.float64).eps), _score_error(problem, W, b)
    if not score < FIRST_ORDER:
        return Shares(np.inf, np.inf, np.inf)
    return Shares(2.0 * score + SOFTMAX * eps, 2.0 * score + SOFTMAX * eps, SOFTMAX * eps)


def _score_error(problem: Multinomial, W: Array, b: Array) -> float:
    """By how much a score in float64 may be off."""
    longest = float(np.sqrt(float(row_dots(W, W).max()))) * problem.moments.longest
    size = np.sqrt(W.shape[1]) * longest + float(abs(b).max())
    return float(np.finfo(np.float64).eps * size)


def _of_scores(problem: Multinomial, point: Point, score: float) -> Rounding:
    """If scores are off by more than first order allows: only the objective is known.

    A loss changes by at most twice the largest change of a score.
    """
    nothing = np.full(problem.n_classes, np.inf)
    sums = SOFTMAX * float(np.finfo(np.float64).eps) * point.objective
    return Rounding(2.0 * score * problem.total + sums, np.inf, nothing)


def _softmax(
    scores: NDArray[Any], y: NDArray[np.int32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Residuals p - e_y and losses, by the kernel of a pass."""
    S, losses = scores.copy(), np.zeros(len(y))
    one, b = np.ones(1), np.zeros(S.shape[1], S.dtype)
    g, own = np.zeros(S.shape[1]), np.zeros(S.shape[1])
    for i in range(len(y)):
        sums = np.zeros(N_SUMS)
        residuals(S[i : i + 1], b, one, y[i : i + 1], one, g, own, sums)
        losses[i] = sums[LOSS]
    return S.astype(np.float64), losses


def _softmax_there(scores: Array, y: NDArray[np.int32]) -> tuple[Array, Array]:
    """The same by the kernel of a device; of scores in float64 by its twin."""
    from ..device.softmax import softmax_residuals  # noqa: PLC0415  (needs torch)

    S = scores.clone()
    b, w = S.new_zeros(S.shape[1]), S.new_ones(len(y))
    loss, *_ = softmax_residuals(S, b, like(y, S, np.int64), w)
    return astype(S, np.float64), astype(loss, np.float64)
