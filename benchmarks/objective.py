"""What is measured of a model at a point of its curve; the clock stands still meanwhile."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slender.lab.datasets import Dataset


class Linear(NamedTuple):
    """A linear classifier of three classes or more, frozen at one moment of its training."""

    coef: NDArray[Any]  # (C, d)
    intercept: NDArray[Any]  # (C,)
    classes: NDArray[Any]  # (C,)


def measure(model: Linear, dataset: Dataset) -> dict[str, float]:
    """Shares of the test rows whose label is the best class, and among the five best."""
    scores = dataset.X_test @ model.coef.T + model.intercept  # (n, C)
    scores[np.isnan(scores)] = -np.inf  # a diverged class wins nothing
    n_best = min(5, len(model.classes))
    five = np.argpartition(-scores, n_best - 1, axis=1)[:, :n_best]
    truth = np.asarray(dataset.y_test)
    return {
        "top1": float(np.mean(model.classes[scores.argmax(axis=1)] == truth)),
        "top5": float(np.mean((model.classes[five] == truth[:, None]).any(axis=1))),
    }
