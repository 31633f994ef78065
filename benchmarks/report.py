"""Tables for people, from what the runner returns."""

from itertools import groupby
from statistics import median
from typing import Any

from rich.table import Table

from .runner import Trial, best_top1, label, spread, time_to


def ranged(values: dict[str, float], scale: float = 1.0, digits: int = 2) -> str:
    low, mid, high = (f"{scale * values[key]:.{digits}f}" for key in ("min", "median", "max"))
    return f"{mid} ({low}–{high})"


def by_setting(trials: list[Trial]) -> dict[str, list[Trial]]:
    """The repeats of each solver and setting, under its label."""
    named = sorted(trials, key=lambda t: label(t["solver"], t["setting"]))
    groups = groupby(named, key=lambda t: label(t["solver"], t["setting"]))
    return {name: list(group) for name, group in groups}


def curves_table(name: str, result: dict[str, Any]) -> Table:
    """One line a solver: what it reaches and when, median and range over the repeats."""
    n, d, C = result["shape"]
    table = Table(title=f"{name}: {n:,} × {d:,}, {C} classes; median (min–max)")
    for column in ("solver", "best top-1 %", "its top-5 %", "s to its best", "s in all", "s plain"):
        table.add_column(column, justify="left" if column == "solver" else "right")
    plain = {label(f["solver"], f["setting"]): f for f in result["fits"]}
    for solver, trials in by_setting(result["repeats"]).items():
        top5 = [max(t["curve"], key=lambda p: p["top1"])["top5"] for t in trials]
        table.add_row(
            solver,
            ranged(spread([best_top1(t) for t in trials]), 100),
            f"{100 * median(top5):.2f}",
            ranged(spread([time_to(t, best_top1(t)) for t in trials]), digits=3),
            ranged(spread([t["curve"][-1]["seconds"] for t in trials]), digits=3),
            f"{plain[solver]['seconds']:.3f}",
        )
    return table


def grid_table(name: str, result: dict[str, Any]) -> Table:
    """One line a setting that was tried for a rival."""
    table = Table(title=f"{name}: the rivals' grids, one run each")
    for column in ("setting", "best top-1 %", "s to its best", "s in all"):
        table.add_column(column, justify="left" if column == "setting" else "right")
    for t in result["grid"]:
        best = best_top1(t)
        seconds = (time_to(t, best), t["curve"][-1]["seconds"])
        table.add_row(
            label(t["solver"], t["setting"]), f"{100 * best:.2f}", *(f"{s:.3f}" for s in seconds)
        )
    return table


def sentence(name: str, figure: dict[str, Any]) -> str:
    """The key figure in words."""
    rival = label(figure["rival"], figure["setting"])
    what = f"{ranged(figure['target'], 100)} %, the best {figure['which']} of {rival}"
    missed = figure["repeats"] - figure["reached"]
    if not figure["reached"]:
        return (
            f"{name}: the default SLNDClassifier() does NOT reach {what}; "
            f"its best is {100 * figure['ours_best']:.2f} %"
        )
    sooner = "times sooner" if figure["ratio"]["median"] >= 1 else "times as fast, that is LATER"
    return (
        f"{name}: the default SLNDClassifier() reaches {what}, "
        f"{ranged(figure['ratio'], digits=1)} {sooner}: "
        f"{ranged(figure['ours_seconds'], digits=3)} s against "
        f"{ranged(figure['rival_seconds'], digits=3)} s"
        + (f"; in {missed} of {figure['repeats']} repeats NOT at all (ratio 0)" if missed else "")
    )
