"""A proved upper bound on how far a multinomial objective is above its minimum.

Symbols as in multinomial.py; H(q) is the entropy of a distribution q over the classes.

Dual.  For any q_i in the simplex with Σ w_i (q_i - e_y) = 0 (the intercepts' condition), and
G(q) = Σ w_i (q_i - e_y) x_iᵀ,

    D(q) = Σ w_i H(q_i) - ‖G(q)‖²/(2 lam)  <=  P*                                  (weak duality)
    P(W, b) - D(q) = Σ w_i KL(q_i‖p_i) + ‖G(q) + lam W‖²/(2 lam)                             (1)

(1) is algebra: ln p_ic = s_ic - ln Σ exp s_i and the condition make b and the labels cancel.

A feasible q near p.  p itself violates the condition by g.  Take one tau (C,) for all rows and

    q_i = p_i (1 + eps_i),  eps_i = tau - p_iᵀtau,  tau = -A⁺ g,  A = Σ w_i (diag p_i - p_i p_iᵀ)

Then Σ_c q_ic = 1, q_i >= 0 if max tau - min tau <= 1, and Σ w_i (q_i - e_y) = g + A tau = 0.
With beta = gᵀA⁺g = Σ w_i Σ_c p_ic eps_ic²:

* KL: (1 + e) ln(1 + e) - e <= e², so the first term of (1) is at most beta.
* Put r_i = p_i eps_i.  Σ w_i r_i = -g, so G(q) = G - g x̄ᵀ + Σ w_i r_i (x_i - x̄)ᵀ.  As Σ_c r_ic = 0,
  |r_ic| <= ½ Σ|r_i|, hence ‖r_i‖² <= ½ (Σ_c p|eps|)² <= ½ Σ_c p eps², and by Cauchy and Schwarz the
  last sum has norm at most sigma sqrt(beta/2), where sigma² is at least the largest eigenvalue of
  Σ w_i (x_i - x̄)(x_i - x̄)ᵀ, for instance its trace.

    P - P*  <=  beta + ( ‖G + lam W - g x̄ᵀ‖ + sigma sqrt(beta/2) )² / (2 lam)                 (2)

The norm in (2) is that of the gradient in W, in centred coordinates.  b <- b + tau is Newton's step
for the intercepts alone; after it beta is quadratically small.  Without intercepts there is no
condition: beta = 0.  (‖∇P‖²/(2 lam) alone is not a bound if the intercepts are free.)

Inexact tau, and many classes.  If tau solves A tau = -g only nearly, or if A is too large to form
(intercepts.py) and tau = 0, the condition is violated by a residual r = g + A tau, Σ_c r_c = 0.
Mix the q above, now q', with one distribution s for all rows:  q_i = (1 - alpha) q'_i + alpha s,

    rho = max_c max(r_c, 0) / pi_c      alpha = rho / (1 + rho)      s = (pi - r / rho) / w̄

with pi_c = Σ_{y_i = c} w_i and w̄ = Σ w_i.  s >= 0 by the choice of rho, Σ s = 1, and
Σ w_i (q_i - e_y) = (1 - alpha) r + alpha (w̄ s - pi) = 0: the condition is met exactly.

* KL is convex: the first term of (1) is at most (1 - alpha) beta + alpha K, K = Σ w_i KL(s‖p_i)
  = Σ w_i ln Σ_c exp s_ic - w̄ Σ_c s_c b'_c - w̄ H(s), since Σ w_i s_ic = w̄ b'_c.
* G(q) + lam W = (G(q') + lam W) - alpha (G(q') + M), M = Σ w_i e_y (x_i - x̄)ᵀ.  By Cauchy and
  Schwarz ‖M‖² <= max_c pi_c sigma², and ‖G(q')‖ <= ‖∇_W‖ + lam ‖W‖ + sigma sqrt(beta/2).

    P - P*  <=  beta + alpha K + ( ‖∇_W‖ + e )² / (2 lam)                                       (3)
    e = sigma sqrt(beta/2) + alpha ( ‖∇_W‖ + lam ‖W‖ + sigma sqrt(beta/2) + sigma sqrt(max pi) )

(3) needs no matrix.  It is linear in r, whereas (2) is quadratic in g: with tau = 0 and K between 1
and 100, it is tight once rho is 1e-5, which a few steps of the intercepts alone achieve.

Bounds on rounding errors (rounding.py) are added to r, to the norm of the gradient and to the
objective.  Since P* >= 0, P is a bound too, and the only one if lam = 0.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from ..arrays import Array, sq_norm, to_numpy
from ..passes.residuals import LSE
from .intercepts import solve
from .multinomial import Multinomial, Point
from .rounding import Rounding, none, rounding

MATRIX_ROUNDING = 64.0  # error of the entries of A, sums of products, in units in the last place


class Certificate(NamedTuple):
    """A bound on P - P*, and what it would be if arithmetic were exact."""

    gap: float
    exact: float
    objective: float  # bound on the rounding error of the objective


class Slack(NamedTuple):
    """The terms of (3) that are due to intercepts that are not optimal: beta + alpha K, and e."""

    kl: float
    e: float


def hopeful(point: Point) -> float:
    """The bound (3) if the intercepts were optimal.  Otherwise it is not a bound."""
    if point.lam == 0.0:
        return np.inf
    return sq_norm(point.gradient[:, :-1]) / (2.0 * point.lam)


def blurred(problem: Multinomial, point: Point) -> float:
    """(3) from rounding alone, as if the gradient were zero: no step can make it smaller."""
    off, still = rounding(problem, point), np.zeros(problem.n_classes)
    G = point.lam * float(np.sqrt(sq_norm(point.theta[:, :-1])))
    kl, e = slack(problem, point, Nearest(0.0, still, still), G, off)
    return kl + (e + off.gradient) ** 2 / (2.0 * point.lam)


def off_balance(problem: Multinomial, point: Point, g: Array) -> float:
    """(3) from intercepts with the gradient g alone, as if that in W were zero."""
    r = to_numpy(g) - float(g.mean())
    G = point.lam * float(np.sqrt(sq_norm(point.theta[:, :-1])))
    kl, e = slack(problem, point, Nearest(0.0, r, np.zeros_like(r)), G, none(problem))
    return kl + e**2 / (2.0 * point.lam)


def certify(problem: Multinomial, point: Point) -> Certificate:
    """The bound (3) at a point."""
    lost = rounding(problem, point)
    trivial = point.objective + lost.objective
    if point.lam == 0.0:
        return Certificate(trivial, trivial, lost.objective)
    norm = float(np.sqrt(sq_norm(point.gradient[:, :-1])))
    G = norm + point.lam * float(np.sqrt(sq_norm(point.theta[:, :-1])))
    near = nearest(problem, point)
    bounds = []
    for off in (lost, none(problem)):
        kl, e = slack(problem, point, near, G, off)
        bounds.append(kl + (norm + e + off.gradient) ** 2 / (2.0 * point.lam))
    return Certificate(min(bounds[0], trivial), bounds[1], lost.objective)


class Nearest(NamedTuple):
    """The q' of the best tau available at a point, and by how much it violates the condition."""

    beta: float
    r: NDArray[np.float64]  # (C,)
    blurred: NDArray[np.float64]  # (C,) error of r from the rounding of A


def nearest(problem: Multinomial, point: Point) -> Nearest:
    """tau = -A⁺ g if A is known and the step is short enough, else 0."""
    g = to_numpy(point.g)
    g = g - g.mean()
    stay = Nearest(0.0, g, np.zeros_like(g))
    if not problem.intercept or point.A is None or not point.A.complete:
        return stay
    tau_there = -solve(point.A, point.g - point.g.mean())
    tau, A_tau = to_numpy(tau_there), to_numpy(point.A @ tau_there)
    if np.ptp(tau) > 1.0:
        return stay
    # a row of the Laplacian A sums to 2 A_cc in absolute value
    units = MATRIX_ROUNDING * float(np.finfo(problem.rows.dtype).eps)
    blurred = units * 2.0 * to_numpy(point.A.diagonal) * np.abs(tau).max()
    r = g + A_tau
    return Nearest(max(0.0, float(tau @ A_tau)), r - r.mean(), blurred)


def slack(problem: Multinomial, point: Point, near: Nearest, G: float, off: Rounding) -> Slack:
    """beta + alpha K and e of (3), for ‖G - g x̄ᵀ‖ <= G and rounding `off`; 0 without intercepts."""
    if not problem.intercept:
        return Slack(0.0, 0.0)
    beta, r, blurred = near
    off_r = off.g + blurred if off.gradient > 0.0 else off.g
    sigma = np.sqrt(problem.trace)
    e = float(sigma * np.sqrt(beta / 2.0))
    pi, total = problem.class_weight, problem.total
    rho = float(((np.maximum(r, 0.0) + off_r) / pi).max())
    if rho == 0.0:
        return Slack(beta, e)
    if not np.isfinite(rho):
        return Slack(np.inf, np.inf)
    alpha = rho / (1.0 + rho)
    s = np.maximum(pi - r / rho, 0.0) / total
    b = to_numpy(point.theta[:, -1]).astype(np.float64)
    K = float(point.sums[LSE] - total * (s @ b) - total * entr(s).sum())
    e += alpha * (G + e + float(sigma * np.sqrt(pi.max())))
    return Slack(beta + alpha * max(K, 0.0), e)
