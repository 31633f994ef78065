"""Embeddings of images by a network: a folder of four .npy files."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..files import read_labels, read_matrix
from ..storage import FileError
from .known import MissingDataError, Report, Size, VectorSet
from .vectors import Dataset

FILES = [f"{part}.npy" for part in Dataset._fields]


@dataclass(frozen=True, kw_only=True)
class Embeddings(VectorSet):
    """Rows of any float type, read as float32."""

    def begun(self, folder: Path) -> bool:
        return any((folder / name).is_file() for name in FILES)

    def check(self, folder: Path) -> Report:
        missing, counts = [], {}
        for name in FILES:
            if not (folder / name).is_file():
                missing.append(name)
                continue
            rows, columns = name.startswith("X"), self.size.features
            try:
                found = (read_matrix if rows else read_labels)(folder / name).shape
            except FileError as error:
                missing.append(str(error))
                continue
            counts[name] = found[0]
            wanted = self.size.train if "train" in name else self.size.test
            if found != ((wanted, columns) if rows else (wanted,)):
                shape = f"({wanted:,}, {columns:,})" if rows else f"({wanted:,},)"
                missing.append(f"{name} has shape {found} instead of {shape}")
        return Report(folder, missing, counts)

    def read(self, folder: Path) -> Dataset:
        missing = [name for name in FILES if not (folder / name).is_file()]
        if missing:
            raise MissingDataError(
                f"{self.name}: {folder} lacks {', '.join(missing)}; put it there"
            )
        X, y, X_test, y_test = (
            read_matrix(folder / name) if name.startswith("X") else read_labels(folder / name)
            for name in FILES
        )
        return Dataset(np.array(X, np.float32), y, np.array(X_test, np.float32), y_test)


def _embeddings(name: str, about: str, size: Size, split: str) -> Embeddings:
    place = f"{name}_embeddings"
    return Embeddings(
        name=name,
        about=about,
        size=size,
        layout="\n".join([f"{place}/", *(f"  {file}" for file in FILES)]),
        split=split,
        source="made with a network of your choice: the figures of slender are for EfficientNet-"
        "Lite0 (slender extract onnx:MODEL.onnx)",
        provide=f"put its four .npy files ({FILES[0]}, ...) into a folder {place}/",
        places=(place,),
    )


CIFAR100 = _embeddings(
    "cifar100",
    "CIFAR-100 as embeddings of a small network",
    Size(20_000, 4_000, 100, 1280),
    "the first 20,000 training and 4,000 test images of a shuffled order",
)
CALTECH101 = _embeddings(
    "caltech101",
    "Caltech-101 as embeddings of the same network, without its background class",
    Size(5_784, 2_893, 101, 1280),
    "two thirds train, one third tests; unbalanced",
)
