"""A linear model: one row of weights per class, but a single row for two classes.

A softmax, or Crammer and Singer's SVM, has two rows for two classes.  Only their difference w
matters for predictions; of all pairs of rows with this difference, -w/2 and w/2 have the smallest
penalty.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Linear(NamedTuple):
    """Weights and intercepts in the shapes of scikit-learn's coef_ and intercept_."""

    coef: NDArray[Any]  # (C, d); (1, d) for two classes
    intercept: NDArray[Any]  # (C,); (1,) for two classes


def one_row(W: NDArray[Any], b: NDArray[Any]) -> Linear:
    """The model from one row per class; two rows are replaced by their difference."""
    if len(W) == 2:
        W, b = W[1:] - W[:1], b[1:] - b[:1]
    return Linear(np.ascontiguousarray(W), np.asarray(b, W.dtype))


def two_rows(W: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The inverse of `one_row`: one row per class, also for two classes."""
    if len(W) == 1:
        W, b = np.vstack([-W / 2, W / 2]), np.concatenate([-b / 2, b / 2])
    return W, b
