"""The objective, written once.

    one-vs-rest    1/C Σ_c [ Σ_i c_ic F(y_ic s_ic) / n + lam/2 ‖w_c‖² ],   s = W x + b     (eq. 1)

The mean over rows, not the sum: scikit-learn's C is 1/(n lam).  The intercept b is not penalised.
c_ic is the example's weight times its class's (1 where none was given); n counts the rows of
positive weight.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from .labels import Labels, sign
from .losses import MarginLoss, value
from .rows import Rows


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
    for lo, _, block in rows.iter_blocks(C * W.itemsize):
        S = np.asarray(block @ W.T) + b  # (rows of the block, C)
        _sum_values(loss, S, y, lo, weights, total)
    n = np.count_nonzero(weights.example)
    penalty = 0.5 * lam * np.einsum("cd,cd->", W, W, dtype=np.float64)
    return float((total.sum() / n + penalty) / C)


@njit(cache=True, nogil=True, parallel=True)
def _sum_values(loss, S, y, lo, weights, total):  # type: ignore[no-untyped-def]
    for i in prange(S.shape[0]):
        total[lo + i] = _row_value(loss, S[i], y, lo + i, weights)


@njit(cache=True, nogil=True)
def _row_value(loss, s, y, i, weights):  # type: ignore[no-untyped-def]
    result = 0.0
    for c in range(len(s)):
        s_y = sign(y, i, c)
        weight = weights.positive[c] if s_y > 0 else weights.negative[c]
        result += weight * value(loss, s_y * s[c])
    return weights.example[i] * result
