"""Rows with their columns scaled on the fly: what a diagonal change of coordinates sees."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .base import Rows


class ScaledRows(Rows):
    """Row i is x_i * scale.  Nothing is stored but the scale."""

    def __init__(self, rows: Rows, scale: NDArray[Any]) -> None:
        self.rows = rows
        self.shape, self.dtype = rows.shape, rows.dtype
        self.scale = scale.astype(self.dtype)  # (d,)

    def block(self, lo: int, hi: int) -> Any:
        return self._scaled(self.rows.block(lo, hi))

    def gather(self, index: NDArray[np.intp]) -> Any:
        return self._scaled(self.rows.gather(index))

    @property
    def row_bytes(self) -> int:
        return self.rows.row_bytes

    def release(self) -> None:
        self.rows.release()

    def _scaled(self, block: Any) -> Any:
        if isinstance(block, np.ndarray):
            return block * self.scale
        return sparse.csr_array(block @ sparse.diags_array(self.scale, dtype=self.dtype))
