"""python -m benchmarks.plot_logistic RESULTS.json FIGURE.png: the multinomial race.

One column a data set.  Above: how far the objective is above the best known, the best so far of
each solver's first run; a star is slender's plain fit, the target.  Below: test top-1.  A solver
of another objective has no line above.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from .logistic_runner import HERO, SOLVERS
from .plot import finish, over_seconds, titled
from .runner import Trial
from .solvers.multinomial import MULTINOMIAL

# Okabe and Ito's, told apart by colour-blind readers, less the yellow that is lost on white
COLOURS = {
    HERO: "#D55E00",
    "sklearn_lbfgs": "#0072B2",
    "sklearn_newton": "#56B4E9",
    "intelex": "#009E73",
    "cyanure": "#000000",
    "torch_lbfgs": "#E69F00",
    "torch_adamw": "#CC79A7",
    "snapml": "#999999",
}
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
    mine = name == HERO
    return {
        "color": COLOURS[name],
        "label": SOLVERS[name].name,
        "lw": 2.5 if mine else 1.5,
        "zorder": 3 if mine else 2,
        "marker": "o",
        "ms": 2.5,
    }


def columns_of(curve: list[dict[str, float]], key: str) -> tuple[np.ndarray, np.ndarray]:
    """Seconds, ascending, and what the points have there."""
    points = sorted(curve, key=lambda point: point["seconds"])
    return np.array([p["seconds"] for p in points]), np.array([p[key] for p in points])


def objective_panel(ax: Axes, result: dict[str, Any]) -> None:
    best, low = result["best"], LEAST * result["best"]
    for name, run in shown(result).items():
        if SOLVERS[name].problem == MULTINOMIAL:
            seconds, values = columns_of(run["curve"], "objective")
            above = np.maximum(np.minimum.accumulate(values) - best, low)
            ax.plot(seconds, above, **line(name))
    plain = result["plain"][1:]
    seconds = np.median([p["seconds"] for p in plain])
    above = max(np.median([p["objective"] for p in plain]) - best, low)
    ax.plot(seconds, above, "*", color=COLOURS[HERO], ms=14, mec="white", zorder=4)
    ax.axhline(above, color=COLOURS[HERO], lw=0.8, ls=":", zorder=1)
    ax.set_yscale("log")


def accuracy_panel(ax: Axes, result: dict[str, Any]) -> None:
    best = 0.0
    for name, run in shown(result).items():
        seconds, top1 = columns_of(run["curve"], "top1")
        ax.plot(seconds, 100 * top1, **line(name))
        best = max(best, 100 * top1.max())
    low, high = ax.get_ylim()
    ax.set_ylim(max(low, best - SPAN), high)


def draw(results: dict[str, Any], path: Path) -> None:
    datasets = results["datasets"]
    figure, axes = plt.subplots(
        2,
        len(datasets),
        figsize=(4.2 * len(datasets), 6.4),
        sharex="col",
        squeeze=False,
        layout="constrained",
    )
    lines: dict[str, Any] = {}
    for (above, below), (name, result) in zip(axes.T, datasets.items(), strict=True):
        objective_panel(above, result)
        accuracy_panel(below, result)
        for ax in (above, below):
            over_seconds(ax, ticks=(1,))
            ax.set_xlim(left=EARLIEST * result["plain"][0]["seconds"])
        titled(above, name, result["shape"])
        handles, labels = below.get_legend_handles_labels()
        lines |= dict(zip(labels, handles, strict=True))
    axes[0, 0].set_ylabel("objective above the best known", fontsize=10)
    axes[1, 0].set_ylabel("test top-1 %", fontsize=10)
    figure.supxlabel("seconds of fit, evaluation off the clock", fontsize=10)
    finish(figure, lines, 4, path)


def main(
    results: Annotated[Path, typer.Argument(help="What benchmarks.logistic --json wrote.")],
    figure: Annotated[Path, typer.Argument(help="The PNG to write.")],
) -> None:
    """Draw objective and test accuracy over seconds."""
    draw(json.loads(results.read_text()), figure)


if __name__ == "__main__":
    typer.run(main)
