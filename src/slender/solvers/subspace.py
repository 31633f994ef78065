"""What R1D does without reading X: atoms weighed and turned in the span of a small basis.

The rows are z_i = Bᵀx_i, W is A (C, s) in the coordinates of the basis B, and an atom is m vᵀ with
m (s,) and v (C,).  Steps 3, 4 and 5 of rankone.py.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ..problem import Multinomial, Point
from ..problem.tracenorm import dual_value, singular_values

ARMIJO = 1e-4
TRIALS = 30
MEMORY = 20  # pairs of L-BFGS
INNER = 300  # iterations of one step 4 or 5
FEW = 3  # of step 4, where step 5 comes after it
GAIN = 1e-9  # of the objective: a smaller gain ends a step
FLOOR = 1e-3  # of the largest: a class that has no doubts left still has a curvature
CHECK = 4  # iterations between two looks at the subspace's own duality gap
BACK = 0.1  # of what a step has gained: given back for fewer atoms
GONE = 1e-7  # of the largest theta: an atom without weight

Value = tuple[float, NDArray[np.float64]]  # and gradient


class Atoms(NamedTuple):
    """Weights, and the atoms they weigh."""

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
        """Intercepts to be found."""
        return self.inner.n_classes if self.inner.intercept else 0

    def line_search(
        self, atoms: Atoms, b: NDArray[np.float64], excess: NDArray[np.float64], t: float
    ) -> tuple[NDArray[np.float64], float]:
        """Weights after Armijo's search along the last atoms, each in proportion to its slope.

        `t` is the length to try first; the one that was taken is returned too.
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
        if after <= before + ARMIJO * t * slope:  # then twice as far, as long as it goes down
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
        """Problem (8): the weights of the atoms, none negative, and the intercepts.

        An epsilon-solution where it is given, well within (C2).
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

        L-BFGS sees P and Q in units of their curvature, c_j Σ + lambda1 I for column j of P and
        diag(a) p_jᵀΣp_j + lambda1 I for that of Q, with Σ the covariance of the z_i,
        c_j = q_jᵀ diag(a) q_j, and `a` (C,) the classes' curvature, all at the start.
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
            """Whether the point last looked at will do."""
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
        """Step 6: the singular triplets V, theta, Mᵀ of A, without those of no use.

        L-BFGS leaves a trace of every atom it was given.  The least are tried, all at once, that
        add `allowed` at most to the trace norm's part.  They go if the objective rises by no more
        than that, and by a share of its fall from `before`.
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
        """Σ w (z - z̄)(z - z̄)ᵀ (s, s); about 0 where there is no intercept."""
        Z = self.inner.rows.block(0, self.inner.rows.shape[0]).toarray()
        second = (Z.T @ (Z * self.inner.w[:, None])).astype(np.float64)
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
    """L-BFGS-B for at most so many iterations, or until `enough`, told their number, says so.

    It ends at a gain of GAIN, or where a slope is given at none above that.
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
