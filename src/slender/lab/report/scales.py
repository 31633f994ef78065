"""From numbers to places on an axis, and which numbers to write beside it."""

import math
from collections.abc import Iterable
from typing import NamedTuple

TICKS = 5  # about as many as an axis has
STEPS = (1.0, 2.0, 5.0, 10.0)
MARGIN = 0.05  # of the axis, on either side of the numbers
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class AxisScale(NamedTuple):
    """An axis from `low` to `high`, drawn from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool
    whole: bool = False  # no number between two whole ones is written

    def __call__(self, value: float) -> float:
        """The place of a number; just outside for one that is."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return self.start + (self.end - self.start) * (at - low) / (high - low)

    def ticks(self) -> list[float]:
        """Round numbers on the axis."""
        if not self.log:
            return _even(self.low, self.high, 1.0 if self.whole else 0.0)
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        if last - first >= 2:
            every = max(1, math.ceil((last - first) / TICKS))
            return [10.0**k for k in range(first, last + 1) if k % every == 0]
        among = [s * 10.0**k for k in range(first - 1, last + 1) for s in STEPS[:3]]
        found = [value for value in among if self.low <= value <= self.high]
        return found if len(found) >= 2 else _even(self.low, self.high)


def scale(
    values: Iterable[float], start: float, end: float, log: bool, margin: float = MARGIN
) -> AxisScale:
    """An axis on which all the numbers have a place; for a log axis they are > 0."""
    known = [value for value in values if math.isfinite(value)] or [1.0]
    low, high = min(known), max(known)
    if log:
        air = (high / low) ** margin if high > low else 2.0
        return AxisScale(low / air, high * air, start, end, log)
    air = margin * (high - low) or 0.5 * abs(high) or 1.0
    return AxisScale(low - air, high + air, start, end, log)


def _even(low: float, high: float, least: float = 0.0) -> list[float]:
    rough = max((high - low) / TICKS, least)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in STEPS if s * power >= rough)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [k * step for k in range(first, last + 1)]


def tick_label(value: float) -> str:
    """Short: 0.25, 10⁻⁶, 2,000."""
    if value == 0:
        return "0"
    power = math.floor(math.log10(abs(value)) + 1e-9)
    if -4 <= power <= 5:
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"
    digits = value / 10.0**power
    leading = "" if abs(digits - 1) < 1e-6 else f"{digits:.3g}·"
    return f"{leading}10{str(power).translate(SUPERSCRIPT)}"
