"""Which files a path, a pattern, a folder or a list stands for, and in which order.

The files of a pattern or of a folder are taken in natural order: part-2 before part-10.  Those of a
list are taken as they are listed.
"""

import os
import re
from collections.abc import Iterable, Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import Any

from ..storage import FileError, PathLike
from . import huggingface
from .base import listed
from .formats import LABELS, ROWS, suffix_of
from .zarr import is_zarr

Where = PathLike | Sequence[PathLike]
NOT_DATA = (".", "_")  # how names begin that other tools use for their own: .DS_Store, _SUCCESS


def natural(path: Path) -> list[Any]:
    """Sorts numbers in names by their value."""
    words = re.split(r"(\d+)", str(path))
    return [int(word) if place % 2 else word for place, word in enumerate(words)]


def find_files(where: Where, split: str | None = None, labels: bool = False) -> list[Path]:
    """The files, in order; of labels if so asked."""
    if isinstance(where, str | os.PathLike):
        return _found(os.fspath(where), split, labels)
    files = [path for each in where for path in _found(os.fspath(each), split, labels)]
    if not files:
        raise FileError("there is no file in this list; give at least one")
    return files


def as_listed(paths: Iterable[str]) -> list[str]:
    """Paths of a command line: in natural order if a shell may have listed them, else as given."""
    given = list(paths)
    by_shell = given in (sorted(given), sorted(given, key=str.casefold))
    return sorted(given, key=lambda each: natural(Path(each))) if by_shell else given


def _found(where: str, split: str | None, labels: bool) -> list[Path]:
    path = Path(where)
    if path.exists():
        if path.is_dir() and not is_zarr(path):
            return _in_folder(path, split, labels)
        if path.is_dir():
            _check_only_zarr(path)
        _check_no_split(path, split)
        return [path]
    if not has_magic(where):
        raise FileError(f"{path}: no such file; check the path")
    files = sorted(map(Path, glob(where, recursive=True)), key=natural)
    if not files:
        raise FileError(f"{where}: no file matches this pattern; check it")
    _check_no_split(path, split)
    _check_same_format(path, files)
    return files


def _in_folder(folder: Path, split: str | None, labels: bool) -> list[Path]:
    """The shards in a folder, or the files of a Hugging Face data set."""
    if huggingface.is_dataset(folder):
        files = huggingface.data_files(folder, split)
        _check_only(folder, "a Hugging Face data set", files)
        return files
    _check_no_split(folder, split)
    known = LABELS if labels else ROWS
    names = (path for path in folder.iterdir() if not path.name.startswith(NOT_DATA))
    files = sorted(names, key=natural)
    if not files:
        raise FileError(f"{folder}: this folder holds nothing; give one with files of rows")
    for path in files:
        if suffix_of(path) not in known and not is_zarr(path):
            what = "a folder" if path.is_dir() else f"of no known format ({path.suffix or 'none'})"
            raise FileError(
                f"{folder}: a folder of shards holds nothing but files of rows, and {path.name} is "
                f"{what}; give a pattern, such as {folder / '*.npy'}"
            )
    _check_same_format(folder, files)
    return files


def _check_same_format(where: Path, files: list[Path]) -> None:
    """Raise an error if there are several formats."""
    kinds = {ROWS.get(suffix_of(path), suffix_of(path)): path for path in reversed(files)}
    if len(kinds) > 1:
        one, other, *_ = sorted(kinds.values(), key=natural)
        raise FileError(
            f"{where}: holds files of different formats, {one.name} and {other.name}; "
            f"give those of one, such as {one.parent / f'*{one.suffix}'}"
        )


def _check_only_zarr(path: Path) -> None:
    _check_only(path, "a Zarr store", [])


def _check_only(folder: Path, what: str, files: list[Path]) -> None:
    """Raise an error if a folder has files of rows that are not its own."""
    others = {path.name for path in folder.iterdir() if path.is_file()}
    others = {name for name in others if suffix_of(Path(name)) in ROWS}
    others -= {path.name for path in files if path.parent == folder}
    if others:
        raise FileError(
            f"{folder}: is {what}, and holds {listed(sorted(others))} too; keep them apart"
        )


def _check_no_split(where: Path, split: str | None) -> None:
    if split is not None:
        raise FileError(f"{where}: has no splits; remove split={split}")
