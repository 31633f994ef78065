"""What many fits say together: means over seeds, and measures of learning at a large scale.

The measures are those of Part III of Bordes and Bottou's slides of 2008.

Over the number n of training rows, the test rows being the same:

    effort        the exponent p of seconds ~ n^p, by least squares in the logarithms, from all fits
    error         criterion (b): the test error reached
    excess        criterion (a): the test error above the best achievable, taken to be the lowest
                  that any optimiser reached with any number of rows and any seed
    au_time       the mean test error over log seconds, from the fastest to the slowest fit of any
                  optimiser; at t seconds an optimiser has the lowest error of its fits that took no
                  longer, and before the first that of always answering the most frequent class
    au_time_pr    the same of 1 - the area under the precision-recall curve, for two classes

Lower is better for all of them.  Part III warns that areas over all sizes reward what is done at
small ones: read them beside error and seconds at the largest.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from statistics import fmean, stdev
from typing import Any

import numpy as np

Fit = Mapping[str, Any]
FIGURES = (
    "objective",
    "gap",
    "train_accuracy",
    "validation_accuracy",
    "validation_top5",
    "test_accuracy",
    "test_top5",
    "test_error",
    "pr_area",
    "seconds",
    "passes",
)


def final(fit: Fit) -> dict[str, float | None]:
    """The figures at the end of a fit; None where there are none, or no finite ones."""
    last, test = fit["curve"][-1], fit["test"]
    return {
        **{name: last.get(name) for name in FIGURES},
        "objective": last.get("exact", last["objective"]),
        "test_accuracy": test["accuracy"],
        "test_top5": test.get("top5"),
        "test_error": test["error"],
        "pr_area": test.get("pr_area"),
    }


def summary(fits: Iterable[Fit]) -> list[dict[str, Any]]:
    """For each contender on each data set, mean and standard deviation over the seeds."""
    rows = []
    for fit, group in _grouped(fits, ("dataset", "size", "opt", "obj")):
        finals = [final(each) for each in group]
        figures = {name: _spread([each[name] for each in finals]) for name in FIGURES}
        named = {name: fit[name] for name in ("dataset", "size", "opt", "obj", "problem")}
        step = fit["options"].get("step")
        rows.append({**named, "step": step, "seeds": len(group), **figures})
    return rows


def _grouped(fits: Iterable[Fit], names: Sequence[str]) -> list[tuple[Fit, list[Fit]]]:
    """Fits that agree in these names, in the order of their first."""
    groups: dict[tuple[Any, ...], list[Fit]] = {}
    for fit in fits:
        groups.setdefault(tuple(fit[name] for name in names), []).append(fit)
    return [(group[0], group) for group in groups.values()]


def _spread(values: Sequence[float | None]) -> dict[str, float | None]:
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):  # a mean of those that did not fail flatters
        return {"mean": None, "spread": None}
    return {"mean": fmean(known), "spread": stdev(known) if len(known) > 1 else None}


# -- over the number of rows -----------------------------------------------------------------------


def large_scale(
    fits: Sequence[Fit], datasets: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The measures above, for each data set and contender."""
    found = {}
    for dataset, its in groupby(fits, key=lambda fit: fit["dataset"]):
        mine = list(its)
        best = min(fit["test"]["error"] for fit in mine)
        rows = [row for row in summary(mine) if row["size"] is not None]
        seconds = [row["seconds"]["mean"] for row in rows]
        span = min(seconds), max(seconds)
        found[dataset] = {
            "best_error": best,
            "contenders": [
                _scaling(group, best, span, datasets[dataset])
                for _, group in _grouped(mine, ("opt", "obj"))
            ],
        }
    return found


def _scaling(
    fits: Sequence[Fit], best: float, span: tuple[float, float], facts: Mapping[str, Any]
) -> dict[str, Any]:
    rows = sorted(summary(fits), key=lambda row: row["size"])
    points = [
        {
            "size": row["size"],
            "seconds": row["seconds"],
            "error": row["test_error"],
            "excess": row["test_error"]["mean"] - best,
            "pr_area": row["pr_area"],
        }
        for row in rows
    ]
    seconds = [point["seconds"]["mean"] for point in points]
    errors = [point["error"]["mean"] for point in points]
    areas = [point["pr_area"]["mean"] for point in points]
    over = None
    if None not in areas and facts["guess_pr_area"] is not None:
        over = area_over_time(seconds, [1 - a for a in areas], 1 - facts["guess_pr_area"], span)
    return {
        "opt": rows[0]["opt"],
        "obj": rows[0]["obj"],
        "points": points,
        "effort": exponent(
            [fit["size"] for fit in fits], [fit["curve"][-1]["seconds"] for fit in fits]
        ),
        "au_time": area_over_time(seconds, errors, facts["guess_error"], span),
        "au_time_pr": over,
    }


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float | None:
    """p of seconds ~ size^p; None for one size."""
    if len(set(sizes)) < 2 or min(seconds) <= 0:
        return None
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def area_over_time(
    seconds: Sequence[float], errors: Sequence[float], guess: float, span: tuple[float, float]
) -> float | None:
    """The mean over log t in `span` of the lowest error reached within t seconds."""
    low, high = span
    if not 0 < low < high:
        return None
    total, error, since = 0.0, guess, math.log(low)
    for when, reached in sorted(zip(seconds, errors, strict=True)):
        total += error * (math.log(when) - since)
        error, since = min(error, reached), math.log(when)
    total += error * (math.log(high) - since)
    return total / (math.log(high) - math.log(low))
