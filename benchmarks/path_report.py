"""Choosing C, in words and a table."""

from statistics import median
from typing import Any

from rich.table import Table

from .report import ranged

WORDS = {"early": "LinearProbe()", "full": "LinearProbe(full=True)"}


def table(name: str, result: dict[str, Any]) -> Table:
    lines = Table(title=f"{name}: choosing C; median (min–max)")
    for column in ("", "values of C", "chosen C", "test top-1 %", "s, final fit included"):
        lines.add_column(column, justify="left" if not column else "right")
    for which, figure in result["figures"].items():
        lines.add_row(
            WORDS[which],
            str(figure["values"]),
            f"{figure['C']:.2e}",
            f"{100 * figure['top1']:.2f}",
            ranged(figure["seconds"]),
        )
    one = result["single"]
    seconds = {
        "median": median(fit["seconds"] for fit in one),
        "min": min(fit["seconds"] for fit in one),
        "max": max(fit["seconds"] for fit in one),
    }
    top1 = f"{100 * one[0]['top1']:.2f}"
    lines.add_row("scikit-learn, one fit", "1", f"{one[0]['C']:.2e}", top1, ranged(seconds))
    of_all = result["exhaustive"]
    if of_all:
        lines.add_row(
            "scikit-learn, each C",
            str(len(of_all["fits"])),
            f"{of_all['C']:.2e}",
            f"{100 * of_all['top1']:.2f}",
            f"{of_all['seconds']:.1f}",
        )
    return lines


def sentences(name: str, result: dict[str, Any], grid: int) -> list[str]:
    said = []
    of_all = result["exhaustive"]
    for which, figure in result["figures"].items():
        said.append(
            f"{name}: {WORDS[which]} takes {ranged(figure['of_single'])} times as long as one fit "
            "of scikit-learn at the C it chose"
        )
        if not of_all:
            continue
        tried = len(of_all["fits"])
        said.append(
            f"{name}: scikit-learn at {tried} values takes {ranged(figure['sooner'], digits=1)} "
            f"times as long as {WORDS[which]}; their C are {figure['steps_apart']} places of "
            f"{grid} apart, test top-1 differs by {figure['points_more']:+.2f} points"
            + (f"; only {tried} of {grid} values were tried" if tried < grid else "")
        )
    return said + _unfinished(name, of_all)


def _unfinished(name: str, of_all: dict[str, Any] | None) -> list[str]:
    """What a reader should know before trusting scikit-learn's seconds."""
    fits = of_all["fits"] if of_all else []
    unfinished = sum(not fit["converged"] for fit in fits)
    disturbed = sum(fit["others"] > 0.1 for fit in fits)
    lines = []
    if unfinished:
        lines.append(f"{name}: {unfinished} of scikit-learn's fits ended at max_iter")
    if disturbed:
        lines.append(f"{name}: other processes were busy during {disturbed} of scikit-learn's fits")
    return lines
