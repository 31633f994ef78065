"""--checkpoint and --resume: where a job saves what it has done, and whether it may go on there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from .interrupts import Interrupted
from .options import of_output

FITS = "fits.json"  # of a comparison

Resume = Annotated[
    bool,
    of_output("--resume", help="Continue what the folder of --checkpoint holds, if it holds any."),
]


def check_resume(folder: Any, resume: bool) -> Path | None:
    """The folder of --checkpoint; an error if it holds a job that nobody asked to continue."""
    if folder is None:
        if resume:
            raise ValueError("--resume continues what a folder holds: name it with --checkpoint")
        return None
    from ..storage import FileError, check_no_file

    check_no_file(Path(folder))
    if not resume and holds_a_job(Path(folder)):
        raise FileError(
            f"{folder}: holds an unfinished job; --resume continues it, or name another folder"
        )
    return Path(folder)


def holds_a_job(folder: Path) -> bool:
    """Of any command."""
    from ..compress.resumable import JOB
    from ..features.folder import JOB as EXTRACTION
    from ..solvers.checkpoint import saved_in

    names = JOB, FITS, EXTRACTION
    return bool(saved_in(folder)) or any((folder / name).exists() for name in names)


def left_with(folder: Path | None) -> BaseException:
    """What to raise after Ctrl-C: it says if there is something to continue."""
    if folder is None or not holds_a_job(folder):
        return KeyboardInterrupt()
    return Interrupted(f"the same command with --resume continues from {folder}")


def and_continues(folder: Path | None) -> str:
    """To add to what is said about a model of an interrupted fit."""
    return "" if folder is None else f"; the same command with --resume continues from {folder}"


@contextmanager
def ledger_in(folder: Path | None, json: str | None) -> Iterator[str | None]:
    """The file that fits are kept in as they are made."""
    if folder is None:
        yield None if json == "-" else json
        return
    from ..storage import FileError, check_writable, owned, remove_stale

    with owned(folder, "comparison"):
        remove_stale(folder)
        if not (folder / FITS).exists() and any(folder.iterdir()):
            raise FileError(f"{folder}: holds other files; choose a new folder, or an empty one")
        check_writable(folder / FITS)
        yield str(folder / FITS)


def forget_fits(folder: Path) -> None:
    """Remove what `ledger_in` kept, and the folder if nothing else is in it."""
    (folder / FITS).unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()
