"""Results as JSON documents, each with where it comes from; a file is there whole or not at all."""

import json
from pathlib import Path
from typing import Any

from ..storage import PathLike, finite, write_whole
from .provenance import Inputs, provenance


def as_json(results: dict[str, Any], inputs: Inputs | None = None, *packages: str) -> str:
    """The text of a document: the results, and their provenance."""
    document = {**results, **provenance(inputs, *packages)}
    return json.dumps(finite(document), indent=2, allow_nan=False) + "\n"


def save(text: str, path: PathLike) -> None:
    """A document to its file."""
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def read(path: PathLike) -> Any:
    """What a document holds; None where there is no file, or no JSON in it."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
