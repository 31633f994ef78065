"""alpha, of the PASCAL large scale learning challenge (2008): dense text, one row per line.

Only the labels of the official training set were ever published.  Bordes and Bottou 2008 train on
100,000 of its rows and test on 50,000, without saying which: here these are the first 150,000
rows, permuted by a seed, so that the rest of the file is never read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..storage import FileError, unreadable
from .known import MissingDataError, Report, Size, VectorSet, first_there, zipped
from .vectors import Dataset

ROWS, CLASSES = "alpha_train.dat", "alpha_train.lab"


@dataclass(frozen=True, kw_only=True)
class Alpha(VectorSet):
    """Rows as text and their labels, 1 or -1, in two files."""

    official: int = 500_000  # rows
    seed: int = 0
    OPTIONS: ClassVar[Mapping[str, Any]] = {"seed": int}

    def begun(self, folder: Path) -> bool:
        return any(first_there(folder, zipped(name)) for name in (ROWS, CLASSES))

    def check(self, folder: Path) -> Report:
        """Labels are counted, of the rows the first one is looked at: they are 500,000 lines."""
        rows, labels = (first_there(folder, zipped(name)) for name in (ROWS, CLASSES))
        missing, counts = [], {}
        if rows is None:
            missing.append(ROWS)
        else:
            try:
                columns = _numbers(rows, np.float32, 1).shape[1]
                if columns != self.size.features:
                    missing.append(f"{rows.name} has {columns} columns, not {self.size.features}")
            except FileError as error:
                missing.append(str(error))
        if labels is None:
            missing.append(CLASSES)
        else:
            try:
                counts[labels.name] = len(_numbers(labels, np.float64))
                if counts[labels.name] != self.official:
                    missing.append(
                        f"{labels.name} has {counts[labels.name]:,} labels instead of "
                        f"{self.official:,}"
                    )
            except FileError as error:
                missing.append(str(error))
        return Report(folder, missing, counts)

    def read(self, folder: Path) -> Dataset:
        train, test = self.size.train or 0, self.size.test or 0
        X = _numbers(self._path(folder, ROWS), np.float32, train + test)
        y = _numbers(self._path(folder, CLASSES), np.float64, train + test)[:, 0].astype(np.int64)
        if len(X) < train + test or len(y) != len(X) or X.shape[1] != self.size.features:
            raise FileError(
                f"{folder}: {len(X):,} rows of {X.shape[1]} columns and {len(y):,} labels, where "
                f"{train + test:,} of {self.size.features} are needed; get both files again"
            )
        order = np.random.RandomState(self.seed).permutation(len(y))
        first, last = order[:train], order[train:]
        return Dataset(X[first], y[first], X[last], y[last])

    def _path(self, folder: Path, name: str) -> Path:
        path = first_there(folder, zipped(name))
        if path is None:
            raise MissingDataError(f"{self.name}: {folder} lacks {name}; put it there")
        return path


def _numbers(path: Path, dtype: Any, most: int | None = None) -> NDArray[Any]:
    """The first `most` lines of a text file, which may be compressed: (rows, columns)."""
    try:
        return np.loadtxt(path, dtype, max_rows=most, ndmin=2)
    except (OSError, EOFError, ValueError) as error:
        raise unreadable(path, "lines of numbers", error) from error


ALPHA = Alpha(
    name="alpha",
    about="PASCAL large scale learning challenge: dense, two classes",
    size=Size(100_000, 50_000, 2, 500),
    layout=f"alpha/\n  {ROWS}   {CLASSES}\neither may be compressed (.bz2, .gz)",
    split="100,000 train and 50,000 test of the official training set (Bordes and Bottou 2008): "
    "its first 150,000 rows, permuted by the seed",
    source="ftp://largescale.ml.tu-berlin.de/largescale/alpha (2008), if it still answers",
    provide=f"put {ROWS} and {CLASSES} into a folder alpha/",
    places=("alpha",),
)
