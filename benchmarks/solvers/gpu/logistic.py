"""slender's LogisticClassifier on the float16 rows, as it comes.  Minimises the same objective."""

from typing import Any

import slender

from ...gpu_clock import DeviceWatch
from ...gpu_data import Planted, weights, weights_of
from . import Record

name = "slender"
rival = False
package = None
grid: list[dict[str, Any]] = [{"tol": 1e-3}]


def curve(problem: Planted, setting: dict[str, Any], seed: int, record: Record) -> None:
    watch, stopped = DeviceWatch(problem.device), False

    def see(_: dict[str, float], model: Any) -> bool:
        nonlocal stopped
        with watch.held():
            stopped = record(watch.seconds, weights_of(*model(), problem))
        return stopped

    with watch:
        model = slender.LogisticClassifier(
            C=problem.C, **setting, callbacks=[see], random_state=seed
        ).fit(problem.X, problem.y)
    if not stopped:  # the point at which the user has the model
        record(watch.seconds, weights(model, problem))
