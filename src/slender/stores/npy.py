""".npy: one array, memory-mapped."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage import plain_file
from .base import ArrayRows, Ask, as_labels, check_matrix, check_nameless, reading


class Npy:
    suffixes = (".npy",)

    def open(self, path: Path, ask: Ask) -> ArrayRows:
        check_nameless(path, "X", ask.key)
        X = mapped(path)
        check_matrix(path, X.shape, X.dtype)
        return ArrayRows(str(path), X, alone=True)

    def labels(self, path: Path, ask: Ask) -> NDArray[Any]:
        check_nameless(path, "y", ask.label)
        return as_labels(path, mapped(path))


def mapped(path: Path) -> NDArray[Any]:
    """The array of a file; unlike np.load, this never takes a file that is no .npy for a pickle."""
    with reading(plain_file(path), "an .npy file"):
        return np.lib.format.open_memmap(path, mode="r")
