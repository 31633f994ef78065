"""Data sets by name: their training and test rows, whole, float32 and in memory.

    digits                      scikit-learn's, rows of norm 1: 1,300 + 497 x 64, 10 classes
    mnist, fashion-mnist        pixels / 255, from IDX files: 60,000 + 10,000 x 784, 10 classes
    cifar100                    embeddings of a small network: 20,000 + 4,000 x 1,280, 100 classes
    caltech101                  likewise: 5,784 + 2,893 x 1,280, 101 unbalanced classes
    planted                     a badly conditioned mixture: 50,000 + 5,000 x 1,024, 200 classes
    planted200k                 the same with four times the rows
    planted_lowrank             classes that share 20 directions: 20,000 + 2,000 x 4,096, 400
                                classes, Bayes accuracy 65 %
    tiny                        six classes that are easily told apart: 600 + 200 x 16

Files are looked for in the folder that SLENDER_DATA names, or another that is given: IDX files
below mnist/ or fashion-mnist/ (or where torchvision puts them), embeddings as cifar100_embeddings/
and caltech101_embeddings/, each with X_train.npy, y_train.npy, X_test.npy, y_test.npy.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..storage import FileError, PathLike
from .datasets import Dataset, digits, low_rank, planted
from .idx import read_idx

PLACES = {  # where below a folder of data sets; the second is torchvision's
    "mnist": ("mnist", "MNIST/raw"),
    "fashion-mnist": ("fashion-mnist", "FashionMNIST/raw"),
}
EMBEDDINGS = {name: f"{name}_embeddings" for name in ("cifar100", "caltech101")}
DEBIAN = {"fashion-mnist": ("dataset-fashion-mnist", Path("/usr/share/datasets/fashion-mnist"))}
MADE: dict[str, Callable[[], Dataset]] = {
    "digits": digits,
    "planted": partial(planted, 50_000, 1024, 200),
    "planted200k": partial(planted, 200_000, 1024, 200),
    "planted_lowrank": partial(low_rank, 20_000, 4096, 400, 20),
    "tiny": partial(planted, 600, 16, 6, n_test=200, separation=1.5),
}
KEPT = (*PLACES, *EMBEDDINGS)  # in files
NAMES = (*MADE, *KEPT)


class MissingDataError(FileError):
    """The data is not on this machine; the message says how to provide it."""


def whole(name: str, data_dir: PathLike | None = None) -> Dataset:
    """The data set of this name."""
    if name in MADE:
        return MADE[name]()
    files = find(name, data_dir)
    if name in EMBEDDINGS:
        X, y, X_test, y_test = (np.load(files[part]) for part in Dataset._fields)
        return Dataset(X.astype(np.float32), y, X_test.astype(np.float32), y_test)
    return Dataset(*_pixels(files, "train"), *_pixels(files, "t10k"))


def find(name: str, data_dir: PathLike | None = None) -> dict[str, Path]:
    """The files of a data set, by what they hold; quick, unlike `whole`."""
    folders = list(_folders(name, data_dir))
    for folder in folders:
        found = {what: _there(folder, what) for what in _contents(name)}
        missing = [_usual(what) for what, path in found.items() if path is None]
        if len(missing) == len(found):
            continue
        if missing:
            raise MissingDataError(f"{name}: {folder} lacks {', '.join(missing)}; put it there")
        return {what: path for what, path in found.items() if path is not None}
    package = f"install Debian's package {DEBIAN[name][0]}, or " if name in DEBIAN else ""
    looked = f" (looked in {', '.join(map(str, folders))})" if folders else ""
    count = "four .npy" if name in EMBEDDINGS else "four IDX"
    raise MissingDataError(
        f"{name}: not found{looked}; {package}put its {count} files "
        f"({_usual(_contents(name)[0])}, ...) into a folder {EMBEDDINGS.get(name, name)}/ and name "
        "the folder above with --data-dir or SLENDER_DATA"
    )


def _folders(name: str, data_dir: PathLike | None) -> Iterator[Path]:
    root = os.environ.get("SLENDER_DATA") if data_dir is None else data_dir
    if root and name in EMBEDDINGS:
        yield Path(root) / EMBEDDINGS[name]
    elif root:
        for place in PLACES[name]:
            yield Path(root) / place
        # the files of all such data sets have the same names: a folder called fashion-mnist
        # is not taken for mnist
        if Path(root).resolve().name not in set(PLACES) - {name}:
            yield Path(root)
    if data_dir is None and name in DEBIAN:
        yield DEBIAN[name][1]


def _contents(name: str) -> list[str]:
    if name in EMBEDDINGS:
        return list(Dataset._fields)
    return [
        f"{part}-{what}" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")
    ]


def _usual(what: str) -> str:
    """The file that holds it, as it is usually called."""
    return f"{what}.npy" if what in Dataset._fields else f"{what}-ubyte.gz"


def _there(folder: Path, what: str) -> Path | None:
    """train-images-idx3 -> its file; some copies are called train-images.idx3-ubyte."""
    dotted = what.replace("-idx", ".idx")
    idx = (f"{stem}-ubyte{suffix}" for stem in (what, dotted) for suffix in (".gz", ""))
    names = (_usual(what), *idx)
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _pixels(files: dict[str, Path], part: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    images, labels = files[f"{part}-images-idx3"], files[f"{part}-labels-idx1"]
    X, y = read_idx(images), read_idx(labels)
    if X.ndim != 3 or y.ndim != 1 or len(X) != len(y) or X.dtype != np.uint8:
        raise FileError(
            f"{images}: {X.dtype} of shape {X.shape}, with labels of shape {y.shape}, are no "
            "images with a label each; get both files again"
        )
    pixels = X.reshape(len(y), -1).astype(np.float32)
    pixels /= 255
    return pixels, y.astype(np.int64)
