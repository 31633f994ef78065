"""What a result is turned into: figures for the headline, parts to look at, how to rerun."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .charts import Chart, figure
from .elements import E, Element
from .tables import cards, pairs, side_by_side

# what goes wrong where a document does not hold what its command writes
DAMAGED = (KeyError, TypeError, ValueError, AttributeError, IndexError)


@dataclass
class Section:
    """One result on the page."""

    name: str  # as the user gave it
    title: str
    rows: list[tuple[str, Mapping[str, Any]]]  # of the headline: who, its figures
    parts: list[tuple[str, Sequence[Any]]] = field(default_factory=list)  # heading, elements
    # heading -> charts, or figures that are drawn already
    charts: dict[str, list[Chart | Element]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    command: str | None = None  # to be typed again
    left_out: list[str] = field(default_factory=list)  # and why

    def element(self, place: int) -> Element:
        made = E("section", E("h2", self.title), E("p", E("code", self.name), class_="from"),
                 id=f"r{place}")  # fmt: skip
        made.append(cards(self.rows[0][1]) if len(self.rows) == 1 else side_by_side(self.rows))
        for number, (heading, charts) in enumerate(self.charts.items()):
            drawn = [
                figure(chart, f"r{place}-{number}-{k}") if isinstance(chart, Chart) else chart
                for k, chart in enumerate(charts)
                if not isinstance(chart, Chart) or chart.drawable
            ]
            if drawn:
                made.append(E("h3", heading))
                made.append(E("div", drawn, class_="charts"))
        for heading, inner in self.parts:
            made.append(E("h3", heading))
            made.append(E("div", inner))
        self._end(made)
        return made

    def _end(self, made: Element) -> None:
        if self.left_out:
            made.append(E("h3", "Left out"))
            made.append(E("ul", [E("li", why) for why in self.left_out]))
        if self.command:
            made.append(E("h3", "To run it again"))
            made.append(E("pre", E("code", self.command), class_="command"))
        for heading, values in (("Settings", self.settings), ("Versions", self.versions)):
            if any(value is not None for value in values.values()):
                made.append(E("details", E("summary", heading), pairs(values)))


def command_of(document: Mapping[str, Any]) -> str | None:
    """The command line that a result keeps, quoted for a shell."""
    words = document.get("command_line")
    return shlex.join(map(str, words)) if words else None


def versions_of(document: Mapping[str, Any]) -> dict[str, Any]:
    return {"slender": document.get("version"), **(document.get("machine") or {})}
