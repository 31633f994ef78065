"""All sections in one file of HTML, which needs nothing else."""

import shlex
from collections.abc import Sequence
from importlib import resources
from xml.etree import ElementTree

from ... import __version__
from ...storage import FileError
from .elements import E, Element, written
from .section import DAMAGED, Section
from .tables import side_by_side


def page(sections: Sequence[Section], title: str, command: Sequence[str] = ()) -> str:
    """The text of the page; the same for the same sections."""
    drawn = [_drawn(section, place) for place, section in enumerate(sections)]
    main = E("main")
    if len(sections) > 1:
        main.append(_contents(sections))
        main.append(E("h2", "All results"))
        main.append(side_by_side([(_who(section, who), row) for section in sections
                                  for who, row in section.rows], "result"))  # fmt: skip
    main.extend(drawn)
    footer = E("footer", f"Made by slender {__version__}")
    if command:
        footer.append(E("pre", E("code", shlex.join(command)), class_="command"))
    html = E("html", _head(title), E("body", E("header", E("h1", title)), main, footer), lang="en")
    html[1].append(_asset("script", "page.js"))
    return f"<!DOCTYPE html>\n{written(html)}\n"


def _drawn(section: Section, place: int) -> Element:
    try:
        return section.element(place)
    except DAMAGED as error:
        raise FileError(
            f"{section.name}: holds a value that slender does not write "
            f"({type(error).__name__}: {error}); run its command again"
        ) from error


def _who(section: Section, who: str) -> str:
    return section.name if who in ("", section.name) else f"{section.name}: {who}"


def _contents(sections: Sequence[Section]) -> Element:
    links = [
        E("li", E("a", f"{section.title}", href=f"#r{place}"), " ", E("code", section.name))
        for place, section in enumerate(sections)
    ]
    return E("nav", E("ol", links), aria_label="Contents")


def _head(title: str) -> ElementTree.Element:
    return E(
        "head",
        E("meta", charset="utf-8"),
        E("meta", name="viewport", content="width=device-width, initial-scale=1"),
        E("meta", name="color-scheme", content="light dark"),
        E("meta", name="generator", content=f"slender {__version__}"),
        E("link", rel="icon", href="data:,"),  # otherwise a browser asks a server for one
        E("title", title),
        _asset("style", "page.css"),
    )


def _asset(tag: str, name: str) -> Element:
    """A file of this package, inside an element whose text HTML leaves as it is."""
    element = E(tag)
    element.text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return element
