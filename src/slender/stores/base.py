"""What a format is: how a file of it becomes rows and labels, and which array in it is which.

    open(path, ask)      the rows of the file, as a `FileRows`: read a part at a time
    labels(path, ask)    its labels, as an array

A file that cannot be used raises a `FileError` with a one-line message.  Nothing is unpickled.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..extras import MissingPackageError
from ..rows import ChunkedRows, Rows
from ..rows.bfloat import widen_bfloat
from ..rows.shuffling import even_edges
from ..storage import FileError, unreadable

X_NAMES = ("X", "features", "embeddings")
Y_NAMES = ("y", "labels", "targets")
SHOWN = 8  # names in a message


class NoRowsError(FileError):
    """The file can be read, but has no matrix of rows."""


class NoLabelsError(FileError):
    """The file can be read, but has no labels, and nobody said that it has."""


class Ask(NamedTuple):
    """Which arrays or columns of a file are wanted; None: those with the usual names."""

    key: str | None = None
    label: str | None = None
    n_features: int | None = None  # of svmlight text, whose last columns may be empty


class FileRows(ABC):
    """The rows of one file (a `rows.chunked.Source`)."""

    name: str  # the file, and the array in it if it has several
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    edges: Sequence[int]  # from 0 to n: where to cut without reading anything twice
    alone = False  # has the file one array only, so that it cannot hold labels?
    own_labels: NDArray[Any] | None = None  # if they had to be read with the rows

    @abstractmethod
    def read(self, lo: int, hi: int) -> NDArray[Any]:
        """Rows lo..hi; any thread may call it."""

    def whole(self) -> Any:
        """The matrix in memory or mapped, if this is the better way to use a single file."""
        return None

    def part(self, lo: int, hi: int) -> "FileRows":
        """Rows lo..hi."""
        return PartOfFile(self, lo, hi)

    def where(self, i: int) -> str:
        """The file of row i, and its number there."""
        return f"{self.name}, row {i}"

    def check_like(self, first: "FileRows") -> None:
        """Raise an error if these rows cannot follow those of another file."""
        if self.shape[1] != first.shape[1]:
            raise FileError(
                f"{self.name} has {self.shape[1]} features but {first.name} has {first.shape[1]}; "
                "give shards of the same width"
            )
        if self.dtype != first.dtype:
            raise FileError(
                f"{self.name} has dtype {self.dtype} but {first.name} has {first.dtype}; "
                "give shards of the same dtype"
            )

    def joined(self, files: Sequence["FileRows"]) -> Rows:
        """The rows of these files, all of this kind, one after the other."""
        return ChunkedRows(files)


class PartOfFile(FileRows):
    """Rows lo..hi of a file."""

    def __init__(self, file: FileRows, lo: int, hi: int) -> None:
        self.file, self.first = file, lo
        self.name, self.dtype, self.alone = file.name, file.dtype, file.alone
        self.shape = (hi - lo, file.shape[1])
        self.edges = [0, *(edge - lo for edge in file.edges if lo < edge < hi), hi - lo]

    def read(self, lo: int, hi: int) -> NDArray[Any]:
        return self.file.read(self.first + lo, self.first + hi)

    def where(self, i: int) -> str:
        return self.file.where(self.first + i)


class ArrayRows(FileRows):
    """The rows of an array, in memory or mapped."""

    def __init__(self, name: str, array: Any, alone: bool = False) -> None:
        self.name, self.array, self.alone = name, array, alone
        self.shape, self.dtype = array.shape, array.dtype
        self.edges = even_edges(self.shape[0], self.shape[1] * self.dtype.itemsize)

    def read(self, lo: int, hi: int) -> NDArray[Any]:
        return np.asarray(self.array[lo:hi])

    def whole(self) -> Any:
        return self.array


class BitsRows(FileRows):
    """The rows of an array of bfloat16, given as bits, and widened when they are read."""

    def __init__(self, name: str, bits: NDArray[np.uint16], alone: bool = False) -> None:
        self.name, self.bits, self.alone = name, bits, alone
        self.shape, self.dtype = (bits.shape[0], bits.shape[1]), np.dtype(np.float32)
        self.edges = even_edges(self.shape[0], self.shape[1] * self.dtype.itemsize)

    def read(self, lo: int, hi: int) -> NDArray[Any]:
        return widen_bfloat(np.ascontiguousarray(self.bits[lo:hi]))


class Format(Protocol):
    """One kind of file."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Of the names of such files."""

    def open(self, path: Path, ask: Ask) -> FileRows:
        """The rows of a file."""

    def labels(self, path: Path, ask: Ask) -> NDArray[Any]:
        """The labels of a file."""


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Says in one line which file could not be read; `what` is what it should have been."""
    try:
        yield
    except (FileError, MissingPackageError):
        raise
    except Exception as error:
        raise unreadable(path, what, error) from error


def choose(path: Path, which: str, ndims: Mapping[str, int], asked: str | None = None) -> str:
    """The name of X or y among named arrays: a usual name, or the only array of that dimension."""
    names, ndim = (X_NAMES, 2) if which == "X" else (Y_NAMES, 1)
    held = f"it holds {listed(ndims)}"
    if asked is not None:
        if asked not in ndims:
            raise FileError(f"{path}: no array named {asked} ({held}); name one of these")
        return asked
    usual = [name for name in names if name in ndims]
    alone = [name for name, its in ndims.items() if its == ndim]
    if usual:
        return usual[0]
    if len(alone) == 1:
        return alone[0]
    missing = NoRowsError if which == "X" and not alone else NoLabelsError
    advice = "key" if which == "X" else "label"
    raise (missing if not alone else FileError)(
        f"{path}: no array named {which}, and {len(alone) or 'none'} with {ndim} dimensions "
        f"({held}); name one of them {which}, or say which with {advice}=NAME"
    )


def check_nameless(path: Path, which: str, asked: str | None) -> None:
    """Raise an error if a name of X or y is asked for in a file whose contents have none."""
    if asked is not None:
        option = "key" if which == "X" else "label"
        raise FileError(
            f"{path}: what it holds has no name; remove {option}={asked}, or give files that have "
            "names"
        )


def _check_classes(name: str | Path, y: NDArray[Any]) -> None:
    """Raise an error at the first number that cannot be a class."""
    bad = ~np.isfinite(y)
    if y.ndim == 1:
        bad |= y != np.rint(y)
    if bad.any():
        place = np.unravel_index(int(bad.argmax()), y.shape)
        raise FileError(
            f"{name}: the label of row {place[0]} is {y[place]:g}, but classes are integers or "
            "strings; remove such rows, or write their classes"
        )


def listed(names: Mapping[str, Any] | Sequence[str]) -> str:
    """a, b, c, ..."""
    found = sorted(names)
    return ", ".join(found[:SHOWN]) + ", ..." * (len(found) > SHOWN) or "nothing"


def check_matrix(name: str | Path, shape: Sequence[int], dtype: Any) -> None:
    """Raise an error unless an array of this shape and dtype can be X."""
    if len(shape) != 2:
        raise NoRowsError(
            f"{name}: X has {len(shape)} dimension{'s' * (len(shape) != 1)}, shape {tuple(shape)}; "
            "give a matrix with one row per example, (n, d)"
        )
    if np.dtype(dtype).kind not in "fiub":
        raise NoRowsError(f"{name}: X has dtype {dtype}; convert it to numbers (float32)")


def as_labels(name: str | Path, y: NDArray[Any]) -> NDArray[Any]:
    """Labels as this process holds them, or an error if y cannot be labels."""
    if y.ndim not in (1, 2):
        raise FileError(
            f"{name}: y has {y.ndim} dimensions, shape {y.shape}; "
            "give one label per row, (n,), or an indicator matrix, (n, n_classes)"
        )
    if y.dtype.kind not in "fiubUS":
        raise FileError(f"{name}: y has dtype {y.dtype}; convert it to integers or strings")
    if y.dtype.kind == "f":
        _check_classes(name, np.asarray(y))
    return np.char.decode(y, "utf-8") if y.dtype.kind == "S" else np.array(y)
