"""scikit-learn's LogisticRegression (multinomial, L-BFGS).

It reports nothing on its way, so each point of the curve is a whole fit that stops earlier.
"""

import warnings
from typing import Any

from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from slender.lab.datasets import Dataset
from slender.solvers.loop import Clock

from ..objective import Linear
from . import Curve

name = "scikit-learn logistic"
rival = True
ITERATIONS = (6, 12, 25, 50, 100)  # up to scikit-learn's default
grid: list[dict[str, Any]] = [{"C": 0.01}, {"C": 0.1}, {"C": 1.0}]


def fit(
    dataset: Dataset, setting: dict[str, Any], seed: int, max_iter: int = ITERATIONS[-1]
) -> LogisticRegression:
    model = LogisticRegression(**setting, max_iter=max_iter)  # no randomness in L-BFGS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # stopping early is the point
        return model.fit(dataset.X_train, dataset.y_train)


def curve(dataset: Dataset, setting: dict[str, Any], seed: int) -> Curve:
    for max_iter in ITERATIONS:
        with Clock() as clock:
            model = fit(dataset, setting, seed, max_iter)
        yield clock.seconds, Linear(model.coef_, model.intercept_, model.classes_)
        if model.n_iter_[0] < max_iter:
            return  # converged: more iterations change nothing
