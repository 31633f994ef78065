"""The objective of a multi-class loss (see the package for its convention)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import kernel
from ..losses import MulticlassLoss, row_value
from ..rows import Rows


def multiclass(
    loss: MulticlassLoss,
    rows: Rows,
    codes: NDArray[np.int32],
    W: NDArray[Any],
    b: NDArray[Any],
    weight: NDArray[Any],
    lam: float = 0.0,
) -> float:
    """The objective at W (C, d) and b (C,), one row a class, by row blocks."""
    total = np.zeros(rows.shape[0])

    def work(lo: int, hi: int, block: Any) -> None:
        S = np.asarray(block @ W.T) + b  # (rows of the block, C)
        _sum_values(loss, S, codes[lo:hi], weight[lo:hi], total[lo:hi])

    rows.each_block(work, len(W) * W.itemsize)
    penalty = 0.5 * lam * np.einsum("cd,cd->", W, W, dtype=np.float64)
    return float(total.sum() / np.count_nonzero(weight) + penalty)


@kernel()
def _sum_values(loss, S, codes, weight, total):  # type: ignore[no-untyped-def]
    for i in range(S.shape[0]):
        total[i] = weight[i] * row_value(loss, S[i], codes[i])
