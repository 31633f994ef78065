"""Curve charts: one SVG for each position of the switches (seconds or passes, log or linear).

The switches are radio buttons, and CSS shows the SVG that they choose: no script is needed.  The
script finds the point that is nearest to the pointer, whose text is `tips[line][point]`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .elements import E, Element, data
from .scales import AxisScale, scale, tick_label

WIDTH, HEIGHT = 460, 290  # of a chart, in units that are about a pixel
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 24, 42  # around its axes
MOST_POINTS = 300  # of a line; further ones could not be told apart
MARKED = 60  # points at most that are also drawn as dots
COLOURS = 8  # that page.css has

Numbers = Sequence[float | None]


@dataclass(frozen=True)
class Curve:
    """A curve: y over one x, or over several to choose from."""

    name: str
    x: Mapping[str, Numbers]  # what it is -> the numbers
    y: Numbers
    tips: Sequence[str]
    error: Numbers | None = None  # half the height of a band around it
    colour: int = 0
    dashed: bool = False
    thin: bool = False  # in the background: no dots, no text


@dataclass(frozen=True)
class Chart:
    """Lines over one axis, or over several to choose from."""

    title: str
    y_label: str
    x_labels: Mapping[str, str]  # what x is -> the label of its axis; the first is shown first
    lines: Sequence[Curve]
    x_log: bool = False
    y_log: bool = False  # at first
    marks: Mapping[str, float] | None = None  # text -> x of a vertical line
    note: str | None = None

    @property
    def drawable(self) -> bool:
        return any(_known(line, name) for line in self.lines for name in self.x_labels)


def figure(chart: Chart, name: str) -> Element:
    """The chart with its title, switches and legend; `name` is a unique id."""
    lines = [_thinned(line) for line in chart.lines]
    values = {value for line in lines for value in line.y if value is not None and _is(value)}
    can_log = len(values) > 1 and min(values) > 0
    y_log = chart.y_log and can_log
    y_scales = {"log": True, "linear": False} if can_log else {"linear": False}
    made = E("figure", E("figcaption", chart.title), class_="chart", id=name)
    switches = [
        *_switch(name, "x", {x: x for x in chart.x_labels}, next(iter(chart.x_labels))),
        *_switch(name, "y", {y: y for y in y_scales}, "log" if y_log else "linear"),
    ]
    made.extend(switches)
    if len([line for line in lines if not line.thin]) > 1:
        made.append(_legend(lines))
    plots = E("div", class_="plots")
    for place, (x, label) in enumerate(chart.x_labels.items()):
        for y, log in y_scales.items():
            plots.append(_svg(chart, lines, x, label, log, f"x{place} y-{y}"))
    made.append(plots)
    if chart.note:
        made.append(E("p", chart.note, class_="note"))
    made.append(data([[] if line.thin else list(line.tips) for line in lines], class_="tips"))
    return made


def _switch(name: str, axis: str, options: Mapping[str, str], chosen: str) -> list[Element]:
    """Radio buttons before their labels, all before the plots: CSS only looks forward."""
    if len(options) < 2:
        return []
    made = []
    for place, option in enumerate(options):
        key = f"{axis}{place}" if axis == "x" else f"y-{option}"
        made.append(
            E(
                "input", type="radio", name=f"{name}-{axis}", id=f"{name}-{key}",
                class_=f"pick-{key}", checked=option == chosen,
            )
        )  # fmt: skip
        made.append(E("label", options[option], for_=f"{name}-{key}"))
    made.append(E("span", class_="gap"))
    return made


def _legend(lines: Sequence[Curve]) -> Element:
    keys = E("ul", class_="legend")
    for place, line in enumerate(lines):
        if not line.thin:
            look = f"key s{line.colour % COLOURS}" + " dashed" * line.dashed
            button = E("button", line.name, type="button", class_=look, aria_pressed="true",
                       data_line=place)  # fmt: skip
            keys.append(E("li", button))
    return keys


# -- drawing ---------------------------------------------------------------------------------------


def _svg(
    chart: Chart, lines: Sequence[Curve], x: str, x_label: str, y_log: bool, look: str
) -> Element:
    shown = [(line, _known(line, x, chart.x_log, y_log)) for line in lines]
    xs = [point[1] for _, points in shown for point in points]
    xs += list((chart.marks or {}).values())
    ys = [
        edge for _, points in shown for _, _, y, error in points for edge in (y - error, y + error)
    ]
    ys = [value for value in ys if not y_log or value > 0]
    across = scale(xs, LEFT, WIDTH - RIGHT, chart.x_log, 0.03)._replace(
        whole=all(float(value).is_integer() for value in xs)  # passes, places
    )
    up = scale(ys, HEIGHT - BOTTOM, TOP, y_log)
    svg = frame(
        across, up, x_label, chart.y_label, f"{chart.title}: {chart.y_label} over {x_label}"
    )
    svg.set("class", look)
    svg.set("tabindex", "0")
    for text, at in (chart.marks or {}).items():
        svg.append(E("line", class_="mark", x1=px(across(at)), x2=px(across(at)), y1=TOP,
                     y2=HEIGHT - BOTTOM))  # fmt: skip
        end = across(at) > WIDTH / 2
        svg.append(E("text", text, class_="mark", x=px(across(at) + (-5 if end else 5)), y=TOP + 11,
                     text_anchor="end" if end else "start"))  # fmt: skip
    for place, (line, points) in enumerate(shown):
        svg.append(_line(line, place, points, across, up))
    return svg


def _line(
    line: Curve,
    place: int,
    points: list[tuple[int, float, float, float]],
    across: AxisScale,
    up: AxisScale,
) -> Element:
    look = f"line s{line.colour % COLOURS}" + " dashed" * line.dashed + " thin" * line.thin
    drawn = E("g", class_=look, data_line=place)
    at = [(px(across(x)), px(up(y))) for _, x, y, _ in points]
    if line.error is not None and len(points) > 1:
        upper = [f"{px(across(x))},{px(up(y + e))}" for _, x, y, e in points]
        lower = [f"{px(across(x))},{px(up(y - e if y > e or not up.log else up.low))}"
                 for _, x, y, e in reversed(points)]  # fmt: skip
        drawn.append(E("polygon", class_="band", points=" ".join(upper + lower)))
    track = E("polyline", points=" ".join(f"{x},{y}" for x, y in at))
    places = [k for k, *_ in points]
    if places != list(range(len(line.y))):  # some have no place here
        track.set("data-k", " ".join(map(str, places)))
    drawn.append(track)
    if not line.thin and (len(at) <= MARKED):
        drawn.append(E("path", class_="dots", d="".join(f"M{x} {y}h0" for x, y in at)))
    return drawn


def frame(across: AxisScale, up: AxisScale, x_label: str, y_label: str, about: str) -> Element:
    """Axes with their numbers and names."""
    svg = E("svg", viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=about)
    bottom = HEIGHT - BOTTOM
    for value in up.ticks():
        y = px(up(value))
        svg.append(E("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y))
        svg.append(E("text", tick_label(value), class_="tick", x=LEFT - 7, y=px(up(value) + 4),
                     text_anchor="end"))  # fmt: skip
    for value in _apart(across):
        x = px(across(value))
        svg.append(E("line", class_="grid", x1=x, x2=x, y1=TOP, y2=bottom))
        svg.append(E("text", tick_label(value), class_="tick", x=x, y=bottom + 16,
                     text_anchor="middle"))  # fmt: skip
    svg.append(E("path", class_="axis", d=f"M{LEFT} {TOP}V{bottom}H{WIDTH - RIGHT}"))
    svg.append(E("text", y_label, class_="name", x=6, y=13))
    svg.append(E("text", x_label, class_="name", x=(LEFT + WIDTH - RIGHT) // 2, y=HEIGHT - 7,
                 text_anchor="middle"))  # fmt: skip
    return svg


def _apart(across: AxisScale) -> list[float]:
    """Ticks whose labels do not touch."""
    ticks = across.ticks()
    while len(ticks) > 2 and any(
        across(b) - across(a) < 4 * (len(tick_label(a)) + len(tick_label(b))) + 8
        for a, b in pairwise(ticks)
    ):
        ticks = ticks[::2]
    return ticks


def px(value: float) -> str:
    """A place in units of the drawing, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


# -- points ----------------------------------------------------------------------------------------


def _known(
    line: Curve, x: str, x_log: bool = False, y_log: bool = False
) -> list[tuple[int, float, float, float]]:
    """(place, x, y, error) of the points that these axes can show."""
    errors: Any = line.error or [0.0] * len(line.y)
    found = []
    for place, (at, y, error) in enumerate(zip(line.x.get(x, ()), line.y, errors, strict=False)):
        if _is(at) and _is(y) and (at > 0 or not x_log) and (y > 0 or not y_log):  # type: ignore[operator]
            found.append((place, at, y, error if _is(error) else 0.0))
    return found  # type: ignore[return-value]


def _is(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _thinned(line: Curve) -> Curve:
    n = len(line.y)
    if n <= MOST_POINTS:
        return line
    kept = sorted({round(k * (n - 1) / (MOST_POINTS - 1)) for k in range(MOST_POINTS)})
    return Curve(
        line.name,
        {name: [values[k] for k in kept] for name, values in line.x.items()},
        [line.y[k] for k in kept],
        [line.tips[k] for k in kept] if line.tips else (),
        None if line.error is None else [line.error[k] for k in kept],
        line.colour,
        line.dashed,
        line.thin,
    )
