"""The multinomial race in words and tables."""

from typing import Any

from rich.table import Table

from slender.lab.repeats import ranged

from . import command
from .logistic_figures import NEAR
from .logistic_race import HERO, SOLVERS
from .solvers import options

COLUMNS = (
    "solver",
    "s to slender's objective",
    "times slender's",
    f"s to best + {NEAR:.1%}",
    "above best",
    "best top-1 %",
)


def report(name: str, result: dict[str, Any]) -> list[Any]:
    """All there is to say of a race."""
    skipped = [
        f"{name}: {SOLVERS[rival].name} is skipped: {reason}"
        for rival, reason in result["skipped"].items()
    ]
    return [table(name, result), *sentences(name, result), *skipped]


def table(name: str, result: dict[str, Any]) -> Table:
    """One line for each solver; slender's is its plain fit."""
    ours = result["ours"]
    rows = [
        (
            SOLVERS[HERO].name,
            ranged(ours["seconds"], 3),
            "1",
            _seconds(ours["near_seconds"]),
            f"{ours['excess']['median']:.1e}",
            f"{100 * ours['top1']['median']:.2f}",
        )
    ]
    for rival, row in result["figures"].items():
        against = row["versus"]
        figures = (
            _bounded(row, "seconds", 3) if against else row["problem"],
            _bounded(row, "ratio", 1) if against else "–",
            _seconds(row["near_seconds"]) if against else "–",
            f"{row['excess']:.1e}" if against else "–",
        )
        rows.append((SOLVERS[rival].name, *figures, f"{100 * row['top1']:.2f}"))
    sized = command.sized(name, result["shape"])
    return command.table(f"{sized}, C = {result['C']:g}; median (min–max)", COLUMNS, rows)


def sentences(name: str, result: dict[str, Any]) -> list[str]:
    return [
        f"{name}: {SOLVERS[rival].name}{options(row['setting'])} {_words(row, result['ours'])}"
        for rival, row in result["figures"].items()
    ]


def _words(row: dict[str, Any], ours: dict[str, Any]) -> str:
    against, n = row["versus"], row["repeats"]
    if against is None:
        return (
            f"minimises something else ({row['problem']}); its best top-1 is "
            f"{100 * row['top1']:.2f} %, after {row['top1_seconds']:.3f} s; slender's is "
            f"{ranged(ours['top1'], scale=100)} %, in {ranged(ours['seconds'], 3)} s"
        )
    if against["ratio"] is None:
        return (
            f"stops above slender's objective in {against['short']} of {n} repeats; "
            f"its best is {row['excess']:.1e} of the best known above it"
        )
    missed = n - against["reached"]
    least = "at least " if missed else ""
    return (
        f"takes {least}{ranged(against['ratio'], 1)} times as long as slender to slender's "
        f"objective: {least}{ranged(against['seconds'], 3)} s against "
        f"{ranged(ours['seconds'], 3)} s"
        + (f"; NOT reached in {missed} of {n} repeats" if missed else "")
        + (f", out of time in {missed - against['short']}" if missed else "")
    )


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.3f}"


def _bounded(row: dict[str, Any], key: str, digits: int) -> str:
    against = row["versus"]
    if against[key] is None:
        return "never"
    sign = "" if against["reached"] == row["repeats"] else "> "
    return sign + ranged(against[key], digits)
