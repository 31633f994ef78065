"""python -m benchmarks.plot RESULTS.json FIGURE.png: test accuracy over seconds.

One panel for each data set.  The line is the median over the repeats, point by point; each repeat
is a thin line behind it.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from slender.lab.curves import column
from slender.lab.documents import read
from slender.lab.panels import (
    COLOURS,
    SECONDS,
    cut_below,
    legend,
    median_line,
    over_seconds,
    panels,
    titled,
)
from slender.lab.plots import written

from .accuracy import SOLVERS, Trial, label
from .accuracy_report import by_setting
from .command import sized

DASHES = ("-", "--", ":", "-.")
COLUMNS = 3
SPAN = 40.0  # points below the best are cut off: the first passes of a slow start


def style(trial: Trial) -> dict[str, Any]:
    """A colour for each solver, a dash for each setting; a rival has one, the best of its grid."""
    solver = SOLVERS[trial["solver"]]
    if solver.rival:
        dash, name = "-", f"{solver.name}, best setting"
    else:
        dash = DASHES[solver.grid.index(trial["setting"])]
        name = label(trial["solver"], trial["setting"])
    colour = COLOURS[list(SOLVERS).index(trial["solver"])]
    return {"color": colour, "ls": dash, "label": name, "lw": 2, "marker": "o", "ms": 3}


def panel(ax: Any, name: str, result: dict[str, Any]) -> None:
    best = 0.0
    for trials in by_setting(result["repeats"]).values():
        curves = [trial["curve"] for trial in trials]
        lines = [(column(curve, "seconds"), 100 * column(curve, "top1")) for curve in curves]
        best = max(best, median_line(ax, lines, style(trials[0])).max())
    cut_below(ax, best, SPAN)
    over_seconds(ax)
    titled(ax, sized(name, result["shape"]))


def draw(results: dict[str, Any], path: Path) -> None:
    datasets = results["datasets"]
    columns = min(COLUMNS, len(datasets))
    figure, axes = panels(-(-len(datasets) // columns), columns, 3.2, 4.6)
    for ax in axes.flat[len(datasets) :]:
        ax.axis("off")
    for ax, (name, result) in zip(axes.flat, datasets.items(), strict=False):
        panel(ax, name, result)
    figure.supxlabel(SECONDS, fontsize=10)
    figure.supylabel("test top-1 %", fontsize=10)
    legend(figure, axes, 3, fontsize=9)
    written(figure, path)


def main(
    results: Annotated[Path, typer.Argument(help="What python -m benchmarks --json wrote.")],
    figure: Annotated[Path, typer.Argument(help="The file to write: .png, .pdf or .svg.")],
) -> None:
    """Draw test accuracy over seconds."""
    draw(read(results), figure)


if __name__ == "__main__":
    typer.run(main)
