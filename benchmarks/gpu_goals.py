"""The figures that benchmarks.gpu is asked for, beside their goals: one table."""

from collections.abc import Callable

from rich.table import Table

from slender.lab.repeats import ranged, ratios, spread

from . import command
from .gpu_race import SOLVERS
from .gpu_report import Found, milliseconds, over, seconds, sized, to_target

NONE = "–"


def summary(parts: dict[str, Found]) -> Table:
    """The figures that were asked for, with their goals; of the parts that were measured."""
    rows = [row for part, found in parts.items() if part in LINES for row in LINES[part](found)]
    columns = ("work", "goal", "measured", "rows on the host")
    return command.table("Goals and figures, median (min–max)", columns, rows, left=2)


def _goal_pass(found: Found) -> list[tuple[str, ...]]:
    fastest = next(iter(found["arithmetics"].values()))
    work = f"one multinomial pass, {sized(found)}"
    ours = f"{milliseconds(fastest['runs'])} ms"
    return [(work, "≤ 13 ms", ours, f"{milliseconds(found['from host'])} ms")]


def _goal_fit(found: Found) -> list[tuple[str, ...]]:
    work = "one fit there, proved to 0.1 %"
    host = f"{seconds(found['host'])} s"
    rows = [(work, "≤ 0.4 s", f"{seconds(found['ours'])} s", host)]
    for name, of in found["rivals"].items():
        own = ranged(ratios(of["own"], found["ours"]), 1)
        to, bound = to_target(of["target"], found["ours"])
        same = bound + ranged(spread(over(to, found["ours"])), 1)
        label = f"times as long: {SOLVERS[name].name}"
        rows.append((label, "≥ 20", f"{own} to its tolerance, {same} to our objective", NONE))
    return rows


def _goal_path(found: Found) -> list[tuple[str, ...]]:
    ours, host = (f"{seconds(found[side])} s" for side in ("device", "host"))
    return [("LinearProbe() there, validation and proof", "≤ 2 s", ours, host)]


def _goal_slnd(found: Found) -> list[tuple[str, ...]]:
    work = f"SLND, {sized(found)}, {found['passes']} balanced passes"
    ours, host = (f"{seconds(found[side], 4)} s" for side in ("device", "host"))
    return [(work, "≤ 0.1 s", ours, host)]


def _goal_stream(found: Found) -> list[tuple[str, ...]]:
    times = {side: ranged(ratios(found[side], found["copy"])) for side in ("fit", "pass")}
    what = f"float32 rows on the host, {found['bytes'] / 1e9:.3g} GB, times copying them once"
    return [
        (f"the fit, {what}", "≤ 1.5", NONE, times["fit"]),
        (f"one pass, {what}", "≤ 1.5", NONE, times["pass"]),
    ]


def _goal_memory(found: Found) -> list[tuple[str, ...]]:
    return [
        (
            f"device memory above X, {of['estimator']}",
            f"≤ {of['allowed_bytes'] / 1e6:,.0f} MB",
            NONE if of["above_bytes"] is None else f"{of['above_bytes'] / 1e6:,.0f} MB",
            NONE,
        )
        for of in found["fits"]
    ]


LINES: dict[str, Callable[[Found], list[tuple[str, ...]]]] = {
    "pass": _goal_pass,
    "fit": _goal_fit,
    "path": _goal_path,
    "slnd": _goal_slnd,
    "stream": _goal_stream,
    "memory": _goal_memory,
}
