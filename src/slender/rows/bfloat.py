"""bfloat16, the upper half of a float32: a dtype of ml_dtypes and torch that NumPy lacks.

Neither package is imported here: a caller who passes such rows has imported it.
"""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dense import DenseRows


def bfloat_bits(X: Any) -> NDArray[np.uint16] | None:
    """The bits of an array or tensor of bfloat16, sharing its memory; None for anything else."""
    name = str(getattr(X, "dtype", None))
    if name == "torch.bfloat16":
        torch = sys.modules["torch"]
        return np.asarray(X.detach().cpu().view(torch.int16).numpy()).view(np.uint16)
    if name == "bfloat16" and isinstance(X, np.ndarray):
        return X.view(np.uint16)
    return None


def widen_bfloat(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """The numbers as float32."""
    out = np.empty(bits.shape, np.uint32)
    np.left_shift(bits, 16, out=out, dtype=np.uint32)
    return out.view(np.float32)


def narrow_to_bfloat(wide: NDArray[Any]) -> NDArray[np.uint16]:
    """The bits of numbers that bfloat16 represents exactly."""
    upper = np.ascontiguousarray(wide, np.float32).view(np.uint32) >> 16
    return upper.astype(np.uint16)


class BFloatRows(DenseRows):
    """Rows of bfloat16, given as bits; widened block by block, never as a whole."""

    def __init__(self, bits: NDArray[np.uint16]) -> None:
        super().__init__(bits)
        self._readable = False

    def to_send(self, lo: int, hi: int) -> NDArray[np.uint16]:
        """The bits, as no other rows are sent."""
        return self.X[lo:hi]

    def _widened(self, some: NDArray[Any]) -> NDArray[Any]:
        return widen_bfloat(some)
