"""Rows and labels from the columns of an Arrow table (Parquet, Arrow and Feather files).

X is one column of lists of the same length, or one column of numbers for each feature.  The length
is part of the type (fixed-size lists, tensors) or that of the first row.
"""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..extras import need
from ..storage import FileError
from .base import Y_NAMES, NoLabelsError, NoRowsError, as_labels, listed

HEADINGS = (*Y_NAMES, "label", "target", "class", "classes")  # of a column of labels


def arrow(path: Path, what: str, module: str = "pyarrow") -> Any:
    """The package that reads such files."""
    return need(module, f"{path}: reading {what} files")


def label_column(path: Path, schema: Any, asked: str | None) -> str | None:
    """The column of labels: as asked, or the only one with a usual name; None if there is none."""
    if asked is not None:
        if asked not in schema.names:
            raise FileError(
                f"{path}: no column named {asked} (it has {listed(schema.names)}); "
                "name one of these, label=NAME"
            )
        return asked
    usual = [name for name in HEADINGS if name in schema.names]
    usual = [name for name in usual if not _is_list(schema.field(name).type)]
    if len(usual) > 1:
        raise FileError(
            f"{path}: the columns {' and '.join(usual)} could all be labels; "
            "say which with label=NAME"
        )
    return usual[0] if usual else None


def feature_columns(path: Path, schema: Any, key: str | None, label: str | None) -> list[str]:
    """The column of lists, or the columns of numbers, that are X."""
    names = [name for name in schema.names if name != label]
    if key is not None:
        chosen = [key] if key in names else [name for name in names if fnmatchcase(name, key)]
        if not chosen:
            raise FileError(
                f"{path}: no column named {key} (it has {listed(schema.names)}); "
                "name one of these, key=NAME, or a pattern that several match"
            )
    else:
        lists = [name for name in names if _is_list(schema.field(name).type)]
        if len(lists) > 1:
            raise FileError(
                f"{path}: has {len(lists)} columns of lists ({listed(lists)}); "
                "say which is X with key=NAME"
            )
        chosen = lists or names
    if not chosen:
        raise NoRowsError(f"{path}: has no column but the labels; give a file with features")
    lists = [name for name in chosen if _is_list(schema.field(name).type)]
    if lists and len(chosen) > 1:
        raise FileError(
            f"{path}: {lists[0]} is a column of lists, and {len(chosen) - 1} more were chosen; "
            "name one, key=NAME"
        )
    for name in chosen:
        kind = _leaf(schema.field(name).type)
        if not _is_number(kind):
            raise NoRowsError(
                f"{path}: column {name} is {kind}, not a number; "
                "say which columns are X with key=NAME"
            )
    return chosen


def width_and_dtype(
    schema: Any, names: Sequence[str], first: Callable[[], NDArray[Any]]
) -> tuple[int, np.dtype[Any]]:
    """Number of features, and dtype; `first` reads the first row, for types without a length."""
    kinds = [schema.field(name).type for name in names]
    dtype = np.result_type(*(_leaf(kind).to_pandas_dtype() for kind in kinds))
    if not _is_list(kinds[0]):
        return len(names), dtype
    size = 1
    kind = kinds[0]
    while _is_list(kind):
        kind = getattr(kind, "storage_type", kind)
        size *= getattr(kind, "list_size", 0)  # 0 if only the rows know
        kind = kind.value_type
    return size or first().shape[1], dtype


def matrix(
    name: str, table: Any, columns: Sequence[str], first: int, width: int | None = None
) -> NDArray[Any]:
    """Some rows as an array; `first` is the number of the first one, `width` that of features."""
    if len(columns) == 1 and _is_list(table.schema.field(columns[0]).type):
        arrays, row, name = [], first, f"{name}, column {columns[0]}"
        for part in _chunks(table.column(columns[0])):
            array = _numbers(name, part, row)
            width = array.shape[1] if width is None else width
            if array.shape[1] != width and len(array):
                raise _ragged(name, width, array.shape[1], row)
            arrays.append(array)
            row += len(array)
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    dtype = np.result_type(*(table.schema.field(each).type.to_pandas_dtype() for each in columns))
    out = np.empty((table.num_rows, len(columns)), dtype)
    for j, column in enumerate(columns):
        lo = 0
        for part in _chunks(table.column(column)):
            out[lo : lo + len(part), j] = _leaves(f"{name}, column {column}", part, first + lo, 1)
            lo += len(part)
    return out


def labels(path: Path, table: Any, column: str | None) -> NDArray[Any]:
    """The labels of a table that has this column; strings, integers, booleans, dictionaries."""
    if column is None:
        raise NoLabelsError(
            f"{path}: no column has a usual name of labels ({', '.join(HEADINGS)}); "
            "say which has them with label=NAME"
        )
    y = table.column(column)
    if y.null_count:
        row = int(np.flatnonzero(y.is_null().to_numpy())[0])
        raise FileError(f"{path}, column {column}: no label (null) at row {row}; remove such rows")
    found = [_plain(part) for part in _chunks(y)]
    if any(_is_list(part.type) for part in found):
        return as_labels(path, matrix(str(path), table, [column], 0))  # an indicator matrix
    arrays = [part.to_numpy(zero_copy_only=False) for part in found]
    joined = np.concatenate(arrays) if arrays else np.empty(0, np.int64)
    return as_labels(f"{path}, column {column}", _strings(joined))


# -- arrays of Arrow -------------------------------------------------------------------------------


def _numbers(name: str, array: Any, first: int) -> NDArray[Any]:
    """Lists, perhaps of lists, as a matrix."""
    n, width = len(array), 1
    array = _plain(array)
    while _is_list(array.type):
        rows_of = width  # lists in each row
        if array.null_count:
            row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0]) // rows_of
            raise FileError(f"{name}: null at row {first + row}; remove or fill such rows")
        size = getattr(array.type, "list_size", None)
        if size is None:
            size = _equal_lengths(name, array, first, rows_of)
        array, width = _plain(array.flatten()), width * size
    return _leaves(name, array, first, width).reshape(n, width)


def _equal_lengths(name: str, array: Any, first: int, rows_of: int) -> int:
    lengths = np.asarray(array.value_lengths())
    if len(lengths) == 0:
        return 0
    other = np.flatnonzero(lengths != lengths[0])
    if len(other):
        row = first + int(other[0]) // rows_of
        raise _ragged(name, int(lengths[0]), int(lengths[other[0]]), row)
    return int(lengths[0])


def _ragged(name: str, width: int, other: int, row: int) -> FileError:
    return FileError(
        f"{name}: lists of different lengths, {width} at first and {other} at row {row}; "
        "every row needs the same number of features"
    )


def _leaves(name: str, array: Any, first: int, width: int) -> NDArray[Any]:
    array = _plain(array)
    if array.null_count:
        place = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
        raise FileError(f"{name}: null at row {first + place // width}; remove or fill such rows")
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _plain(array: Any) -> Any:
    """Without the wrapping of extension types and dictionaries."""
    array = getattr(array, "storage", array)
    return array.dictionary_decode() if hasattr(array, "dictionary") else array


def _chunks(column: Any) -> list[Any]:
    """The arrays of a column, of a table or of a record batch."""
    return column.chunks if hasattr(column, "chunks") else [column]


def _is_list(kind: Any) -> bool:
    kind = getattr(kind, "storage_type", kind)
    return hasattr(kind, "value_field") and not hasattr(kind, "index_type")


def _leaf(kind: Any) -> Any:
    """The type of the numbers in a column."""
    while _is_list(kind):
        kind = getattr(kind, "storage_type", kind).value_type
    return kind


def _is_number(kind: Any) -> bool:
    try:
        return np.dtype(kind.to_pandas_dtype()).kind in "fiub"
    except (NotImplementedError, TypeError):
        return False


def _strings(y: NDArray[Any]) -> NDArray[Any]:
    return y.astype(str) if y.dtype.kind == "O" else y
