"""Who reaches which objective when: the figures of a race, from its curves alone."""

from collections.abc import Sequence
from typing import Any

from .runner import Trial, spread
from .solvers.multinomial import MULTINOMIAL

NEAR = 1e-3  # of the best objective known: the second level at which everyone is timed

Points = Sequence[dict[str, float]]


def first_at(curve: Points, value: float) -> int | None:
    """The first point at or below this objective; no interpolation.  None: there is none."""
    return next((i for i, p in enumerate(curve) if p["objective"] <= value), None)


def seconds_to(curve: Points, value: float) -> float | None:
    reached = first_at(curve, value)
    return None if reached is None else curve[reached]["seconds"]


def best_known(result: dict[str, Any]) -> float:
    """The lowest objective anyone reached, slender's tight fit included."""
    curves = [t["curve"] for t in [*result["grid"], *result["repeats"]]]
    values = [point["objective"] for curve in curves for point in curve]
    return min([result["tight"]["objective"], *(p["objective"] for p in result["plain"]), *values])


def versus(all_plain: Points, theirs: list[Trial]) -> dict[str, Any]:
    """A rival's time to slender's objective of the same repeat, and times slender's own.

    Where it does not get there, what it spent is counted: a lower bound, and `reached` says so.
    A rival that stops by itself above the target in more than half of the repeats has no time.
    """
    plain = [all_plain[t["seed"]] for t in theirs]
    times = [seconds_to(t["curve"], p["objective"]) for t, p in zip(theirs, plain, strict=True)]
    spent = [max(point["seconds"] for point in t["curve"]) for t in theirs]
    counted = [s if t is None else t for t, s in zip(times, spent, strict=True)]
    short = sum(t["stopped"] == "by itself" for t in theirs)
    ratios = [s / p["seconds"] for s, p in zip(counted, plain, strict=True)]
    return {
        "reached": sum(t is not None for t in times),
        "short": short,
        "seconds": spread(counted) if 2 * short <= len(theirs) else None,
        "ratio": spread(ratios) if 2 * short <= len(theirs) else None,
        "each": [{"seconds": t, "spent": s} for t, s in zip(times, spent, strict=True)],
    }


def figures(result: dict[str, Any], problems: dict[str, str]) -> dict[str, Any]:
    """The best objective known, and for every rival how its times compare with slender's."""
    best, plain = best_known(result), result["plain"][1:]
    near, rows = best * (1 + NEAR), {}
    for name, problem in problems.items():
        first = [t for t in result["grid"] if t["solver"] == name]
        theirs = [t for t in result["repeats"] if t["solver"] == name]
        same = problem == MULTINOMIAL
        points = [p for t in [*first, *theirs] for p in t["curve"]]
        top = max(points, key=lambda p: p["top1"])
        times = [seconds_to(t["curve"], near) for t in first]
        rows[name] = {
            "problem": problem,
            "setting": result["chosen"][name],
            "repeats": len(theirs),
            "versus": versus(result["plain"], theirs) if same else None,
            "near_seconds": min((t for t in times if t is not None), default=None),
            "excess": min(p["objective"] for p in points) / best - 1 if same else None,
            "top1": top["top1"],
            "top1_seconds": top["seconds"],
        }
    ours = next(t["curve"] for t in result["grid"] if t["solver"] not in problems)
    return {
        "best": best,
        "ours": {
            "seconds": spread([p["seconds"] for p in plain]),
            "excess": spread([p["objective"] / best - 1 for p in plain]),
            "top1": spread([p["top1"] for p in plain]),
            "near_seconds": seconds_to(ours, near),
        },
        "figures": rows,
    }
