"""How far above its minimum a multinomial objective can be: an upper bound, proved.

Symbols as in multinomial.py; H(q) is the entropy of a distribution q over the classes.

Dual.  For any q_i in the simplex with Σ w_i (q_i - e_y) = 0 (the intercepts' condition), and
G(q) = Σ w_i (q_i - e_y) x_iᵀ,

    D(q) = Σ w_i H(q_i) - ‖G(q)‖²/(2 lam)  <=  P*                                  (weak duality)
    P(W, b) - D(q) = Σ w_i KL(q_i‖p_i) + ‖G(q) + lam W‖²/(2 lam)                             (1)

(1) is algebra: ln p_ic = s_ic - ln Σ exp s_i and the condition make b and the labels cancel.

A feasible q near p.  p itself misses the condition by g.  Take one tau (C,) for all rows and

    q_i = p_i (1 + eps_i),  eps_i = tau - p_iᵀtau,  tau = -A⁺ g,  A = Σ w_i (diag p_i - p_i p_iᵀ)

Then Σ_c q_ic = 1, q_i >= 0 if max tau - min tau <= 1, and Σ w_i (q_i - e_y) = g + A tau = 0.
With beta = gᵀA⁺g = Σ w_i Σ_c p_ic eps_ic²:

* KL: (1 + e) ln(1 + e) - e <= e², so the first term of (1) is at most beta.
* Put r_i = p_i eps_i.  Σ w_i r_i = -g, so G(q) = G - g x̄ᵀ + Σ w_i r_i (x_i - x̄)ᵀ.  As Σ_c r_ic = 0,
  |r_ic| <= ½ Σ|r_i|, hence ‖r_i‖² <= ½ (Σ_c p|eps|)² <= ½ Σ_c p eps², and by Cauchy and Schwarz the
  last sum has norm at most sigma sqrt(beta/2), sigma² >= the largest eigenvalue of
  Σ w_i (x_i - x̄)(x_i - x̄)ᵀ; its trace is one.

    P - P*  <=  beta + ( ‖G + lam W - g x̄ᵀ‖ + sigma sqrt(beta/2) )² / (2 lam)                 (2)

The norm in (2) is that of W's gradient in centred coordinates.  b <- b + tau is Newton's step for
the intercepts alone; after it beta is quadratically small.  Without intercepts there is no
condition: beta = 0.  (‖∇P‖²/(2 lam) alone is no bound when the intercepts are free.)

Also P* >= 0, so P itself is a bound, and the only one when lam = 0.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .multinomial import Multinomial, Point, sq_norm

NULL = 1e-10  # eigenvalues of A below this share of the largest: the constant vector, and rounding
MISSED = 1e-6  # of the intercepts' condition, at most
# Rounding in the gradient's norm, in units of the dtype times the rows' root mean square norm:
# against float64 it was at most 0.08 (embeddings and pixels, C from 1e-4 to 100).
ROUNDING = 0.25


class Certificate(NamedTuple):
    """A bound on P - P*, and the step of the intercepts that would tighten it."""

    gap: float
    tau: NDArray[np.float64]  # (C,)


def hopeful(point: Point) -> float:
    """The bound (2) if the intercepts were at their best: beta = 0.  No bound otherwise."""
    if point.lam == 0.0:
        return np.inf
    return sq_norm(point.gradient[:, :-1]) / (2.0 * point.lam)


def certify(problem: Multinomial, point: Point) -> Certificate:
    """The bound (2) at a point whose pass computed A."""
    tau, beta = nearest_feasible(problem, point)
    if point.lam == 0.0 or not np.isfinite(beta):
        return Certificate(point.objective, tau)
    norm = np.sqrt(sq_norm(point.gradient[:, :-1])) + rounding(problem)
    bound = beta + (norm + np.sqrt(problem.trace * beta / 2.0)) ** 2 / (2.0 * point.lam)
    return Certificate(min(float(bound), point.objective), tau)


def nearest_feasible(problem: Multinomial, point: Point) -> tuple[NDArray[np.float64], float]:
    """tau and beta; beta is infinite where this tau gives no feasible q, and 0 without intercepts.

    The condition may be missed by a share of what g misses it by, or by what is rounding of the
    arithmetic beside the weight of all rows, and far below it.
    """
    if not problem.intercept:
        return np.zeros(problem.n_classes), 0.0
    assert point.A is not None
    g = point.g - point.g.mean()
    tau = -newton_intercepts(point.A, g)
    missed = np.abs(g + point.A @ tau).max()  # where some class's curvature is below rounding
    eps = float(np.finfo(point.theta.dtype).eps)
    if np.ptp(tau) > 1.0 or missed > MISSED * max(np.abs(g).max(), eps * problem.total):
        return tau, np.inf
    return tau, max(0.0, float(-tau @ g))


def rounding(problem: Multinomial) -> float:
    """What rounding may add to the norm of a gradient."""
    return ROUNDING * float(np.finfo(problem.rows.dtype).eps) * float(np.sqrt(problem.squares))


def newton_intercepts(A: NDArray[np.float64], g: NDArray[np.float64]) -> NDArray[np.float64]:
    """A⁺ g, without a common shift of all classes, which changes nothing but digits.

    Each row's p - e sums to 0, and so do g and the rows of A; in float32 only nearly, and what is
    left would be divided by an eigenvalue that is rounding itself.
    """
    a, U = np.linalg.eigh(A)
    share = U.T @ (g - g.mean())
    kept = a > NULL * a[-1]
    step = U[:, kept] @ (share[kept] / a[kept])
    return np.asarray(step - step.mean())
