"""Sums of one-vs-rest and of multi-class losses."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, is_numpy, like
from ..data import Part, Pass
from ..device.margins import on_tensors
from ..kernels import kernel
from ..labels import labels_of, sign
from ..losses import MarginLoss, MulticlassLoss, row_value, value
from ..rows.base import blocks

PIECE_BYTES = 2**26  # of scores on a device whose losses are computed at a time


@dataclass(frozen=True)
class MulticlassPass(Pass[NDArray[np.float64]]):
    """Σ w_i loss(W x_i + b, y_i), (1,)."""

    loss: MulticlassLoss
    W: NDArray[Any]
    b: NDArray[Any]

    def start(self, d: int, dtype: Any) -> NDArray[np.float64]:
        return np.zeros(1)

    def add(self, sums: NDArray[np.float64], part: Part) -> None:
        S = part.block @ self.W.T + self.b  # (rows of the block, C)
        sums += sum_of_rows(self.loss, S, part.y, part.w)

    def row_bytes(self, dtype: Any) -> int:
        return len(self.W) * int(dtype.itemsize)


@kernel()
def sum_of_rows(loss, S, y, w):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(S.shape[0]):
        total += w[i] * row_value(loss, S[i], y[i])
    return total


@dataclass(frozen=True)
class MarginPass(Pass[NDArray[np.float64]]):
    """Σ_i w_i Σ_c v_ic F(y_ic s_ic), (1,); v_ic is class c's weight of positives or of negatives.

    `first` is the class index of class row 0, as in labels.py.
    """

    loss: MarginLoss
    W: Array
    b: Array
    positive: Array  # (C,) float64
    negative: Array  # (C,)
    first: int = 0

    def start(self, d: int, dtype: Any) -> NDArray[np.float64]:
        return np.zeros(1)

    def add(self, sums: NDArray[np.float64], part: Part) -> None:
        S = part.block @ self.W.T + self.b
        if not is_numpy(S):
            sums += self._of_tensors(S, part)
            return
        labels = labels_of(part.y, self.first)
        sums += sum_of_margins(self.loss, S, labels, part.w, self.positive, self.negative)

    def _of_tensors(self, S: Any, part: Part) -> float:
        """The sum of a block on a device, from its scores, by pieces: few of these at a time."""
        first, last = self.first, self.first + len(self.W)
        y: Any = part.y
        classes = like(np.arange(first, last), S)
        total = 0.0
        for lo, hi in blocks(len(S), S.shape[1] * S.element_size(), PIECE_BYTES):
            s, of = S[lo:hi], y[lo:hi]
            positive = of[:, None] == classes if y.ndim == 1 else of[:, first:last]
            F = on_tensors(self.loss).value(s.where(positive, -s)).double()
            rows = (F * self.positive.where(positive, self.negative)).sum(1)
            total += float(part.w[lo:hi] @ rows)
        return total

    def row_bytes(self, dtype: Any) -> int:
        return len(self.W) * int(dtype.itemsize)


@kernel()
def sum_of_margins(loss, S, y, w, positive, negative):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(S.shape[0]):
        s, row = S[i], 0.0
        for c in range(len(s)):
            s_y = sign(y, i, c)
            row += (positive[c] if s_y > 0 else negative[c]) * value(loss, s_y * s[c])
        total += w[i] * row
    return total
