"""Dask arrays: a chunk of rows is computed when it is read."""

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage import FileError
from .base import FileRows, NoLabelsError, check_matrix


def is_dask(where: Any) -> bool:
    """Is this a Dask array?  (Whoever has one has imported Dask.)"""
    return hasattr(where, "dask") and hasattr(where, "chunks")


class DaskRows(FileRows):
    """The rows of a Dask array."""

    def __init__(self, array: Any) -> None:
        self.array, self.name = array, "Dask array"
        check_matrix(self.name, array.shape, array.dtype)
        if np.isnan(array.shape).any():
            raise FileError("Dask array: its number of rows is not known; compute_chunk_sizes()")
        self.shape, self.dtype = array.shape, np.dtype(array.dtype)
        self.edges = sorted({0, *accumulate(array.chunks[0])})

    def read(self, lo: int, hi: int) -> NDArray[Any]:
        return np.asarray(self.array[lo:hi].compute())


@dataclass(frozen=True)
class DaskShard:
    """Rows of a Dask array."""

    array: Any
    complete: bool = True  # its chunks are computed one at a time, whether all or some

    def __len__(self) -> int:
        return int(self.array.shape[0])

    def open(self) -> FileRows:
        return DaskRows(self.array)

    def cut(self, lo: int, hi: int) -> "DaskShard":
        return DaskShard(self.array[lo:hi])

    def absolute(self) -> "DaskShard":
        return self

    def labels(self) -> NDArray[Any]:
        raise NoLabelsError("a Dask array holds no labels; give them as labels=")
