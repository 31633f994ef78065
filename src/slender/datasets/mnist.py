"""MNIST and Fashion-MNIST: four IDX files, images and labels to train and to test on.

Some copies call train-images-idx3-ubyte.gz train-images.idx3-ubyte, or have it unzipped.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage import FileError, PathLike
from .idx import idx_shape, read_idx
from .known import Archive, MissingDataError, Report, Size, VectorSet, first_there
from .vectors import Dataset, first_rows

VALIDATES = 6  # one training row in so many: 10,000 of 60,000
IMAGES, LABELS = "{}-images-idx3", "{}-labels-idx1"
CONTENTS = [what.format(part) for part in ("train", "t10k") for what in (IMAGES, LABELS)]


@dataclass(frozen=True, kw_only=True)
class Idx(VectorSet):
    """Images as vectors of numbers in [0, 1]."""

    kept: int = 60_000  # training rows in the files
    rows: int | None = None  # the first so many of them, permuted; None: all, as they are

    def begun(self, folder: Path) -> bool:
        return any(_file(folder, what) for what in CONTENTS)

    def may_be(self, root: Path) -> bool:
        # the files of both have the same names: a folder called fashion-mnist is not taken for
        # mnist
        return root.resolve().name not in {"mnist", "fashion-mnist"} - {self.places[0]}

    def check(self, folder: Path) -> Report:
        missing, counts = [], {}
        for what in CONTENTS:
            path = _file(folder, what)
            if path is None:
                missing.append(_usual(what))
                continue
            try:
                counts[path.name] = idx_shape(path)[0]
            except FileError as error:
                missing.append(str(error))
                continue
            wanted = self.kept if what.startswith("train") else self.size.test
            if counts[path.name] != wanted:
                missing.append(f"{path.name} has {counts[path.name]:,} rows instead of {wanted:,}")
        return Report(folder, missing, counts)

    def read(self, folder: Path) -> Dataset:
        whole = Dataset(*self._pixels(folder, "train"), *self._pixels(folder, "t10k"))
        return whole if self.rows is None else first_rows(permuted(whole), self.rows)

    def protocol(self, data_dir: PathLike | None = None) -> tuple[Dataset, Any]:
        """A sixth of the training rows, permuted, validates (AIMS course)."""
        data = permuted(replace(self, rows=None).load(data_dir))
        n = len(data.y_train) - len(data.y_train) // VALIDATES
        held_out = data.X_train[n:], data.y_train[n:]
        return first_rows(data, n if self.rows is None else self.rows), held_out

    def _pixels(self, folder: Path, part: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        images, labels = self._path(folder, IMAGES, part), self._path(folder, LABELS, part)
        X, y = read_idx(images), read_idx(labels)
        if X.ndim != 3 or y.ndim != 1 or len(X) != len(y) or X.dtype != np.uint8:
            raise FileError(
                f"{images}: {X.dtype} of shape {X.shape}, with labels of shape {y.shape}, are no "
                "images with a label each; get both files again"
            )
        pixels = X.reshape(len(y), -1).astype(np.float32)
        pixels /= 255
        return pixels, y.astype(np.int64)

    def _path(self, folder: Path, what: str, part: str) -> Path:
        path = _file(folder, what.format(part))
        if path is None:
            lacks = [_usual(each) for each in CONTENTS if _file(folder, each) is None]
            raise MissingDataError(f"{self.name}: {folder} lacks {', '.join(lacks)}; put it there")
        return path


def permuted(data: Dataset) -> Dataset:
    """The training rows in an order that is the same each time."""
    order = np.random.RandomState(0).permutation(len(data.y_train))  # fixed and known
    return data._replace(X_train=data.X_train[order], y_train=data.y_train[order])


def _file(folder: Path, what: str) -> Path | None:
    stems = (what, what.replace("-idx", ".idx"))
    names = (f"{stem}-ubyte{suffix}" for stem in stems for suffix in (".gz", ""))
    return first_there(folder, tuple(names))


def _usual(what: str) -> str:
    """The file that holds it, as it is usually called."""
    return f"{what}-ubyte.gz"


# -- the data sets ---------------------------------------------------------------------------------


def _archives(addresses: tuple[str, ...], *md5: str) -> tuple[Archive, ...]:
    return tuple(
        Archive(
            _usual(what), tuple(f"{address}/{_usual(what)}" for address in addresses), f"md5:{of}"
        )
        for what, of in zip(CONTENTS, md5, strict=True)
    )


def _layout(place: str, torchvision: str) -> str:
    lines = [f"{place}/", *(f"  {_usual(what)}" for what in CONTENTS)]
    return "\n".join([*lines, f"or unzipped, or in {torchvision}/, where torchvision puts them"])


def _provide(place: str) -> str:
    return f"put its four IDX files ({_usual(CONTENTS[0])}, ...) into a folder {place}/"


MNIST = Idx(
    name="mnist",
    about="handwritten digits, 28 x 28 pixels / 255",
    size=Size(60_000, 10_000, 10, 784),
    layout=_layout("mnist", "MNIST/raw"),
    split="as distributed; an experiment validates on 10,000 of the training rows (AIMS course)",
    source="LeCun, Cortes, Burges; mirrored at ossci-datasets.s3.amazonaws.com/mnist",
    provide=_provide("mnist"),
    places=("mnist", "MNIST/raw"),
    archives=_archives(
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist",
            "https://storage.googleapis.com/cvdf-datasets/mnist",
        ),
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
)
MINI = replace(
    MNIST,
    name="mini-mnist",
    about="the first 1,000 training rows of mnist, permuted (AIMS course)",
    size=Size(1000, 10_000, 10, 784),
    split="validation and test rows are those of mnist",
    rows=1000,
)
FASHION = replace(
    MNIST,
    name="fashion-mnist",
    about="clothes, 28 x 28 pixels / 255",
    layout=_layout("fashion-mnist", "FashionMNIST/raw"),
    split="as distributed; an experiment validates on 10,000 of the training rows",
    source="Xiao, Rasul, Vollgraf 2017, github.com/zalandoresearch/fashion-mnist",
    provide="install Debian's package dataset-fashion-mnist, or " + _provide("fashion-mnist"),
    places=("fashion-mnist", "FashionMNIST/raw"),
    elsewhere=Path("/usr/share/datasets/fashion-mnist"),  # of that package
    archives=_archives(
        ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",),
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
)
