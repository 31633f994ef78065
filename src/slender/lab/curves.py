"""Curves: what a fit had reached after how many seconds, one point after another.

A point is a dict with its seconds and what was measured there.  Nothing is interpolated: a curve
is at a target from its first point that is.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Point = Mapping[str, Any]
Curve = Sequence[Point]


def column(curve: Curve, name: str) -> NDArray[np.float64]:
    """One figure of every point; nan where it has none (top-5 of four classes)."""
    values = [point.get(name) for point in curve]
    return np.array([np.nan if value is None else value for value in values], np.float64)


def first_below(curve: Curve, name: str, target: float) -> int | None:
    """The place of the first point at or below the target; None: there is none."""
    return next((place for place, point in enumerate(curve) if point[name] <= target), None)


def seconds_to(curve: Curve, name: str, target: float, rising: bool = False) -> float | None:
    """Seconds until a figure first falls (or rises) to the target; None: it does not."""
    sign = -1.0 if rising else 1.0
    there = (point["seconds"] for point in curve if sign * point[name] <= sign * target)
    return next(there, None)


def best(curve: Curve, name: str, rising: bool = False) -> float:
    """The lowest (or highest) that a figure gets."""
    values = [point[name] for point in curve]
    return max(values) if rising else min(values)


def medians(lines: Sequence[Sequence[NDArray[np.float64]]]) -> NDArray[np.float64]:
    """x and y of several lines (each x, y), and then their median, point by point: (k + 1, 2, m).

    Lines may stop early: as many points as the shortest has.
    """
    shortest = min(len(x) for x, _ in lines)
    points = np.array([(x[:shortest], y[:shortest]) for x, y in lines])
    return np.concatenate([points, np.median(points, axis=0, keepdims=True)])
