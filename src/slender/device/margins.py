"""The margin losses of losses.py on tensors: formulas of margins z = y s, or of scores."""

from collections.abc import Callable
from typing import Any, NamedTuple

from ..losses import (
    SQUARED_CLIP,
    CalibratedHinge,
    Exponential,
    Hinge,
    Logistic,
    MarginLoss,
    Squared,
)


class TensorLoss(NamedTuple):
    """F(z), F'(z) and ln f(s) / (1 - f(s)), each of a tensor."""

    value: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    logit: Callable[[Any], Any]


def logistic_value(z: Any) -> Any:
    return (-z).clamp(min=0.0) + (-z.abs()).exp().log1p()


def logistic_slope(z: Any) -> Any:
    e = (-z.abs()).exp()
    return -e.where(z >= 0.0, 1.0) / (1.0 + e)


def calibrated_hinge_value(z: Any) -> Any:
    return (-z).clamp(min=0.0) - (2.0 + z.abs()).log()


def calibrated_hinge_slope(z: Any) -> Any:
    f = 1.0 / (2.0 + z.abs())
    return (-f).where(z >= 0.0, f - 1.0)


def calibrated_hinge_logit(z: Any) -> Any:
    return z.abs().log1p().copysign(z)


def squared_logit(z: Any) -> Any:
    inside = z.clamp(-SQUARED_CLIP, SQUARED_CLIP)
    tangent = 2.0 / (1.0 - SQUARED_CLIP**2)
    return ((1.0 + inside) / (1.0 - inside)).log() + tangent * (z - inside)


def unchanged(z: Any) -> Any:
    return z


TENSOR_LOSSES: dict[type, TensorLoss] = {
    Logistic: TensorLoss(logistic_value, logistic_slope, unchanged),
    CalibratedHinge: TensorLoss(
        calibrated_hinge_value, calibrated_hinge_slope, calibrated_hinge_logit
    ),
    Squared: TensorLoss(
        lambda z: 0.25 * (1.0 - z).square(), lambda z: 0.5 * (z - 1.0), squared_logit
    ),
    Hinge: TensorLoss(  # no posterior: scores are used as they are
        lambda z: (1.0 - z).clamp(min=0.0), lambda z: -(z < 1.0).to(z.dtype), unchanged
    ),
    Exponential: TensorLoss(lambda z: (-z).exp(), lambda z: -(-z).exp(), lambda z: 2.0 * z),
}


def on_tensors(loss: MarginLoss) -> TensorLoss:
    """The formulas of a loss."""
    return TENSOR_LOSSES[type(loss)]


def to_logits(loss: MarginLoss, S: Any) -> None:
    """S <- logit f(S), in place, for scores S (n, C); without a posterior S is unchanged."""
    S.copy_(on_tensors(loss).logit(S))


def probabilities(S: Any, apart: bool) -> Any:
    """From calibrated scores S: f of each; unless `apart`, relative to the best class of a row."""
    if apart:
        return S.sigmoid()
    L = -logistic_value(S)  # ln f
    return L.sub_(L.amax(1, keepdim=True)).exp_()
