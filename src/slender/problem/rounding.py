"""What rounding may have done to the objective and the gradient of a pass: part of every bound.

A row's residual w (p - e_y) and loss are off by shares of themselves, since a score's error changes
p by a share of p: with r = w (1 - p_y), each entry of the residual is off by at most `share` of it,
the loss by `loss` times r.  Both are measured, not guessed: some rows go through the same softmax
again from scores made in float64, and the largest errors seen, times SAFETY, are taken.  (A score
of d products errs by sqrt(d) units in the last place where one product dwarfs the rest, by a fifth
of one on embeddings: the data decide.)

Errors of different rows are independent but for a mean that does not average out (`bias`: exp and
log lean one way), so that sums over rows are off by no more than

    objective   SIGMAS loss sqrt Σ r² + bias Σ r
    gradient    SIGMAS share sqrt Σ 2 r² ‖x‖² + (bias + SUMS eps) Σ r ‖x‖
    g_c         SIGMAS share sqrt(w_max Σ |R_c|) + bias Σ |R_c|                  R = w (p - e_y)

since ‖p - e_y‖² <= 2 (1 - p_y)².  In float64 there is nothing wider at hand: scores err by sqrt(d)
units (Higham and Mary 2019).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..passes.residuals import LOSS, N_SUMS, R_X, RR, RR_X, R, residuals
from .multinomial import Multinomial, Point

SAFETY = 2.0  # over the largest of many errors
SIGMAS = 3.0
SUMS = 0.5  # units in the last place, of what a product's sums over rows lose
SOFTMAX = 4.0  # the same, of exp, sums and quotients
PROBED, PROBE_BYTES = 64, 16 * 2**20  # rows looked at; fewer where they are very wide
CHUNK = 1024  # classes of W widened at a time
FIRST_ORDER = 0.1  # beyond such an error of the scores shares say nothing
NOTHING = 1e-6  # of a row's largest residual: entries below it are not looked at,
UNDERFLOWN = 1e-30  # nor are those that float32's exponential may have cut off


class Rounding(NamedTuple):
    """What to add to an objective, to the norm of a gradient, and to every class's g."""

    objective: float
    gradient: float
    g: NDArray[np.float64]  # (C,)


class Shares(NamedTuple):
    """How far a row's residual and loss are off."""

    share: float
    loss: float
    bias: float


def none(problem: Multinomial) -> Rounding:
    """The bounds of exact arithmetic."""
    return Rounding(0.0, 0.0, np.zeros(problem.n_classes))


def rounding(problem: Multinomial, point: Point) -> Rounding:
    """At a point of a pass."""
    W, b = problem.model(point.theta)
    if problem.rows.dtype == np.float64:
        return in_sums(problem, point, shares_of_float64(problem, W, b))
    b = b.astype(W.dtype)
    index = probed(problem)
    X = problem.rows.dense(index)
    wide = X.astype(np.float64)
    true = np.empty((len(index), len(W)))
    for lo in range(0, len(W), CHUNK):
        true[:, lo : lo + CHUNK] = wide @ W[lo : lo + CHUNK].astype(np.float64).T
    return in_sums(problem, point, measured(X @ W.T + b, true + b, problem.y[index]))


def in_sums(problem: Multinomial, point: Point, off: Shares) -> Rounding:
    """What these errors of single rows make of the sums of a pass."""
    s, dtype = point.sums, np.finfo(problem.rows.dtype)
    missed = np.maximum(point.g + 2.0 * point.own, 0.0)  # Σ |R_c|: only its own rows are negative
    lost = float(dtype.tiny) * float(problem.sizes.sum(dtype=np.float64))  # to underflow
    turned = SIGMAS * off.share * np.sqrt(2.0 * s[RR_X]) + (off.bias + SUMS * dtype.eps) * s[R_X]
    return Rounding(
        objective=float(SIGMAS * off.loss * np.sqrt(s[RR]) + off.bias * s[R]),
        gradient=float(turned + lost * np.sqrt(problem.n_classes)),
        g=SIGMAS * off.share * np.sqrt(problem.w.max() * missed) + off.bias * missed,
    )


def probed(problem: Multinomial) -> NDArray[np.intp]:
    """Some rows, and those that weigh most."""
    active = np.flatnonzero(problem.w)
    m = int(np.clip(PROBE_BYTES // (8 * problem.rows.shape[1]), 1, min(PROBED, len(active))))
    evenly = active[np.linspace(0, len(active) - 1, m).astype(np.intp)]
    heavy = np.argsort(problem.w[active] * problem.sizes[active])[-max(1, m // 4) :]
    return np.union1d(evenly, active[heavy])


def measured(scores: NDArray[Any], true: NDArray[np.float64], y: NDArray[np.int32]) -> Shares:
    """Of rows with these scores, which should be the others."""
    if not np.abs(scores - true).max() < FIRST_ORDER:
        return Shares(np.inf, np.inf, np.inf)
    got, loss = _softmax(scores, y)
    want, true_loss = _softmax(true, y)
    size = np.abs(want)
    seen = (size > NOTHING * size.max(axis=1, keepdims=True)) & (size > UNDERFLOWN)
    errors = np.divide(got - want, size, out=np.zeros_like(want), where=seen)
    own = size[np.arange(len(y)), y]
    off = np.divide(loss - true_loss, own, out=np.zeros(len(y)), where=own > UNDERFLOWN)
    leans = np.concatenate([off, errors[np.arange(len(y)), y]])
    bias = abs(float(leans.mean())) + 2.0 * float(leans.std()) / np.sqrt(len(leans))
    eps = float(np.finfo(scores.dtype).eps)
    share = SAFETY * max(float(np.abs(errors).max()), eps)
    return Shares(share, SAFETY * max(float(np.abs(off).max()), eps), max(bias, eps / 4))


def shares_of_float64(problem: Multinomial, W: NDArray[Any], b: NDArray[Any]) -> Shares:
    eps = float(np.finfo(np.float64).eps)
    longest = float(np.sqrt(np.einsum("cd,cd->c", W, W).max())) * float(problem.sizes.max())
    score = eps * (np.sqrt(W.shape[1]) * longest + float(np.abs(b).max()))
    if not score < FIRST_ORDER:
        return Shares(np.inf, np.inf, np.inf)
    return Shares(2.0 * score + SOFTMAX * eps, 2.0 * score + SOFTMAX * eps, SOFTMAX * eps)


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
