"""The temperature with the lowest log loss on held-out rows: softmax(scores / temperature).

The loss is convex in 1/temperature.  It has no minimum at a finite temperature if every row is
classified correctly (then smaller is always better) or if the scores carry no information.  Near
such cases, one more or one fewer row could change the minimum by any factor.  n times the second
derivative of the loss in ln(temperature) is the information that the rows have about it, and
1/sqrt(information) is the standard error of ln(temperature).
"""

from math import exp, inf, log
from typing import Any

from numpy.typing import NDArray
from scipy.optimize import bracket, minimize_scalar

from ..data import Examples
from ..metrics import measure
from ..notices import warn

UNSURE = log(2.0)  # a standard error of ln(temperature) that leaves it open by a factor of two
FARTHEST = 50.0  # in ln(temperature): beyond this not even rounding is left
NEAR = 0.1  # in ln(temperature): where the second derivative is taken
PRECISION = 1e-3  # of ln(temperature)


def temperature(held_out: Examples, W: NDArray[Any], b: NDArray[Any]) -> float:
    """The temperature; 1, with a warning, if these rows do not determine it."""

    def loss(place: float) -> float:
        if abs(place) > FARTHEST:
            return inf
        return measure(held_out, W, b, exp(place))["log_loss"]

    try:
        first, _, last, *_ = bracket(loss, 0.0, UNSURE)
    except RuntimeError:  # no minimum
        first, last = -NEAR, NEAR
    bounds = min(first, last), max(first, last)
    best = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": PRECISION}).x
    n = len(held_out.y)
    information = n * (loss(best - NEAR) - 2.0 * loss(best) + loss(best + NEAR)) / NEAR**2
    if UNSURE**2 * information > 1.0:
        return exp(best)
    wrong = round(n * (1.0 - measure(held_out, W, b)["top1"]))
    warn(
        f"{n} held-out rows, of which {wrong} are misclassified, do not determine the temperature: "
        "it stays 1; hold out more rows (validation=0.3)"
    )
    return 1.0
