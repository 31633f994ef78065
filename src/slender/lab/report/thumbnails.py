"""Small pictures of mistakes, inside the page."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ...extras import need
from ...features.images import BadImageError, read_image
from .elements import E, Element

SIDE = 128  # pixels of the longer side
QUALITY = 72


class Mistake(NamedTuple):
    """A wrong answer."""

    file: Path
    truth: str
    said: str
    sure: str


def gallery(mistakes: Sequence[Mistake]) -> tuple[Element, list[str]]:
    """The pictures with what they are and what they were taken for; which files cannot be read."""
    if not mistakes:
        return E("p", "None: every row is right."), []
    made, unread = E("div", class_="gallery"), []
    for each in mistakes:
        try:
            source = thumbnail(each.file)
        except BadImageError as error:
            unread.append(f"The picture of a mistake, {error}.")
            continue
        caption = E("figcaption", E("strong", each.said), f" {each.sure}", E("br"), "is ",
                    E("strong", each.truth), E("br"), E("small", each.file.name))  # fmt: skip
        image = E("img", src=source, alt=f"{each.truth}, taken for {each.said}")
        made.append(E("figure", image, caption))
    return made, unread


def thumbnail(path: Path) -> str:
    """The image in a file as an address that holds a small JPEG."""
    pixels = read_image(path, SIDE)
    content = io.BytesIO()
    need("PIL.Image", "a thumbnail").fromarray(pixels).save(content, "JPEG", quality=QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}"
