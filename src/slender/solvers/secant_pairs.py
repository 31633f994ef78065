"""The memory of L-BFGS: the last steps, and the changes of the gradient that they caused."""

from typing import Any

import numpy as np

from ..arrays import Array, add_scaled, copy, dot, inner


def alike(a: float, b: float, factor: float) -> bool:
    """Do two positive numbers differ by at most a factor?"""
    return max(a, b) <= factor * min(a, b)


class SecantPairs:
    """Steps s, changes of the gradient y, and the doubt of the points that they led to."""

    def __init__(self, memory: int, dtype: Any) -> None:
        self.memory, self.dtype = memory, dtype
        self.kept: list[tuple[Array, Array, float]] = []  # the last `memory`
        self.lam = 0.0

    def copy(self) -> "SecantPairs":
        other = SecantPairs(self.memory, self.dtype)
        other.lam = self.lam
        other.kept.extend(
            (s, copy(y), doubt) for s, y, doubt in self.kept
        )  # change_lam writes into y
        return other

    def clear(self) -> None:
        self.kept.clear()

    def forget(self, doubt: float, factor: float) -> None:
        """Drop the pairs from points whose doubt differs from this one by more than a factor."""
        self.kept = [pair for pair in self.kept if alike(pair[2], doubt, factor)]

    def change_lam(self, lam: float) -> None:
        """Convert every y to another lam: y - lam s, the data's part of it, does not change."""
        for s, y, _ in self.kept:
            y[:, :-1] += float(lam - self.lam) * s[:, :-1]
        self.lam = lam

    def add(self, s: Array, y: Array, lam: float, doubt: float) -> None:
        self.lam = lam
        size = np.sqrt(dot(s, s) * dot(y, y))
        if dot(s, y) > np.finfo(self.dtype).eps * size:  # else it shows no curvature
            self.kept = [*self.kept, (s, y, doubt)][-self.memory :]

    def direction(self, gradient: Array, H0: Any) -> Array:
        """-H ∇P, by the two loops of L-BFGS."""
        q = -gradient
        alphas = []
        for s, y, _ in reversed(self.kept):
            alpha = inner(s, q) / inner(s, y)
            alphas.append(alpha)
            add_scaled(-alpha, y, q)
        q = H0 @ q
        for (s, y, _), alpha in zip(self.kept, reversed(alphas), strict=True):
            beta = inner(y, q) / inner(s, y)
            add_scaled(alpha - beta, s, q)
        return q
