"""Tables, cards and lists of figures."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from .elements import E, Element, clean, data

SHOWN = 20  # rows of a long table at first, and in print
WIDE = 6  # columns; on paper and phones a table with more is a list for each row
NONE = "—"

# name of a figure -> what people call it, how it is written ("%" is a share as a percentage)
FIGURES: dict[str, tuple[str, str]] = {
    "test_top1": ("test top-1", "%"),
    "test_top5": ("test top-5", "%"),
    "mean_per_class": ("mean recall of classes", "%"),
    "validation_top1": ("validation top-1", "%"),
    "validation_top5": ("validation top-5", "%"),
    "mean_average_precision": ("mean average precision", "%"),
    "f1_micro": ("F1 micro", "%"),
    "f1_macro": ("F1 macro", "%"),
    "ece": ("calibration error", "%"),
    "claims": ("claims that hold", ""),
    "objective": ("objective", ".5g"),
    "relative_gap": ("proved distance to optimum", "share"),
    "gap": ("duality gap", ".2g"),
    "seconds": ("seconds of fit", ".3g"),
    "passes": ("passes", ".4g"),
    "rank": ("rank", ",d"),
    "classes": ("classes", ",d"),
    "features": ("features", ",d"),
    "rows": ("training rows", ",d"),
}


def written(value: Any, style: str) -> str:
    """A figure; a mean with its spread over seeds; an em dash for none."""
    if isinstance(value, Mapping):
        spread = value.get("spread")
        text = written(value.get("mean"), style)
        return f"{text} ± {100 * spread if style == '%' else spread:.2g}" if spread else text
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return NONE
    if style == "%":
        return f"{100 * value:.2f} %"
    if style == "share":
        return f"{100 * value:.2g} %" if value >= 1e-4 else f"{value:.1e}"
    return f"{int(value):,}" if style == ",d" else format(value, style)


def cards(figures: Mapping[str, Any]) -> Element:
    """The figures of one model, large."""
    made = E("dl", class_="cards")
    for name, (label, style) in FIGURES.items():
        if figures.get(name) is not None:
            made.append(E("div", E("dt", label), E("dd", written(figures[name], style))))
    return made


def side_by_side(rows: Sequence[tuple[str, Mapping[str, Any]]], first: str = "") -> Element:
    """The figures of several, one line each; a column in which none has anything is left out."""
    kept = [name for name in FIGURES if any(row.get(name) is not None for _, row in rows)]
    heads = [first, *(FIGURES[name][0] for name in kept)]
    cells = [
        [who, *(_in_two(written(row.get(name), FIGURES[name][1])) for name in kept)]
        for who, row in rows
    ]
    return table(heads, cells)


def _in_two(text: str) -> str:
    """With no place to break the line but before the spread."""
    return text.replace(" ", "\N{NO-BREAK SPACE}").replace("\N{NO-BREAK SPACE}±", " ±")


def table(
    heads: Sequence[Any], rows: Iterable[Sequence[Any]], text: Collection[int] = (0,)
) -> Element:
    """A table that scrolls sideways inside the page; columns but those of `text` are numbers."""
    looks = [None if place in text else "number" for place in range(len(heads))]
    wide = len(heads) > WIDE
    names = heads if wide else [None] * len(heads)

    def cell(content: Any, look: str | None, name: Any) -> Element:
        return E("td", content, class_="none" if content == NONE else look, data_name=name)

    body = [E("tr", list(map(cell, row, looks, names))) for row in rows]
    head = E("tr", [E("th", name, class_=look, scope="col")
                    for name, look in zip(heads, looks, strict=True)])  # fmt: skip
    made = E("table", E("thead", head), E("tbody", body))
    return E("div", made, class_="scroll wide" if wide else "scroll", tabindex="0")


def pairs(values: Mapping[str, Any]) -> Element:
    """Names and values in two columns; what is not set is left out."""
    rows = [(E("code", name), _said(of)) for name, of in values.items() if of is not None]
    return table(("setting", "value"), rows, (0, 1))


def _said(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_said, value[:12])) + (
            f", … ({len(value)})" if len(value) > 12 else ""
        )
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_said(of)}" for name, of in value.items())
    return str(value)


def long_table(
    heads: Sequence[tuple[str, str]],
    rows: Sequence[Sequence[Any]],
    what: str,
    sorted_by: int,
    down: bool = False,
) -> Element:
    """A table that the script sorts, searches and continues; without it, the first rows.

    `heads` are names and styles, "" for text; rows are values, in the order that is shown first:
    by a column, upwards or `down`.
    """
    styles = [style for _, style in heads]
    shown = [
        [
            written(value, style) if style else value or ""
            for value, style in zip(row, styles, strict=True)
        ]
        for row in rows[:SHOWN]
    ]
    text = [place for place, (_, style) in enumerate(heads) if not style]
    made = table([name for name, _ in heads], shown, text)
    more = (
        f"the first {SHOWN} of {len(rows):,} {what}"
        if len(rows) > SHOWN
        else f"{len(rows):,} {what}"
    )
    plain = [[clean(v) if isinstance(v, str) else _finite(v) for v in row] for row in rows]
    about = {"heads": styles, "rows": plain, "shown": SHOWN, "what": what,
             "by": sorted_by, "down": down}  # fmt: skip
    return E("div", made, E("p", more, class_="note count"), data(about), class_="long")


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
