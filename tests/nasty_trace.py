"""An upper bound on the least trace-norm objective, by accelerated proximal gradient in float64.

    J(W, b) = lambda1 ‖W‖_* + lambda2 ‖W‖² + Σ_i w_i (ln Σ_c exp s_ic - s_iy)

In the coordinates of nasty_reference.py, W = A Vᵀ: V is orthonormal, so that A has W's singular
values.  Steps begin at W = 0 and at a model that somebody fitted: a proof of that model is wrong if
they fall below what it claims.  Where columns differ by many decades they are slow and the bound
is not tight: a false proof may then pass, but no true one fails.
"""

import numpy as np
from tests.nasty_newton import softmax
from tests.nasty_reference import Reference

STEPS = 400
SHRINK, GROW = 0.9, 2.0  # of L, after each step and where it was too small


def objective(reference: Reference, W, b, lambda1: float, lambda2: float) -> float:
    """J of a model of the raw rows."""
    W = np.asarray(W, np.float64)
    if not np.isfinite(W).all():
        return np.inf
    singular = np.linalg.svd(W, compute_uv=False)
    return reference.risk(W, b) + lambda1 * singular.sum() + lambda2 * (singular**2).sum()


def least(reference: Reference, lambda1: float, lambda2: float, W, b) -> float:
    """The lowest J found from W = 0 and from the model (W, b)."""
    A = np.asarray(W, np.float64) @ reference.V
    centred = np.asarray(b, np.float64) + np.asarray(W, np.float64) @ reference.mean.astype(float)
    zeros = np.zeros_like(A), np.zeros_like(centred)
    starts = [zeros, (A, centred)] if np.isfinite(A).all() else [zeros]
    return min(descend(reference, lambda1, lambda2, *start) for start in starts)


def descend(reference: Reference, lambda1: float, lambda2: float, A, b) -> float:
    Z = (reference.X @ reference.V).astype(np.float64)
    w, y, r = reference.w.astype(np.float64), reference.y, A.shape[1]
    most = 0.5 * float(np.linalg.eigvalsh((w[:, None] * Z).T @ Z)[-1])
    # The intercepts' column is as large as the largest direction: the step suits both.
    size = np.sqrt(2 * most / w.sum()) if reference.intercept and most > 0 else 1.0
    Z = np.column_stack([Z, np.full(len(Z), size if reference.intercept else 0.0)])
    theta = np.column_stack([A, b / size])

    def smooth(theta):
        at = softmax(Z @ theta.T, y)
        gradient = (w[:, None] * at.E).T @ Z
        gradient[:, :r] += 2 * lambda2 * theta[:, :r]
        return w @ at.loss + lambda2 * (theta[:, :r] ** 2).sum(), gradient

    best, L, t = np.inf, max(most / len(theta), np.finfo(float).tiny) + 2 * lambda2, 1.0
    before = theta
    for _ in range(STEPS):
        t_next = 0.5 * (1 + np.sqrt(1 + 4 * t * t))
        Y = theta + (t - 1) / t_next * (theta - before)
        F, G = smooth(Y)
        for _ in range(60):
            new = Y - G / L
            U, s, Vt = np.linalg.svd(new[:, :r], full_matrices=False)
            s = np.maximum(s - lambda1 / L, 0.0)
            new[:, :r] = (U * s) @ Vt
            step = new - Y
            value, _ = smooth(new)
            if value <= F + (G * step).sum() + 0.5 * L * (step**2).sum() + 1e-14 * abs(F):
                break
            L *= GROW
        J = value + lambda1 * s.sum()
        uphill = (step * (new - theta)).sum() < 0  # restart, as momentum leads away
        t = 1.0 if uphill else t_next
        before, theta = (new if uphill else theta), new
        best, L = min(best, J), L * SHRINK
    return float(best)
