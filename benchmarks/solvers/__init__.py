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
from typing import Any

from sklearn.base import clone

from slender.lab.datasets import Dataset
from slender.solvers.loop import Clock

from ..objective import Linear

Curve = Iterator[tuple[float, Linear]]


def curve_of_fits(model: Any, dataset: Dataset) -> Curve:
    """The curve of one of slender's estimators: whole fits of 1, 2, ... passes.

    The same seed walks the same path, so each fit is the one before and a pass more; its seconds
    are what a user waits for who asks for that many passes.
    """
    for passes in range(1, model.passes + 1):
        fitted = clone(model).set_params(passes=passes)
        with Clock() as clock:
            fitted.fit(dataset.X_train, dataset.y_train)
        intercept = fitted.intercept_ + fitted.prior_shift_
        yield clock.seconds, Linear(fitted.coef_, intercept, fitted.classes_)
