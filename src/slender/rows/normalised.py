"""Rows of norm 1, made so on the fly."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Rows
from .blocks import row_squares, times_rows


class NormalisedRows(Rows):
    """Row i is x_i / ‖x_i‖; a row of zeros stays zero."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.shape, self.dtype = rows.shape, rows.dtype

    def block(self, lo: int, hi: int) -> Any:
        return self._normalised(self.rows.block(lo, hi))

    def gather(self, index: NDArray[np.intp]) -> Any:
        return self._normalised(self.rows.gather(index))

    def select(self, index: NDArray[np.intp]) -> Any:
        return self._normalised(self.rows.select(index))

    def block_rows(self, out_bytes: int) -> int:
        return self.rows.block_rows(out_bytes)

    @property
    def row_bytes(self) -> int:
        return self.rows.row_bytes

    def release(self) -> None:
        self.rows.release()

    def _normalised(self, block: Any) -> Any:
        norms = np.sqrt(row_squares(block))
        return times_rows(block, np.divide(1.0, norms, out=np.ones_like(norms), where=norms > 0))
