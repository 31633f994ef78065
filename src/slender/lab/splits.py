"""Data sets by name or by path, cut into training, validation and test rows.

    mnist, fashion-mnist    50,000 / 10,000 / 10,000 rows: a sixth of the training rows validates
    mini-mnist              the first 1,000 training rows of mnist, validation and test as there
    another of the registry as there; a tenth of its training rows validates
    a path or a pattern     what slender.files reads: a folder of X_train.npy ..., .npz, shards, ...

A part that is missing is a tenth of the training rows, drawn class by class.  Every cut is the same
each time: the seed of a run is not asked.
"""

import hashlib
from glob import has_magic
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compress import ProductQuantizer
from ..datasets import (
    ImageCollection,
    VectorSet,
    extract_first,
    holds_images,
    is_name,
    named,
)
from ..estimators.preprocessing import UnitRows
from ..estimators.splits import stratified
from ..estimators.validation import check_choice, check_finite
from ..files import NO_NAMES, Names, has_part, read_dataset
from ..rows import as_rows
from ..storage import FileError, PathLike

HELD_OUT = 0.1  # of each class, where a part is missing
TEST_ON = ("full", "codes")  # what models trained on codes are tested on
PREPROCESSING = ("none", "standard")
FINGERPRINT_ROWS = 1000  # that a fingerprint looks at, of each part


class Split(NamedTuple):
    """Rows to fit, rows to choose on, rows that are looked at once."""

    X_train: Any
    y_train: NDArray[Any]
    X_val: Any
    y_val: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]


def load(name: str, data_dir: PathLike | None = None, names: Names = NO_NAMES) -> Split:
    """The data set `name`, or the one that lies at that path; `names` are those in its files."""
    entry = locate(name, data_dir)
    if entry is None:
        return _files(name, names)
    if names != NO_NAMES:
        raise ValueError(f"{name} is a data set that slender knows; remove key and label")
    data, validation = entry.protocol(data_dir)
    X, y = data.X_train, data.y_train
    if validation is None:
        X, y, X_val, y_val = _cut(X, y)
    else:
        X_val, y_val = validation
    return Split(X, y, X_val, y_val, data.X_test, data.y_test)


def locate(name: str, data_dir: PathLike | None = None) -> VectorSet | None:
    """The entry of a data set, None for a path; raises if it is not there, and is quick."""
    if is_name(name):
        entry = named(name)
        if isinstance(entry, ImageCollection):
            raise ValueError(extract_first(name))
        entry.find(data_dir)
        return entry
    if not Path(name).exists() and not has_magic(name):
        raise FileError(
            f"{name}: neither a data set nor a file; slender datasets lists the data sets, "
            "anything else is a path"
        )
    if not (Path(name) / "X_train.npy").exists() and holds_images(name):
        raise ValueError(extract_first(name))
    return None


def needs_folder(name: str) -> bool:
    """Is this data set looked for in a folder of data sets?"""
    return is_name(name) and bool(named(name).places)


def permuted(split: Split, n: int, seed: int) -> Split:
    """The same with the first n training rows of a permutation that the seed gives."""
    index = np.random.default_rng(seed).permutation(len(split.y_train))[:n]
    return split._replace(X_train=split.X_train[index], y_train=split.y_train[index])


def prepared(split: Split, how: str) -> Split:
    """The split as Bordes and Bottou 2008 want it ("standard"), by figures of the training rows.

    Columns of mean 0 and variance 1 (sparse: of largest absolute value 1), then rows of norm 1.
    """
    check_choice("preprocess", how, PREPROCESSING)
    if how == "none":
        return split
    scaler = UnitRows().fit(split.X_train)
    X_train, X_val, X_test = (scaler.transform(X) for X in split[::2])
    return split._replace(X_train=X_train, X_val=X_val, X_test=X_test)


def compressed(split: Split, d_sq: int, test_on: str, seed: int) -> Split:
    """Training rows as codes, one byte for `d_sq` numbers (Harchaoui et al. 2012).

    The other rows stay as they are ("full", the paper's semi PQ) or become codes too ("codes").
    """
    check_choice("test_on", test_on, TEST_ON)
    quantizer = ProductQuantizer(d_sq=d_sq, random_state=seed).fit(split.X_train)
    made: Any = split._replace(X_train=quantizer.encode(split.X_train))
    if test_on == "codes":
        made = made._replace(
            X_val=quantizer.encode(split.X_val), X_test=quantizer.encode(split.X_test)
        )
    return made


def mean_square(split: Split) -> float:
    """mean ‖x‖² of the training rows."""
    return float(as_rows(split.X_train).sqnorms().mean(dtype=float))


def fingerprint(split: Split) -> str:
    """Tells data sets apart: their shapes, labels, and up to 1,000 rows of each part."""
    digest = hashlib.blake2b(digest_size=8)
    for part in split:
        sampled: Any = (
            part[:: max(1, part.shape[0] // FINGERPRINT_ROWS)] if part.ndim == 2 else part
        )
        values = np.ascontiguousarray(
            sampled if isinstance(sampled, np.ndarray) else sampled.toarray()
        )
        digest.update(f"{part.shape} {part.dtype.str}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


# -- paths -----------------------------------------------------------------------------------------


def _files(path: str, names: Names) -> Split:
    X, y = _checked(path, "train", names)
    parts: dict[str, Any] = {}
    for part in ("test", "val"):  # the test rows first: they do not depend on the others
        if has_part(path, part):
            parts[part] = _checked(path, part, names)
            if parts[part][0].shape[1] != X.shape[1]:
                raise FileError(
                    f"{path}: its {part} part has {parts[part][0].shape[1]} features but its train "
                    f"part has {X.shape[1]}; give rows of the same kind"
                )
        else:
            X, y, *parts[part] = _cut(X, y)
    return Split(X, y, *parts["val"], *parts["test"])


def _checked(path: str, part: str, names: Names) -> tuple[Any, NDArray[Any]]:
    """A part of the data at this path; what is wrong is said while rows have their own numbers."""
    X, y = read_dataset(path, part=part, names=names)
    if y.ndim != 1:
        raise FileError(f"{path}: y is an indicator matrix; an experiment needs one label per row")
    try:
        check_finite(as_rows(X))
    except ValueError as error:
        raise FileError(f"{path}: the {part} part of {error}") from error
    return X, y


def _cut(X: Any, y: NDArray[Any]) -> tuple[Any, NDArray[Any], Any, NDArray[Any]]:
    """A tenth of each class away from the rest: (X, y, X held out, y held out)."""
    class_index = np.unique(y, return_inverse=True)[1].astype(np.int32)
    try:
        part = stratified(class_index, HELD_OUT, np.random.default_rng(0))
    except ValueError as error:
        raise FileError(
            f"{len(y)} rows are too few to keep {100 * HELD_OUT:g} % of them aside; give more, or "
            "a folder with X_val.npy, y_val.npy, X_test.npy and y_test.npy"
        ) from error
    return X[part.train], y[part.train], X[part.held_out], y[part.held_out]
