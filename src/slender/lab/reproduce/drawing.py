"""How the figures of the papers are drawn: from rows of tables, one line for each kind."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...extras import need
from ..panels import COLOURS, legend, panels, titled
from .base import Row, Tables, grouped

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
WHOLE = ("passes", "guesses k")  # names of axes whose numbers are whole
NARROW = 2.0  # decades: an axis with fewer has plain numbers
SHORT = 0.8  # decades: an upright axis with fewer would have few of them, and has room for all
NAME = 24  # letters of the name of a data set
LINES = ("-", "--", "-.", ":")
WIDTH = 108  # letters of a heading on a line of 8.6 inches


def sheet(heading: str, columns: int, rows: int = 1, height: float = 3.2) -> tuple[Any, Any]:
    """A figure with its heading, and its axes (rows, columns)."""
    width = {1: 6.8, 2: 4.3}.get(columns, 3.6)
    figure, axes = panels(rows, columns, height, width)
    letters = int(WIDTH * width * columns / 8.6)
    figure.suptitle(folded(heading, letters), fontsize=10.5, x=0.01, ha="left")
    return figure, axes


def folded(text: str, letters: int) -> str:
    """In lines of at most so many letters."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if len(longer) > letters and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return "\n".join(lines)


def brief(tables: Tables, names: Iterable[str]) -> Tables:
    """The tables as they are drawn: of a long path, which is no title, the end alone."""
    ends = {name: f"…{name[1 - NAME :]}" if len(name) > NAME else name for name in names}
    if len(set(ends.values())) < len(ends):  # the ends do not tell them apart
        return tables
    return {
        table: [{key: ends.get(cell, cell) if isinstance(cell, str) else cell
                 for key, cell in row.items()} for row in rows]
        for table, rows in tables.items()
    }  # fmt: skip


def named(ax: Any, x: str, y: str, title: str = "") -> None:
    """Axes with their names and units."""
    ax.set_xlabel(x, fontsize=9)
    if x in WHOLE:
        ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_ylabel(y, fontsize=9)
    if title:
        titled(ax, title)


def style(place: int, label: Any = None) -> dict[str, Any]:
    """Told apart by colour, by mark and by dash."""
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": MARKERS[place % len(MARKERS)],
        "ls": LINES[place // len(COLOURS) % len(LINES)],
        "ms": 4,
        "lw": 1.6,
        "label": None if label is None else str(label),
    }


def lines(
    ax: Any,
    rows: Sequence[Row],
    x: str,
    y: str,
    by: str,
    kinds: Sequence[Any] | None = None,
    change: Callable[[float], float] = lambda value: value,
    band: bool = True,
) -> None:
    """y over x, a line for each value of `by`: means, in a band from least to largest."""
    its = grouped(rows, by)
    order = list(its) if kinds is None else list(kinds)
    for kind, mine in its.items():
        points = sorted(grouped(mine, x).items())
        values = [[change(number(row[y])) for row in group] for _, group in points]
        places = [place for place, _ in points]
        look = style(order.index(kind), kind)
        ax.plot(places, [np.mean(of) for of in values], **look)
        if band and any(len(of) > 1 for of in values):
            low, high = [np.min(of) for of in values], [np.max(of) for of in values]
            ax.fill_between(places, low, high, color=look["color"], alpha=0.15, lw=0)


def number(value: Any) -> float:
    """nan where there is none."""
    return float("nan") if value is None else float(value)


def above(best: float, least: float) -> Callable[[float], float]:
    """The distance from the best, no smaller than a logarithmic axis can show."""
    return lambda value: max(value - best, least)


def percent(value: float) -> float:
    return 100.0 * value


def below(figure: Any, axes: Any, columns: int = 4) -> Any:
    """The legend, under the panels; the figure, its logarithmic axes with few and plain numbers."""
    ticker = need("matplotlib.ticker", "a plot")
    for ax in axes.flat:
        for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            if axis.get_scale() != "log" or len(axis.get_minorticklocs()) == 0:
                continue
            axis.set_minor_formatter(ticker.NullFormatter())
            if 0 < low and np.log10(high / low) < NARROW:
                short = axis is ax.yaxis and np.log10(high / low) < SHORT
                subs = range(1, 10) if short else (1, 2, 3, 5)
                axis.set_major_locator(ticker.LogLocator(subs=subs))
                axis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    legend(figure, axes, columns, place="outside lower center", fontsize=8.5)
    return figure


def numbers_on(ax: Any, axis: str = "x", ticks: Sequence[float] = ()) -> None:
    """A logarithmic axis whose ticks are these plain numbers."""
    of = ax.xaxis if axis == "x" else ax.yaxis
    (ax.set_xscale if axis == "x" else ax.set_yscale)("log")
    of.set_ticks(list(ticks), labels=[f"{tick:,g}" for tick in ticks])
    of.set_ticks([], minor=True)
