"""Newton's direction from the full Hessian, for problems small enough to store it.

This is the last resort of newton.py.  If weights or columns span many decades, one covariance for
all classes is a poor approximation, and L-BFGS converges very slowly.  In the coordinates
z = Bᵀ(x - x̄), with B an orthonormal basis of the span of the rows (or B = I), and z̃ = [z, 1],

    H_ce = Σ_i w_i p_ic (1[c = e] - p_ie) z̃_i z̃_iᵀ + lam I          (r + 1) x (r + 1) for each pair

Outside the span the gradient is lam W, and Newton's step is -W.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.special import softmax

from ..arrays import Array, like, to_numpy
from ..problem import Multinomial, Point

UNKNOWNS = 1500  # rows of H, at most: 18 MB, and a tenth of a second to factor
WORK = 10**10  # multiply-adds to form H, at most
CELLS = 4 * 10**6  # numbers in the rows, at most: they are stored dense
RIDGE = 1e-13  # added to a diagonal scaled to 1: all intercepts may shift together


class DenseNewton:
    """The rows of a small problem, in float64."""

    def __init__(self, problem: Multinomial) -> None:
        active = np.flatnonzero(problem.w)
        X = to_numpy(problem.rows.dense(active) - problem.mean)
        self.w, self.intercept = problem.w[active], problem.intercept
        self.basis = None
        if X.shape[1] > X.shape[0]:
            _, _, Vt = linalg.svd(X, full_matrices=False)
            self.basis = Vt.T  # (d, r)
            X = X @ self.basis
        self.Z = np.column_stack([X, np.ones(len(X))]) if problem.intercept else X

    @staticmethod
    def suits(problem: Multinomial) -> bool:
        """Is the problem small enough?"""
        n, d = problem.rows.shape
        C, r = problem.n_classes, min(n, d) + 1
        return C * r <= UNKNOWNS and C * C * n * r * r <= WORK and n * d <= CELLS

    def direction(self, point: Point) -> Array:
        """-H⁻¹ ∇P, (C, d + 1)."""
        theta, gradient = to_numpy(point.theta), to_numpy(point.gradient)
        W, G = theta[:, :-1], gradient[:, :-1]
        within, slope = (W, G) if self.basis is None else (W @ self.basis, G @ self.basis)
        if self.intercept:
            within = np.column_stack([within, theta[:, -1]])
            slope = np.column_stack([slope, to_numpy(point.g)])
        step = -self._solve(softmax(self.Z @ within.T, axis=1), slope, point.lam)
        D = np.zeros_like(gradient)
        r = step.shape[1] - self.intercept
        if self.basis is None:
            D[:, :-1] = step[:, :r]
        else:
            outside = W - (W @ self.basis) @ self.basis.T
            D[:, :-1] = step[:, :r] @ self.basis.T - outside
        if self.intercept:
            D[:, -1] = step[:, -1] - step[:, -1].mean()
        return like(D, point.gradient, D.dtype)

    def _solve(
        self, P: NDArray[np.float64], slope: NDArray[np.float64], lam: float
    ) -> NDArray[np.float64]:
        C, k = slope.shape
        H = np.empty((C, k, C, k))
        for c in range(C):
            for e in range(c + 1):
                bend = self.w * P[:, c] * (float(c == e) - P[:, e])
                H[c, :, e, :] = (self.Z * bend[:, None]).T @ self.Z
                H[e, :, c, :] = H[c, :, e, :].T
        H = H.reshape(C * k, C * k)  # type: ignore[assignment]
        ridge = np.full((C, k), lam)
        if self.intercept:
            ridge[:, -1] = 0.0
        H[np.diag_indices(C * k)] += ridge.ravel()
        size = np.sqrt(np.maximum(np.diag(H), np.finfo(float).tiny))
        H /= size[:, None]
        H /= size
        for share in (RIDGE, 1e3 * RIDGE, 1e6 * RIDGE):
            H[np.diag_indices(C * k)] = 1.0 + share
            try:
                factor = linalg.cho_factor(H, check_finite=False)
            except linalg.LinAlgError:
                continue
            return (linalg.cho_solve(factor, slope.ravel() / size) / size).reshape(C, k)
        return slope / (size.reshape(C, k) ** 2)
