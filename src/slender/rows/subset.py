"""Some of the rows of a store, without a copy: the training part of a split, or a few per class."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import DerivedRows, Rows
from .block import Block
from .convert import stack
from .kernel import KernelRows

DENSELY = 8  # rows of the store for each one of the subset: with more, those between are not read


class SubsetRows(DerivedRows):
    """Row i is row index[i] of another store."""

    def __init__(self, rows: Rows, index: NDArray[np.intp]) -> None:
        super().__init__(rows)
        self.index = index
        self.shape = (len(index), rows.shape[1])

    def block(self, lo: int, hi: int) -> Block:
        return self.rows.select(self.index[lo:hi])

    def part(self, lo: int, hi: int) -> Rows:
        index = self.index[lo:hi]
        if len(index) == 0 or not self.on_disk:
            return SubsetRows(self.rows, index)
        first, last = int(index.min()), int(index.max()) + 1
        if last - first > DENSELY * len(index):
            return stack([self.rows.select(index)])
        return SubsetRows(self.rows.part(first, last), index - first)

    def borders(self) -> Sequence[int]:
        if not self.rows.on_disk or (np.diff(self.index) < 0).any():
            return super(DerivedRows, self).borders()
        return np.searchsorted(self.index, self.rows.borders()).tolist()

    def where(self, i: int) -> str:
        return self.rows.where(int(self.index[i]))

    def random_order(self, index: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
        return self.rows.random_order(self.index[index], rng)

    def select(self, index: NDArray[np.intp]) -> Block:
        return self.rows.select(self.index[index])

    def gather(self, index: NDArray[np.intp]) -> Block:
        return self.rows.gather(self.index[index])

    def take(self, order: NDArray[np.intp]) -> tuple[KernelRows, NDArray[np.intp]]:
        return self.rows.take(self.index[order])

    def scaled(self, scale: NDArray[Any]) -> Rows:
        return SubsetRows(self.rows.scaled(scale), self.index)


def some_of(rows: Rows, index: NDArray[np.intp]) -> Rows:
    """The rows `index` without a copy, where they are: rows on other machines have their own."""
    elsewhere: Any = getattr(rows, "subset", None)
    return SubsetRows(rows, index) if elsewhere is None else elsewhere(index)
