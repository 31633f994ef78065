"""Rows of float32 arithmetic computed in float64, a block at a time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Rows


class WidenedRows(Rows):
    """Row i is x_i; nothing is stored, every block is widened when it is read."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.shape, self.dtype = rows.shape, np.dtype(np.float64)

    def block(self, lo: int, hi: int) -> Any:
        return self.rows.block(lo, hi).astype(np.float64)

    def gather(self, index: NDArray[np.intp]) -> Any:
        return self.rows.gather(index).astype(np.float64)

    def select(self, index: NDArray[np.intp]) -> Any:
        return self.rows.select(index).astype(np.float64)

    def block_rows(self, out_bytes: int) -> int:
        return max(1, self.rows.block_rows(out_bytes) // 2)

    @property
    def row_bytes(self) -> int:
        return 2 * self.rows.row_bytes

    def release(self) -> None:
        self.rows.release()
