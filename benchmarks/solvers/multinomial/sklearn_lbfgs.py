"""scikit-learn's LogisticRegression (L-BFGS), float32 as the data.  Minimises the same objective.

One fit gives the whole curve (benchmarks/tap.py).  `tol` only decides where it would stop by
itself, so it is set so low that the race stops it.
"""

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, _logistic

from ...objective import Linear, Task
from . import MULTINOMIAL, Record, curve_of_lbfgs

name = "scikit-learn L-BFGS"
rival = True
problem = MULTINOMIAL
package = None
grid: list[dict[str, Any]] = [{}]
TOL, MAX_ITER = 1e-9, 100_000


def unpack(x: np.ndarray, classes: np.ndarray) -> Linear:
    """The classes of a feature lie together, the intercepts come last."""
    W = x.reshape((len(classes), -1), order="F")
    return Linear(W[:, :-1], W[:, -1], classes)


def curve(task: Task, setting: dict[str, Any], seed: int, record: Record) -> None:
    model = LogisticRegression(C=task.C, tol=TOL, max_iter=MAX_ITER)  # no randomness in L-BFGS
    curve_of_lbfgs(model, _logistic, task, record, unpack)
