"""scikit-learn's LogisticRegression (multinomial, L-BFGS), up to its default of 100 iterations.

One fit gives the whole curve (benchmarks/tap.py).
"""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, _logistic

from slender.datasets import Dataset

from ..objective import Linear, Task
from . import Curve
from .multinomial import curve_of_lbfgs
from .multinomial.sklearn_lbfgs import unpack

name = "scikit-learn logistic"
rival = True
grid: list[dict[str, Any]] = [{"C": 0.01}, {"C": 0.1}, {"C": 1.0}]


def fit(dataset: Dataset, setting: dict[str, Any], seed: int) -> LogisticRegression:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 100 iterations are often not enough
        return LogisticRegression(**setting).fit(dataset.X_train, dataset.y_train)


def curve(dataset: Dataset, setting: dict[str, Any], seed: int) -> Curve:
    seen: list[tuple[float, Linear]] = []

    def keep(seconds: float, model: Linear) -> bool:
        half = (model.coef.astype(np.float32), model.intercept.astype(np.float32))
        seen.append((seconds, Linear(*half, model.classes)))
        return False

    task = Task(dataset, setting["C"])
    curve_of_lbfgs(LogisticRegression(**setting), _logistic, task, keep, unpack)
    return iter(seen)
