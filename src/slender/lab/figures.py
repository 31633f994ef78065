"""Figures of experiments: curves over seconds and passes, and what happens as the rows grow."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage import PathLike
from .curves import column
from .panels import COLOURS, SECONDS, legend, median_line, over_seconds, panels, titled
from .plots import written

DASHES = {"logistic": "-", "svm": "--"}
OVER = {"seconds": SECONDS, "passes": "passes over the rows"}

Fit = Mapping[str, Any]
Style = dict[tuple[str, str], dict[str, Any]]


def plot_curves(fits: Sequence[Fit], path: PathLike | None = None) -> Any:
    """Objective above the best seen, a row of panels for each problem; accuracy, all together.

    Left over seconds, right over passes.  A line is the median over the seeds, point by point;
    each seed is a thin line behind it.  Returns matplotlib's Figure, and writes it to `path`.
    """
    wanted: list[tuple[str, list[Fit], bool]] = []
    for dataset, its in groupby(fits, key=lambda fit: fit.get("dataset", "")):
        mine = list(its)
        for problem in dict.fromkeys(fit["problem"] for fit in mine):
            same = [fit for fit in mine if fit["problem"] == problem]
            wanted.append((f"{dataset}: {problem}", same, True))
        wanted.append((f"{dataset}: validation accuracy", mine, False))
    styles = _styles(fits)
    figure, axes = panels(len(wanted), 2, 3.0)
    for row, (title, mine, of_objective) in zip(axes, wanted, strict=True):
        for ax, over in zip(row, OVER, strict=True):
            (_objective if of_objective else _accuracy)(ax, mine, over, styles)
        titled(row[0], title)
        row[0].set_ylabel("objective - best seen" if of_objective else "accuracy %", fontsize=9)
        over_seconds(row[0])
        row[1].xaxis.get_major_locator().set_params(integer=True)
    for ax, label in zip(axes[-1], OVER.values(), strict=True):
        ax.set_xlabel(label, fontsize=9)
    legend(figure, axes)
    return written(figure, path)


def plot_sizes(measures: Mapping[str, Mapping[str, Any]], path: PathLike | None = None) -> Any:
    """Seconds, test error, and error above the best achieved, over the number of training rows.

    `measures` is what slender.lab.measures.large_scale gives.  One row of panels per data set.
    """
    everyone = [each for of in measures.values() for each in of["contenders"]]
    styles = _styles(everyone)
    binary = any(p["pr_area"]["mean"] is not None for each in everyone for p in each["points"])
    columns: dict[str, Callable[[Mapping[str, Any]], float | None]] = {
        "seconds of fit": lambda point: point["seconds"]["mean"],
        "test error %": lambda point: 100 * point["error"]["mean"],
        "points above the best achieved": lambda point: 100 * point["excess"],
    }
    if binary:
        columns["area under precision-recall"] = lambda point: point["pr_area"]["mean"]
    figure, axes = panels(len(measures), len(columns), 3.2)
    for row, (dataset, of) in zip(axes, measures.items(), strict=True):
        for ax, (label, figure_of) in zip(row, columns.items(), strict=True):
            for each in of["contenders"]:
                sizes = [point["size"] for point in each["points"]]
                values = np.array([figure_of(point) for point in each["points"]], np.float64)
                line = ax.plot(sizes, values, **styles[each["opt"], each["obj"]], marker="o", ms=3)
                if label == "seconds of fit" and each["effort"] is not None:
                    line[0].set_label(f"~ n^{each['effort']:.2f}")
            ax.set_xscale("log")
            ax.set_ylabel(label, fontsize=9)
        row[0].set_yscale("log")
        row[0].legend(fontsize=7, frameon=False)
        row[2].set_yscale("symlog", linthresh=0.1)  # the best itself is at 0
        row[2].set_ylim(bottom=0)
        titled(row[0], dataset)
    for ax in axes[-1]:
        ax.set_xlabel("training rows", fontsize=9)
    legend(figure, axes[:, 1:])
    return written(figure, path)


# -- panels ----------------------------------------------------------------------------------------


def _objective(ax: Any, fits: Sequence[Fit], over: str, styles: Style) -> None:
    values = np.concatenate([column(fit["curve"], _objective_name(fit)) for fit in fits])
    best = np.nanmin(values, initial=np.inf)
    above = np.sort(values - best)
    floor = 0.5 * np.min(above[above > 0], initial=1.0)  # the best itself has no place in a log
    _lines(
        ax,
        fits,
        over,
        styles,
        lambda fit: np.maximum(column(fit["curve"], _objective_name(fit)) - best, floor),
    )
    ax.set_yscale("log")


def _accuracy(ax: Any, fits: Sequence[Fit], over: str, styles: Style) -> None:
    _lines(ax, fits, over, styles, lambda fit: 100 * column(fit["curve"], "validation_accuracy"))


def _lines(
    ax: Any,
    fits: Sequence[Fit],
    over: str,
    styles: Style,
    figures: Callable[[Fit], NDArray[np.float64]],
) -> None:
    """A thin line for each fit, and the medians of each contender."""
    for key, style in styles.items():
        mine = [fit for fit in fits if (fit["opt"], fit["obj"]) == key]
        if not mine:
            continue
        lines = [(column(fit["curve"], over), figures(fit)) for fit in mine]
        median_line(ax, lines, {**style, "marker": "o", "ms": 2.5})


def _objective_name(fit: Fit) -> str:
    return "exact" if "exact" in fit["curve"][-1] else "objective"


def _styles(fits: Sequence[Fit]) -> Style:
    """A colour for each optimiser; dashed for the SVM."""
    opts = list(dict.fromkeys(fit["opt"] for fit in fits))
    keys = dict.fromkeys((fit["opt"], fit["obj"]) for fit in fits)
    twice = {opt for opt in opts if sum(key[0] == opt for key in keys) > 1}
    return {
        (opt, obj): {
            "color": COLOURS[opts.index(opt) % len(COLOURS)],
            "ls": DASHES[obj],
            "label": f"{opt} {obj}" if opt in twice else opt,
            "lw": 1.8,
        }
        for opt, obj in keys
    }
