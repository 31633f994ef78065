"""The one-vs-rest objective (see the package for its convention)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import kernel
from ..labels import Labels, sign
from ..losses import MarginLoss, value
from ..rows import Rows


class Weights(NamedTuple):
    """How much each example counts, and each class's positives and negatives."""

    example: NDArray[Any]  # (n,)
    positive: NDArray[np.float64]  # (C,)
    negative: NDArray[np.float64]  # (C,)


def one_vs_rest(
    loss: MarginLoss,
    rows: Rows,
    y: Labels,
    W: NDArray[Any],
    b: NDArray[Any],
    weights: Weights,
    lam: float = 0.0,
) -> float:
    """The one-vs-rest objective at (W, b), by row blocks."""
    C = len(W)
    total = np.zeros(rows.shape[0])

    def work(lo: int, hi: int, block: Any) -> None:
        S = np.asarray(block @ W.T) + b  # (rows of the block, C)
        _sum_values(loss, S, y, lo, weights, total)

    rows.each_block(work, C * W.itemsize)
    n = np.count_nonzero(weights.example)
    penalty = 0.5 * lam * np.einsum("cd,cd->", W, W, dtype=np.float64)
    return float((total.sum() / n + penalty) / C)


@kernel()
def _sum_values(loss, S, y, lo, weights, total):  # type: ignore[no-untyped-def]
    for i in range(S.shape[0]):
        s = S[i]
        row = 0.0
        for c in range(len(s)):
            s_y = sign(y, lo + i, c)
            weight = weights.positive[c] if s_y > 0 else weights.negative[c]
            row += weight * value(loss, s_y * s[c])
        total[lo + i] = weights.example[lo + i] * row
