"""Rows for the experiments: data sets cut down to a scale, and to fewer classes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...rows import as_rows
from ..splits import Split, load
from .base import Scale


def loaded(name: str, data_dir: str | None, scale: Scale) -> Split:
    """A data set, of as many rows as the scale allows, class by class."""
    split = load(name, data_dir)
    if scale.rows is None:
        return split
    parts: list[Any] = []
    for X, y in (split[:2], split[2:4], split[4:]):
        kept = evenly(y, scale.rows)
        parts += [X[kept], y[kept]]
    return Split(*parts)


def evenly(y: NDArray[Any], most: int) -> NDArray[np.intp]:
    """At most so many places, the first of each class before the second of any, in order."""
    class_index = np.unique(y, return_inverse=True)[1]
    order = np.argsort(class_index, kind="stable")
    rank = np.arange(len(y)) - np.searchsorted(class_index[order], class_index[order])
    return np.sort(order[np.argsort(rank, kind="stable")[:most]])


def tested(split: Split) -> Split:
    """The test rows in the place of the validation rows: what the papers' curves are drawn on."""
    return split._replace(X_val=split.X_test, y_val=split.y_test)


def two_classes(split: Split) -> Split:
    """Classes of even place against those of odd place, for algorithms of two classes."""
    classes = np.unique(split.y_train)
    if len(classes) == 2:
        return split
    parity = {label: place % 2 for place, label in enumerate(classes)}
    sides = [np.array([parity.get(label, 0) for label in y]) for y in split[1::2]]
    return split._replace(y_train=sides[0], y_val=sides[1], y_test=sides[2])


def first_classes(split: Split, count: int) -> Split:
    """The first so many classes in their order."""
    kept = np.unique(split.y_train)[:count]
    parts: list[Any] = []
    for X, y in (split[:2], split[2:4], split[4:]):
        mine = np.isin(y, kept)
        parts += [X[mine], y[mine]]
    return Split(*parts)


def dense(X: Any, most: int | None = None) -> NDArray[Any]:
    """Rows as an array of floats, whatever they are; `most`: so many, evenly spread."""
    rows = as_rows(X)
    n = rows.shape[0]
    place = np.arange(n) if most is None or most >= n else np.linspace(0, n - 1, most).astype(int)
    return np.asarray(rows.dense(place))


def ladder(lowest: float, highest: float, points: int) -> list[int]:
    """Whole numbers from the lowest to the highest, evenly in the logarithm, each once."""
    steps = np.geomspace(max(1.0, lowest), max(1.0, lowest, highest), points)
    return sorted({round(value) for value in steps})
