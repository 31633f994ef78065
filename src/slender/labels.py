"""Which examples are positive for which class; kernels call `sign(y, i, c)`, which is ±1.

One-vs-rest needs nothing else of the labels, whether a row has one class or several.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from .overloads import method_of


class ClassIndex(NamedTuple):
    """One class per example, by its index.  Binary problems have the single class 1."""

    class_index: NDArray[np.int32]  # (n,)
    first: int  # the index of class row 0: 0, or 1 for a binary problem

    def sign(self, i: int, c: int) -> int:
        return 1 if self.class_index[i] == c + self.first else -1

    def from_class(self, lo: int) -> "ClassIndex":
        """The labels for class rows from lo on."""
        return self._replace(first=self.first + lo)


class Indicator(NamedTuple):
    """Any number of classes per example."""

    Y: NDArray[np.bool_]  # (n, C)
    first: int = 0  # the column of class row 0

    def sign(self, i: int, c: int) -> int:
        return 1 if self.Y[i, c + self.first] else -1

    def from_class(self, lo: int) -> "Indicator":
        """The labels for class rows from lo on."""
        return self._replace(first=self.first + lo)


Labels = ClassIndex | Indicator


def sign(y: Labels, i: int, c: int) -> int:
    """+1 if example i belongs to class c, else -1."""
    return y.sign(i, c)


@overload(sign)
def _sign(y, i, c):  # type: ignore[no-untyped-def]
    method = method_of(y, "sign")
    return lambda y, i, c: method(y, i, c)


def labels_of(y: NDArray[Any], first: int) -> Labels:
    """One class index per example, or an indicator matrix, as labels."""
    return ClassIndex(y, first) if y.ndim == 1 else Indicator(y, first)


def positives(y: Labels, n_classes: int, active: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """For each class, the positions of its positives in `active`, increasing."""
    if isinstance(y, Indicator):
        return [np.flatnonzero(y.Y[active, c + y.first]) for c in range(n_classes)]
    index = y.class_index[active]
    by_class = np.argsort(index, kind="stable")
    bounds = np.searchsorted(index[by_class], np.arange(n_classes + 1) + y.first)
    return [by_class[lo:hi] for lo, hi in pairwise(bounds)]


def counts(y: Labels, n_classes: int, active: NDArray[np.intp]) -> NDArray[Any]:
    """Number of positives of each class."""
    if isinstance(y, Indicator):
        return np.count_nonzero(y.Y[active, y.first : y.first + n_classes], axis=0)
    last, index = y.first + n_classes, y.class_index
    index = index if len(active) == len(index) else index[active]
    return np.bincount(index, minlength=last)[y.first : last]
