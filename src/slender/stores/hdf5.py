"""HDF5: several data sets in one file, in chunks or contiguous.

A file is opened for each read, so that a thousand shards do not need a thousand open files.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..extras import need
from ..rows.shuffling import even_edges
from ..storage import plain_file
from .base import Ask, FileRows, as_labels, check_matrix, choose, reading

WHAT = "an HDF5 file"


class Hdf5:
    suffixes = (".h5", ".hdf5", ".hdf")

    def open(self, path: Path, ask: Ask) -> FileRows:
        return Hdf5Rows(path, ask)

    def labels(self, path: Path, ask: Ask) -> NDArray[Any]:
        with _file(path) as file:
            found = file[_name(path, file, "y", ask.label)]
            strings = found.dtype.kind == "O"
            y = np.asarray(found.asstr()[...]).astype(str) if strings else np.asarray(found[...])
        return as_labels(path, y)


class Hdf5Rows(FileRows):
    """A matrix, read by chunks if it is stored so."""

    def __init__(self, path: Path, ask: Ask) -> None:
        self.path = path
        with _file(path) as file:
            self.inner = _name(path, file, "X", ask.key)
            self.name = f"{path}:{self.inner}"
            found = file[self.inner]
            check_matrix(self.name, found.shape, found.dtype)
            self.shape, self.dtype = found.shape, found.dtype
            step = found.chunks[0] if found.chunks else None
        n, d = self.shape
        if step is None:  # contiguous
            self.edges = even_edges(n, d * self.dtype.itemsize)
        else:
            self.edges = [*range(0, n, step), n]

    def read(self, lo: int, hi: int) -> NDArray[Any]:
        with _file(self.path) as file:
            return np.asarray(file[self.inner][lo:hi])


@contextmanager
def _file(path: Path) -> Iterator[Any]:
    """The open file; what goes wrong with it is said in one line."""
    h5py = need("h5py", f"{path}: reading HDF5 files")
    with reading(plain_file(path), WHAT), h5py.File(path, "r") as file:
        yield file


def _name(path: Path, file: Any, which: str, asked: str | None) -> str:
    """Of X or y among the data sets of a file, by its path in the file."""
    ndims: dict[str, int] = {}

    def see(name: str, found: Any) -> None:
        if hasattr(found, "chunks"):
            ndims[name] = len(found.shape)

    file.visititems(see)
    return choose(path, which, ndims, None if asked is None else asked.strip("/"))
