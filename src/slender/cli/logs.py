"""--log: the records of a fit as they come, for those who watch it from elsewhere."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .output import check_outputs

LINES = ".jsonl"


def places_of(log: str | None, json: str | None) -> tuple[str, ...]:
    """Where records go: what --log says, and out.jsonl beside the file of --json out.json.

    With --json there are always lines: if --log names a file for them, there.
    """
    asked = () if log is None else (log,)
    if json in (None, "-") or (log is not None and _is_lines(log)):
        return asked
    return (*asked, str(Path(str(json)).with_suffix(LINES)))


def check_log(places: Sequence[str], *others: Any, only_lines: bool = False) -> None:
    """Raise before the work starts if records could not be kept, or would overwrite a result."""
    from ..callbacks import KINDS, PACKAGES
    from ..extras import check

    for log in places:
        kind, _, folder = log.partition(":")
        if _is_lines(log):
            check_outputs(log, *others)
        elif kind not in PACKAGES or (kind == "tensorboard") != bool(folder):
            raise ValueError(f"--log {log} is not one of {KINDS}")
        elif only_lines:
            raise ValueError(f"--log {log}: {kind} takes the records of one fit; use FILE.jsonl")
        else:
            check(PACKAGES[kind], f"--log {kind}")


def logged(places: Sequence[str], append: bool = False) -> list[Any]:
    """The callbacks of these places; called when the work starts, for a file is emptied."""
    from ..callbacks import named

    return [named(place, append) for place in places]


def _is_lines(log: str) -> bool:
    return Path(log).suffix.lower() == LINES
