"""The curvature of the classes, A = Σ w_i (diag p_i - p_i p_iᵀ), and A⁺ g without decomposing A.

A is the Laplacian of a graph whose vertices are the classes: symmetric, A 1 = 0, and
0 <= A <= 2 diag(A).  So conjugate gradients, preconditioned by its diagonal, solve A tau = -g for
the intercepts' Newton step, and A itself is needed only as a product:

    A v = p̄ ∘ v - Pᵀ (w ∘ (P v)),    p̄ = Σ w_i p_i

which is two thin products for the softmax P (m, C) of a sample of m rows.  Up to DENSE classes A is
stored as a matrix; with more classes it is never formed on this machine's cores.  A GPU waits
longer for fifty products, one after the other, than for a factor of up to FACTORED classes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np

from ..arrays import Array, astype, copy, dtype_of, is_numpy, namespace, set_diagonal
from ..device import factors

DENSE = 256  # classes up to which A is formed: n C² more multiply-adds in a pass
EXACT = 1e-9  # relative to g: a solution with a residual this small counts as exact
LOOSELY = 1e-3  # enough where A itself is estimated from a sample
FACTORED = 2048  # classes up to which a device factors A: faster than some products
RIDGE = 1e-6  # of the diagonal, which the rounding of A may exceed in a class without curvature
WAIT = 8  # products between two looks at the residual on a device, which waits for it
NULL = 1e-14  # share of the largest curvature: a class with less has none

Vector = Array  # (C,) float64


class ClassCurvature(Protocol):
    """A as a product, and its diagonal."""

    complete: ClassVar[bool]  # is it more than the diagonal?
    tol: ClassVar[float]  # to what residual A⁺ g is worth solving

    @property
    def inverse_factor(self) -> Array | None:
        """L⁻¹ of A = L Lᵀ, as exact as `tol`, if it has one."""

    @property
    def diagonal(self) -> Vector:
        """(C,) Σ w p (1 - p)."""

    def __matmul__(self, v: Vector) -> Vector:
        """A v."""


@dataclass(frozen=True)
class ClassMatrix:
    """A as a matrix (C, C)."""

    complete: ClassVar[bool] = True
    tol: ClassVar[float] = EXACT
    inverse_factor: ClassVar[None] = None
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
    tol: ClassVar[float] = LOOSELY
    P: Array
    w: Array
    mass: Vector  # (C,) Σ w p
    diagonal: Vector  # (C,)

    def __matmul__(self, v: Vector) -> Vector:
        Pv = self.P @ astype(v, dtype_of(self.P))
        return self.mass * v - (self.w * Pv) @ self.P

    @cached_property
    def inverse_factor(self) -> Array | None:
        """L⁻¹ of A + a multiple of 1 1ᵀ, on a device: it factors a small matrix at once."""
        if is_numpy(self.P) or len(self.mass) > FACTORED:
            return None
        A = -astype(self.P.T @ (self.P * self.w[:, None]), np.float64)
        diagonal = self.diagonal.clamp_min(NULL * self.diagonal.amax())
        A += diagonal.mean()
        set_diagonal(A, diagonal * (1.0 + RIDGE) + diagonal.mean())
        inverse = factors.inverse_factor(A)
        return inverse if bool(inverse.any()) else None


@dataclass(frozen=True)
class ClassDiagonal:
    """Only the diagonal of A, if even the P of a sample would be too large."""

    complete: ClassVar[bool] = False
    tol: ClassVar[float] = EXACT
    inverse_factor: ClassVar[None] = None
    diagonal: Vector

    def __matmul__(self, v: Vector) -> Vector:
        return self.diagonal * v


def solve(A: ClassCurvature, g: Vector, tol: float = EXACT, most: int | None = None) -> Vector:
    """A⁺ g by conjugate gradients, to a residual of `tol` relative to g, in `most` products.

    A common shift of all classes has no effect and is removed.  Classes without curvature, for
    which no intercept helps, are left out.
    """
    a, xp = A.diagonal, namespace(g)
    with np.errstate(divide="ignore"):
        inverse = xp.where(a > NULL * a.max(), 1.0 / a, 0.0)
    free = astype(inverse > 0.0, np.float64)
    g = (g - g.mean()) * free
    if tol >= A.tol and A.inverse_factor is not None:
        x = (A.inverse_factor @ g) @ A.inverse_factor * free
    else:
        x = conjugate_gradients(lambda v: (A @ v) * free, g, inverse, tol, most or len(g))
    return x - x.mean()


def newton_step(A: ClassCurvature, g: Vector) -> Vector:
    """A⁺ g as a step: at most 1 per class if only the diagonal of A is known."""
    step = solve(A, g, A.tol)
    return step if A.complete else namespace(step).clip(step, -1.0, 1.0)


def conjugate_gradients(
    product: Callable[[Vector], Vector], g: Vector, inverse: Vector, tol: float, most: int
) -> Vector:
    """Approximate x with product(x) = g; residuals are scaled by `inverse`, an inverse diagonal."""
    xp = namespace(g)
    x, r = xp.zeros_like(g), copy(g)
    z = inverse * r
    v, rz = copy(z), r @ z
    goal, every = tol**2 * rz, 1 if is_numpy(g) else WAIT
    with np.errstate(divide="ignore", invalid="ignore"):
        for k in range(most):
            if k % every == 0 and not bool(rz > goal):
                break
            Av = product(v)
            # Rounding, along a shift of all classes, or an overflow may make it negative or NaN: no
            # step then, and none after it.
            step = xp.nan_to_num((rz / (v @ Av)).clip(0.0, None), nan=0.0, posinf=0.0)
            x += step * v
            r -= step * Av
            z = inverse * r
            before, rz = rz, (r @ z) * (step > 0.0)
            v = xp.nan_to_num(rz / before, nan=0.0, posinf=0.0) * v
            v += z
    return x
