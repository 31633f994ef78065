"""--log: the records of a fit as they come, for those who watch it from elsewhere."""

from pathlib import Path
from typing import Any

from .output import check_outputs


def log_beside(log: str | None, json: str | None) -> str | None:
    """What --log says; for an experiment with --json out.json, otherwise out.jsonl beside it."""
    if log is not None or json in (None, "-"):
        return log
    return str(Path(str(json)).with_suffix(".jsonl"))


def check_log(log: str | None, *others: Any, only_lines: bool = False) -> None:
    """Raise before the work starts if records could not be kept, or would overwrite a result."""
    if log is None:
        return
    from ..callbacks import KINDS, PACKAGES
    from ..extras import check

    kind, _, folder = log.partition(":")
    if Path(log).suffix.lower() == ".jsonl":
        check_outputs(log, *others)
    elif kind not in PACKAGES or (kind == "tensorboard") != bool(folder):
        raise ValueError(f"--log {log} is not one of {KINDS}")
    elif only_lines:
        raise ValueError(f"--log {log}: {kind} takes the records of one fit; use FILE.jsonl")
    else:
        check(PACKAGES[kind], f"--log {kind}")


def logged(log: str | None, append: bool = False) -> list[Any]:
    """The callbacks that --log asks for; called when the work starts, for a file is emptied."""
    from ..callbacks import named

    return [] if log is None else [named(log, append)]
