"""From a block of scores (rows, C) to answers, for NumPy arrays and tensors alike."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..arrays import is_tensor
from ..extras import need
from ..losses import exp_of_rows as exp_here


def sigmoid(S: Any) -> Any:
    """1 / (1 + e^-S)."""
    return S.sigmoid() if is_tensor(S) else np.asarray(expit(S))


def exp_of_rows(S: Any) -> Any:
    """S <- e^(S - the largest of its row): softmax but for the sums, in place."""
    return S.sub_(S.amax(1, keepdim=True)).exp_() if is_tensor(S) else exp_here(S)


def widened(S: Any) -> Any:
    """A copy in float64."""
    return S.double().clone() if is_tensor(S) else S.astype(np.float64)


def beside(left: Any, right: Any) -> Any:
    """The columns of both."""
    if is_tensor(left):
        return need("torch", "A tensor").cat([left, right], dim=1)
    return np.hstack([left, right])


def top_k(S: Any, k: int) -> Any:
    """The indices of the k largest of each row, largest first; argmax breaks ties for the first."""
    if is_tensor(S):
        return S.sort(dim=1, descending=True, stable=True).indices[:, :k]
    return _top_k(S, k)


def _top_k(S: NDArray[Any], k: int) -> NDArray[np.intp]:
    first = S.argmax(axis=1)
    top = np.argpartition(-S, k - 1, axis=1)[:, :k]
    lost = ~(top == first[:, None]).any(axis=1)  # to a tie at the edge of the k
    top[lost, 0] = first[lost]
    top.sort(axis=1)
    rank = np.argsort(-np.take_along_axis(S, top, axis=1), axis=1, kind="stable")
    return np.take_along_axis(top, rank, axis=1)
