"""scikit-learn's SGDClassifier, logistic, one-vs-rest, ten passes, on all cores."""

from typing import Any

import numpy as np
from sklearn.linear_model import SGDClassifier

from slender.datasets import Dataset
from slender.solvers.loop import Clock

from ..objective import Linear
from . import Curve

name = "scikit-learn SGD"
rival = True
PASSES = 10
grid: list[dict[str, Any]] = [
    {"alpha": alpha, "average": average}
    for average in (False, True)
    for alpha in (1e-5, 1e-4, 1e-3, 1e-2)
]


def _model(setting: dict[str, Any], seed: int) -> SGDClassifier:
    # A RandomState, not a seed: partial_fit would draw the same order in every pass from a seed.
    rng = np.random.RandomState(seed)
    return SGDClassifier(
        loss="log_loss", **setting, max_iter=PASSES, tol=None, n_jobs=-1, random_state=rng
    )


def fit(dataset: Dataset, setting: dict[str, Any], seed: int) -> SGDClassifier:
    return _model(setting, seed).fit(dataset.X_train, dataset.y_train)


def curve(dataset: Dataset, setting: dict[str, Any], seed: int) -> Curve:
    model, clock = _model(setting, seed), Clock()
    with clock:
        classes = np.unique(dataset.y_train)
    for _ in range(PASSES):
        with clock:
            model.partial_fit(dataset.X_train, dataset.y_train, classes)
        yield clock.seconds, Linear(model.coef_.copy(), model.intercept_.copy(), classes)
