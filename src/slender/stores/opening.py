"""open_rows: rows and labels from files of any format."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage import FileError
from .base import Ask, FileRows
from .dask import DaskRows, DaskShard, is_dask
from .finding import Where, find_files
from .formats import format_of
from .store import FileShard, LabelFiles, RowStore

PATHS = (str, os.PathLike)
USUAL = Ask()


def open_rows(
    where: Any,
    *,
    key: str | None = None,
    label: str | None = None,
    labels: Any = None,
    split: str | None = None,
) -> RowStore:
    """The rows of one or many files, without reading them: a matrix for every estimator.

    Parameters
    ----------
    where : path, pattern, folder, list of these, or Dask array
        "X.npy", "features/*.parquet", "features/", ["a.h5", "b.h5"].  The files of a pattern or a
        folder are taken in natural order (part-2 before part-10), those of a list as listed.
    key : str, optional
        The array, data set or column that is X.  None: X, features or embeddings, or the only
        matrix; of a table the only column of lists, or else all columns but the label, which must
        be numbers.
        Of a table it may be a pattern that several columns match ("f*").
    label : str, optional
        The array or column of labels.  None: y, labels, targets or, of a table, label, target or
        class.
    labels : path, pattern, folder, list of these, or array, optional
        The labels, if they are not in the same files; then `label` is a name in these.
    split : str, optional
        Of a folder of Hugging Face datasets with several splits: which.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from slender import open_rows
    >>> folder = tempfile.mkdtemp()
    >>> for k in range(3):
    ...     np.savez(f"{folder}/part-{k}.npz", X=np.full((4, 2), k), y=np.arange(4) % 2)
    >>> store = open_rows(folder)
    >>> store
    <12x2 RowStore of 3 files, dtype int64>
    >>> store[3:5]
    array([[0, 0],
           [1, 1]])
    >>> store.labels
    array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
    """
    if is_dask(where):
        if key is not None or label is not None or split is not None:
            raise ValueError("a Dask array has no names; remove key, label and split")
        rows = DaskRows(where)
        return RowStore([DaskShard(where)], [rows], _labels(labels, "the Dask array", len(where)))
    if labels is not None and label is not None and not _is_files(labels):
        raise ValueError(f"labels is an array, which has no names; remove label={label}")
    return open_files(where, Ask(key, label), labels, split)


def open_files(where: Where, ask: Ask, labels: Any = None, split: str | None = None) -> RowStore:
    """The store of files."""
    shards: list[FileShard] = []
    files: list[FileRows] = []
    # with labels elsewhere, `label` names an array there
    own = ask if labels is None else ask._replace(label=None)
    for path in find_files(where, split):
        file = format_of(path).open(path, own)
        n = file.shape[0]
        if files and files[0].shape[0] == 0:  # some tools write empty files, which are left out
            files.pop(), shards.pop()
        if files and n > 0:
            file.check_like(files[0])
        if n > 0 or not files:
            files.append(file)
            shards.append(FileShard(path, own, n, 0, n))
    if labels is not None and ask.label is not None:
        _check_one_place(shards[0].path, ask.label, labels)
    return RowStore(shards, files, _labels(labels, str(shards[0].path), sum(map(len, shards)), ask))


def _check_one_place(path: Path, label: str, labels: Any) -> None:
    """Raise an error if the labels that are named are in the files of rows, beside others."""
    try:
        format_of(path).labels(path, Ask(label=label))
    except FileError:
        return
    given = labels[0] if isinstance(labels, list | tuple) else labels
    raise FileError(
        f"{path}: holds labels named {label}, and {given} is a file of labels, too; remove that "
        f"file, or label={label}"
    )


def _labels(labels: Any, rows: str, n: int, ask: Ask = USUAL) -> LabelFiles | NDArray[Any] | None:
    if labels is None:
        return None
    if _is_files(labels):
        paths = tuple(find_files(labels, labels=True))
        if ask.label is not None:  # labels are read later, but a wrong name is an error now
            format_of(paths[0], labels=True).labels(paths[0], ask)
        return LabelFiles(paths, ask.label, rows, n, 0, n)
    y = np.asarray(labels)  # of a Dask array, computes it
    if len(y) != n:
        raise ValueError(f"X has {n} rows but there are {len(y)} labels")
    return y


def _is_files(labels: Any) -> bool:
    if isinstance(labels, list | tuple):
        return bool(labels) and all(isinstance(each, PATHS) for each in labels)
    return isinstance(labels, PATHS)
