"""scikit-learn's LogisticRegression (newton-cholesky).  Minimises the same objective.

It forms and factors the whole Hessian, of (d C)² numbers: only for few dimensions and classes.
Its solver, a class that scikit-learn looks up by name, is replaced for the time of the fit by
one that shows each iterate and is otherwise the same.
"""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, _logistic

from slender.lab.recorder import Stopwatch

from ...objective import Task
from . import MULTINOMIAL, Record
from .sklearn_lbfgs import MAX_ITER, TOL, unpack

name = "scikit-learn newton-cholesky"
rival = True
problem = MULTINOMIAL
package = None
grid: list[dict[str, Any]] = [{}]
LARGEST = 10_000  # d C: a Hessian of 0.4 GB in float32; the time grows with its square


def refuses(task: Task) -> str | None:
    size = task.dataset.X_train.shape[1] * len(np.unique(task.dataset.y_train))
    if size <= LARGEST:
        return None
    return f"its Hessian would have {size:,}² numbers; {LARGEST:,}² is the most tried"


def curve(task: Task, setting: dict[str, Any], seed: int, record: Record) -> None:
    X, y = task.dataset.X_train, task.dataset.y_train
    watch, classes = Stopwatch(), np.unique(y)
    Solver = _logistic.NewtonCholeskySolver

    class Watched(Solver):
        def check_convergence(self, X: Any, y: Any, sample_weight: Any) -> None:
            with watch.held():
                enough = record(watch.seconds, unpack(self.coef, classes))
            super().check_convergence(X, y, sample_weight)
            self.converged = self.converged or enough

    model = LogisticRegression(C=task.C, solver="newton-cholesky", tol=TOL, max_iter=MAX_ITER)
    _logistic.NewtonCholeskySolver = Watched
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the race stops it, not its tol
            with watch:
                model.fit(X, y)
    finally:
        _logistic.NewtonCholeskySolver = Solver
