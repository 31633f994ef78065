"""Sparse data sets as svmlight text: a file to train and a file to test on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage import FileError
from ..stores.svmlight import read_svmlight
from .known import MissingDataError, Report, Size, VectorSet, first_there, zipped
from .vectors import Dataset


@dataclass(frozen=True, kw_only=True)
class Svmlight(VectorSet):
    """CSR matrices of `size.features` columns."""

    train: tuple[str, ...]  # names that the file may have; each may end in .gz or .bz2
    test: tuple[str, ...]

    def begun(self, folder: Path) -> bool:
        return any(_there(folder, names) for names in (self.train, self.test))

    def check(self, folder: Path) -> Report:
        """Files are not read, which would take minutes: `load` says if one is damaged."""
        missing, counts = [], {}
        for names in (self.train, self.test):
            path = _there(folder, names)
            if path is None:
                missing.append(names[0])
            elif path.stat().st_size == 0:
                missing.append(f"{path.name} is empty")
            else:
                counts[path.name] = path.stat().st_size
        return Report(folder, missing, counts)

    def read(self, folder: Path) -> Dataset:
        X, y = self._read(folder, self.train, self.size.train)
        X_test, y_test = self._read(folder, self.test, self.size.test)
        strange = np.setdiff1d(y_test, y)
        if len(strange):
            raise FileError(
                f"{self.name}: label {strange[0]} is in the test rows of {folder}, but in none of "
                "the training rows; the two files do not belong together"
            )
        return Dataset(X, y, X_test, y_test)

    def _read(
        self, folder: Path, names: tuple[str, ...], rows: int | None
    ) -> tuple[Any, NDArray[Any]]:
        path = _there(folder, names)
        if path is None:
            raise MissingDataError(f"{self.name}: {folder} lacks {names[0]}; put it there")
        X, y = read_svmlight(path, self.size.features)
        if rows is not None and len(y) != rows:
            raise FileError(
                f"{path}: {len(y):,} rows instead of {rows:,}: cut short, or of another data set; "
                "get the file again"
            )
        return X.astype(np.float32), y


def _there(folder: Path, names: tuple[str, ...]) -> Path | None:
    return first_there(folder, tuple(each for name in names for each in zipped(name)))


RCV1 = Svmlight(
    name="rcv1",
    about="news stories as sparse TF-IDF vectors: corporate and economics against the rest",
    size=Size(20_242, 677_399, 2, 47_236),
    layout="rcv1/\n  rcv1_train.binary   rcv1_test.binary\neither may be compressed (.bz2, .gz)",
    split="as distributed by LIBSVM; the small part trains",
    source="Lewis et al. 2004; www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html",
    provide="put rcv1_train.binary and rcv1_test.binary into a folder rcv1/",
    places=("rcv1",),
    train=("rcv1_train.binary", "rcv1_train.svm", "train.svm"),
    test=("rcv1_test.binary", "rcv1_test.svm", "test.svm"),
)
