"""The objective of a multi-class loss (see the package for its convention)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import examples_of
from ..losses import MulticlassLoss
from ..passes import MulticlassPass
from ..rows import Rows


def multiclass(
    loss: MulticlassLoss,
    rows: Rows,
    class_index: NDArray[np.int32],
    W: NDArray[Any],
    b: NDArray[Any],
    weight: NDArray[Any],
    lam: float = 0.0,
) -> float:
    """The objective at W (C, d) and b (C,), one row per class."""
    (total,) = examples_of(rows, class_index, weight).reduce(MulticlassPass(loss, W, b))
    penalty = 0.5 * lam * np.einsum("cd,cd->", W, W, dtype=np.float64)
    return float(total / np.count_nonzero(weight) + penalty)
