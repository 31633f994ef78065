"""The part of R1D that does not read X: weights and directions of atoms in a small subspace.

The rows are z_i = Bᵀx_i, W is A (C, s) in the coordinates of the basis B, and an atom is m vᵀ with
m (s,) and v (C,).  These are steps 3 to 6 of rankone.py.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ..passes import GramPass
from ..problem import Multinomial, Point
from ..problem.tracenorm import dual_value, singular_values

ARMIJO = 1e-4
TRIALS = 30
MEMORY = 20  # pairs of L-BFGS
INNER = 300  # iterations of step 4 or 5, at most
FEW = 3  # iterations of step 4 if step 5 follows
GAIN = 1e-9  # share of the objective: a smaller gain ends a step
FLOOR = 1e-3  # the curvature of a class counts as at least this share of the largest
CHECK = 4  # iterations between two computations of the duality gap of the subspace
BACK = 0.1  # share of the gain of a step that may be lost for fewer atoms
GONE = 1e-7  # share of the largest theta: an atom with less has no weight

Value = tuple[float, NDArray[np.float64]]  # value and gradient


class Atoms(NamedTuple):
    """Atoms m vᵀ and their weights."""

    M: NDArray[Any]  # (s, k)
    V: NDArray[Any]  # (C, k)
    theta: NDArray[np.float64]  # (k,)

    def weighed(self, theta: NDArray[np.float64]) -> NDArray[Any]:
        """W in the coordinates of the basis, (C, s)."""
        return (self.V * theta.astype(self.V.dtype)) @ self.M.T


@dataclass
class Subspace:
    """The trace-norm problem of the rows z_i."""

    inner: Multinomial
    lambda1: float
    lambda2: float

    def at(self, A: NDArray[Any], b: NDArray[Any]) -> Point:
        """R~ and its gradient."""
        dtype = self.inner.rows.dtype
        return self.inner.at(np.column_stack([A, b]).astype(dtype), 2.0 * self.lambda2)

    @property
    def free(self) -> int:
        """Number of intercepts to optimise."""
        return self.inner.n_classes if self.inner.intercept else 0

    def line_search(
        self, atoms: Atoms, b: NDArray[np.float64], excess: NDArray[np.float64], t: float
    ) -> tuple[NDArray[np.float64], float]:
        """Weights after an Armijo line search along the last atoms, in proportion to their slopes.

        `t` is the first length to try; the length taken is returned too.
        """
        if len(excess) == 0:
            return atoms.theta, t
        direction = np.zeros_like(atoms.theta)
        direction[-len(excess) :] = excess
        slope = -float(excess @ excess)

        def value(t: float) -> float:
            theta = atoms.theta + t * direction
            return self.at(atoms.weighed(theta), b).objective + self.lambda1 * float(theta.sum())

        before, after, best = value(0.0), value(t), 0.0
        if after <= before + ARMIJO * t * slope:  # double t as long as the value decreases
            for _ in range(TRIALS):
                best, t = t, 2.0 * t
                further = value(t)
                if further >= after:
                    break
                after = further
        else:
            for _ in range(TRIALS):
                t *= 0.25
                if value(t) <= before + ARMIJO * t * slope:
                    best = t
                    break
        return atoms.theta + best * direction, best

    def restricted(
        self, atoms: Atoms, b: NDArray[np.float64], most: int, epsilon: float | None = None
    ) -> tuple[Atoms, NDArray[np.float64]]:
        """Solve problem (8): the weights of the atoms, none negative, and the intercepts.

        If epsilon is given, to an epsilon-solution, well within (C2).
        """
        k = len(atoms.theta)

        def value(x: NDArray[np.float64]) -> Value:
            point = self.at(atoms.weighed(x[:k]), x[k:] if self.free else b)
            downhill = point.gradient[:, :-1] @ atoms.M
            along = np.einsum("ck,ck->k", atoms.V, downhill, dtype=np.float64)
            slopes = np.concatenate([along + self.lambda1, point.g[: self.free]])
            return point.objective + self.lambda1 * float(x[:k].sum()), slopes

        bounds: Any = [(0.0, None)] * k + [(None, None)] * self.free
        slope = 0.0 if epsilon is None else epsilon / 4.0
        x = np.concatenate([atoms.theta, b[: self.free]])
        x = minimise(value, x, most, bounds, slope=slope)
        return atoms._replace(theta=x[:k]), x[k:] if self.free else b

    def turned(
        self, atoms: Atoms, b: NDArray[np.float64], a: NDArray[np.float64], goal: float
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """A and b at the minimum over the factors of W = Q Pᵀ, to a duality gap of `goal`.

        For L-BFGS, P and Q are scaled by their curvature: c_j Σ + lambda1 I for column j of P and
        diag(a) p_jᵀΣp_j + lambda1 I for that of Q, with Σ the covariance of the z_i,
        c_j = q_jᵀ diag(a) q_j, and `a` (C,) the curvature of the classes, all at the start.
        """
        kept = atoms.theta > GONE * atoms.theta.max(initial=0.0)
        root = np.sqrt(atoms.theta[kept])
        P, Q = atoms.M[:, kept] * root, atoms.V[:, kept] * root  # float64 from here on
        size, E = np.linalg.eigh(self._covariance())
        c, spread = a @ Q**2, np.maximum(size, 0.0) @ (E.T @ P) ** 2
        unit_P = 1.0 / np.sqrt(np.outer(np.maximum(size, 0.0), c) + self.lambda1)  # (s, r)
        unit_Q = 1.0 / np.sqrt(np.outer(a, spread) + self.lambda1)  # (C, r)
        unit_b = 1.0 / np.sqrt(np.maximum(a, FLOOR * a.max()))[: self.free]
        p, pq = P.size, P.size + Q.size
        last: dict[str, Any] = {}

        def split(x: NDArray[np.float64]) -> tuple[Any, Any, Any]:
            intercepts = x[pq:] * unit_b if self.free else b
            P_, Q_ = x[:p].reshape(P.shape) * unit_P, x[p:pq].reshape(Q.shape) * unit_Q
            return E @ P_, Q_, intercepts

        def value(x: NDArray[np.float64]) -> Value:
            P, Q, intercepts = split(x)
            point = self.at(Q @ P.T, intercepts)
            gradient = point.gradient[:, :-1].astype(np.float64)
            penalty = 0.5 * self.lambda1 * float(np.vdot(P, P) + np.vdot(Q, Q))
            last.update(objective=point.objective + penalty, point=point, gradient=gradient)
            d_P = (E.T @ (gradient.T @ Q + self.lambda1 * P)) * unit_P
            d_Q = (gradient @ P + self.lambda1 * Q) * unit_Q
            d_b = point.g[: self.free] * unit_b
            return last["objective"], np.concatenate([d_P.ravel(), d_Q.ravel(), d_b])

        def enough(number: int) -> bool:
            """Is the gap of the last point small enough?  Tested every CHECK iterations."""
            if number % CHECK:
                return False
            A = last["point"].theta[:, :-1].astype(np.float64)
            G = last["gradient"] - 2.0 * self.lambda2 * A
            risk = last["point"].objective - self.lambda2 * float(np.vdot(A, A))
            entropy = risk - float(np.vdot(G, A))
            dual = dual_value(entropy, singular_values(G), self.lambda1, self.lambda2)
            return bool(last["objective"] - dual <= goal)

        start = [((E.T @ P) / unit_P).ravel(), (Q / unit_Q).ravel(), b[: self.free] / unit_b]
        P, Q, b = split(minimise(value, np.concatenate(start), INNER, enough=enough))
        return Q @ P.T, b

    def triplets(
        self, A: NDArray[Any], b: NDArray[np.float64], before: float, allowed: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Step 6: the singular triplets V, theta, Mᵀ of A, without those that are not needed.

        L-BFGS leaves a remainder of every atom it started with.  The smallest triplets, which
        together add at most `allowed` to the trace-norm term, are removed all at once, if the
        objective then rises by at most `allowed` and by at most a share BACK of its decrease from
        `before`.
        """
        V, theta, Mt = np.linalg.svd(A.astype(np.float64), full_matrices=False)
        kept = theta > GONE * theta.max(initial=0.0)
        fewer = kept & (self.lambda1 * np.cumsum(theta[::-1])[::-1] > allowed)

        def value(of: NDArray[np.bool_]) -> float:
            point = self.at((V[:, of] * theta[of]) @ Mt[of], b)
            return point.objective + self.lambda1 * float(theta[of].sum())

        if fewer.sum() < kept.sum():
            now = value(kept)
            if value(fewer) - now <= min(allowed, BACK * (before - now)):
                kept = fewer
        return V[:, kept], theta[kept], Mt[kept]

    def _covariance(self) -> NDArray[np.float64]:
        """Σ w (z - z̄)(z - z̄)ᵀ (s, s); without an intercept z̄ is 0."""
        second = self.inner.examples.reduce(GramPass(np.eye(self.inner.rows.shape[1])))
        mean = self.inner.mean.astype(np.float64)
        return second - self.inner.total * np.outer(mean, mean)


def minimise(
    value: Any,
    x: NDArray[np.float64],
    most: int,
    bounds: Any = None,
    enough: Any = None,
    slope: float = 0.0,
) -> NDArray[np.float64]:
    """L-BFGS-B, for at most `most` iterations or until `enough(their number)` is true.

    It stops at a gain below GAIN; if `slope` is given, only when no slope exceeds it.
    """
    done = 0

    def look(_: NDArray[np.float64]) -> None:
        nonlocal done
        done += 1
        if enough is not None and enough(done):
            raise StopIteration

    options: dict[str, Any] = {"maxcor": MEMORY, "maxiter": most}
    options |= {"ftol": 0.0 if slope else GAIN, "gtol": slope}
    how: dict[str, Any] = {"jac": True, "method": "L-BFGS-B", "callback": look, "options": options}
    return np.asarray(minimize(value, x, bounds=bounds, **how).x)
