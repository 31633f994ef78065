"""Theorem 2 of Bel Haj Ali et al. 2013 (§5 and appendix), corrected: its step and its guarantee.

The sample of a class is fixed: rows z_j (x° in the paper), signs y_j = ±1, weights c_j (1 in the
paper), j = 1..m.  At iterate v,

    p_j = -√c_j F'(y_j vᵀz_j) >= 0     weight of example j: large if it is badly classified
    s_j = √c_j y_j z_jᵀz_i              effect of example i on the margin of example j   (eq. 13)
    e   = y_i p_i pᵀs
    Π   = p_i² ‖s‖₂²
    η   = 2 (1 - ε) e / (F''(0) Π)      signed: if e < 0 the step goes backwards         (eq. 23)
    γ   = |pᵀs| / ‖s‖₁                  the weak separability of this step              (eq. 14)
    ρ   = (pᵀs)² / ‖s‖₂²  >=  γ²                                                        (eq. 24)

The step to v + η y_i p_i z_i lowers the risk ε_F = mean_j c_j F(y_j vᵀz_j) by at least
2 ε (1 - ε) ρ / (m F''(0)), with equality for the squared loss.

Departures from the printed text:
* eq. 13 lacks the y_i that e needs, so e and pᵀs may differ in sign;
* |η| instead of η would raise the risk if e < 0;
* eq. 16 prints x° but means x*;
* one γ cannot hold for all t if F >= 0: `horizon` bounds the number of steps for which it can.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .kernels import kernel
from .losses import MarginLoss, peaked_at_zero, slope, value

EPSILON = 0.5  # maximises ε (1 - ε), the guaranteed decrease
ROUNDING = 1e-12  # of a risk that is meant to be that of w = 0


class TheoryStep(NamedTuple):
    """One step of Theorem 2."""

    eta: float  # signed; 0 where Π = 0 and the example can teach nothing
    gamma: float
    rho: float
    decrease: float  # guaranteed fall of the risk


@kernel()
def slopes(loss, z):  # type: ignore[no-untyped-def]
    """F'(z) for a vector of margins."""
    out = np.empty_like(z)
    for j in range(len(z)):
        out[j] = slope(loss, z[j])
    return out


@kernel()
def mean_value(loss, z, c):  # type: ignore[no-untyped-def]
    """mean_j c_j F(z_j), the risk of a vector of margins."""
    total = 0.0
    for j in range(len(z)):
        total += c[j] * value(loss, z[j])
    return total / len(z)


def theory_step(
    loss: MarginLoss,
    margins: NDArray[Any],  # (m,) y_j vᵀz_j
    s: NDArray[Any],  # (m,) √c_j y_j z_jᵀz_i
    y_i: float,
    p_i: float,
    epsilon: float = EPSILON,
    root: NDArray[Any] | float = 1.0,  # (m,) √c_j
) -> TheoryStep:
    """The step for example i of eq. 13, which defines s, at the iterate with these margins."""
    _check(loss, epsilon)
    curvature0 = loss.curvature(0.0)
    p = -root * slopes(loss, margins)
    ps, ss = float(p @ s), float(s @ s)
    if ss == 0.0:
        return TheoryStep(0.0, 0.0, 0.0, 0.0)
    rho = ps**2 / ss
    gamma = abs(ps) / float(np.abs(s).sum())
    decrease = 2.0 * epsilon * (1.0 - epsilon) * rho / (len(s) * curvature0)
    if p_i == 0.0:  # Π = 0
        return TheoryStep(0.0, gamma, rho, 0.0)
    e = y_i * p_i * ps
    eta = 2.0 * (1.0 - epsilon) * e / (curvature0 * p_i**2 * ss)
    return TheoryStep(eta, gamma, rho, decrease)


def horizon(
    loss: MarginLoss, m: int, gamma: float, target: float = 0.0, epsilon: float = EPSILON
) -> float:
    """Number of steps after which the risk is at most `target`, if γ is that of every step.

    For F >= 0 and target 0 it is also the largest number of steps for which such a γ can hold.
    """
    _check(loss, epsilon)
    if m < 1:
        raise ValueError(f"m={m} must be at least 1: it is the number of examples in the sample")
    if not 0.0 < gamma < np.inf:
        raise ValueError(f"gamma={gamma} must be a number > 0: without it nothing is guaranteed")
    start = loss.value(0.0)
    if not target <= start + ROUNDING * (1.0 + abs(start)):
        raise ValueError(
            f"target={target} lies above the risk at w = 0, {start:.4g} for {type(loss).__name__}: "
            "give a lower target"
        )
    gain = 2.0 * gamma**2 * epsilon * (1.0 - epsilon)
    return max(start - target, 0.0) * loss.curvature(0.0) * m / gain


def _check(loss: MarginLoss, epsilon: float) -> None:
    if not 0.0 < epsilon < 1.0:
        raise ValueError(f"epsilon={epsilon} must lie strictly between 0 and 1")
    if not peaked_at_zero(loss):
        name = type(loss).__name__
        raise ValueError(f"Theorem 2 needs F''(z) <= F''(0), which {name} lacks; Logistic has it")


class RiskSample(NamedTuple):
    """The fixed sample of a class, with the iterate and its margins."""

    Z: NDArray[Any]  # (m, k)
    y: NDArray[Any]  # (m,) ±1
    c: NDArray[Any]  # (m,) weights
    v: NDArray[Any]  # (k,)
    margins: NDArray[Any]  # (m,) y_j vᵀz_j

    @classmethod
    def at_zero(
        cls, Z: NDArray[Any], y: NDArray[Any], c: NDArray[Any] | None = None
    ) -> "RiskSample":
        c = np.ones(len(Z), Z.dtype) if c is None else c
        return cls(Z, y, c, np.zeros(Z.shape[1], Z.dtype), np.zeros(len(Z), Z.dtype))

    def take_step(self, loss: MarginLoss, i: int, epsilon: float = EPSILON) -> TheoryStep:
        """Eq. 11 on example i with the step of eq. 23; v and the margins change in place."""
        by = self.y * (self.Z @ self.Z[i])  # what the margins move by, a unit of the step
        root = np.sqrt(self.c)
        y_i, p_i = float(self.y[i]), -float(root[i]) * loss.slope(float(self.margins[i]))
        step = theory_step(loss, self.margins, root * by, y_i, p_i, epsilon, root)
        move = step.eta * y_i * p_i
        self.v[:] += move * self.Z[i]
        self.margins[:] += move * by
        return step

    def risk(self, loss: MarginLoss) -> float:
        """ε_F at the current iterate."""
        return float(mean_value(loss, self.margins, self.c))
