"""The one-vs-rest objective (see the package for its convention)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, sq_norm
from ..data import examples_of
from ..labels import Labels
from ..losses import MarginLoss
from ..passes import MarginPass
from ..rows import Rows


class Weights(NamedTuple):
    """Weights of the examples, and of the positives and negatives of each class."""

    example: NDArray[Any]  # (n,)
    positive: NDArray[np.float64]  # (C,)
    negative: NDArray[np.float64]  # (C,)


def one_vs_rest(
    loss: MarginLoss,
    rows: Rows,
    y: Labels,
    W: Array,
    b: Array,
    weights: Weights,
    lam: float = 0.0,
) -> float:
    """The one-vs-rest objective at (W, b)."""
    examples = examples_of(rows, y[0], weights.example)
    (total,) = examples.reduce(MarginPass(loss, W, b, weights.positive, weights.negative, y.first))
    n = np.count_nonzero(weights.example)
    penalty = 0.5 * lam * sq_norm(W)
    return float((total / n + penalty) / len(W))
