"""CIFAR-10 and CIFAR-100 in their binary form; the pickles of the other form are never read.

A record is one byte for the label (CIFAR-100: one for the coarse label, one for the fine), then
3,072 bytes: 32 x 32 pixels of red, as many of green, as many of blue, row by row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..storage import FileError, unreadable
from .known import Archive, MissingDataError, Report, Size, VectorSet
from .vectors import Dataset

PIXELS = 3072
BATCHES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
GET = "https://www.cs.toronto.edu/~kriz"


@dataclass(frozen=True, kw_only=True)
class Cifar(VectorSet):
    """Colour images as vectors of numbers in [0, 1]."""

    train: tuple[str, ...]  # files
    test: str
    kinds: Mapping[str, int]  # of labels, in the order of their bytes; how many there are of each
    labels: str = "fine"  # which kind is taken
    OPTIONS: ClassVar[Mapping[str, Any]] = {"labels": str}

    def __post_init__(self) -> None:
        if self.labels not in self.kinds:
            known = ", ".join(self.kinds)
            raise ValueError(f"{self.name}: labels={self.labels} is not one of {known}")

    def check(self, folder: Path) -> Report:
        missing, counts = [], {}
        each = {name: (self.size.train or 0) // len(self.train) for name in self.train}
        for name, rows in {**each, self.test: self.size.test or 0}.items():
            if not (folder / name).is_file():
                missing.append(name)
                continue
            counts[name], rest = divmod((folder / name).stat().st_size, self._record)
            if counts[name] != rows or rest:
                cut = f" and {rest} bytes" if rest else ""
                missing.append(f"{name} has {counts[name]:,} records{cut} instead of {rows:,}")
        return Report(folder, missing, counts)

    def read(self, folder: Path) -> Dataset:
        parts = [self._read(folder / name) for name in (*self.train, self.test)]
        X = np.concatenate([X for X, _ in parts[:-1]]) if len(parts) > 2 else parts[0][0]
        return Dataset(X, np.concatenate([y for _, y in parts[:-1]]), *parts[-1])

    @property
    def _record(self) -> int:
        return len(self.kinds) + PIXELS

    def _read(self, path: Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        if not path.is_file():
            raise MissingDataError(f"{self.name}: {path.parent} lacks {path.name}; put it there")
        try:
            content = np.fromfile(path, np.uint8)
        except OSError as error:
            raise unreadable(path, "records of pixels", error) from error
        if len(content) == 0 or len(content) % self._record:
            raise FileError(
                f"{path}: {len(content):,} bytes, which is no number of records of "
                f"{self._record:,} bytes: cut short or damaged; get the file again"
            )
        records = content.reshape(-1, self._record)
        y = records[:, list(self.kinds).index(self.labels)].astype(np.int64)
        if y.max() >= self.kinds[self.labels]:
            raise FileError(
                f"{path}: has a label {y.max()}, but labels are below {self.kinds[self.labels]}: "
                "damaged; get the file again"
            )
        X = records[:, len(self.kinds) :].astype(np.float32)
        X /= 255
        return X, y


CIFAR10 = Cifar(
    name="cifar10-pixels",
    about="small photographs, 32 x 32 x 3 pixels / 255",
    size=Size(50_000, 10_000, 10, PIXELS),
    layout="\n".join(["cifar-10-batches-bin/", *(f"  {name}" for name in BATCHES)])
    + "\n  test_batch.bin",
    split="as distributed",
    source="Krizhevsky 2009, www.cs.toronto.edu/~kriz/cifar.html, the binary version",
    provide="unpack cifar-10-binary.tar.gz, which makes a folder cifar-10-batches-bin/,",
    places=("cifar-10-batches-bin",),
    train=BATCHES,
    test="test_batch.bin",
    kinds={"fine": 10},
    archives=(
        Archive(
            "cifar-10-binary.tar.gz",
            (f"{GET}/cifar-10-binary.tar.gz",),
            "md5:c32a1d4ab5d03f1284b67883e8d87530",
            folder="cifar-10-batches-bin",
        ),
    ),
)
CIFAR100 = Cifar(
    name="cifar100-pixels",
    about="small photographs, 32 x 32 x 3 pixels / 255",
    size=Size(50_000, 10_000, 100, PIXELS),
    layout="cifar-100-binary/\n  train.bin\n  test.bin",
    split="as distributed; labels=coarse takes the 20 coarse labels",
    source=CIFAR10.source,
    provide="unpack cifar-100-binary.tar.gz, which makes a folder cifar-100-binary/,",
    places=("cifar-100-binary",),
    train=("train.bin",),
    test="test.bin",
    kinds={"coarse": 20, "fine": 100},
    archives=(
        Archive(
            "cifar-100-binary.tar.gz",
            (f"{GET}/cifar-100-binary.tar.gz",),
            "md5:03b5dce01913d631647c71ecec9e9cb8",
            folder="cifar-100-binary",
        ),
    ),
)
