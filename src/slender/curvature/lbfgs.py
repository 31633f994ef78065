"""oLBFGS's metric: the last pairs of a stochastic L-BFGS (Schraudolph, Yu, Günter 2007).

x is the row with the constant coordinate beta of the intercept, w is the iterate with the
coefficient of that coordinate, mu is the damping.  At every visit, with the gradient
g = c_i y F'(z) x + lam w of one example:

    p = H g                                     two-loop recursion over at most m pairs (alg. 4);
                                                p = g if there are none yet
    s = -eta_t p,   w <- w + s
    y = g'(w) - g + mu s                        g' on the SAME example, at the new w
    H0 = mean over the pairs of sᵀy / yᵀy       (eq. 14)

Departures from the paper, which keep the weights finite on any data:
* eta_t is at most pᵀg / (c_i F''(0) (xᵀp)² + (lam + mu) ‖p‖²), the minimum along p of a parabola
  that lies above the objective of the example: a step cannot overshoot on its own example.  The
  hinge loss has no curvature, and 1 is used instead of F''(0): the loss alone then moves a margin
  by at most 1.
* an example whose slope did not change carries no information and gives no pair; nor does one with
  sᵀy <= SAFE ‖s‖ ‖y‖, which may be due to rounding.
* if p is not a finite descent direction, or the step would lead beyond FARTHEST, all pairs are
  deleted and nothing moves at this visit.
"""

from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from ..losses import MarginLoss, slope
from ..rows.kernel import KernelRows, axpy, dot
from .metric import At

SAFE = 1e-4  # cosine of s and y; rounding of float32 sums is a hundredth of it
FARTHEST = 1e30  # ‖w‖² + ‖s‖²: squares of float32 end at 3e38


@dataclass(frozen=True)
class LBFGS:
    """Settings."""

    memory: int  # m
    damping: float  # mu

    def start(
        self, n_classes: int, dim: int, dtype: Any, loss: MarginLoss, lam: float
    ) -> "PairRing":
        C, m, k = n_classes, self.memory, dim + 1
        return PairRing(
            S=np.zeros((C, m + 1, k), dtype),
            Y=np.zeros((C, m + 1, k), dtype),
            rho=np.zeros((C, m + 1)),
            gamma=np.zeros((C, m + 1)),
            held=np.zeros(C, np.int64),
            next=np.zeros(C, np.int64),
            G=np.zeros((C, k), dtype),
            P=np.zeros((C, k), dtype),
            alpha=np.zeros((C, m)),
            curvature0=float(loss.curvature(0.0) or 1.0),
            damping=float(self.damping),
        )


class PairRing(NamedTuple):
    """The pairs of each class, in a ring of m + 1 slots; one slot is free for the next pair."""

    S: NDArray[Any]  # (C, m + 1, d + 1)
    Y: NDArray[Any]  # (C, m + 1, d + 1)
    rho: NDArray[np.float64]  # (C, m + 1) 1 / sᵀy
    gamma: NDArray[np.float64]  # (C, m + 1) sᵀy / yᵀy
    held: NDArray[np.int64]  # (C,) pairs
    next: NDArray[np.int64]  # (C,) the free place
    G: NDArray[Any]  # (C, d + 1) g, of no use after the visit
    P: NDArray[Any]  # (C, d + 1) p, likewise
    alpha: NDArray[np.float64]  # (C, m) likewise
    curvature0: float  # F''(0)
    damping: float  # mu

    def move(
        self,
        at: At,
        loss: MarginLoss,
        X: KernelRows,
        v: NDArray[Any],
        scale: float,
        b: float,
    ) -> tuple[float, float]:
        c, d = at.c, len(v)
        g, p = self.G[c], self.P[c]
        ww = gradient(at, X, v, g)
        direction(self, c, g, p)
        gp, pp = along(g, p)
        if gp == 0.0:  # nothing to do: g is 0
            return scale, b
        xp = dot(X, at.row, p[:d]) + at.beta * p[d]
        bend = at.weight * self.curvature0 * xp**2 + (at.lam + self.damping) * pp
        if not (gp > 0.0 and bend < inf):  # NaN too
            self.held[c] = 0
            return scale, b
        eta = min(at.eta, gp / bend) if bend > 0.0 else at.eta
        if not ww + eta**2 * pp < FARTHEST:
            self.held[c] = 0
            return scale, b

        s = self.S[c, self.next[c]]
        a = v.dtype.type(-eta)
        for k in range(d):
            s[k] = a * p[k]
            v[k] += s[k]
        s[d] = a * p[d]
        b += at.beta * s[d]
        after = slope(loss, at.y * (dot(X, at.row, v) + b))
        if after != at.slope:
            remember(self, at, X, after)
        return scale, b


@register_jitable
def inner(a, b):  # type: ignore[no-untyped-def]
    total = a.dtype.type(0)
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@register_jitable
def along(g, p):  # type: ignore[no-untyped-def]
    """gᵀp and ‖p‖²."""
    gp, pp = p.dtype.type(0), p.dtype.type(0)
    for k in range(len(p)):
        gp += g[k] * p[k]
        pp += p[k] * p[k]
    return float(gp), float(pp)


@register_jitable
def gradient(at, X, v, g):  # type: ignore[no-untyped-def]
    """g = c_i y F'(z) x + lam w; returns ‖w‖² without the intercept."""
    d = len(v)
    lam, ww = v.dtype.type(at.lam), v.dtype.type(0)
    for k in range(d):
        g[k] = lam * v[k]
        ww += v[k] * v[k]
    pull = at.weight * at.y * at.slope
    axpy(X, pull, at.row, g[:d])
    g[d] = pull * at.beta
    return float(ww)


@register_jitable
def direction(pairs, c, g, p):  # type: ignore[no-untyped-def]
    """p = H g, algorithm 4 of Schraudolph et al. 2007."""
    n, places = pairs.held[c], pairs.rho.shape[1]
    for k in range(len(p)):
        p[k] = g[k]
    if n == 0:
        return
    gamma = 0.0
    q = pairs.next[c]
    for i in range(n):  # newest first
        q = q - 1 if q > 0 else places - 1
        alpha = pairs.rho[c, q] * inner(pairs.S[c, q], p)
        pairs.alpha[c, i] = alpha
        add(-alpha, pairs.Y[c, q], p)
        gamma += pairs.gamma[c, q]
    gamma = p.dtype.type(gamma / n)
    for k in range(len(p)):
        p[k] *= gamma
    for i in range(n - 1, -1, -1):  # oldest first
        beta = pairs.rho[c, q] * inner(pairs.Y[c, q], p)
        add(pairs.alpha[c, i] - beta, pairs.S[c, q], p)
        q = q + 1 if q < places - 1 else 0


@register_jitable
def add(a, x, p):  # type: ignore[no-untyped-def]
    a = p.dtype.type(a)
    for k in range(len(p)):
        p[k] += a * x[k]


@register_jitable
def remember(pairs, at, X, after):  # type: ignore[no-untyped-def]
    """Store the pair of this visit if it is safe to divide by its sᵀy."""
    c = at.c
    q = pairs.next[c]
    s, y = pairs.S[c, q], pairs.Y[c, q]
    d = len(s) - 1
    mu = s.dtype.type(at.lam + pairs.damping)
    for k in range(d):
        y[k] = mu * s[k]
    y[d] = pairs.damping * s[d]  # the intercept is not penalised
    change = at.weight * at.y * (after - at.slope)
    axpy(X, change, at.row, y[:d])
    y[d] += change * at.beta
    sy, ss = along(y, s)
    yy = float(inner(y, y))
    safe = yy > 0.0 and sy > SAFE * sqrt(ss) * sqrt(yy)
    if safe and sy / yy < inf and 1.0 / sy < inf:
        pairs.rho[c, q], pairs.gamma[c, q] = 1.0 / sy, sy / yy
        places = pairs.rho.shape[1]
        pairs.next[c] = q + 1 if q < places - 1 else 0
        pairs.held[c] = min(pairs.held[c] + 1, places - 1)
