"""The memory of L-BFGS: the last steps, and the changes of the gradient that they caused."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs


class SecantPairs:
    """Steps s and changes of the gradient y."""

    def __init__(self, memory: int, dtype: Any) -> None:
        self.memory, self.dtype = memory, dtype
        self.kept: list[tuple[NDArray[Any], NDArray[Any]]] = []  # the last `memory`
        self.lam = 0.0

    def copy(self) -> "SecantPairs":
        other = SecantPairs(self.memory, self.dtype)
        other.lam = self.lam
        other.kept.extend((s, y.copy()) for s, y in self.kept)  # change_lam writes into y
        return other

    def clear(self) -> None:
        self.kept.clear()

    def change_lam(self, lam: float) -> None:
        """Convert every y to another lam: y - lam s, the data's part of it, does not change."""
        for s, y in self.kept:
            y[:, :-1] += y.dtype.type(lam - self.lam) * s[:, :-1]
        self.lam = lam

    def add(self, s: NDArray[Any], y: NDArray[Any], lam: float) -> None:
        self.lam = lam
        size = np.sqrt(dot(s, s) * dot(y, y))
        if dot(s, y) > np.finfo(s.dtype).eps * size:  # else it shows no curvature
            self.kept = [*self.kept, (s, y)][-self.memory :]

    def direction(self, gradient: NDArray[Any], H0: Any) -> NDArray[Any]:
        """-H ∇P, by the two loops of L-BFGS."""
        axpy = get_blas_funcs("axpy", dtype=self.dtype)
        q = -gradient
        flat = q.reshape(-1)
        alphas = []
        for s, y in reversed(self.kept):
            alpha = dot(s, q) / dot(s, y)
            alphas.append(alpha)
            axpy(y.reshape(-1), flat, a=-alpha)
        q = H0 @ q
        flat = q.reshape(-1)
        for (s, y), alpha in zip(self.kept, reversed(alphas), strict=True):
            beta = dot(y, q) / dot(s, y)
            axpy(s.reshape(-1), flat, a=alpha - beta)
        return q


def dot(A: NDArray[Any], B: NDArray[Any]) -> float:
    """<A, B>."""
    return float(np.vdot(A, B))
