"""What users have after a command: model files, documents of --json, folders of reproduce."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from ... import __version__
from ...model import load_model, parts_of, read_document
from ...storage import FileError, plain_file, unreadable

RESULTS = "results.json"  # in a folder of slender reproduce
DRAWN = ("fit", "path", "run", "compare", "score", "reproduce")
WANTED = "give a model, a file of --json, or a folder of slender reproduce"


class Result(NamedTuple):
    """One of them."""

    path: Path
    kind: str  # "model", or one of DRAWN
    document: dict[str, Any]
    classifier: Any = None  # of a model
    encoder: Any = None  # likewise, if it takes images

    @property
    def name(self) -> str:
        return str(self.path)


def read_results(path: Path) -> list[Result]:
    """The result at this path; of a folder, those of its folders too."""
    if not path.is_dir():
        return [_read_file(plain_file(path))]
    found = [path / RESULTS] if (path / RESULTS).exists() else sorted(path.glob(f"*/{RESULTS}"))
    if not found:
        raise FileError(f"{path}: a folder without {RESULTS}; {WANTED}")
    # by paper and figure, as their titles begin, not by the names of folders
    return sorted(map(_reproduced, found), key=lambda each: str(each.document.get("title")))


def _read_file(path: Path) -> Result:
    try:
        with path.open("rb") as file:
            head, size = file.read(9), path.stat().st_size
    except OSError as error:
        raise unreadable(path, "a result", error) from error
    if head[8:] == b"{" and int.from_bytes(head[:8], "little") < size:  # as safetensors begin
        encoder, classifier = parts_of(load_model(path))
        return Result(path, "model", read_document(path), classifier, encoder)
    if not head.lstrip().startswith(b"{"):
        raise FileError(f"{path}: no result of slender; {WANTED}")
    document = _document(path)
    if document.get("kind") == "reproduce":
        return Result(path.parent, "reproduce", document)
    command = document.get("command")
    if command not in DRAWN:
        of = f"a result of slender {command}, which has nothing to draw" if command else "no result"
        raise FileError(f"{path}: {of}; {WANTED}")
    return Result(path, str(command), document)


def _reproduced(path: Path) -> Result:
    document = _document(plain_file(path))
    if document.get("kind") != "reproduce":
        raise FileError(f"{path}: not as slender reproduce writes it; {WANTED}")
    return Result(path.parent, "reproduce", document)


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(path, "JSON", error) from error
    if not isinstance(document, dict):
        raise FileError(f"{path}: no result of slender; {WANTED}")
    version = document.get("version") or (document.get("versions") or {}).get("slender")
    if isinstance(version, str) and _numbers(version) > _numbers(__version__):
        raise FileError(
            f"{path}: written by slender {version}; this is slender {__version__}: upgrade slender"
        )
    return document


def _numbers(version: str) -> tuple[int, ...]:
    """0.1.0.dev3 -> (0, 1, 0); what is no number ends it."""
    found = []
    for word in version.split("."):
        if not word.isdecimal():
            break
        found.append(int(word))
    return tuple(found)
