"""Folders of slender reproduce: the paper's claims, the figures, the numbers."""

import base64
import csv
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..reproduce.base import evidence
from .elements import E, Element
from .results import Result
from .section import Section
from .tables import SHOWN, table

MOST_BYTES = 2**20  # of a figure on the page


def of_reproduce(result: Result) -> Section:
    """Of a folder that slender reproduce wrote."""
    document, folder = result.document, result.path
    claims = document["claims"]
    held = sum(bool(claim["holds"]) for claim in claims)
    command = document.get("command")
    section = Section(
        name=result.name,
        title=document["title"],
        rows=[("", {"claims": f"{held} of {len(claims)}"})] if claims else [("", {})],
        settings=document.get("settings") or {},
        versions=document.get("versions") or {},
        command=shlex.join(command) if isinstance(command, list) else command,
    )
    if document.get("paper"):
        section.parts.append(("Paper", [E("p", document["paper"])]))
    if claims:
        section.parts.append(("Claims", [E("ul", [_claim(c) for c in claims], class_="claims")]))
    figures = [made for name in document["figures"] if (made := _figure(folder, name, section))]
    if figures:
        section.parts.append(("Figures", figures))
    for name in document["tables"]:
        if (made := _table(folder, name, section)) is not None:
            section.parts.append((f"Numbers: {name}", [made]))
    return section


def _claim(claim: Mapping[str, Any]) -> Element:
    holds = bool(claim["holds"])
    return E(
        "li",
        E("strong", "holds" if holds else "does not hold", class_="yes" if holds else "no"),
        " ",
        claim["text"],
        E("small", evidence(claim)),
    )


def _figure(folder: Path, name: str, section: Section) -> Element | None:
    content = _content(folder, name, section)
    if content is None:
        return None
    if not content.startswith(b"\x89PNG"):
        section.left_out.append(f"{name}: not a PNG image.")
        return None
    source = f"data:image/png;base64,{base64.b64encode(content).decode()}"
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    return E("figure", E("img", src=source, alt=f"figure {Path(name).stem}",
                         width=width, height=height), class_="picture")  # fmt: skip


def _table(folder: Path, name: str, section: Section) -> Element | None:
    content = _content(folder, name, section)
    if content is None:
        return None
    rows = list(csv.reader(content.decode("utf-8", "replace").splitlines()))
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        section.left_out.append(f"{name}: not a table.")
        return None
    shown = [[_rounded(cell) for cell in row] for row in rows[1 : SHOWN + 1]]
    words = [place for place, column in enumerate(zip(*shown, strict=True)) if _names(column)]
    made = E("div", table(rows[0], shown, words or (0,)))
    if len(rows) - 1 > SHOWN:
        made.append(E("p", f"the first {SHOWN} of {len(rows) - 1:,} rows", class_="note"))
    return made


def _rounded(cell: str) -> str:
    """A number with the digits that people compare; the file has all of them."""
    number = _number(cell)
    return cell if number is None or cell.lstrip("-").isdigit() else f"{number:.6g}"


def _names(column: Sequence[str]) -> bool:
    return any(cell and _number(cell) is None for cell in column)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _content(folder: Path, name: str, section: Section) -> bytes | None:
    """Of a file in the folder itself; why not, if it cannot be shown."""
    path = folder / Path(name).name
    try:
        if path.stat().st_size > MOST_BYTES:
            section.left_out.append(f"{name}: larger than a megabyte.")
            return None
        return path.read_bytes()
    except OSError as error:
        section.left_out.append(f"{name}: {error.strerror}.")
        return None
