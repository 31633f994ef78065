"""RowStore: the rows of many files as one matrix, and their labels."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..rows import ChunkedRows, Rows, as_rows
from ..storage import FileError
from .base import Ask, FileRows, NoLabelsError, as_labels
from .formats import format_of


class StoredShard(Protocol):
    """Some rows of one file; it can be sent to another process, which opens the file."""

    def __len__(self) -> int:
        """The number of rows."""

    @property
    def complete(self) -> bool:
        """Are these all rows of the file?"""

    def open(self) -> FileRows:
        """The rows."""

    def cut(self, lo: int, hi: int) -> "StoredShard":
        """Rows lo..hi of these."""

    def absolute(self) -> "StoredShard":
        """The same for a process in another folder."""

    def labels(self) -> NDArray[Any]:
        """Their labels, from the same file."""


@dataclass(frozen=True)
class FileShard:
    """Rows lo..hi of a file of n rows."""

    path: Path
    ask: Ask
    n: int
    lo: int
    hi: int

    def __len__(self) -> int:
        return self.hi - self.lo

    @property
    def complete(self) -> bool:
        return len(self) == self.n

    def open(self) -> FileRows:
        file = format_of(self.path).open(self.path, self.ask)
        if file.shape[0] != self.n:
            raise FileError(f"{self.path}: has changed since it was opened; open it again")
        return file if self.complete else file.part(self.lo, self.hi)

    def cut(self, lo: int, hi: int) -> "FileShard":
        return replace(self, lo=self.lo + lo, hi=self.lo + hi)

    def absolute(self) -> "FileShard":
        return replace(self, path=self.path.absolute())

    def labels(self) -> NDArray[Any]:
        y = format_of(self.path).labels(self.path, self.ask)
        if len(y) != self.n:
            raise FileError(
                f"{self.path}: X has {self.n} rows but y has {len(y)} labels; "
                "give as many labels as rows"
            )
        return y[self.lo : self.hi]


@dataclass(frozen=True)
class LabelFiles:
    """Labels lo..hi of files that hold labels only, and n in all."""

    paths: tuple[Path, ...]
    name: str | None  # of the array or column in each
    rows: str  # what they are the labels of, for messages
    n: int
    lo: int
    hi: int

    def read(self) -> NDArray[Any]:
        ask = Ask(label=self.name)
        found = [format_of(path, labels=True).labels(path, ask) for path in self.paths]
        y = stacked(list(map(str, self.paths)), found)
        if len(y) != self.n:
            names = f"{self.paths[0]}{', ...' * (len(self.paths) > 1)}"
            raise FileError(
                f"X has {self.n} rows but y has {len(y)} labels ({self.rows}, {names}); "
                "give files with the same number of rows"
            )
        return y[self.lo : self.hi]

    def cut(self, lo: int, hi: int) -> "LabelFiles":
        return replace(self, lo=self.lo + lo, hi=self.lo + hi)

    def absolute(self) -> "LabelFiles":
        return replace(self, paths=tuple(path.absolute() for path in self.paths))


class RowStore:
    """The rows of one or many files, one after the other; made by `slender.open_rows`.

    Every estimator of slender accepts it instead of an array, and reads it block by block.  It can
    be sent to other processes, which open the files themselves.

    store[a:b], store[[3, 5]] and store[mask] are arrays in memory, in the dtype of the files;
    store.part(a, b) is a store again, without reading anything.

    Attributes
    ----------
    shape : (n, d)
    dtype : of the rows in the files (bfloat16 is read as float32)
    labels : array (n,) or (n, C), or None
        Read from the files when they are first asked for.
    """

    ndim = 2
    __iter__ = None  # else Python would ask for store[0], store[1], ...: see `blocks`

    def __init__(
        self,
        shards: Sequence[StoredShard],
        files: Sequence[FileRows],
        labels: LabelFiles | NDArray[Any] | None = None,
    ) -> None:
        self._shards = tuple(shards)
        self._files: list[FileRows] | None = list(files)
        self._chunked: ChunkedRows | None = None
        self._given = labels
        self._labels: NDArray[Any] | None = None
        self.shape = (sum(map(len, shards)), files[0].shape[1])
        self.dtype = files[0].dtype

    @property
    def files(self) -> list[FileRows]:
        """The files, opened in this process."""
        if self._files is None:
            self._files = [shard.open() for shard in self._shards]
        return self._files

    def as_rows(self) -> Rows:
        """The row store that slender's solvers read."""
        matrix = self.matrix()
        return self.files[0].joined(self.files) if matrix is self else as_rows(matrix)

    def matrix(self) -> Any:
        """The array, memory map or other matrix of a single file, if it is one; else this store."""
        whole = None
        if len(self._shards) == 1 and self._shards[0].complete:
            whole = self.files[0].whole()
        return self if whole is None else whole

    @property
    def labels(self) -> NDArray[Any] | None:
        try:
            return self.read_labels()
        except NoLabelsError:
            return None

    def read_labels(self) -> NDArray[Any]:
        """The labels; an error if there are none."""
        if self._labels is None:
            if self._given is None:
                own = [self._of_shard(k) for k in range(len(self._shards))]
                self._labels = stacked([file.name for file in self.files], own)
            else:
                given = self._given
                self._labels = given.read() if isinstance(given, LabelFiles) else given
        return self._labels

    def _of_shard(self, k: int) -> NDArray[Any]:
        file = self.files[k]
        if file.own_labels is not None:
            return as_labels(file.name, file.own_labels)
        if file.alone:
            raise NoLabelsError(
                f"{file.name}: holds no labels; give a file of labels too, or a folder with "
                "X_train.npy and y_train.npy"  # compare and reproduce take one path
            )
        try:
            return self._shards[k].labels()
        except NoLabelsError as error:
            if k == 0:
                raise
            raise FileError(str(error)) from error  # the first file has labels, this one does not

    # -- rows ------------------------------------------------------------------------------------

    def part(self, lo: int, hi: int) -> "RowStore":
        """Rows lo..hi as a store of their own, of those files only that hold them."""
        lo, hi, _ = slice(lo, hi).indices(len(self))
        if hi <= lo:
            raise IndexError(f"no rows from {lo} to {hi}; the store has {len(self)}")
        ends = [*accumulate(map(len, self._shards))]
        made = copy(self)
        made._files = made._chunked = None
        made.shape = (hi - lo, self.shape[1])
        made._shards = tuple(
            shard.cut(max(lo, end - len(shard)) - end + len(shard), min(hi, end) - end + len(shard))
            for shard, end in zip(self._shards, ends, strict=True)
            if end - len(shard) < hi and lo < end
        )
        if isinstance(self._given, LabelFiles):
            made._given = self._given.cut(lo, hi)
        elif self._given is not None:
            made._given = self._given[lo:hi]
        if self._labels is not None:
            made._labels = self._labels[lo:hi]
        return made

    def blocks(self) -> Iterator[NDArray[Any]]:
        """All rows as arrays, which end where the chunks of the files end."""
        for lo, hi in pairwise(self._reader().borders()):
            yield self._reader().read(lo, hi)

    def where(self, i: int) -> str:
        """The file of row i, and its number there."""
        return self._reader().where(i)

    def _reader(self) -> ChunkedRows:
        """Reads rows as they are stored, and keeps the last chunk for the next slice."""
        if self._chunked is None:
            self._chunked = ChunkedRows(self.files)
        return self._chunked

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, tuple):  # scikit-learn asks for X[rows, ...]
            rows, *others = rows
            if any(other is not Ellipsis and other != slice(None) for other in others):
                raise IndexError("a store can be indexed by rows only; take columns of the result")
        if isinstance(rows, int | np.integer):
            return self[[int(rows)]][0]
        if isinstance(rows, slice):
            return self._reader().pick(np.arange(*rows.indices(len(self))))
        index = np.asarray(rows)
        if index.size == 0:  # of an empty list, NumPy makes floats
            index = index.astype(np.intp)
        return self._reader().pick(np.arange(len(self))[index])

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a RowStore holds no array that can be used without a copy")
        return np.array(self[:], dtype)

    def __getstate__(self) -> dict[str, Any]:
        given = self._given
        given = given.absolute() if isinstance(given, LabelFiles) else given
        shards = tuple(shard.absolute() for shard in self._shards)
        of_process = {"_files": None, "_chunked": None}
        return {**self.__dict__, "_shards": shards, "_given": given, **of_process}

    def __copy__(self) -> "RowStore":
        made = object.__new__(RowStore)
        made.__dict__.update(self.__dict__)
        return made

    def __repr__(self) -> str:
        n, d = self.shape
        files = f"{len(self._shards)} file{'s' * (len(self._shards) != 1)}"
        return f"<{n}x{d} RowStore of {files}, dtype {self.dtype}>"


def stacked(names: Sequence[str], parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The labels of several files as one array."""
    for name, part in zip(names, parts, strict=True):
        other = parts[0]
        if part.ndim != other.ndim or part.shape[1:] != other.shape[1:]:
            raise FileError(
                f"{names[0]} has labels of shape {other.shape} but {name} has {part.shape}; "
                "give labels of the same kind"
            )
        if (part.dtype.kind == "U") != (other.dtype.kind == "U"):
            raise FileError(
                f"{names[0]} has labels of dtype {other.dtype} but {name} has {part.dtype}; "
                "give labels of the same kind"
            )
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
