"""The curvature of the classes, A = Σ w_i (diag p_i - p_i p_iᵀ), and A⁺ g without decomposing A.

A is the Laplacian of a graph whose vertices are the classes: symmetric, A 1 = 0, and
0 <= A <= 2 diag(A).  So conjugate gradients, preconditioned by its diagonal, solve A tau = -g for
the intercepts' Newton step, and A itself is needed only as a product:

    A v = p̄ ∘ v - Pᵀ (w ∘ (P v)),    p̄ = Σ w_i p_i

which is two thin products for the softmax P (m, C) of a sample of m rows.  Up to DENSE classes A is
stored as a matrix; with more classes it is never formed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from ..arrays import Array, astype, copy, dtype_of, namespace

DENSE = 256  # classes up to which A is formed: n C² more multiply-adds in a pass
EXACT = 1e-9  # relative to g: a solution with a residual this small counts as exact
NULL = 1e-14  # share of the largest curvature: a class with less has none

Vector = Array  # (C,) float64


class ClassCurvature(Protocol):
    """A as a product, and its diagonal."""

    complete: ClassVar[bool]  # is it more than the diagonal?

    @property
    def diagonal(self) -> Vector:
        """(C,) Σ w p (1 - p)."""

    def __matmul__(self, v: Vector) -> Vector:
        """A v."""


@dataclass(frozen=True)
class ClassMatrix:
    """A as a matrix (C, C)."""

    complete: ClassVar[bool] = True
    A: Vector

    @property
    def diagonal(self) -> Vector:
        return namespace(self.A).clip(self.A.diagonal(), 0.0, None)

    def __matmul__(self, v: Vector) -> Vector:
        return self.A @ v


@dataclass(frozen=True)
class ClassSample:
    """A of a sample: its softmax P (m, C) and the rows' weights w (m,)."""

    complete: ClassVar[bool] = True
    P: Array
    w: Array
    mass: Vector  # (C,) Σ w p
    diagonal: Vector  # (C,)

    def __matmul__(self, v: Vector) -> Vector:
        Pv = self.P @ astype(v, dtype_of(self.P))
        return self.mass * v - (self.w * Pv) @ self.P


@dataclass(frozen=True)
class ClassDiagonal:
    """Only the diagonal of A, if even the P of a sample would be too large."""

    complete: ClassVar[bool] = False
    diagonal: Vector

    def __matmul__(self, v: Vector) -> Vector:
        return self.diagonal * v


def solve(A: ClassCurvature, g: Vector, tol: float = EXACT, most: int | None = None) -> Vector:
    """A⁺ g by conjugate gradients, to a residual of `tol` relative to g, in `most` products.

    A common shift of all classes has no effect and is removed.  Classes without curvature, for
    which no intercept helps, are left out.
    """
    a, xp = A.diagonal, namespace(g)
    largest = float(xp.max(a))
    free = a > NULL * largest
    if not largest > 0.0:
        return xp.zeros_like(g)
    inverse = xp.where(free, 1.0 / xp.where(free, a, 1.0), 0.0)
    g = xp.where(free, g - g.mean(), 0.0)
    x = conjugate_gradients(lambda v: xp.where(free, A @ v, 0.0), g, inverse, tol, most or len(g))
    return x - x.mean()


def newton_step(A: ClassCurvature, g: Vector) -> Vector:
    """A⁺ g as a step: at most 1 per class if only the diagonal of A is known."""
    step = solve(A, g)
    return step if A.complete else namespace(step).clip(step, -1.0, 1.0)


def conjugate_gradients(
    product: Callable[[Vector], Vector], g: Vector, inverse: Vector, tol: float, most: int
) -> Vector:
    """Approximate x with product(x) = g; residuals are scaled by `inverse`, an inverse diagonal."""
    x, r = namespace(g).zeros_like(g), copy(g)
    z = inverse * r
    v, rz = copy(z), float(r @ z)
    goal = tol**2 * rz
    for _ in range(most):
        if not rz > goal:
            break
        Av = product(v)
        bend = float(v @ Av)
        if not bend > 0.0:  # rounding: along a shift of all classes, or an overflow
            break
        x += (rz / bend) * v
        r -= (rz / bend) * Av
        z = inverse * r
        before, rz = rz, float(r @ z)
        v = z + (rz / before) * v
    return x
