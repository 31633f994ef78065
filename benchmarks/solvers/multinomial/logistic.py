"""slender's LogisticClassifier, as it comes.  Minimises the multinomial objective.

Its time in the race is that of a plain fit; this curve, by a callback, is for the figure.
"""

from typing import Any

import numpy as np

import slender
from slender.lab.recorder import Stopwatch

from ...objective import Linear, Task, linear
from . import MULTINOMIAL, Record

name = "slender"
rival = False
problem = MULTINOMIAL
package = None
grid: list[dict[str, Any]] = [{"tol": 1e-3}]


def fit(task: Task, setting: dict[str, Any], seed: int, callbacks: Any = None) -> Any:
    model = slender.LogisticClassifier(C=task.C, **setting, callbacks=callbacks, random_state=seed)
    return model.fit(task.dataset.X_train, task.dataset.y_train)


def curve(task: Task, setting: dict[str, Any], seed: int, record: Record) -> None:
    watch, classes = Stopwatch(), np.unique(task.dataset.y_train)
    stopped = False

    def see(_: dict[str, float], weights: Any) -> bool:
        nonlocal stopped
        with watch.held():
            stopped = record(watch.seconds, Linear(*weights(), classes))
        return stopped

    with watch:
        model = fit(task, setting, seed, callbacks=[see])
    if not stopped:  # the point at which the user has the model
        record(watch.seconds, linear(model))
