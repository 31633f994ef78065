"""The minimum of a multinomial problem between two proved bounds, written apart from slender.

    P(W, b) = Σ_i w_i (ln Σ_c exp s_ic - s_iy) + lam/2 ‖W‖²,   s_i = W x_i + b,   w_i = c_i/n

Coordinates.  Rows of weight 0 are dropped.  With an intercept the rows are shifted by (about) their
mean, which only moves b.  The optimal W lies in the span of the rows, W = A Vᵀ with V (d, r)
orthonormal: the right singular vectors of sqrt(w) X, so that the Hessian in A is graded, its small
directions unspoilt by the large ones, whatever the scales of columns and weights.

Upper bound.  P itself at the end of Newton's method (nasty_newton.py), in np.longdouble.

Lower bound.  For q_i in the simplex with Σ w_i (q_i - e_y) = 0 (where there is an intercept)

    D(q) = Σ w_i H(q_i) - ‖Σ w_i (q_i - e_y) x_iᵀ‖²/(2 lam)  <=  P*

q_i = p_i (1 + tau - p_iᵀtau), with the tau that meets the condition.  Where rounding leaves a rest
r = Σ w_i (q_i - e_y), D(q) + rᵀb is the bound, b being the best intercepts: |rᵀb| is charged at
twice the spread of those found, and a hundred.

Both are in the space of all d columns, so that neither asks if V was right; rounding of the sums is
charged by the usual bound, (terms) x (unit) x (sum of moduli).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from tests.nasty_newton import Loss, Softmax, deviations, softmax

EXTENDED = 4_000_000  # numbers of X up to which sums are extended; beyond it float64, and its unit
LOOSE = 1e-7  # (upper - lower)/upper above this is reported


class Bracket(NamedTuple):
    """lower <= P* <= upper."""

    lower: float
    upper: float

    @property
    def loose(self) -> bool:
        return not self.upper - self.lower <= LOOSE * self.upper


def both_rows(coef, intercept):
    """The softmax's rows of a model; those of a binary one are opposite, of least ‖W‖²."""
    W = np.asarray(coef, np.longdouble)
    b = np.asarray(intercept, np.longdouble) + np.zeros(len(W))
    if len(W) == 1:
        return np.vstack([-W / 2, W / 2]), np.concatenate([-b / 2, b / 2])
    return W, b


@dataclass
class Reference:
    """Rows, classes 0, 1, ... and weights; asked for objectives and brackets at any lam."""

    X: Any  # (n, d) float32
    y: Any  # (n,) int
    weight: Any  # (n,) or None
    intercept: bool = True

    def __post_init__(self) -> None:
        c = np.ones(len(self.y)) if self.weight is None else np.asarray(self.weight, np.float64)
        self.kept = np.flatnonzero(c > 0)
        self.y = np.asarray(self.y)[self.kept]
        self.n, self.C = len(self.kept), int(self.y.max()) + 1
        self.dtype = np.longdouble if np.size(self.X) <= EXTENDED else np.float64
        self.unit = float(np.finfo(self.dtype).eps)
        self.w = c[self.kept].astype(self.dtype) / self.n
        X = np.asarray(self.X)[self.kept].astype(self.dtype)
        self.mean = np.zeros(X.shape[1], self.dtype)
        if self.intercept:  # to float32, so that next to no difference is rounded
            self.mean = (self.w @ X / self.w.sum()).astype(np.float32).astype(self.dtype)
        self.X = X - self.mean
        self._V: Any = None
        self._last: Any = None
        self._known: dict[float, Bracket] = {}

    def lam(self, C: float) -> float:
        """lam of scikit-learn's C; with two classes the penalty is on W_1 - W_0."""
        return (2.0 if self.C == 2 else 1.0) / (self.n * C)

    # -- the objective ---------------------------------------------------------------------------

    def _centred(self, W, b):
        W = np.asarray(W, self.dtype)
        return W, np.asarray(b, self.dtype) + W @ self.mean

    def risk(self, W, b) -> float:
        """Σ w_i loss_i of a model of the raw rows."""
        W, b = self._centred(W, b)
        with np.errstate(all="ignore"):  # a model that is not finite has a risk that is not
            return float(self.w @ softmax(self.X @ W.T + b, self.y).loss)

    def objective(self, W, b, lam: float) -> float:
        W = np.asarray(W, self.dtype)
        return self.risk(W, b) + 0.5 * lam * float((W**2).sum())

    def score_rounding(self, W, b, unit: float) -> float:
        """What scores wrong by `unit` of their terms may add to the objective.

        Σ w_i 2 (1 - p_iy) unit (max_c ‖W_c‖ ‖x_i‖ + max_c |b_c|), on raw rows and intercepts.
        """
        W, centred = self._centred(W, b)
        with np.errstate(all="ignore"):
            E = softmax(self.X @ W.T + centred, self.y).E
            lengths = np.sqrt(((self.X + self.mean) ** 2).sum(axis=1))
            size = np.sqrt((W**2).sum(axis=1)).max() * lengths + np.abs(b).max()
            return float(self.w @ (np.abs(E).sum(axis=1) * size)) * unit

    # -- Newton ----------------------------------------------------------------------------------

    @property
    def V(self):
        """(d, r): an orthonormal basis of the rows' span, their main directions first."""
        if self._V is None:
            X = (np.sqrt(self.w)[:, None] * self.X).astype(np.float64)
            X /= np.abs(X).max() or 1.0  # tiny weights: squares must not underflow
            if X.shape[1] > X.shape[0]:
                Q, R = np.linalg.qr(X.T)
                self._V = Q @ np.linalg.svd(R)[0]
            else:
                self._V = np.linalg.svd(X, full_matrices=False)[2].T
        return self._V

    def _minimise(self, lam: float):
        """W (C, d) and b' (C,) at the minimum, sought from the last one or from W = 0."""
        Z = self.X @ self.V.astype(self.dtype)
        shares = np.log(np.bincount(self.y, self.w.astype(float), self.C))
        start = np.zeros((self.C, Z.shape[1]), self.dtype)
        if self.intercept:
            Z = np.column_stack([Z, np.ones(self.n)])
            start = np.column_stack([start, shares - shares.mean()])
        loss = Loss(Z, self.y, self.w, self.intercept)
        first = start if self._last is None else self._last
        self._last = theta = loss.minimise(lam, first, start)
        A, b = theta[:, : self.V.shape[1]], theta[:, self.V.shape[1] :].sum(axis=1)
        return A @ self.V.T.astype(self.dtype), b

    # -- the bracket -----------------------------------------------------------------------------

    def bracket(self, lam: float) -> Bracket:
        """Bounds of the minimum; found once for each lam."""
        if lam not in self._known:
            self._known[lam] = self._bracket(lam)
        return self._known[lam]

    def _bracket(self, lam: float) -> Bracket:
        W, b = self._minimise(lam)
        S = self.X @ W.T + b
        at = softmax(S, self.y)
        P = float(self.w @ at.loss + 0.5 * lam * (W**2).sum())
        size = np.abs(self.X) @ np.abs(W).T + np.abs(b)
        terms = W.shape[1] + self.C
        rounding = terms * self.unit * float(self.w @ (np.abs(at.E) * size).sum(axis=1) + P)
        return Bracket(max(self._dual(S, lam), 0.0), P + rounding)

    def _dual(self, S, lam: float) -> float:
        """D(q) for the feasible q near the softmax of S, less all that rounding may have added."""
        at, charge = softmax(S, self.y), 0.0
        epsilon = np.zeros_like(at.P)
        if self.intercept:
            tau = None
            for _ in range(50):  # Newton's steps of the intercepts alone, until a last small one
                tau = feasible(at, self.w)
                if not np.ptp(tau) > 1e-3:
                    break
                S = S + tau / max(1.0, float(np.ptp(tau)))
                at = softmax(S, self.y)
            if not np.ptp(tau) <= 0.5:
                return 0.0
            epsilon = deviations(at.P, np.tile(tau, (self.n, 1)), self.y)
        own = np.arange(self.n), self.y
        log_q = S - S[own][:, None] - at.loss[:, None] + np.log1p(epsilon)
        q = at.P * (1 + epsilon)
        E = q.copy()
        E[own] = 0.0
        E[own] = -E.sum(axis=1)
        q[own] = 1 + E[own]
        sure = np.maximum(E[own], -0.5)  # above it 1 + E has the digits, and log1p keeps them
        log_q[own] = np.where(E[own] > -0.5, np.log1p(sure), log_q[own])
        entropy = -(self.w @ (q * log_q).sum(axis=1))
        E *= self.w[:, None]
        if self.intercept:
            spread = float(np.ptp(S, axis=1).max())
            charge = float(np.abs(E.sum(axis=0)).sum()) * (2 * spread + 100)
            # the rest as it was summed, and as it may be
            charge += self.n * self.unit * float(np.abs(E).sum()) * (2 * spread + 100)
        G = np.abs(E.T @ self.X) + self.n * self.unit * (np.abs(E).T @ np.abs(self.X))
        entropy -= (self.n + self.C) * self.unit * abs(entropy)
        return float(entropy - (G**2).sum() / (2 * lam)) - charge


def feasible(at: Softmax, w):
    """tau with Σ w (q - e) = 0 for q = p (1 + tau - pᵀtau): A tau = -g, A = Σ w (diag p - p pᵀ).

    A is the Laplacian of a graph of classes, so that elimination needs no subtraction, and a light
    class loses no digits beside a heavy one; the heaviest comes last and keeps tau = 0.
    """
    L = at.P.T @ (w[:, None] * at.P)
    np.fill_diagonal(L, 0.0)
    order = np.argsort(L.sum(axis=1))
    L, g = L[np.ix_(order, order)], -(w[:, None] * at.E).sum(axis=0)[order]
    C = len(g)
    sums, tau = np.zeros_like(g), np.zeros_like(g)
    with np.errstate(all="ignore"):
        for k in range(C - 1):
            sums[k] = L[k, k + 1 :].sum()
            share = L[k + 1 :, k] / sums[k]
            g[k + 1 :] += share * g[k]
            L[k + 1 :, k + 1 :] += share[:, None] * L[k, k + 1 :]
            np.fill_diagonal(L, 0.0)
        for k in reversed(range(C - 1)):
            tau[k] = (g[k] + L[k, k + 1 :] @ tau[k + 1 :]) / sums[k]
    return tau[np.argsort(order)] - tau.mean()
