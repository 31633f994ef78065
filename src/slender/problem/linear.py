"""A linear model as it is kept: one row of weights a class, and for two classes a single row.

A softmax, or Crammer and Singer's SVM, has two rows for two classes.  Only their difference w
matters to a prediction; of all pairs of rows with that difference the penalty prefers -w/2 and w/2.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Linear(NamedTuple):
    """Weights and intercepts in the shapes of scikit-learn's coef_ and intercept_."""

    coef: NDArray[Any]  # (C, d); (1, d) for two classes
    intercept: NDArray[Any]  # (C,); (1,) for two classes


def one_row(W: NDArray[Any], b: NDArray[Any]) -> Linear:
    """The model of one row a class: of two rows their difference."""
    if len(W) == 2:
        W, b = W[1:] - W[:1], b[1:] - b[:1]
    return Linear(np.ascontiguousarray(W), np.asarray(b, W.dtype))


def two_rows(W: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The way back: a row for each class, also of two."""
    if len(W) == 1:
        W, b = np.vstack([-W / 2, W / 2]), np.concatenate([-b / 2, b / 2])
    return W, b
