"""HTML as a tree: the serialiser escapes every label and attribute."""

import json
import re
from typing import Any
from xml.etree import ElementTree

Element = ElementTree.Element

# What HTML cannot hold: control characters, and halves of surrogate pairs (of odd file names).
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def E(tag: str, *inner: Any, **attributes: Any) -> Element:
    """An element; class_ is its class, data_x its data-x; what is None or False is left out."""
    element = Element(tag)
    for name, value in attributes.items():
        if value is not None and value is not False:
            text = name if value is True else clean(value)
            element.set(name.rstrip("_").replace("_", "-"), text)
    for each in inner:
        add(element, each)
    return element


def add(element: Element, inner: Any) -> None:
    """An element, text, or a list of them, after what is there; None is nothing."""
    if inner is None:
        return
    if isinstance(inner, list | tuple):
        for each in inner:
            add(element, each)
    elif isinstance(inner, Element):
        element.append(inner)
    elif len(element):
        element[-1].tail = (element[-1].tail or "") + clean(inner)
    else:
        element.text = (element.text or "") + clean(inner)


def clean(value: Any) -> str:
    """Text that HTML can hold."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", str(value))


def data(content: Any, **attributes: Any) -> Element:
    """Numbers and words for the script; nothing in them can end the element."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    island = E("script", type="application/json", **attributes)
    island.text = clean(text).replace("&", "\\u0026").replace("<", "\\u003c")
    return island


def written(element: Element) -> str:
    """As HTML."""
    return ElementTree.tostring(element, encoding="unicode", method="html")
