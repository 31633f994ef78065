"""What all figures share: panels, an axis of seconds, medians before thin lines, a legend."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..extras import need
from .curves import medians

# Okabe and Ito's, told apart by colour-blind readers, less the yellow that is lost on white
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
SECONDS = "seconds of fit, evaluation off the clock"


def panels(rows: int, columns: int, height: float, width: float = 4.3) -> tuple[Any, Any]:
    """A figure and its axes (rows, columns)."""
    module = need("matplotlib.figure", "a plot")  # no pyplot: no window, no global state
    figure = module.Figure(figsize=(width * columns, height * rows + 0.6), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.flat:
        ax.tick_params(which="both", labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25, lw=0.5)
    return figure, axes


def over_seconds(ax: Any, ticks: tuple[int, ...] = (1, 2, 5)) -> None:
    """A log scale with these ticks in each decade."""
    ticker = need("matplotlib.ticker", "a plot")
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(ticker.LogLocator(subs=ticks))
    ax.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    ax.xaxis.set_minor_formatter(ticker.NullFormatter())


def titled(ax: Any, title: str) -> None:
    ax.set_title(title, fontsize=10, loc="left")


def median_line(
    ax: Any, lines: Sequence[Sequence[NDArray[np.float64]]], style: Mapping[str, Any]
) -> NDArray[np.float64]:
    """The median of lines (x, y), point by point, each of them thin behind it; its y."""
    *each, middle = medians(lines)
    if len(each) > 1:
        for x, y in each:
            ax.plot(x, y, color=style["color"], lw=0.6, alpha=0.35)
    ax.plot(*middle, **style)
    return middle[1]


def cut_below(ax: Any, best: float, span: float) -> None:
    """Nothing further below the best than `span`: the first passes of a slow start."""
    low, high = ax.get_ylim()
    ax.set_ylim(max(low, best - span), high)


def legend(
    figure: Any, axes: Any, columns: int = 4, place: str = "outside upper center", **style: Any
) -> None:
    """Above the panels, or where it is told, but never over a line; each label once."""
    lines: dict[str, Any] = {}
    for ax in axes.flat:
        handles, labels = ax.get_legend_handles_labels()
        lines |= dict(zip(labels, handles, strict=True))
    columns = min(columns, len(lines))
    figure.legend(lines.values(), lines, loc=place, ncols=columns, frameon=False, **style)


def solver_line(colour: str, label: str, mine: bool) -> dict[str, Any]:
    """How the curve of a solver is drawn; ours is thicker and in front."""
    return {
        "color": colour,
        "label": label,
        "lw": 2.5 if mine else 1.5,
        "zorder": 3 if mine else 2,
        "marker": "o",
        "ms": 2.5,
    }
