"""SGD-QN and oLBFGS as published, with whole vectors and differences of weights, for one class.

The intercept is a last coordinate of constant value beta that the penalty leaves out.
"""

import numpy as np


def with_constant(X, beta, lam):
    """(rows, penalty of each coordinate)."""
    if not beta:
        return X, np.full(X.shape[1], lam)
    return np.column_stack([X, np.full(len(X), beta)]), np.append(np.full(X.shape[1], lam), 0.0)


def sgdqn(loss, X, y, order, weight, cap, lam, t0, T, beta=0.0, gauss_newton=False):
    """Bordes, Bottou and Gallinari's algorithm of 2009 as corrected in 2010; returns (w, B)."""
    Z, ridge = with_constant(X, beta, lam)
    w = np.zeros(Z.shape[1])
    B = np.full(Z.shape[1], 1 / (lam * t0))
    w1, update, last, count = w, False, 0, T
    for t, i in enumerate(order, start=1):
        slope = loss.slope(y[i] * (w @ Z[i]))
        if update:
            before = loss.slope(y[i] * (w1 @ Z[i]))
            if slope != before:
                for k in range(len(w)):
                    dw = w[k] - w1[k]
                    dg = weight[i] * y[i] * (slope - before) * Z[i, k]
                    if gauss_newton:
                        h = weight[i] * y[i] * (slope - before) / ((w - w1) @ Z[i])
                        r = np.clip(ridge[k] + h * Z[i, k] ** 2, 0.1 * lam, 100 * lam)
                    elif dw != 0:
                        r = np.clip(ridge[k] + dg / dw, 0.1 * lam, 100 * lam)
                    elif Z[i, k] != 0:
                        r = lam + 100 * lam
                    else:
                        r = lam
                    B[k] = 1 / (1 / B[k] + (t - last) * r)
                last = t
            update = False
        count -= 1
        if count == 0:
            w1, update, count = w, True, T
            w = w - np.minimum(1, T * ridge * B) * w
        w = w - min(weight[i], cap[i] / B.max()) * y[i] * slope * B * Z[i]
    return w, B


def literal(*args):
    return slides(*args, clip=False)


def slides(loss, X, y, order, weight, cap, lam, t0, T, beta=0.0, clip=True):
    """The algorithm of the slides of 2008, steps 1 to 5; returns (w, D)."""
    Z, ridge = with_constant(X, beta, lam)
    w = np.zeros(Z.shape[1])
    D = np.full(Z.shape[1], 1 / lam)
    for t, i in enumerate(order):
        slope = loss.slope(y[i] * (w @ Z[i]))
        before = w
        w = w - min(weight[i] / (t + t0), cap[i] / np.abs(D).max()) * y[i] * slope * D * Z[i]
        if (t + 1) % T == 0:
            w = w - np.minimum(1, T * ridge * D / (t + t0)) * w
            after = loss.slope(y[i] * (w @ Z[i]))
            dw = w - before
            dg = weight[i] * y[i] * (after - slope) * Z[i] + ridge * dw
            for k in range(len(w)):
                if dw[k] == 0 and dg[k] == 0:
                    continue
                u = dw[k] / dg[k] if dg[k] != 0 else np.inf
                if clip:
                    u = 1 / lam if u < 0 or u > 1 / lam else max(u, 0.01 / lam)
                elif dg[k] == 0:
                    continue
                D[k] += min(1, 2 / (t + 1)) * (u - D[k])
    return w, D


def two_loops(pairs, g):
    """H g (Schraudolph et al., algorithm 4), the oldest pair first in the list."""
    p = g.copy()
    alphas = []
    for s, q in reversed(pairs):
        alphas.append(s @ p / (s @ q))
        p = p - alphas[-1] * q
    if pairs:
        p = p * np.mean([s @ q / (q @ q) for s, q in pairs])
    for (s, q), alpha in zip(pairs, reversed(alphas), strict=True):
        p = p + (alpha - q @ p / (s @ q)) * s
    return p


def inverse_hessian(pairs, dim):
    """The same H as a matrix, by the BFGS updates it stands for."""
    H = np.eye(dim)
    if pairs:
        H *= np.mean([s @ q / (q @ q) for s, q in pairs])
    for s, q in pairs:
        V = np.eye(dim) - np.outer(q, s) / (s @ q)
        H = V.T @ H @ V + np.outer(s, s) / (s @ q)
    return H


def olbfgs(loss, X, y, order, weight, lam, memory, damping, step, t0, beta=0.0):
    """Online L-BFGS with steps that do not overshoot on their own example; returns (w, pairs)."""
    Z, ridge = with_constant(X, beta, lam)
    w = np.zeros(Z.shape[1])
    curvature0 = loss.curvature(0.0) or 1.0
    pairs = []

    def gradient(i, w):
        return weight[i] * y[i] * loss.slope(y[i] * (w @ Z[i])) * Z[i] + ridge * w

    for t, i in enumerate(order):
        g = gradient(i, w)
        if not g.any():
            continue
        p = two_loops(pairs, g)
        bend = weight[i] * curvature0 * (Z[i] @ p) ** 2 + (lam + damping) * (p @ p)
        s = -min(step * t0 / (t0 + t), p @ g / bend) * p
        q = gradient(i, w + s) - g + damping * s
        if loss.slope(y[i] * (w @ Z[i])) != loss.slope(y[i] * ((w + s) @ Z[i])):
            pairs = [*pairs, (s, q)][-memory:]
        w = w + s
    return w, pairs


def gauss_newton(*args):
    """SGD-QN with the diagonal of each example's Hessian."""
    return sgdqn(*args, gauss_newton=True)
