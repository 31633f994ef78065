"""python -m benchmarks.plot RESULTS.json FIGURE.png: test accuracy over seconds.

One panel a data set.  The line is the median over the repeats, point by point; each repeat is a
thin line behind it.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import matplotlib

matplotlib.use("Agg")  # draws without a screen

import numpy as np
import typer
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from .report import by_setting
from .runner import SOLVERS, Trial, label

# Okabe and Ito's, told apart by colour-blind readers
COLOURS = ("#56B4E9", "#E69F00", "#D55E00", "#0072B2", "#009E73", "#CC79A7")
DASHES = ("-", "--", ":", "-.")
COLUMNS = 3
SPAN = 40.0  # points below the best are cut off: the first passes of a slow start


def medians(curves: list[list[dict[str, float]]]) -> tuple[np.ndarray, np.ndarray]:
    """Median seconds and accuracy, point by point; curves may stop early."""
    length = min(len(curve) for curve in curves)
    points = [[(p["seconds"], p["top1"]) for p in curve[:length]] for curve in curves]
    seconds, top1 = np.median(points, axis=0).T
    return seconds, top1


def style(trial: Trial) -> dict[str, str]:
    """A colour a solver, a dash a setting; a rival's is the best of its grid, and changes."""
    solver = SOLVERS[trial["solver"]]
    if solver.rival:
        dash, name = "-", f"{solver.name}, best setting"
    else:
        dash = DASHES[solver.grid.index(trial["setting"])]
        name = label(trial["solver"], trial["setting"])
    return {"color": COLOURS[list(SOLVERS).index(trial["solver"])], "ls": dash, "label": name}


def panel(ax: Axes, name: str, result: dict[str, Any]) -> None:
    best = 0.0
    for trials in by_setting(result["repeats"]).values():
        line = style(trials[0])
        curves = [trial["curve"] for trial in trials]
        for curve in curves:
            x, y = [p["seconds"] for p in curve], [100 * p["top1"] for p in curve]
            ax.plot(x, y, color=line["color"], lw=0.6, alpha=0.35)
        seconds, top1 = medians(curves)
        ax.plot(seconds, 100 * top1, **line, lw=2, marker="o", ms=3)
        best = max(best, 100 * top1.max())
    low, high = ax.get_ylim()
    ax.set_ylim(max(low, best - SPAN), high)
    over_seconds(ax, ticks=(1, 2, 5))
    titled(ax, name, result["shape"])


def over_seconds(ax: Axes, ticks: tuple[int, ...]) -> None:
    """Seconds on a log scale, with these ticks in each decade."""
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=ticks))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(labelsize=8)
    ax.grid(alpha=0.25, lw=0.5)
    ax.spines[["top", "right"]].set_visible(False)


def titled(ax: Axes, name: str, shape: list[int]) -> None:
    n, d, C = shape
    ax.set_title(f"{name}: {n:,} × {d:,}, {C} classes", fontsize=10, loc="left")


def draw(results: dict[str, Any], path: Path) -> None:
    datasets = results["datasets"]
    columns = min(COLUMNS, len(datasets))
    rows = -(-len(datasets) // columns)
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(4.6 * columns, 3.2 * rows + 0.5),
        squeeze=False,
        layout="constrained",
    )
    for ax in axes.flat[len(datasets) :]:
        ax.axis("off")
    for ax, (name, result) in zip(axes.flat, datasets.items(), strict=False):
        panel(ax, name, result)
    figure.supxlabel("seconds of fit, evaluation off the clock", fontsize=10)
    figure.supylabel("test top-1 %", fontsize=10)
    lines, names = axes.flat[0].get_legend_handles_labels()
    finish(figure, dict(zip(names, lines, strict=True)), 3, path)


def finish(figure: Figure, lines: dict[str, Any], columns: int, path: Path) -> None:
    """The legend above the panels, and the file."""
    figure.legend(
        lines.values(),
        lines,
        loc="outside upper center",
        ncols=min(columns, len(lines)),
        frameon=False,
        fontsize=9,
    )
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(
    results: Annotated[Path, typer.Argument(help="What python -m benchmarks --json wrote.")],
    figure: Annotated[Path, typer.Argument(help="The PNG to write.")],
) -> None:
    """Draw test accuracy over seconds."""
    draw(json.loads(results.read_text()), figure)


if __name__ == "__main__":
    typer.run(main)
