"""Settings tried once each, the best of them chosen; sides that take turns; medians and ranges.

Sides take turns, seed after seed, so that a slow minute of the machine hits everyone; ratios are
of runs with the same seed.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, TypeVar

Side = TypeVar("Side", bound=Hashable)
Setting = TypeVar("Setting")
Run = TypeVar("Run")
Spread = dict[str, float]  # median, min and max
Say = Callable[[str], object]  # one line about what is running


def try_each(
    settings: Iterable[Setting], run: Callable[[Setting], Run], cost: Callable[[Run], Any]
) -> tuple[list[Run], int]:
    """A run with each setting, and the place of the first of the lowest cost."""
    tried = [run(setting) for setting in settings]
    costs = [cost(one) for one in tried]
    return tried, costs.index(min(costs))


def by_turns(
    sides: Mapping[Side, Callable[[int], Run | None]],
    seeds: Sequence[int],
    say: Say = lambda line: None,
) -> dict[Side, list[Run]]:
    """The runs of each side, one for each seed; a side that returns None sits out that turn."""
    runs: dict[Side, list[Run]] = {side: [] for side in sides}
    for number, seed in enumerate(seeds, 1):
        for side, run in sides.items():
            say(f"repeat {number} of {len(seeds)}: {side}")
            found = run(seed)
            if found is not None:
                runs[side].append(found)
    return runs


def spread(values: Sequence[float]) -> Spread:
    return {"median": median(values), "min": min(values), "max": max(values)}


def spread_of(runs: Sequence[Mapping[str, Any]], name: str, scale: float = 1.0) -> Spread:
    """The same of one figure of some runs."""
    return spread([scale * run[name] for run in runs])


def ratios(
    theirs: Sequence[Mapping[str, Any]], ours: Sequence[Mapping[str, Any]], name: str = "seconds"
) -> Spread:
    """Their figure over ours, turn by turn."""
    return spread([them[name] / us[name] for them, us in zip(theirs, ours, strict=True)])


def ranged(values: Spread | None, digits: int = 2, scale: float = 1.0, none: str = "never") -> str:
    """1.50 (1.20–1.90)"""
    if values is None:
        return none
    low, middle, high = (f"{scale * values[key]:.{digits}f}" for key in ("min", "median", "max"))
    return f"{middle} ({low}–{high})"
