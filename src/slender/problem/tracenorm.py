"""The trace-norm objective (TN12, eq. 4) and a bound on how far a point is above its minimum.

    J(W, b) = lambda1 ‖W‖_* + lambda2 ‖W‖² + R(W, b),    R = Σ_i w_i ( ln Σ_c exp s_ic - s_iy )

with s = W x + b and w_i = c_i/n; ‖·‖_* is the sum of singular values.  W = V diag(theta) Uᵀ is
stored in factors, U (d, r) and V (C, r) with orthonormal columns, so that ‖W‖_* = Σ theta.  With
Z = X U (n, r) in memory the risk costs n r C instead of n d C and does not read X: it is that of
the multinomial problem of the rows z_i (multinomial.py) with weights A = V diag(theta), (C, r).  X
is read only for the gradient G = Σ w_i (p_i - e_y) x_iᵀ, (C, d), and for X u of a new atom u.

X and Z, of length n, are where the rows are: on this machine or on a device.  All else is small,
and NumPy's.

Certificate.  For q_i in the simplex, with Σ w_i (q_i - e_y) = 0 if there is an intercept, and
G(q) = Σ w_i (q_i - e_y) x_iᵀ, Fenchel's dual of J is, with sigma_j the singular values of G(q),

    D(q) = Σ w_i H(q_i) - Σ_j (sigma_j - lambda1)₊² / (4 lambda2)   <=  J*,
    Σ w_i H(q_i) = R - Σ w_i KL(q_i‖p_i) - <G(q), W>                                  (algebra)

since the conjugate of lambda1 ‖·‖_* + lambda2 ‖·‖² at M is dist²(M)/(4 lambda2), dist(M) being the
Frobenius distance of M from the spectral ball of radius lambda1: the norm of (sigma - lambda1)₊.
Three steps lead from it to a bound that can be computed:

* q = (1 - a) e_y + a q' with a in [0, 1]: then G(q) = a G(q') and H(q) >= a H(q'), by concavity.
  The best a is found by a search on [0, 1].  It makes the bound tight for small lambda2; for
  lambda2 = 0 it is min(1, lambda1/sigma_1).
* without an intercept q' = p.  With one, q' as in certificate.py: G(q') = G - g x̄ᵀ + E with
  ‖E‖ <= e and KL <= beta, by (3) there.
* E changes dist by at most ‖E‖, and <G(q'), W> by at most ‖E‖ ‖W‖.  Rounding of G is included in e;
  that of the risk, and of factors that are only nearly orthonormal, is added.

    J - J*  <=  J - max_a [ a (R - beta - <G - g x̄ᵀ, W> - e ‖W‖) - (dist(a G) + a e)²/(4 lambda2) ]
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from ..arrays import Array, like, to_numpy
from ..passes import FactoredPass
from ..rows import rows_beside
from . import certificate
from .intercepts import newton_step
from .multinomial import Multinomial, Point
from .rounding import in_sums, measured, none, probed, shares_of_float64

NEWTON_STEPS = 4  # of the intercepts alone, before a proof


class Factors(NamedTuple):
    """W = V diag(theta) Uᵀ and the score b of the mean row (b' of multinomial.py)."""

    U: NDArray[Any]  # (d, r), orthonormal
    theta: NDArray[np.float64]  # (r,) decreasing, positive
    V: NDArray[Any]  # (C, r), orthonormal
    b: NDArray[np.float64]  # (C,)

    @property
    def A(self) -> NDArray[Any]:
        """W in the coordinates of U, (C, r)."""
        return self.V * self.theta.astype(self.V.dtype)

    @property
    def W(self) -> NDArray[Any]:
        return self.A @ self.U.T


def raw_intercepts(problem: Multinomial, at: Factors) -> NDArray[np.float64]:
    """The intercepts for raw rows, from the scores of the mean row.

    A shift common to all classes, which has no effect, is removed.
    """
    b = at.b - at.A.astype(np.float64) @ (to_numpy(problem.mean) @ at.U).astype(np.float64)
    return b - b.mean() if problem.intercept else np.zeros_like(b)


def risk_gradient(
    problem: Multinomial, Z: Array, at: Factors
) -> tuple[NDArray[Any], NDArray[np.float64], float]:
    """G - g x̄ᵀ (C, d), the gradient of R in centred coordinates, and a_c = Σ w p (1 - p), (C,).

    X is read once; Z = X U gives the scores.  The third is `Point.summing` of this gradient.
    """
    examples, dtype = problem.examples, problem.rows.dtype
    examples.columns["Z"] = Z
    b = raw_intercepts(problem, at).astype(dtype)
    AT = np.ascontiguousarray(at.A.T, dtype)
    sums = examples.reduce(FactoredPass(AT, b, A="diagonal", U=at.U))
    G = sums.G
    if problem.intercept:
        G -= np.outer(sums.g.astype(dtype), to_numpy(problem.mean))
    return G, sums.a, sums.summing


def singular_values(G: NDArray[Any]) -> NDArray[np.float64]:
    """All singular values, decreasing, from the smaller Gram matrix in float64."""
    small = (G if G.shape[0] <= G.shape[1] else G.T).astype(np.float64)
    return np.sqrt(np.maximum(np.linalg.eigvalsh(small @ small.T)[::-1], 0.0))


class Costs(NamedTuple):
    """The terms of the bound that are due to intercepts that are not optimal, and to rounding."""

    beta: float
    e: float
    own: float  # rounding error of the risk
    skew: float  # how far the factors are from orthonormal


def costs(
    problem: Multinomial, Z: Array, at: Factors, point: Point, sigma: NDArray[np.float64]
) -> tuple[Costs, Costs]:
    """The costs at a point of the problem of the z_i, and the same if arithmetic were exact.

    They are infinite if nothing can be proved.

    Rounding is that of scores computed from Z, which is itself a rounded product X U, and of the
    products with X in the gradient.
    """
    W, b = at.W, raw_intercepts(problem, at)
    if problem.rows.dtype == np.float64:
        shares = shares_of_float64(problem, W, b)
    else:
        index = probed(problem)
        rows = to_numpy(problem.rows.dense(index)).astype(np.float64)
        true = rows @ W.T.astype(np.float64) + b
        z = rows_beside(problem.rows, Z[index]).block(0, len(index))  # multiplied as in a pass
        scores = z @ at.A.T
        scores += like(b.astype(W.dtype), scores)
        shares = measured(scores, true, problem.y[index])
    off = in_sums(problem, point, shares)
    G = float(np.linalg.norm(sigma))
    near = certificate.nearest(problem, point)
    exact = Costs(*certificate.slack(problem, point, near, G, none(problem)), 0.0, 0.0)
    if not np.isfinite(off.objective):
        return Costs(np.inf, np.inf, np.inf, 0.0), exact
    kl, e = certificate.slack(problem, point, near, G, off)
    return Costs(kl, e + off.gradient, off.objective, max(_skew(at.U), _skew(at.V))), exact


def _skew(U: NDArray[Any]) -> float:
    wide = U.astype(np.float64)
    return float(np.linalg.norm(wide.T @ wide - np.eye(U.shape[1])))


def duality_gap(
    risk: float,
    at: Factors,
    inner: float,
    sigma: NDArray[np.float64],
    lambda1: float,
    lambda2: float,
    cost: Costs,
) -> float:
    """The bound above; `inner` is <G - g x̄ᵀ, W> and `sigma` all singular values of G - g x̄ᵀ."""
    squares = float(at.theta @ at.theta)
    norms = lambda1 * float(at.theta.sum()) + lambda2 * squares
    J = risk + norms + cost.own + 2.0 * cost.skew * norms
    if not np.isfinite(cost.beta):
        return J
    entropy = risk - cost.beta - inner - cost.e * np.sqrt(squares) - cost.own
    return min(J, J - dual_value(entropy, sigma, lambda1, lambda2, cost.e))


def dual_value(
    entropy: float, sigma: NDArray[np.float64], lambda1: float, lambda2: float, e: float = 0.0
) -> float:
    """max_a [ a entropy - (dist(a G) + a e)²/(4 lambda2) ] over a in [0, 1]; at least 0."""
    if not 0.0 < entropy < np.inf:
        return 0.0
    if lambda2 == 0.0:
        return float(min(1.0, lambda1 / (sigma[0] + e)) * entropy)

    def dual(a: float) -> float:
        dist = np.linalg.norm(np.maximum(a * sigma - lambda1, 0.0))
        return float(a * entropy - (dist + a * e) ** 2 / (4.0 * lambda2))

    found = minimize_scalar(lambda a: -dual(a), bounds=(0.0, 1.0), method="bounded")
    return max(dual(1.0), dual(float(found.x)), 0.0)


class Here(NamedTuple):
    """What one reading of X gives at a point; none of it depends on the penalties."""

    at: Factors
    risk: float
    G: NDArray[Any]  # (C, d) gradient of the risk, centred
    sigma: NDArray[np.float64]  # its singular values
    a: NDArray[np.float64]  # (C,) Σ w p (1 - p), the curvature of the classes
    cost: Costs
    exact: Costs  # the same if arithmetic were exact


def look(problem: Multinomial, Z: Array, at: Factors) -> Here:
    """The risk at the best intercepts, and its gradient; given Z = X U, X is read once."""
    point = best_intercepts(inner_problem(problem, Z), at)
    at = at._replace(b=point.theta[:, -1].astype(np.float64))
    G, a, summing = risk_gradient(problem, Z, at)
    point = point._replace(summing=summing)
    sigma = singular_values(G)
    cost, exact = costs(problem, Z, at, point, sigma)
    return Here(at, point.objective, G, sigma, a, cost, exact)


def inner_problem(of: Multinomial, Z: Array) -> Multinomial:
    """The multinomial problem of the rows z_i."""
    inner = Multinomial(of.examples.beside(Z), of.n_classes, of.intercept, home=True)
    inner.examples.columns["sizes"] = of.sizes  # rounding depends on the rows x_i
    return inner


def best_intercepts(inner: Multinomial, at: Factors) -> Point:
    """The point with the best intercepts for its W, by Newton steps that read only Z."""
    theta = np.column_stack([at.A, at.b]).astype(inner.rows.dtype)
    point = inner.at(theta, 0.0, second=inner.intercept)
    for _ in range(NEWTON_STEPS if inner.intercept else 0):
        assert point.A is not None
        trial = point.theta.copy()
        trial[:, -1] -= newton_step(point.A, point.g).astype(trial.dtype)
        moved = inner.at(trial, 0.0, second=True)
        if not moved.objective < point.objective:
            break
        point = moved
    return point
