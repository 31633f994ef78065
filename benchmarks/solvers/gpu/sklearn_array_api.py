"""scikit-learn's LogisticRegression (L-BFGS) by the array API.  Minimises the same objective.

The rows are float32 tensors on the device, where scikit-learn computes loss and gradient; scipy's
L-BFGS runs on the host.  Products in TF32 are faster and less exact than in float32: both are
tried.  One fit gives the whole curve (benchmarks/tap.py); its `tol` is then so low that the race
stops it.  `fit` has scikit-learn's own tolerance, and iterations enough to get there.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, _logistic

from ...gpu_clock import DeviceWatch
from ...gpu_data import Planted, Weights, weights, weights_of
from ...tap import tapped
from . import Record, tf32

name = "scikit-learn, array API"
rival = True
package = None
grid: list[dict[str, Any]] = [{"tf32": False}, {"tf32": True}]
TOL, MAX_ITER = 1e-9, 100_000
SWITCH = "SCIPY_ARRAY_API"  # scikit-learn asks for it, and looks at it at each call


@contextmanager
def dispatching() -> Iterator[None]:
    """scikit-learn computes where the rows are."""
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = "1"
    try:
        with config_context(array_api_dispatch=True):
            yield
    finally:
        if before is None:
            del os.environ[SWITCH]
        else:
            os.environ[SWITCH] = before


def unpack(x: np.ndarray, problem: Planted) -> Weights:
    """The classes of a feature lie together, the intercepts come last."""
    W = x.reshape((problem.n_classes, -1), order="F")
    return weights_of(np.ascontiguousarray(W[:, :-1]), np.ascontiguousarray(W[:, -1]), problem)


def fit(problem: Planted, setting: dict[str, Any]) -> tuple[Weights, dict[str, float]]:
    with tf32(setting["tf32"]), dispatching():
        model = LogisticRegression(C=problem.C, max_iter=MAX_ITER).fit(problem.wide, problem.y)
        return weights(model, problem), {"iterations": int(model.n_iter_[0])}


def curve(problem: Planted, setting: dict[str, Any], seed: int, record: Record) -> None:
    model = LogisticRegression(C=problem.C, tol=TOL, max_iter=MAX_ITER)  # nothing is random
    X = problem.wide
    watch = DeviceWatch(problem.device)

    def see(x: np.ndarray) -> bool:
        with watch.held():
            return record(watch.seconds, unpack(x, problem))

    with warnings.catch_warnings(), tf32(setting["tf32"]), dispatching():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the race stops it, not its tol
        with tapped(_logistic, see), watch:
            model.fit(X, problem.y)
