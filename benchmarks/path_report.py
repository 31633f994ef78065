"""Choosing C, in words and a table."""

from typing import Any

from rich.table import Table

from slender.lab.repeats import ranged, spread_of

from . import command, machine

WORDS = {"early": "LinearProbe()", "full": "LinearProbe(full=True)"}


def report(name: str, result: dict[str, Any], grid: int) -> list[Any]:
    """All there is to say; `grid` is how many values of C there are."""
    return [table(name, result), *sentences(name, result, grid)]


def table(name: str, result: dict[str, Any]) -> Table:
    def line(who: str, values: int, of: dict[str, Any], seconds: str) -> tuple[str, ...]:
        return who, str(values), f"{of['C']:.2e}", f"{100 * of['top1']:.2f}", seconds

    rows = [
        line(WORDS[which], figure["values"], figure, ranged(figure["seconds"]))
        for which, figure in result["figures"].items()
    ]
    one, of_all = result["single"], result["exhaustive"]
    rows.append(line("scikit-learn, one fit", 1, one[0], ranged(spread_of(one, "seconds"))))
    if of_all:
        seconds = f"{of_all['seconds']:.1f}"
        rows.append(line("scikit-learn, each C", len(of_all["fits"]), of_all, seconds))
    columns = ("", "values of C", "chosen C", "test top-1 %", "s, final fit included")
    return command.table(f"{name}: choosing C; median (min–max)", columns, rows)


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
            f"{name}: scikit-learn at {tried} values takes {ranged(figure['sooner'], 1)} "
            f"times as long as {WORDS[which]}; their C are {figure['steps_apart']} places of "
            f"{grid} apart, test top-1 differs by {figure['points_more']:+.2f} points"
            + (f"; only {tried} of {grid} values were tried" if tried < grid else "")
        )
    return said + _unfinished(name, of_all)


def _unfinished(name: str, of_all: dict[str, Any] | None) -> list[str]:
    """What a reader should know before trusting scikit-learn's seconds."""
    fits = of_all["fits"] if of_all else []
    unfinished = sum(not fit["converged"] for fit in fits)
    disturbed = sum(fit["others"] > machine.QUIET for fit in fits)
    lines = []
    if unfinished:
        lines.append(f"{name}: {unfinished} of scikit-learn's fits ended at max_iter")
    if disturbed:
        lines.append(f"{name}: other processes were busy during {disturbed} of scikit-learn's fits")
    return lines
