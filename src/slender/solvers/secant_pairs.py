"""L-BFGS's memory: the last steps, and what they did to the gradient."""

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs


class SecantPairs:
    """Steps s and changes of the gradient y."""

    def __init__(self, memory: int, dtype: Any) -> None:
        self.memory, self.dtype = memory, dtype
        self.kept: deque[tuple[NDArray[Any], NDArray[Any]]] = deque(maxlen=memory)
        self.lam = 0.0
        self._axpy = get_blas_funcs("axpy", dtype=dtype)

    def copy(self) -> "SecantPairs":
        other = SecantPairs(self.memory, self.dtype)
        other.lam = self.lam
        other.kept.extend((s, y.copy()) for s, y in self.kept)  # change_lam writes into y
        return other

    def clear(self) -> None:
        self.kept.clear()

    def change_lam(self, lam: float) -> None:
        """y belongs to the gradient at one lam: y - lam s is the data's part of it."""
        for s, y in self.kept:
            y[:, :-1] += y.dtype.type(lam - self.lam) * s[:, :-1]
        self.lam = lam

    def add(self, s: NDArray[Any], y: NDArray[Any], lam: float) -> None:
        self.lam = lam
        size = np.sqrt(dot(s, s) * dot(y, y))
        if dot(s, y) > np.finfo(s.dtype).eps * size:  # else no curvature can be read from it
            self.kept.append((s, y))

    def direction(self, gradient: NDArray[Any], H0: Any) -> NDArray[Any]:
        """-H ∇P by the two loops."""
        q = -gradient
        flat = q.reshape(-1)
        alphas = []
        for s, y in reversed(self.kept):
            alpha = dot(s, q) / dot(s, y)
            alphas.append(alpha)
            self._axpy(y.reshape(-1), flat, a=-alpha)
        q = H0 @ q
        flat = q.reshape(-1)
        for (s, y), alpha in zip(self.kept, reversed(alphas), strict=True):
            beta = dot(y, q) / dot(s, y)
            self._axpy(s.reshape(-1), flat, a=alpha - beta)
        return q


def dot(A: NDArray[Any], B: NDArray[Any]) -> float:
    """<A, B>."""
    return float(np.vdot(A, B))
