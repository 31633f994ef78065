"""Dense rows: an array or memory map of floats or integers of any size and byte order."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Rows, compute_dtype
from .half import widen
from .kernel import Dense, KernelRows
from .mapped import give_back, mapped_file


class DenseRows(Rows):
    """Rows of a 2-d array, widened block by block, never whole."""

    def __init__(self, X: NDArray[Any]) -> None:
        self.X = np.asarray(X)  # a memory map becomes a plain view of itself, not a copy
        self.shape = (self.X.shape[0], self.X.shape[1])
        self.dtype = compute_dtype(self.X.dtype)
        self._map = mapped_file(self.X)
        # A kernel reads these bytes as they are; any others are gathered and widened on demand.
        self._readable = self.X.dtype == self.dtype and self.X.flags.c_contiguous

    def block(self, lo: int, hi: int) -> NDArray[Any]:
        return self._widened(self.X[lo:hi])

    def gather(self, index: NDArray[np.intp]) -> NDArray[Any]:
        return self._widened(self.X[index])

    def take(self, order: NDArray[np.intp]) -> tuple[KernelRows, NDArray[np.intp]]:
        return (Dense(self.X), order) if self._readable else super().take(order)

    def release(self) -> None:
        give_back(self._map)

    def _widened(self, block: NDArray[Any]) -> NDArray[Any]:
        if block.dtype == np.float16:
            return widen(block)
        return block.astype(self.dtype, copy=False)
