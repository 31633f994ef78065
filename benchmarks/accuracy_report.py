"""Tables for people, from what the runner returns."""

from itertools import groupby
from statistics import median
from typing import Any

from rich.table import Table

from slender.lab.repeats import ranged, spread

from . import command
from .accuracy import Trial, best_top1, label, time_to


def report(name: str, result: dict[str, Any]) -> list[Any]:
    """All there is to say of a race."""
    tables = [grid_table(name, result)] if result["grid"] else []
    said = [sentence(name, figure) for figure in result["figures"]]
    return [*tables, curves_table(name, result), *said]


def by_setting(trials: list[Trial]) -> dict[str, list[Trial]]:
    """The repeats of each solver and setting, under its label."""
    named = sorted(trials, key=lambda t: label(t["solver"], t["setting"]))
    groups = groupby(named, key=lambda t: label(t["solver"], t["setting"]))
    return {name: list(group) for name, group in groups}


def curves_table(name: str, result: dict[str, Any]) -> Table:
    """One line for each solver: what it reaches and when, median and range over the repeats."""
    plain = {label(f["solver"], f["setting"]): f for f in result["fits"]}
    rows = []
    for solver, trials in by_setting(result["repeats"]).items():
        top5 = [max(t["curve"], key=lambda p: p["top1"])["top5"] for t in trials]
        rows.append(
            (
                solver,
                ranged(spread([best_top1(t) for t in trials]), scale=100),
                f"{100 * median(top5):.2f}",
                ranged(spread([time_to(t, best_top1(t)) for t in trials]), 3),
                ranged(spread([t["curve"][-1]["seconds"] for t in trials]), 3),
                f"{plain[solver]['seconds']:.3f}",
            )
        )
    columns = ("solver", "best top-1 %", "its top-5 %", "s to its best", "s in all", "s plain")
    return command.table(f"{command.sized(name, result['shape'])}; median (min–max)", columns, rows)


def grid_table(name: str, result: dict[str, Any]) -> Table:
    """One line for each setting that was tried for a rival."""
    rows = [
        (
            label(t["solver"], t["setting"]),
            f"{100 * best_top1(t):.2f}",
            f"{time_to(t, best_top1(t)):.3f}",
            f"{t['curve'][-1]['seconds']:.3f}",
        )
        for t in result["grid"]
    ]
    columns = ("setting", "best top-1 %", "s to its best", "s in all")
    return command.table(f"{name}: the rivals' grids, one run each", columns, rows)


def sentence(name: str, figure: dict[str, Any]) -> str:
    """The key figure in words."""
    rival = label(figure["rival"], figure["setting"])
    what = f"{ranged(figure['target'], scale=100)} %, the best {figure['which']} of {rival}"
    missed = figure["repeats"] - figure["reached"]
    if not figure["reached"]:
        return (
            f"{name}: the default SLNDClassifier() does NOT reach {what}; "
            f"its best is {100 * figure['ours_best']:.2f} %"
        )
    sooner = "times sooner" if figure["ratio"]["median"] >= 1 else "times as fast, that is LATER"
    return (
        f"{name}: the default SLNDClassifier() reaches {what}, "
        f"{ranged(figure['ratio'], 1)} {sooner}: "
        f"{ranged(figure['ours_seconds'], 3)} s against "
        f"{ranged(figure['rival_seconds'], 3)} s"
        + (f"; in {missed} of {figure['repeats']} repeats NOT at all (ratio 0)" if missed else "")
    )
