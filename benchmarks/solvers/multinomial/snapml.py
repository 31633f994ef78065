"""Snap ML's LogisticRegression (dual coordinate descent, two threads).

Minimises another objective: one-vs-rest, C binary problems, each with a penalised intercept (a
constant feature).  So its accuracy is compared and its objective is not; and because another
objective may want another penalty, the race's C is tried times 1/10, 1 and 10.

It cannot be watched from outside: the curve is made of whole fits with a doubling max_iter.

To import it makes the processor flush subnormal numbers to zero, for whatever runs afterwards;
that is undone.
"""

import ctypes
import sys
from functools import partial
from typing import Any

import joblib
import numpy as np

from ...objective import Linear, Task
from . import Record, curve_of_whole_fits, ladder

name = "Snap ML"
rival = True
problem = "one-vs-rest, penalised intercepts"
package = ("snapml", "snapml")
grid: list[dict[str, Any]] = [{"times_C": 1.0}, {"times_C": 0.1}, {"times_C": 10.0}]
MOST = 1000  # its own default of max_iter
FE_DFL_ENV = ctypes.c_void_p(-1)  # Linux's fenv.h


def curve(task: Task, setting: dict[str, Any], seed: int, record: Record) -> None:
    curve_of_whole_fits(partial(_fit, task, setting, seed), ladder(ratio=2), record)


def _fit(task: Task, setting: dict[str, Any], seed: int, passes: int) -> tuple[Linear, bool]:
    from snapml import LogisticRegression

    if sys.platform == "linux":
        ctypes.CDLL("libm.so.6").fesetenv(FE_DFL_ENV)
    model = LogisticRegression(
        regularizer=1 / (task.C * setting["times_C"]),  # of the sum of losses
        fit_intercept=True,
        max_iter=passes,
        n_jobs=joblib.cpu_count(),
        random_state=seed,
    )
    model.fit(task.dataset.X_train, task.dataset.y_train)
    fitted = Linear(model.coef_, model.intercept_, np.asarray(model.classes_))
    return fitted, bool(np.max(model.n_iter_) < passes) or passes >= MOST
