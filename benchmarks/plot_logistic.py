"""python -m benchmarks.plot_logistic RESULTS.json FIGURE.png: the multinomial race.

One column for each data set.  Above: how far the objective is above the best known, the best so
far of each solver's first run; a star is slender's plain fit, the target.  Below: test top-1.  A
solver of another objective has no line above.
"""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from slender.lab.curves import Curve, column
from slender.lab.documents import read
from slender.lab.panels import COLOURS as EVERY
from slender.lab.panels import (
    SECONDS,
    cut_below,
    legend,
    over_seconds,
    panels,
    solver_line,
    titled,
)
from slender.lab.plots import written

from .accuracy import Trial
from .command import sized
from .logistic_race import HERO, SOLVERS
from .solvers.multinomial import MULTINOMIAL

ORDER = (HERO, "sklearn_lbfgs", "intelex", "torch_adamw", "torch_lbfgs", "sklearn_newton",
         "cyanure", "snapml")  # fmt: skip
COLOURS = dict(zip(ORDER, EVERY, strict=True))
SPAN = 40.0  # points below the best are cut off: the first steps of a slow start
EARLIEST = 0.03  # of slender's seconds: nothing happens before
LEAST = 1e-7  # of the best objective: what lies nearer is rounding in float32


def shown(result: dict[str, Any]) -> dict[str, Trial]:
    """The first run of each solver, at the setting chosen for it."""
    runs: dict[str, Trial] = {}
    for name in COLOURS:
        tried = [t for t in result["grid"] if t["solver"] == name]
        chosen = [t for t in tried if t["setting"] == result["chosen"].get(name)]
        if tried:
            runs[name] = (chosen or tried)[0]
    return runs


def line(name: str) -> dict[str, Any]:
    return solver_line(COLOURS[name], SOLVERS[name].name, mine=name == HERO)


def in_time(curve: Curve) -> Curve:
    """Whole fits with more and more passes may overtake each other."""
    return sorted(curve, key=lambda point: point["seconds"])


def objective_panel(ax: Any, result: dict[str, Any]) -> None:
    best, low = result["best"], LEAST * result["best"]
    for name, run in shown(result).items():
        if SOLVERS[name].problem == MULTINOMIAL:
            curve = in_time(run["curve"])
            lowest = np.minimum.accumulate(column(curve, "objective"))
            ax.plot(column(curve, "seconds"), np.maximum(lowest - best, low), **line(name))
    plain = result["plain"][1:]
    seconds = np.median(column(plain, "seconds"))
    above = max(np.median(column(plain, "objective")) - best, low)
    ax.plot(seconds, above, "*", color=COLOURS[HERO], ms=14, mec="white", zorder=4)
    ax.axhline(above, color=COLOURS[HERO], lw=0.8, ls=":", zorder=1)
    ax.set_yscale("log")


def accuracy_panel(ax: Any, result: dict[str, Any]) -> None:
    best = 0.0
    for name, run in shown(result).items():
        curve = in_time(run["curve"])
        top1 = 100 * column(curve, "top1")
        ax.plot(column(curve, "seconds"), top1, **line(name))
        best = max(best, top1.max())
    cut_below(ax, best, SPAN)


def draw(results: dict[str, Any], path: Path) -> None:
    datasets = results["datasets"]
    figure, axes = panels(2, len(datasets), 2.9, 4.2)
    for (above, below), (name, result) in zip(axes.T, datasets.items(), strict=True):
        objective_panel(above, result)
        accuracy_panel(below, result)
        for ax in (above, below):
            over_seconds(ax, ticks=(1,))
        above.sharex(below)
        below.set_xlim(left=EARLIEST * result["plain"][0]["seconds"])
        above.tick_params(labelbottom=False)
        titled(above, sized(name, result["shape"]))
    axes[0, 0].set_ylabel("objective above the best known", fontsize=10)
    axes[1, 0].set_ylabel("test top-1 %", fontsize=10)
    figure.supxlabel(SECONDS, fontsize=10)
    legend(figure, axes[1], 4, fontsize=9)
    written(figure, path)


def main(
    results: Annotated[Path, typer.Argument(help="What benchmarks.logistic --json wrote.")],
    figure: Annotated[Path, typer.Argument(help="The file to write: .png, .pdf or .svg.")],
) -> None:
    """Draw objective and test accuracy over seconds."""
    draw(read(results), figure)


if __name__ == "__main__":
    typer.run(main)
