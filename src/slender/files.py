"""Reading data sets: X and y from files, and the folders that commands know.

Every format of rows and labels is in stores/.  Here are the ways in which data sets are laid out:

    X and y in two files, or sets of files; or both in the same files
    a folder of shards                       all rows, in natural order
    a folder of `slender extract`            X.npy y.npy classes.json
    X_train.npy y_train.npy X_test.npy ...   a folder with parts; X also as .pq
    a folder of Hugging Face datasets        with splits train, test, ...

A file that cannot be used raises a `FileError` with a one-line message.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .features.folder import CLASSES, JOB, X_FILE, Y_FILE
from .storage import FileError, PathLike, unreadable
from .stores import huggingface
from .stores.base import Ask, NoLabelsError, NoRowsError
from .stores.finding import Where, as_listed, find_files
from .stores.formats import ROWS, format_of, suffix_of
from .stores.lines import Lines
from .stores.opening import open_files
from .stores.store import stacked
from .stores.zarr import is_zarr

PARTS = ("train", "val", "test")
SHOWN = 5  # names of a folder's files


class Names(NamedTuple):
    """Names in files, as `open_rows` takes them."""

    key: str | None = None
    label: str | None = None


NO_NAMES = Names()


def read_matrix(where: Where, n_features: int | None = None, key: str | None = None) -> Any:
    """X: an array (mapped if the format allows it), a CSR matrix, or a store of many files.

    `n_features` sets the number of columns of an svmlight file whose last columns may be empty.
    """
    return open_files(where, Ask(key, None, n_features)).matrix()


def read_labels(where: Where, label: str | None = None) -> NDArray[Any]:
    """y: one label per row, or an indicator matrix."""
    paths = find_files(where, labels=True)
    ask = Ask(label=label)
    found = [format_of(path, labels=True).labels(path, ask) for path in paths]
    return stacked(list(map(str, paths)), found)


def read_dataset(
    X: Where,
    y: Where | None = None,
    part: str = "train",
    n_features: int | None = None,
    names: Names = NO_NAMES,
    as_store: bool = False,
) -> tuple[Any, NDArray[Any]]:
    """(X, y) from files of rows and files of labels, from files with both, or from a folder.

    `as_store`: X stays a store even if it is one file, for other processes to open.
    """
    split = None
    folder = _folder(X)
    if folder is not None:
        if _has_own_labels(folder) and y is not None:
            raise FileError(f"{folder}: is a folder, which has its own labels; remove {y}")
        if is_extraction(folder):
            if names != NO_NAMES:
                raise FileError(
                    f"{folder}: is of slender extract, whose arrays are known; remove key and label"
                )
            return _read_extraction(folder)
        if huggingface.is_dataset(folder):
            split = part if huggingface.splits(folder) else None
        elif _has_parts(folder) or not _holds_shards(folder):
            X, y = _part_of(folder, part)
    store = open_files(X, Ask(names.key, names.label, n_features), y, split)
    return store if as_store else store.matrix(), store.read_labels()


def has_part(folder: PathLike, part: str) -> bool:
    """Has a folder this part of a data set?"""
    folder = Path(folder)
    return (folder / f"X_{part}.npy").is_file() or part in huggingface.splits(folder)


def rows_and_labels(paths: Sequence[str], label: str | None) -> tuple[Where, Where | None]:
    """The paths of a command line as X and y: files of rows, then files of labels.

    Two paths are X and y.  If there are more, or if `label` names the labels, the files at the end
    that hold no rows are y.  Files that a shell listed are put in natural order.
    """
    if len(paths) == 1:
        return paths[0], None
    if len(paths) == 2 and label is None:
        X, y = paths
        if _are_shards(X, y):
            raise FileError(
                f"{X} and {y} both hold rows and labels; if they are shards, say so by naming "
                "their labels with label=NAME"
            )
        return X, y
    count = len(paths)
    while count > 1 and not _holds_rows(paths[count - 1], label):
        count -= 1
    X_paths, y_paths = as_listed(paths[:count]), as_listed(paths[count:])
    return (X_paths if count > 1 else X_paths[0]), y_paths or None


def is_extraction(folder: Path) -> bool:
    """Is this a folder that `slender extract` wrote, or is writing?"""
    return (folder / JOB).is_file()


# -- folders ---------------------------------------------------------------------------------------


def _folder(X: Where) -> Path | None:
    """The folder that X is, unless it is a Zarr store."""
    if isinstance(X, Sequence) and not isinstance(X, str):
        return None
    folder = Path(X)
    return folder if folder.is_dir() and not is_zarr(folder) else None


def _has_parts(folder: Path) -> bool:
    return any((folder / f"X_{part}{s}").is_file() for part in PARTS for s in (".npy", ".pq"))


def _has_own_labels(folder: Path) -> bool:
    return is_extraction(folder) or _has_parts(folder)


def _holds_shards(folder: Path) -> bool:
    return any(suffix_of(path) in ROWS for path in folder.iterdir())


def _part_of(folder: Path, part: str) -> tuple[Path, Path]:
    """The files of a part; an error if one is missing, which says what the folder has."""
    X, y = folder / f"X_{part}.npy", folder / f"y_{part}.npy"
    if not X.exists() and X.with_suffix(".pq").exists():
        X = X.with_suffix(".pq")
    missing = [path.name for path in (X, y) if not path.is_file()]
    if missing:
        names = sorted(path.name for path in folder.iterdir())
        held = ", ".join(names[:SHOWN]) + ", ..." * (len(names) > SHOWN) or "nothing"
        raise FileError(
            f"{folder}: lacks {' and '.join(missing)}; a folder of data holds X_{part}.npy (or "
            f"X_{part}.pq) and y_{part}.npy, or shards, but this one holds {held}"
        )
    return X, y


def _read_extraction(folder: Path) -> tuple[Any, NDArray[Any]]:
    """Vectors of images, and the names of their classes."""
    if not (folder / X_FILE).is_file():
        raise FileError(f"{folder}: is not complete; give its `slender extract` command once more")
    if not (folder / Y_FILE).is_file():
        raise FileError(f"{folder}: has no y.npy: its images had no folder for each class")
    path = folder / CLASSES
    try:
        names = np.array(json.loads(path.read_text(encoding="utf-8")), dtype=str)
        y = names[read_labels(folder / Y_FILE)]
    except (OSError, ValueError, IndexError) as error:
        raise unreadable(path, "a list of the classes in y.npy", error) from error
    return read_matrix(folder / X_FILE), y


# -- paths of a command line -----------------------------------------------------------------------


def _are_shards(X: str, y: str) -> bool:
    """Are two files rows and labels each, rather than the rows and the labels?"""
    suffixes = {suffix_of(find_files(X)[0]), suffix_of(find_files(y, labels=True)[0])}
    if len(suffixes) > 1 or suffixes & {".npy", ".pq", *Lines.suffixes}:  # which hold one array
        return False
    return _holds_rows(y, None) and _holds_labels(X)


def _holds_rows(where: str, label: str | None) -> bool:
    """Are there rows in the first of these files?"""
    path = find_files(where, labels=True)[0]
    if suffix_of(path) in Lines.suffixes:
        return False
    try:
        format_of(path).open(path, Ask(label=label))
    except NoRowsError:
        return False
    return True


def _holds_labels(where: str) -> bool:
    path = find_files(where)[0]
    try:
        format_of(path).labels(path, Ask())
    except NoLabelsError:
        return False
    return True
