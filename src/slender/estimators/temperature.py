"""The temperature of least log loss on held-out rows: softmax(scores / temperature).

The loss is convex in 1/temperature.  It has its minimum at no finite place where every row is
right (the surer, the better) or where scores say nothing; near such cases one row more or less
would move it by any factor.  n times the loss's second derivative in ln(temperature) is the
information the rows have on it, and the standard error of the logarithm is its root's inverse.
"""

from math import exp, inf, log
from typing import Any

from numpy.typing import NDArray
from scipy.optimize import bracket, minimize_scalar

from ..metrics import measure
from ..notices import warn
from ..solvers.path import HeldOut

UNSURE = log(2.0)  # a standard error of ln(temperature) that leaves it open by a factor of two
FARTHEST = 50.0  # in ln(temperature): beyond this not even rounding is left
NEAR = 0.1  # in ln(temperature): where the second derivative is taken
PRECISION = 1e-3  # of ln(temperature)


def temperature(held_out: HeldOut, W: NDArray[Any], b: NDArray[Any]) -> float:
    """The temperature; 1, with a warning, where these rows cannot tell it."""

    def loss(place: float) -> float:
        if abs(place) > FARTHEST:
            return inf
        return measure(*held_out, W, b, exp(place))["log_loss"]

    try:
        first, _, last, *_ = bracket(loss, 0.0, UNSURE)
    except RuntimeError:  # no minimum
        first, last = -NEAR, NEAR
    bounds = min(first, last), max(first, last)
    best = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": PRECISION}).x
    n = held_out[0].shape[0]
    information = n * (loss(best - NEAR) - 2.0 * loss(best) + loss(best + NEAR)) / NEAR**2
    if UNSURE**2 * information > 1.0:
        return exp(best)
    wrong = round(n * (1.0 - measure(*held_out, W, b)["top1"]))
    warn(
        f"{n} held-out rows, of which {wrong} are wrong, cannot tell the temperature: it stays 1; "
        "hold out more rows (validation=0.3)"
    )
    return 1.0
