"""Sums of one-vs-rest and of multi-class losses."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Part, Pass
from ..kernels import kernel
from ..labels import labels_of, sign
from ..losses import MarginLoss, MulticlassLoss, row_value, value


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
    W: NDArray[Any]
    b: NDArray[Any]
    positive: NDArray[np.float64]  # (C,)
    negative: NDArray[np.float64]  # (C,)
    first: int = 0

    def start(self, d: int, dtype: Any) -> NDArray[np.float64]:
        return np.zeros(1)

    def add(self, sums: NDArray[np.float64], part: Part) -> None:
        S = part.block @ self.W.T + self.b
        labels = labels_of(part.y, self.first)
        sums += sum_of_margins(self.loss, S, labels, part.w, self.positive, self.negative)

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
