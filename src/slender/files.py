"""Reading matrices and labels from files.

    .npy                                   one array, memory-mapped
    .npz                                   X (or the only 2-d array), y (or the only 1-d array)
    .svm .svmlight .libsvm (X also .txt)   svmlight text: sparse X, and y; also .svm.gz, .svm.bz2
    .safetensors                           X, features, embeddings (or the only 2-d tensor), y
    .pq                                    X as codes, what `slender compress` writes
    .txt .csv (labels)                     one label per line; .csv may have a header line
    a folder                               X_train.npy y_train.npy X_test.npy y_test.npy; or .pq
    a folder of `slender extract`          X.npy y.npy classes.json

A file that cannot be used raises a `FileError` with a one-line message.  Nothing is ever unpickled.
"""

import csv
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .features.folder import CLASSES, JOB, X_FILE, Y_FILE
from .storage import (
    FileError,
    PathLike,
    mapped_tensor,
    plain_file,
    safetensors_header,
    unreadable,
)

X_NAMES = ("X", "features", "embeddings")
Y_NAMES = ("y", "labels", "targets")
SVMLIGHT = (".svm", ".svmlight", ".libsvm")
HEADINGS = {*Y_NAMES, "label", "target", "class", "classes"}  # of a column of labels
SHOWN = 5  # names of a folder's files
SPARSE_KEYS = {"format", "shape", "data"}  # what scipy.sparse.save_npz always writes


# -- matrices and labels ---------------------------------------------------------------------------


def read_matrix(path: PathLike, n_features: int | None = None) -> Any:
    """X from a file: a 2-d array (memory-mapped if the format allows it) or a CSR matrix.

    `n_features` sets the number of columns of an svmlight file whose last columns may be empty.
    """
    path = plain_file(path)
    suffix = _suffix(path)
    if suffix == ".npy":
        return _as_matrix(path, _read_npy(path))
    if suffix == ".npz":
        return _as_matrix(path, _read_npz(path, "X"))
    if suffix == ".safetensors":
        return _as_matrix(path, _read_safetensors(path, "X"))
    if suffix == ".pq":
        from .compress import CompressedMatrix  # noqa: PLC0415  (slow to import, seldom needed)

        return CompressedMatrix.load(path)
    if suffix in (*SVMLIGHT, ".txt"):
        return read_svmlight(path, n_features)[0]
    raise FileError(
        f"{path}: no known format for a matrix ({suffix or 'no suffix'}); "
        "use .npy, .npz, .safetensors, .svm or .pq"
    )


def read_labels(path: PathLike) -> NDArray[Any]:
    """y from a file: one label per row, or an indicator matrix."""
    path = plain_file(path)
    suffix = _suffix(path)
    if suffix == ".npy":
        return _as_labels(path, _read_npy(path))
    if suffix == ".npz":
        return _as_labels(path, _read_npz(path, "y"))
    if suffix == ".safetensors":
        return _as_labels(path, _read_safetensors(path, "y"))
    if suffix in SVMLIGHT:
        return read_svmlight(path)[1]
    if suffix in (".txt", ".csv"):
        return _read_lines(path)
    raise FileError(
        f"{path}: no known format for labels ({suffix or 'no suffix'}); "
        "use .npy, .npz, .safetensors, .txt or .csv"
    )


def read_dataset(
    X_path: PathLike,
    y_path: PathLike | None = None,
    part: str = "train",
    n_features: int | None = None,
) -> tuple[Any, NDArray[Any]]:
    """(X, y) from two files, from one file with both, or from `part` of a folder."""
    X_path = Path(X_path)
    if X_path.is_dir():
        if y_path is not None:
            raise FileError(f"{X_path}: is a folder, which has its own labels; remove {y_path}")
        folder = X_path
        if is_extraction(folder):
            return _read_extraction(folder)
        X_path, y_path = folder / f"X_{part}.npy", folder / f"y_{part}.npy"
        if not X_path.exists() and X_path.with_suffix(".pq").exists():
            X_path = X_path.with_suffix(".pq")
        _check_folder(folder, part, X_path, y_path)
    if y_path is None and _suffix(X_path) in (*SVMLIGHT, ".txt"):
        return read_svmlight(plain_file(X_path), n_features)
    X = read_matrix(X_path, n_features)
    if y_path is None and X_path.suffix.lower() not in (".npz", ".safetensors"):
        raise FileError(f"{X_path}: holds no labels; give a file of labels as second argument")
    y = read_labels(X_path if y_path is None else y_path)
    if len(y) != X.shape[0]:
        raise FileError(
            f"X has {X.shape[0]} rows but y has {len(y)} labels ({X_path}, {y_path or X_path}); "
            "give files with the same number of rows"
        )
    return X, y


def is_extraction(folder: Path) -> bool:
    """Is this a folder that `slender extract` wrote, or is writing?"""
    return (folder / JOB).is_file()


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


def _check_folder(folder: Path, part: str, *files: Path) -> None:
    """Raise an error if one of these files is missing, and say which files the folder has."""
    missing = [path.name for path in files if not path.is_file()]
    if missing:
        names = sorted(path.name for path in folder.iterdir())
        held = ", ".join(names[:SHOWN]) + ", ..." * (len(names) > SHOWN) or "nothing"
        raise FileError(
            f"{folder}: lacks {' and '.join(missing)}; a folder of data holds X_{part}.npy (or "
            f"X_{part}.pq) and y_{part}.npy, but this one holds {held}"
        )


def _as_matrix(path: Path, X: Any) -> Any:
    if X.ndim != 2:
        raise FileError(
            f"{path}: X has {X.ndim} dimension{'s' * (X.ndim != 1)}, shape {X.shape}; "
            "give a matrix with one row per example, (n, d)"
        )
    if X.dtype.kind not in "fiub":
        raise FileError(f"{path}: X has dtype {X.dtype}; convert it to numbers (float32)")
    return X


def _as_labels(path: Path, y: NDArray[Any]) -> NDArray[Any]:
    if y.ndim not in (1, 2):
        raise FileError(
            f"{path}: y has {y.ndim} dimensions, shape {y.shape}; "
            "give one label per row, (n,), or an indicator matrix, (n, n_classes)"
        )
    if y.dtype.kind not in "fiubUS":
        raise FileError(f"{path}: y has dtype {y.dtype}; convert it to integers or strings")
    return np.char.decode(y, "utf-8") if y.dtype.kind == "S" else np.array(y)


# -- formats ---------------------------------------------------------------------------------------


def _read_npy(path: Path) -> NDArray[Any]:
    try:
        # unlike np.load, this never takes a file that is no .npy for a pickle
        return np.lib.format.open_memmap(path, mode="r")
    except Exception as error:
        raise unreadable(path, "an .npy file", error) from error


def _read_npz(path: Path, which: str) -> Any:
    try:
        if not zipfile.is_zipfile(
            path
        ):  # np.load would take it for a pickle, and advise to trust it
            raise zipfile.BadZipFile("not a zip archive")
        with np.load(path, allow_pickle=False) as archive:
            sparse_keys = set(archive.files) if set(archive.files) >= SPARSE_KEYS else set()
            if sparse_keys and which == "X":
                from scipy import sparse  # noqa: PLC0415  (slow to import, seldom needed)

                from .rows import as_csr  # noqa: PLC0415  (likewise)

                return as_csr(sparse.load_npz(path))
            arrays = {
                name: archive[name]
                for name in archive.files
                if name not in sparse_keys or name in Y_NAMES
            }
    except Exception as error:
        raise unreadable(path, "an .npz file", error) from error
    name = _choose(path, which, {name: array.ndim for name, array in arrays.items()})
    return arrays[name]


def _read_safetensors(path: Path, which: str) -> NDArray[Any]:
    offset, header = safetensors_header(path)
    header.pop("__metadata__", None)
    name = _choose(path, which, {name: len(entry["shape"]) for name, entry in header.items()})
    raw = mapped_tensor(path, offset, name, header[name])
    # safetensors' numpy interface knows no bfloat16, which is the upper half of a float32
    if header[name]["dtype"] != "BF16":
        return raw
    from .rows.bfloat import widen_bfloat  # noqa: PLC0415  (slow to import, seldom needed)

    return widen_bfloat(raw)


def _choose(path: Path, which: str, ndims: Mapping[str, int]) -> str:
    """The name of X or y among named arrays: a usual name, or the only array of that dimension."""
    names, ndim = (X_NAMES, 2) if which == "X" else (Y_NAMES, 1)
    usual = [name for name in names if name in ndims]
    alone = [name for name, its in ndims.items() if its == ndim]
    if usual:
        return usual[0]
    if len(alone) == 1:
        return alone[0]
    raise FileError(
        f"{path}: no array named {which}, and {len(alone) or 'none'} with {ndim} dimensions "
        f"(it holds {', '.join(sorted(ndims)) or 'nothing'}); name one of them {which}"
    )


def _suffix(path: Path) -> str:
    """In lower case; of rcv1.svm.gz it is .svm, since the reader of that format unzips."""
    inner = Path(path.stem).suffix.lower()
    zipped = path.suffix.lower() in (".gz", ".bz2")
    return inner if zipped and inner in SVMLIGHT else path.suffix.lower()


def read_svmlight(path: Path, n_features: int | None = None) -> tuple[Any, NDArray[Any]]:
    """(X, y) of svmlight text, whatever the file is called; .gz and .bz2 are unzipped."""
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415  (slow to import)

    from .rows import as_csr  # noqa: PLC0415  (likewise)

    try:
        X, y = load_svmlight_file(path, n_features=n_features)
        X = as_csr(X)
    except Exception as error:
        raise unreadable(path, "an svmlight file", error) from error
    whole = np.rint(y)
    return X, whole.astype(np.int64) if np.array_equal(y, whole) else y


def _is_heading(first: str, *rest: str) -> bool:
    """Is the first line a column name?  It is a usual name, or the only line not an integer."""
    if first in rest or not rest:
        return False
    usual = first.lower() in HEADINGS
    return usual or (all(map(_is_integer, rest)) and not _is_integer(first))


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _read_lines(path: Path) -> NDArray[Any]:
    """One label per line, without the header; integers if all are written as integers."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, "a text file", error) from error
    lines = [line.strip() for line in text.rstrip().splitlines()]
    for number, line in enumerate(lines, start=1):
        if not line:
            raise FileError(f"{path}: line {number} is empty; give one label per line")
    if path.suffix.lower() == ".csv":
        rows = list(csv.reader(lines))
        for number, row in enumerate(rows, start=1):
            if len(row) != 1:
                raise FileError(
                    f"{path}: line {number} has {len(row)} columns; give one label per line"
                )
        lines = [row[0] for row in rows]
        lines = lines[_is_heading(*lines) :] if lines else lines
    if not lines:
        raise FileError(f"{path}: is empty; give one label per line")
    try:
        # "007" or "+1" stay strings: as integers they could not be written back
        if all(str(int(line)) == line for line in lines):
            return np.array([int(line) for line in lines], np.int64)
    except (ValueError, OverflowError):
        pass
    return np.array(lines)
