"""Losses: value F, slope F', curvature F'' and, for some of them, the posterior f.

Margin losses are functions of z = y s, with y in {-1, +1} and s the score of a class.  A loss is
*calibrated* (Bel Haj Ali et al. 2013, §2) if it is convex, differentiable and F(z) = -z + ∫f with
f: R -> [0, 1] increasing and symmetric about (0, 1/2).  Then f maps a score to P(y = +1 | x), and
f(z) = F'(z) + 1.

Multi-class losses are functions of a row of scores s (C,) and the index y of the true class.  Their
slope and curvature are written into arrays of the caller (the slope may overwrite s).

A loss is a NamedTuple of its numbers with ordinary methods, so that the same formula runs in
Python, in tests and inside a compiled kernel.  Kernels call the functions at the end of this file:
`value(loss, z)`, `slope(loss, z)`, `row_value(loss, s, y)` and `row_slope(loss, s, y, out)`.  A new
loss is one class and one line in MARGIN_LOSSES or MULTICLASS_LOSSES.

A loss also states its properties.  `smoothness()` is a bound on its curvature: infinite if there is
no bound, 0 if its slope jumps.  Only a loss with a posterior has the methods `posterior` and
`logit`.  Estimators accept the losses with the properties that they need (`bounded`, `smooth`,
`peaked_at_zero`).
"""

from collections.abc import Callable, Mapping
from math import copysign, exp, inf, log, log1p
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload, register_jitable
from numpy.typing import NDArray

from .kernels import kernel
from .overloads import method_of


class Logistic(NamedTuple):
    """F(z) = ln(1 + e^-z).  Bel Haj Ali et al. 2013, eq. 2."""

    def value(self, z: float) -> float:
        return max(0.0, -z) + log1p(exp(-abs(z)))

    def slope(self, z: float) -> float:
        e = exp(-abs(z))
        return -e / (1.0 + e) if z >= 0.0 else -1.0 / (1.0 + e)

    def curvature(self, z: float) -> float:
        e = exp(-abs(z))
        return e / (1.0 + e) ** 2

    def smoothness(self) -> float:
        return 0.25

    def posterior(self, z: float) -> float:
        e = exp(-abs(z))
        return 1.0 / (1.0 + e) if z >= 0.0 else e / (1.0 + e)

    def logit(self, z: float) -> float:
        """ln f(z) / (1 - f(z))."""
        return z


class CalibratedHinge(NamedTuple):
    """F(z) = max(0, -z) - ln(2 + |z|).  Bel Haj Ali et al. 2013, eq. 3.

    It is -ln 2 at 0, and unbounded below.
    """

    def value(self, z: float) -> float:
        return max(0.0, -z) - log(2.0 + abs(z))

    def slope(self, z: float) -> float:
        return -1.0 / (2.0 + z) if z >= 0.0 else -1.0 + 1.0 / (2.0 - z)

    def curvature(self, z: float) -> float:
        return (1.0 / (2.0 + abs(z))) ** 2

    def smoothness(self) -> float:
        return 0.25

    def posterior(self, z: float) -> float:
        return 1.0 - 1.0 / (2.0 + z) if z >= 0.0 else 1.0 / (2.0 - z)

    def logit(self, z: float) -> float:
        return copysign(log1p(abs(z)), z)


# Where the squared loss's posterior (1 + z)/2 is clipped.  Beyond it the logit goes on along its
# tangent, so that it stays finite and strictly increasing and an argmax over classes has no ties.
SQUARED_CLIP = 0.999


class Squared(NamedTuple):
    """F(z) = (1 - z)^2 / 4.  Bel Haj Ali et al. 2013, §2.

    Outside [-1, 1] its f would leave [0, 1], and is clipped.
    """

    def value(self, z: float) -> float:
        return 0.25 * (1.0 - z) ** 2

    def slope(self, z: float) -> float:
        return 0.5 * (z - 1.0)

    def curvature(self, z: float) -> float:
        return 0.5

    def smoothness(self) -> float:
        return 0.5

    def posterior(self, z: float) -> float:
        return min(1.0, max(0.0, 0.5 * (1.0 + z)))

    def logit(self, z: float) -> float:
        inside = min(SQUARED_CLIP, max(-SQUARED_CLIP, z))
        tangent = 2.0 / (1.0 - SQUARED_CLIP**2)
        return log((1.0 + inside) / (1.0 - inside)) + tangent * (z - inside)


class Hinge(NamedTuple):
    """F(z) = max(0, 1 - z), the loss of the SVM.

    It is not calibrated, so it has no posterior (Bel Haj Ali et al. 2013, Fig. 1).
    """

    def value(self, z: float) -> float:
        return max(0.0, 1.0 - z)

    def slope(self, z: float) -> float:
        return -1.0 if z < 1.0 else 0.0

    def curvature(self, z: float) -> float:
        return 0.0

    def smoothness(self) -> float:
        """0: its slope jumps, so there is no bound."""
        return 0.0


# e^z overflows a float64 above this.
LOG_MAX = 709.782712893384


class Exponential(NamedTuple):
    """F(z) = e^-z, the loss of AdaBoost.

    It is convex and proper, but its f is not F' + 1 (Bel Haj Ali et al. 2013, Fig. 1).
    """

    def value(self, z: float) -> float:
        return exp(-z) if z > -LOG_MAX else inf

    def slope(self, z: float) -> float:
        return -exp(-z) if z > -LOG_MAX else -inf

    def curvature(self, z: float) -> float:
        return exp(-z) if z > -LOG_MAX else inf

    def smoothness(self) -> float:
        return inf

    def posterior(self, z: float) -> float:
        e = exp(-2.0 * abs(z))
        return 1.0 / (1.0 + e) if z >= 0.0 else e / (1.0 + e)

    def logit(self, z: float) -> float:
        return 2.0 * z


def exp_of_rows(S: NDArray[Any]) -> NDArray[Any]:
    """S <- e^(S - the largest of its row): softmax but for the sums, in place."""
    S -= S.max(axis=1, keepdims=True)
    return np.exp(S, out=S)


@register_jitable
def softmax(s: NDArray[Any], out: NDArray[Any]) -> None:
    """out = e^s / Σ e^s."""
    m = s.max()
    total = 0.0
    for k in range(len(s)):
        out[k] = exp(s[k] - m)
        total += out[k]
    for k in range(len(s)):
        out[k] /= total


class CrossEntropy(NamedTuple):
    """-ln softmax(s)_y."""

    def value(self, s: NDArray[Any], y: int) -> float:
        # The true class's own term is taken out of the sum, so that a loss far below the rounding
        # of 1 is not lost:  ln sum_k e^(s_k - s_y) = m + ln(sum_k e^(s_k - s_y - m)).
        m = s.max()
        if s[y] == m:
            rest = 0.0
            for k in range(len(s)):
                if k != y:
                    rest += exp(s[k] - m)
            return log1p(rest)
        total = 0.0
        for k in range(len(s)):
            total += exp(s[k] - m)
        return (m - s[y]) + log(total)

    def slope(self, s: NDArray[Any], y: int, out: NDArray[Any]) -> None:
        """out = softmax(s) - e_y."""
        softmax(s, out)
        rest = 0.0  # 1 - p_y without cancellation
        for k in range(len(s)):
            if k != y:
                rest += out[k]
        out[y] = -rest

    def curvature(self, s: NDArray[Any], y: int, out: NDArray[Any]) -> None:
        """out = diag(p) - p pᵀ, p = softmax(s)."""
        p = np.empty(len(s))
        softmax(s, p)
        for j in range(len(s)):
            rest = 0.0
            for k in range(len(s)):
                out[j, k] = -p[j] * p[k]
                if k != j:
                    rest += p[k]
            out[j, j] = p[j] * rest

    def smoothness(self) -> float:
        """The largest eigenvalue of the curvature is at most 1/2.

        Each row of diag(p) - p pᵀ has absolute sum 2 p_j (1 - p_j) <= 1/2 (Gershgorin).
        """
        return 0.5

    def posterior(self, s: NDArray[Any], out: NDArray[Any]) -> None:
        softmax(s, out)


@register_jitable
def most_violated(s: NDArray[Any], y: int) -> int:
    """argmax_k { s_k + 1[k != y] - s_y }; ties go to the true class, then to the first."""
    k_star, worst = y, 0.0
    for k in range(len(s)):
        if k != y and (s[k] - s[y]) + 1.0 > worst:
            k_star, worst = k, (s[k] - s[y]) + 1.0
    return k_star


class CrammerSinger(NamedTuple):
    """max_k {s_k + 1[k != y]} - s_y (Crammer and Singer 2001); ties go to the first class."""

    def value(self, s: NDArray[Any], y: int) -> float:
        k = most_violated(s, y)
        return 0.0 if k == y else (s[k] - s[y]) + 1.0

    def slope(self, s: NDArray[Any], y: int, out: NDArray[Any]) -> None:
        """out = e_k* - e_y, where class k* attains the maximum."""
        k_star = most_violated(s, y)
        for k in range(len(s)):
            out[k] = 0.0
        out[k_star] += 1.0
        out[y] -= 1.0

    def curvature(self, s: NDArray[Any], y: int, out: NDArray[Any]) -> None:
        out[:] = 0.0

    def smoothness(self) -> float:
        """0: its slope jumps, so there is no bound."""
        return 0.0


MarginLoss = Logistic | CalibratedHinge | Squared | Hinge | Exponential
MARGIN_LOSSES: dict[str, MarginLoss] = {
    "logistic": Logistic(),
    "calibrated_hinge": CalibratedHinge(),
    "squared": Squared(),
    "hinge": Hinge(),
    "exponential": Exponential(),
}
MulticlassLoss = CrossEntropy | CrammerSinger
MULTICLASS_LOSSES: dict[str, MulticlassLoss] = {
    "cross_entropy": CrossEntropy(),
    "crammer_singer": CrammerSinger(),
}


# What an estimator may need of a loss.


def bounded(loss: MarginLoss | MulticlassLoss) -> bool:
    """Is its curvature bounded, or at least its slope?  Otherwise no rate is safe."""
    return loss.smoothness() < inf


def smooth(loss: MarginLoss | MulticlassLoss) -> bool:
    """Is it differentiable everywhere, with a bounded curvature?"""
    return 0.0 < loss.smoothness() < inf


def peaked_at_zero(loss: MarginLoss) -> bool:
    """Is F''(z) <= F''(0) everywhere?  SLND uses the curvature at 0, and Theorem 2 needs it."""
    return smooth(loss) and loss.curvature(0.0) == loss.smoothness()


def fit_for(need: Callable[[Any], bool], *registries: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the losses with the property `need`."""
    return tuple(name for losses in registries for name, loss in losses.items() if need(loss))


# Verbs for compiled code (see overloads.py).


def value(loss: MarginLoss, z: float) -> float:
    """F(z)."""
    return loss.value(z)


def slope(loss: MarginLoss, z: float) -> float:
    """F'(z)."""
    return loss.slope(z)


def logit(loss: MarginLoss, z: float) -> float:
    """ln f(z) / (1 - f(z))."""
    return loss.logit(z)  # type: ignore[union-attr]


def row_value(loss: MulticlassLoss, s: NDArray[Any], y: int) -> float:
    """The loss of a row with scores s (C,) and true class y."""
    return loss.value(s, y)


def row_slope(loss: MulticlassLoss, s: NDArray[Any], y: int, out: NDArray[Any]) -> None:
    """out (C,) = the slope of the loss in each score."""
    loss.slope(s, y, out)


def _compile(verb: Any) -> None:
    @overload(verb)
    def _(loss, z):  # type: ignore[no-untyped-def]  # numba compares the two signatures
        method = method_of(loss, verb.__name__)
        return lambda loss, z: method(loss, z)


for _verb in (value, slope, logit):
    _compile(_verb)


@overload(row_value)
def _row_value(loss, s, y):  # type: ignore[no-untyped-def]
    method = method_of(loss, "value")
    return lambda loss, s, y: method(loss, s, y)


@overload(row_slope)
def _row_slope(loss, s, y, out):  # type: ignore[no-untyped-def]
    method = method_of(loss, "slope")
    return lambda loss, s, y, out: method(loss, s, y, out)


def to_logits(loss: MarginLoss, S: NDArray[Any]) -> None:
    """S <- logit f(S), in place, for scores S (n, C); without a posterior S is unchanged."""
    if hasattr(loss, "logit") and not isinstance(loss, Logistic):  # the logistic logit is S itself
        _to_logits(loss, S)


@kernel()
def _to_logits(loss, S):  # type: ignore[no-untyped-def]
    for i in range(S.shape[0]):
        for c in range(S.shape[1]):
            S[i, c] = logit(loss, S[i, c])
