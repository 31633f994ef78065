"""python -m benchmarks.plot_gpu RESULTS.json FIGURE.png: the race on a GPU.

Left: how far the objective is above the best known, the best so far of each solver's run that is
soonest at slender's objective (or lowest); a star is slender's plain fit.  Right: test top-1 of
its run with the best accuracy.
"""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from slender.lab.curves import best, column
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

from .gpu_race import HERO, SOLVERS, quality
from .gpu_report import sized

ORDER = (HERO, "sklearn_array_api", "torch_probe", "cuml_qn")
COLOURS = dict(zip(ORDER, EVERY, strict=False))
SPAN = 40.0  # points below the best are cut off: the first steps of a slow start
LEAST = 1e-7  # of the best objective: what lies nearer is rounding in float32


def line(name: str) -> dict[str, Any]:
    return solver_line(COLOURS[name], SOLVERS[name].name, mine=name == HERO)


def runs_of(found: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The runs of each solver that was there."""
    mine = {name: [run for run in found["runs"] if run["solver"] == name] for name in ORDER}
    return {name: runs for name, runs in mine.items() if runs}


def objective_panel(ax: Any, found: dict[str, Any]) -> None:
    lowest, low, plain = found["best"], LEAST * found["best"], found["plain"]
    for name, runs in runs_of(found).items():
        curve = min(runs, key=lambda run: quality(run, plain["objective"]))["curve"]
        so_far = np.minimum.accumulate(column(curve, "objective"))
        ax.plot(column(curve, "seconds"), np.maximum(so_far - lowest, low), **line(name))
    above = max(plain["objective"] - lowest, low)
    ax.plot(plain["seconds"], above, "*", color=COLOURS[HERO], ms=14, mec="white", zorder=4)
    ax.axhline(above, color=COLOURS[HERO], lw=0.8, ls=":", zorder=1)
    ax.set_yscale("log")
    titled(ax, "objective above the best known")


def accuracy_panel(ax: Any, found: dict[str, Any]) -> None:
    highest = 0.0
    for name, runs in runs_of(found).items():
        curve = max(runs, key=lambda run: best(run["curve"], "top1", rising=True))["curve"]
        top1 = 100 * column(curve, "top1")
        ax.plot(column(curve, "seconds"), top1, **line(name))
        highest = max(highest, top1.max())
    cut_below(ax, highest, SPAN)
    titled(ax, "test top-1 %")


def draw(results: dict[str, Any], path: Path) -> None:
    found = results["parts"]["curves"]
    figure, axes = panels(1, 2, 3.4, 4.6)
    objective_panel(axes[0, 0], found)
    accuracy_panel(axes[0, 1], found)
    for ax in axes.flat:
        over_seconds(ax, ticks=(1,))
    figure.supxlabel(f"{SECONDS}; {sized(found)}, C = {found['C']:g}", fontsize=9)
    legend(figure, axes, 4, fontsize=9)
    written(figure, path)


def main(
    results: Annotated[Path, typer.Argument(help="What benchmarks.gpu --json wrote.")],
    figure: Annotated[Path, typer.Argument(help="The file to write: .png, .pdf or .svg.")],
) -> None:
    """Draw objective and test accuracy over seconds."""
    body = read(results)
    if not isinstance(body, dict) or "curves" not in body.get("parts", {}):
        raise typer.BadParameter(f"{results} has no curves: run python -m benchmarks.gpu --json")
    draw(body, figure)


if __name__ == "__main__":
    typer.run(main)
