"""Who reaches which objective when: the figures of a race, from its curves alone."""

from typing import Any

from slender.lab.curves import Curve, best, seconds_to
from slender.lab.repeats import spread, spread_of

from .accuracy import Trial
from .solvers.multinomial import MULTINOMIAL

NEAR = 1e-3  # of the best objective known: the second level at which everyone is timed


def best_known(result: dict[str, Any]) -> float:
    """The lowest objective anyone reached, slender's tight fit included."""
    curves = [t["curve"] for t in [*result["grid"], *result["repeats"]]]
    return min(best(curve, "objective") for curve in [[result["tight"]], result["plain"], *curves])


def versus(all_plain: Curve, theirs: list[Trial]) -> dict[str, Any]:
    """A rival's time to slender's objective of the same repeat, and times slender's own.

    Where it does not get there, what it spent is counted: a lower bound, and `reached` says so.
    A rival that stops by itself above the target in more than half of the repeats has no time.
    """
    plain = [all_plain[t["seed"]] for t in theirs]
    times = [
        seconds_to(t["curve"], "objective", p["objective"])
        for t, p in zip(theirs, plain, strict=True)
    ]
    spent = [best(t["curve"], "seconds", rising=True) for t in theirs]
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
    known, plain = best_known(result), result["plain"][1:]
    near, rows = known * (1 + NEAR), {}
    for name, problem in problems.items():
        first = [t for t in result["grid"] if t["solver"] == name]
        theirs = [t for t in result["repeats"] if t["solver"] == name]
        same = problem == MULTINOMIAL
        points = [p for t in [*first, *theirs] for p in t["curve"]]
        top = max(points, key=lambda p: p["top1"])
        times = [seconds_to(t["curve"], "objective", near) for t in first]
        rows[name] = {
            "problem": problem,
            "setting": result["chosen"][name],
            "repeats": len(theirs),
            "versus": versus(result["plain"], theirs) if same else None,
            "near_seconds": min((t for t in times if t is not None), default=None),
            "excess": best(points, "objective") / known - 1 if same else None,
            "top1": top["top1"],
            "top1_seconds": top["seconds"],
        }
    ours = next(t["curve"] for t in result["grid"] if t["solver"] not in problems)
    return {
        "best": known,
        "ours": {
            "seconds": spread_of(plain, "seconds"),
            "excess": spread([p["objective"] / known - 1 for p in plain]),
            "top1": spread_of(plain, "top1"),
            "near_seconds": seconds_to(ours, "objective", near),
        },
        "figures": rows,
    }
