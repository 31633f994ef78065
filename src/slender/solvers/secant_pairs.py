"""The memory of L-BFGS: the last steps, and the changes of the gradient that they caused."""

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, add_scaled, copy, dot, inner


def alike(a: float, b: float, factor: float) -> bool:
    """Do two positive numbers differ by at most a factor?"""
    return max(a, b) <= factor * min(a, b)


class Pair(NamedTuple):
    """A step s, the change y of the gradient, and <s, y>: on a device a tensor of no dimension."""

    s: Array
    y: Array
    sy: Any
    doubt: float  # of the point that the step led to


class SecantPairs:
    """The last pairs, at one lam."""

    def __init__(self, memory: int, dtype: Any) -> None:
        self.memory, self.dtype = memory, dtype
        self.kept: list[Pair] = []  # the last `memory`
        self.lam = 0.0

    def copy(self) -> "SecantPairs":
        other = SecantPairs(self.memory, self.dtype)
        other.lam = self.lam
        # change_lam writes into y
        other.kept.extend(pair._replace(y=copy(pair.y)) for pair in self.kept)
        return other

    def clear(self) -> None:
        self.kept.clear()

    def forget(self, doubt: float, factor: float) -> None:
        """Drop the pairs from points whose doubt differs from this one by more than a factor."""
        self.kept = [pair for pair in self.kept if alike(pair.doubt, doubt, factor)]

    def change_lam(self, lam: float) -> None:
        """Convert every y to another lam: y - lam s, the data's part of it, does not change."""
        if lam == self.lam:
            return
        for s, y, _, _ in self.kept:
            y[:, :-1] += float(lam - self.lam) * s[:, :-1]
        self.kept = [pair._replace(sy=inner(pair.s, pair.y)) for pair in self.kept]
        self.lam = lam

    def add(self, s: Array, y: Array, lam: float, doubt: float) -> None:
        self.lam, sy = lam, inner(s, y)
        size = np.sqrt(dot(s, s) * dot(y, y))
        if float(sy) > np.finfo(self.dtype).eps * size:  # else it shows no curvature
            self.kept = [*self.kept, Pair(s, y, sy, doubt)][-self.memory :]

    def scale(self, H0: Any) -> float:
        """gamma = <s, y> / <y, H0 y> of the last pair, which tells the size of H0 (Nocedal 1980).

        H0 has the curvature of single classes, not what couples them, and may be several times too
        large or too small; the pairs are not, and no step length would fit both.
        """
        _, y, sy, _ = self.kept[-1]
        bend = float(inner(y, H0 @ y))
        return float(sy) / bend if bend > 0.0 else 1.0

    def direction(self, gradient: Array, H0: Any, gamma: float) -> Array:
        """-H ∇P, by the two loops of L-BFGS from gamma H0."""
        q = -gradient
        alphas = []
        for s, y, sy, _ in reversed(self.kept):
            alpha = inner(s, q) / sy
            alphas.append(alpha)
            add_scaled(-alpha, y, q)
        q = H0 @ q
        q *= gamma
        for (s, y, sy, _), alpha in zip(self.kept, reversed(alphas), strict=True):
            beta = inner(y, q) / sy
            add_scaled(alpha - beta, s, q)
        return q
