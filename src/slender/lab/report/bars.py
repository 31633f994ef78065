"""Bars: how sure a model is against how often it is right, and how classes spread."""

from collections.abc import Sequence

from .charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, frame, px
from .elements import E, Element
from .scales import AxisScale, scale


def bars(
    title: str, heights: Sequence[float], labels: tuple[str, str], tips: Sequence[str]
) -> Element:
    """Bars of equal width from 0 to 100 %; `labels` name the axes."""
    across = AxisScale(0.0, 100.0, LEFT, WIDTH - RIGHT, False)
    up = scale([0.0, max(heights)], HEIGHT - BOTTOM, TOP, False)._replace(low=0.0)
    svg = frame(across, up, *labels, title)
    width = 100.0 / len(heights)
    for place, (height, tip) in enumerate(zip(heights, tips, strict=True)):
        if height > 0:
            svg.append(_bar(across, up, place * width, width, height, tip))
    return E("figure", E("figcaption", title), E("div", svg, class_="plots"), class_="chart")


def reliability(
    rows: Sequence[int], confidence: Sequence[float], right: Sequence[float], ece: float
) -> Element:
    """A reliability diagram: in each bin of confidence, the share of right answers (in %)."""
    across = AxisScale(0.0, 100.0, LEFT, WIDTH - RIGHT, False)
    up = AxisScale(0.0, 100.0, HEIGHT - BOTTOM, TOP, False)
    title = f"Calibration: expected calibration error {100 * ece:.2f} %"
    svg = frame(across, up, "confidence of the answer, %", "right answers, %", title)
    width, most = 100.0 / len(rows), max(rows)
    for place, n in enumerate(rows):
        if n:
            tip = (
                f"{place * width:.0f} to {(place + 1) * width:.0f} % sure: {n:,} rows, "
                f"{100 * right[place]:.1f} % right, {100 * confidence[place]:.1f} % expected"
            )
            bar = _bar(across, up, place * width, width, 100 * right[place], tip)
            bar.set("fill-opacity", f"{0.35 + 0.65 * (n / most) ** 0.5:.2f}")
            svg.append(bar)
    for place, n in enumerate(rows):  # where the bar should end
        if n:
            y, x = px(up(100 * confidence[place])), place * width
            svg.append(E("path", class_="expected",
                         d=f"M{px(across(x) + 1)} {y}H{px(across(x + width) - 1)}"))  # fmt: skip
    svg.append(E("path", class_="diagonal",
                 d=f"M{px(across(0))} {px(up(0))}L{px(across(100))} {px(up(100))}"))  # fmt: skip
    note = "A bar below its line: surer than right.  Darker bars have more rows."
    return E("figure", E("figcaption", title), E("div", svg, class_="plots"),
             E("p", note, class_="note"), class_="chart")  # fmt: skip


def _bar(
    across: AxisScale, up: AxisScale, x: float, width: float, height: float, tip: str
) -> Element:
    left, right, top = across(x) + 1, across(x + width) - 1, up(height)
    return E("rect", E("title", tip), class_="bar", x=px(left), y=px(top), data_tip=tip,
             width=px(right - left), height=px(max(1.0, up.start - top)))  # fmt: skip
