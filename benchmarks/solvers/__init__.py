"""One solver a file.

    name      what tables and plots call it
    rival     True: its best setting is chosen for it, by test accuracy; False: slender's own,
              reported at every setting
    grid      its settings, each a dict
    fit       (dataset, setting, seed): the fit as a user would write it, whole
    curve     (dataset, setting, seed): yields (seconds, Linear) after each pass

`seconds` is all that a user waits for until then, reading and checking the data included, and
nothing else: a curve stops its clock before it yields.
"""

from collections.abc import Iterator
from time import perf_counter
from typing import Any

from slender.lab.datasets import Dataset

from ..objective import Linear

Curve = Iterator[tuple[float, Linear]]


def callback_curve(model: Any, dataset: Dataset) -> Curve:
    """The curve of one of slender's one-vs-rest estimators.

    The seconds in trace_ begin after validation and end before the last weights are formed; here
    the clock runs from the call of fit, and each point includes forming its own weights.
    """
    points = []
    worked = 0.0

    def keep(record: dict[str, float], weights: Any) -> None:
        nonlocal worked, resumed
        now = perf_counter()
        worked += now - resumed
        W, b = weights()
        points.append((worked + perf_counter() - now, W, b))
        resumed = perf_counter()

    model.set_params(callbacks=[keep])
    resumed = perf_counter()
    model.fit(dataset.X_train, dataset.y_train)
    for seconds, W, b in points:
        # every pass draws as many negatives, so the last pass's prior shift is each pass's
        yield seconds, Linear(W, b + model.prior_shift_, model.classes_)
