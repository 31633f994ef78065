"""Newton's method for the multinomial loss of rows z and a ridge, to the last digits.

    P(theta) = Σ_i w_i (ln Σ_c exp s_ic - s_iy) + lam/2 ‖theta‖²,   s = theta z

the last column of theta being free of the penalty if it is the intercept's.  Sums are of
np.longdouble, and tiny losses and probabilities keep all digits.  The Hessian is factored in
float64 and preconditions conjugate gradients with exact products: a factor that has lost the
flattest directions costs iterations, not digits.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, qr, solve_triangular

ENOUGH = 1e-12  # of P: the gap, if intercepts are at their best, that ends the search
QUIET = 1e-14  # of P: steps that promise less may lose as much, but only so many of them
LAST = 6
STEPS, MOST = 80, 600  # scores of separable rows grow by about 1 in each; the last resort
FLAT = 1e-11  # pivots of a scaled Hessian below this: Cholesky's digits are nearly used up
CG_STEPS, CG_TOL = 60, 1e-20  # of the squared residual, in the preconditioner's norm
EASIER = 10.0  # from one lam of a path to the next


class Softmax(NamedTuple):
    """What the scores of all rows say; nothing is lost where p_iy is nearly 1."""

    loss: np.ndarray  # (n,)
    P: np.ndarray  # (n, C)
    E: np.ndarray  # (n, C) p_i - e_y


def softmax(S, y) -> Softmax:
    own = np.arange(len(y)), y
    S = S - S[own][:, None]
    top = S.max(axis=1)  # 0 where the row's own class is the largest
    P = np.exp(S - top[:, None])
    mine = P[own].copy()
    P[own] = 0.0
    others = P.sum(axis=1)
    total = mine + others
    loss = np.where(top > 0, top + np.log(total), np.log1p(others))
    E = P / total[:, None]
    P = E.copy()
    P[own] = mine / total
    E[own] = -others / total
    return Softmax(loss, P, E)


def rest(at: Softmax, a: int):
    """1 - p_a of every row, from the other classes where p_a is its own."""
    own = at.E[:, a] < 0
    return np.where(own, -at.E[:, a], 1 - at.P[:, a])


def deviations(P, S, y):
    """s_i - p_iᵀ s_i of every row, exact where p_iy is nearly 1: its own class is the origin."""
    S = S - S[np.arange(len(y)), y][:, None]
    return S - (P * S).sum(axis=1)[:, None]


class Loss(NamedTuple):
    Z: Any  # (n, m), with a last column of ones if there is an intercept
    y: Any  # (n,)
    w: Any  # (n,)
    intercept: bool

    def minimise(self, lam: float, start, zero) -> Any:
        """theta (C, m) from `start`; or else along a path of falling lam, from `zero`."""
        theta, found = self._newton(lam, start, QUIET)
        if found:
            return theta
        theta, strong = zero, max(lam, float(self.w @ (self.Z**2).sum(axis=1)))
        for _ in range(int(np.log(strong / lam) / np.log(EASIER))):
            theta, _ = self._newton(strong, theta, 1e-3)
            strong /= EASIER
        return self._newton(lam, theta, QUIET, MOST)[0]

    def _value(self, theta, lam: float):
        at = softmax(self.Z @ theta.T, self.y)
        return self.w @ at.loss + 0.5 * lam * (self._penalised(theta) ** 2).sum(), at

    def _penalised(self, theta):
        return theta[:, :-1] if self.intercept else theta

    def _newton(self, lam: float, theta, quiet: float, steps: int = STEPS):
        """theta, and whether it is the minimum, so far as `quiet` asks."""
        P, at = self._value(theta, lam)
        last = 0
        for _ in range(steps):
            gradient = (self.w[:, None] * at.E).T @ self.Z
            self._penalised(gradient)[:] += lam * self._penalised(theta)
            step = self._direction(at, gradient, lam)
            promised = float(-(gradient * step).sum())
            faint = promised <= QUIET * P
            last += faint
            gap = float((self._penalised(gradient) ** 2).sum()) / (2 * lam)
            if last > LAST or (promised <= quiet * P and (gap <= ENOUGH * P or quiet > QUIET)):
                return theta, True
            t, spare = 1.0, QUIET * P if faint else 0.0
            trial, at_trial = self._value(theta + step, lam)
            while not trial <= P - 1e-4 * t * promised + spare:
                t /= 2
                if t < 1e-12:  # rounding allows no further step
                    return theta, bool(faint)
                trial, at_trial = self._value(theta + t * step, lam)
            theta, P, at = theta + t * step, trial, at_trial
        return theta, False

    def _direction(self, at: Softmax, gradient, lam: float):
        """-H⁻¹ gradient (C, m), of steps whose sum over the classes is 0."""

        def times(D):
            U = at.P * deviations(at.P, self.Z @ D.T, self.y)
            HD = (self.w[:, None] * U).T @ self.Z
            self._penalised(HD)[:] += lam * self._penalised(D)
            return HD

        return -conjugate_gradients(times, self._factored(at, lam), gradient)

    def _factored(self, at: Softmax, lam: float) -> Callable[[Any], Any]:
        """What multiplies with about H⁻¹.

        A shift of all classes along one column changes nothing, so that in each column the class of
        most curvature stays; H of the others is scaled to a unit diagonal and factored.
        """
        C, m, Z = at.P.shape[1], self.Z.shape[1], self.Z.astype(np.float64)
        H = np.empty((C, m, C, m))
        for a in range(C):
            for c in range(a + 1):
                h = self.w * at.P[:, a] * (rest(at, a) if a == c else -at.P[:, c])
                H[a, :, c] = (h.astype(np.float64)[:, None] * Z).T @ Z
                H[c, :, a] = H[a, :, c].T
        centre = np.eye(C) - 1.0 / C  # the penalty of rows that are centred first
        ridge = np.full(m, lam)
        ridge[m - self.intercept :] = 0.0
        for j in range(m):
            H[:, j, :, j] += ridge[j] * centre
        H = H.reshape(C * m, C * m)
        curvature = np.diag(H).reshape(C, m)
        free = np.ones((C, m), bool)
        free[curvature.argmax(axis=0), range(m)] = False
        free &= curvature > 0.0
        free = np.flatnonzero(free)
        scale = 1.0 / np.sqrt(np.diag(H)[free])
        H = H[np.ix_(free, free)] * (scale[:, None] * scale)
        try:
            L, _ = cho_factor(H, lower=True)
            if np.diag(L).min() ** 2 < FLAT:
                raise LinAlgError

            def solve(g):
                return cho_solve((L, True), g)

        except LinAlgError:
            J = np.vstack([self._root(at), np.kron(centre, np.diag(np.sqrt(ridge)))])
            R, order = orthogonal_factor(J[:, free] * scale)

            def solve(g):
                solved = np.empty_like(g)
                half = solve_triangular(R, g[order], trans="T")
                solved[order] = solve_triangular(R, half)
                return solved

        def inverse(G):
            step = np.zeros(C * m)
            step[free] = scale * solve(scale * G.astype(np.float64).reshape(-1)[free])
            step = step.reshape(C, m).astype(G.dtype)
            return step - step.mean(axis=0)

        return inverse

    def _root(self, at: Softmax):
        """J with JᵀJ the loss's Hessian: diag p - p pᵀ = F Fᵀ with F = (I - p 1ᵀ) diag(sqrt p)."""
        n, C = at.P.shape
        F = -at.P[:, :, None] * np.sqrt(at.P)[:, None, :]
        for a in range(C):
            F[:, a, a] = rest(at, a) * np.sqrt(at.P[:, a])
        F = (F * np.sqrt(self.w)[:, None, None]).astype(np.float64)
        return np.einsum("iac,ij->icaj", F, self.Z.astype(np.float64)).reshape(n * C, -1)


def orthogonal_factor(J):
    """R and the order of columns: it keeps flat directions that JᵀJ has lost.

    Rows go by size and columns are pivoted, which keeps small rows exact beside large ones.
    """
    J = J[np.argsort(-np.abs(J).max(axis=1))]
    R, order = qr(J, mode="r", pivoting=True)
    return R[: J.shape[1]], order


def conjugate_gradients(times, inverse, g):
    """x with times(x) = g, preconditioned by `inverse`."""
    x, r = np.zeros_like(g), g
    z = p = inverse(r)
    size = first = (r * z).sum()
    for _ in range(CG_STEPS):
        Hp = times(p)
        a = size / (p * Hp).sum()
        if not (np.isfinite(a) and a > 0):
            break
        x, r = x + a * p, r - a * Hp
        z = inverse(r)
        before, size = size, (r * z).sum()
        if not size > CG_TOL * first:
            break
        p = z + size / before * p
    return x
