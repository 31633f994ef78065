"""The papers' algorithms, line by line: slow, obvious, and what the kernels must equal."""

from typing import NamedTuple

import numpy as np


def hessian_at_zero(X, curvature0):
    """H = mean F''(0) x xᵀ (eq. 7 averaged over the sample, w = 0)."""
    return curvature0 * X.T @ X / len(X)


def low_rank_pseudo_inverse(H, k):
    """H* = P_k D_k⁻¹ P_kᵀ (eq. 8)."""
    D, P = np.linalg.eigh(H)
    D, P = D[::-1][:k], P[:, ::-1][:, :k]
    return P @ np.diag(1 / D) @ P.T


def slnd(loss, X, y, H_star, order, eta):
    """w <- w - eta y F'(y wᵀx) x*, with x* = H* x computed once (eqs. 10, 11)."""
    X_star = X @ H_star
    w = np.zeros(X.shape[1])
    for i in order:
        w = w - eta * y[i] * loss.slope(y[i] * (w @ X[i])) * X_star[i]
    return w


class Descent(NamedTuple):
    """Everything `Stochastic` can do, for one class."""

    eta: float
    decay: float = 0.0
    power: float = 1.0
    lam: float = 0.0
    beta: float = 0.0
    every: int = 0


def stochastic(loss, Z, y, order, weight, cap, settings):
    """Seed 002's recursion with averaging; returns (w, b, average of w, average of b)."""
    w, b = np.zeros(Z.shape[1]), 0.0
    iterates = []
    for t, i in enumerate(order):
        eta = settings.eta / (1 + settings.decay * t) ** settings.power
        z = y[i] * (w @ Z[i] + b)
        g = min(eta * weight[i], cap[i]) * y[i] * loss.slope(z)
        w = (1 - eta * settings.lam) * w - g * Z[i]
        b = b - g * settings.beta**2
        if settings.every and (t + 1) % settings.every == 0:
            iterates.append((w, b))
    weights = np.arange(1, len(iterates) + 1)  # linear: the j-th averaged iterate counts j
    if not iterates:
        return w, b, w, b
    mean_w = np.average([w for w, _ in iterates], axis=0, weights=weights)
    mean_b = np.average([b for _, b in iterates], weights=weights)
    return w, b, mean_w, mean_b


def one_vs_rest_objective(loss, X, signs, W, b, c, lam):
    """1/C Σ_c [ Σ_i c_ic F(y_ic s_ic) / n + lam/2 ‖w_c‖² ] by two loops (eq. 1)."""
    total = 0.0
    n = sum(1 for row in c if any(row))
    for k in range(len(W)):
        for i in range(len(X)):
            total += c[i][k] * loss.value(signs[i, k] * (W[k] @ X[i] + b[k])) / n
        total += lam / 2 * W[k] @ W[k]
    return total / len(W)


def softmax(S):
    P = np.exp(S - S.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True)


def multinomial(X, y, w, W, b, lam):
    """Σ w_i (ln Σ_c exp s_ic - s_iy) + lam/2 ‖W‖²."""
    S = X @ W.T + b
    top = S.max(axis=1)
    losses = np.log(np.exp(S - top[:, None]).sum(axis=1)) + top - S[np.arange(len(y)), y]
    return w @ losses + lam / 2 * (W**2).sum()


def multinomial_optimum(X, y, w, lam, intercept=True, steps=200):
    """(optimum, W, b) by Newton's method with the whole Hessian, halved steps, in float64.

    The Hessian is singular along equal shifts of all classes' intercepts: a pseudo-inverse leaves
    them alone.
    """
    n, d = X.shape
    C = int(y.max()) + 1
    mean = X.mean(axis=0) if intercept else np.zeros(d)  # a free intercept takes it up
    X = X - mean
    Z = np.column_stack([X, np.ones(n)]) if intercept else X
    k = Z.shape[1]
    ridge = np.full(k, lam)
    ridge[d:] = 0.0
    Y = np.eye(C)[y]
    T = np.zeros((C, k))

    def value(T):
        return multinomial(Z, y, w, T, 0.0, 0.0) + (ridge * T**2).sum() / 2

    for _ in range(steps):
        P = softmax(Z @ T.T)
        gradient = (w[:, None] * (P - Y)).T @ Z + ridge * T
        H = np.zeros((C, k, C, k))
        for c in range(C):
            for e in range(C):
                curvature = w * P[:, c] * ((c == e) - P[:, e])
                H[c, :, e, :] = (Z * curvature[:, None]).T @ Z
        H = H.reshape(C * k, C * k) + np.diag(np.tile(ridge, C))
        step = -np.linalg.lstsq(H, gradient.ravel(), rcond=1e-13)[0].reshape(C, k)
        t, before = 1.0, value(T)
        while value(T + t * step) > before and t > 1e-12:
            t /= 2
        if t <= 1e-12 or -(gradient * step).sum() < 1e-15 * max(before, 1e-12):
            break
        T = T + t * step
    return value(T), T[:, :d], T[:, d] - T[:, :d] @ mean if intercept else np.zeros(C)
