"""Some of the rows of a store, without a copy: the training part of a split, or a few per class."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import DerivedRows, Rows
from .block import Block
from .kernel import KernelRows


class SubsetRows(DerivedRows):
    """Row i is row index[i] of another store."""

    def __init__(self, rows: Rows, index: NDArray[np.intp]) -> None:
        super().__init__(rows)
        self.index = index
        self.shape = (len(index), rows.shape[1])

    def block(self, lo: int, hi: int) -> Block:
        return self.rows.select(self.index[lo:hi])

    def select(self, index: NDArray[np.intp]) -> Block:
        return self.rows.select(self.index[index])

    def gather(self, index: NDArray[np.intp]) -> Block:
        return self.rows.gather(self.index[index])

    def take(self, order: NDArray[np.intp]) -> tuple[KernelRows, NDArray[np.intp]]:
        return self.rows.take(self.index[order])

    def scaled(self, scale: NDArray[Any]) -> Rows:
        return SubsetRows(self.rows.scaled(scale), self.index)
