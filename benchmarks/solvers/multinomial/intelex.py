"""scikit-learn-intelex's LogisticRegression: L-BFGS on oneDAL's loss.  The same objective.

It calls scipy's L-BFGS as scikit-learn does, with a memory of 50 pairs, so that one fit gives the
whole curve (benchmarks/tap.py).
"""

from typing import Any

import numpy as np

from ...objective import Linear, Task
from . import MULTINOMIAL, Record, curve_of_lbfgs
from .sklearn_lbfgs import MAX_ITER, TOL

name = "scikit-learn-intelex"
rival = True
problem = MULTINOMIAL
package = ("sklearnex", "scikit-learn-intelex")
grid: list[dict[str, Any]] = [{}]


def unpack(x: np.ndarray, classes: np.ndarray) -> Linear:
    """The features of a class lie together, its intercept comes first."""
    W = x.reshape(len(classes), -1)
    return Linear(W[:, 1:], W[:, 0], classes)


def curve(task: Task, setting: dict[str, Any], seed: int, record: Record) -> None:
    from daal4py.sklearn.linear_model import logistic_path
    from sklearnex.linear_model import LogisticRegression

    model = LogisticRegression(C=task.C, tol=TOL, max_iter=MAX_ITER)
    curve_of_lbfgs(model, logistic_path, task, record, unpack)
