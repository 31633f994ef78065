"""Zarr, version 2 and 3: a folder with one array, or a group of arrays, in chunks."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..extras import need
from ..storage import FileError
from .base import Ask, FileRows, as_labels, check_matrix, check_nameless, choose, reading

MARKS = ("zarr.json", ".zarray", ".zgroup")
WHAT = "a Zarr store"


def is_zarr(path: Path) -> bool:
    """Is this the folder of a Zarr store?"""
    return any((path / mark).is_file() for mark in MARKS)


class Zarr:
    suffixes = (".zarr",)

    def open(self, path: Path, ask: Ask) -> FileRows:
        name, array = _array(path, "X", ask.key)
        rows = ZarrRows(path, name, array)
        rows.alone = not name
        return rows

    def labels(self, path: Path, ask: Ask) -> NDArray[Any]:
        _, array = _array(path, "y", ask.label)
        with reading(path, WHAT):
            y = np.asarray(array[...])
        return as_labels(path, y.astype(str) if y.dtype.kind in "OT" else y)


class ZarrRows(FileRows):
    """A matrix, read by chunks."""

    def __init__(self, path: Path, name: str, array: Any) -> None:
        self.path, self.array = path, array
        self.name = f"{path}:{name}" if name else str(path)
        self.shape, self.dtype = array.shape, array.dtype
        check_matrix(self.name, self.shape, self.dtype)
        step = (getattr(array, "shards", None) or array.chunks)[0]
        self.edges = [*range(0, self.shape[0], step), self.shape[0]]

    def read(self, lo: int, hi: int) -> NDArray[Any]:
        with reading(self.path, WHAT):
            return np.asarray(self.array[lo:hi])


def _array(path: Path, which: str, asked: str | None) -> tuple[str, Any]:
    """Name and array of X or y; the name is empty if the store is one array."""
    zarr = need("zarr", f"{path}: reading Zarr stores")
    if not is_zarr(path):
        raise FileError(f"{path}: has none of {', '.join(MARKS)}; give the folder of a Zarr store")
    with reading(path, WHAT):
        found = zarr.open(str(path), mode="r")
        arrays = None if hasattr(found, "chunks") else _members(found)
    if arrays is None:
        check_nameless(path, which, asked)
        return "", found
    name = choose(path, which, {each: len(of.shape) for each, of in arrays.items()}, asked)
    return name, arrays[name]


def _members(group: Any, above: str = "") -> dict[str, Any]:
    """Arrays of a group and of the groups in it, by path."""
    found = {f"{above}{name}": array for name, array in group.arrays()}
    for name, inner in group.groups():
        found |= _members(inner, f"{above}{name}/")
    return found
