"""Figures of experiments: curves over seconds and passes, and what happens as the rows grow."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..extras import need
from ..storage import PathLike
from .plots import column, written

# Okabe and Ito's, told apart by colour-blind readers, less the yellow that is lost on white
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
DASHES = {"logistic": "-", "svm": "--"}
OVER = {"seconds": "seconds of fit, evaluation off the clock", "passes": "passes over the rows"}

Fit = Mapping[str, Any]
Style = dict[tuple[str, str], dict[str, Any]]


def plot_curves(fits: Sequence[Fit], path: PathLike | None = None) -> Any:
    """Objective above the best seen, a row of panels for each problem; accuracy, all together.

    Left over seconds, right over passes.  A line is the median over the seeds, point by point;
    each seed is a thin line behind it.  Returns matplotlib's Figure, and writes it to `path`.
    """
    panels: list[tuple[str, list[Fit], bool]] = []
    for dataset, its in groupby(fits, key=lambda fit: fit.get("dataset", "")):
        mine = list(its)
        for problem in dict.fromkeys(fit["problem"] for fit in mine):
            same = [fit for fit in mine if fit["problem"] == problem]
            panels.append((f"{dataset}: {problem}", same, True))
        panels.append((f"{dataset}: validation accuracy", mine, False))
    styles = _styles(fits)
    figure, axes = _figure(len(panels), 2, 3.0)
    for row, (title, mine, of_objective) in zip(axes, panels, strict=True):
        for ax, over in zip(row, OVER, strict=True):
            (_objective if of_objective else _accuracy)(ax, mine, over, styles)
            ax.grid(alpha=0.25, lw=0.5)
        row[0].set_title(title, fontsize=10, loc="left")
        row[0].set_ylabel("objective - best seen" if of_objective else "accuracy %", fontsize=9)
        _over_seconds(row[0])
        row[1].xaxis.get_major_locator().set_params(integer=True)
    for ax, label in zip(axes[-1], OVER.values(), strict=True):
        ax.set_xlabel(label, fontsize=9)
    _legend(figure, axes)
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
    figure, axes = _figure(len(measures), len(columns), 3.2)
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
            ax.grid(alpha=0.25, lw=0.5)
        row[0].set_yscale("log")
        row[0].legend(fontsize=7, frameon=False)
        row[2].set_yscale("symlog", linthresh=0.1)  # the best itself is at 0
        row[2].set_ylim(bottom=0)
        row[0].set_title(dataset, fontsize=10, loc="left")
    for ax in axes[-1]:
        ax.set_xlabel("training rows", fontsize=9)
    _legend(figure, axes[:, 1:])
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
        length = min(len(fit["curve"]) for fit in mine)
        points = np.array(
            [(column(fit["curve"], over)[:length], figures(fit)[:length]) for fit in mine]
        )
        if len(mine) > 1:
            for x, y in points:
                ax.plot(x, y, color=style["color"], lw=0.6, alpha=0.35)
        ax.plot(*np.median(points, axis=0), **style, marker="o", ms=2.5)


def _objective_name(fit: Fit) -> str:
    return "exact" if "exact" in fit["curve"][-1] else "objective"


# -- figures ---------------------------------------------------------------------------------------


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


def _figure(rows: int, columns: int, height: float) -> tuple[Any, Any]:
    module = need("matplotlib.figure", "a plot")  # no pyplot: no window, no global state
    figure = module.Figure(figsize=(4.3 * columns, height * rows + 0.6), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.flat:
        ax.tick_params(which="both", labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _over_seconds(ax: Any) -> None:
    ticker = need("matplotlib.ticker", "a plot")
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    ax.xaxis.set_minor_formatter(ticker.NullFormatter())


def _legend(figure: Any, axes: Any) -> None:
    lines: dict[str, Any] = {}
    for ax in axes.flat:
        handles, labels = ax.get_legend_handles_labels()
        lines |= dict(zip(labels, handles, strict=True))
    figure.legend(
        lines.values(), lines, loc="outside upper center", ncols=min(4, len(lines)), frameon=False
    )
