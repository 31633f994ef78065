"""One solver per file; the race is benchmarks/accuracy.py.

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
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from sklearn.base import clone

from slender.datasets import Dataset
from slender.solvers.loop import Clock

from ..objective import Linear

Curve = Iterator[tuple[float, Linear]]


def modules(package: Any) -> dict[str, Any]:
    """The files of a folder, by name; not its folders."""
    return {
        module.name: import_module(f"{package.__name__}.{module.name}")
        for module in iter_modules(package.__path__)
        if not module.ispkg
    }


def options(setting: dict[str, Any]) -> str:
    """What follows a name: (alpha=0.1, average=True), or nothing."""
    text = ", ".join(f"{key}={value}" for key, value in setting.items())
    return f" ({text})" if text else ""


def curve_of_fits(model: Any, dataset: Dataset) -> Curve:
    """The curve of one of slender's estimators: whole fits of 1, 2, ... passes.

    The same seed walks the same path, so each fit is the one before and one more pass; its seconds
    are what a user waits for who asks for that many passes.
    """
    for passes in range(1, model.passes + 1):
        fitted = clone(model).set_params(passes=passes)
        with Clock() as clock:
            fitted.fit(dataset.X_train, dataset.y_train)
        intercept = fitted.intercept_ + fitted.prior_shift_
        yield clock.seconds, Linear(fitted.coef_, intercept, fitted.classes_)
