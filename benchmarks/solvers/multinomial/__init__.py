"""Solvers of multinomial logistic regression, one per file; the race is benchmarks/logistic.py.

    name      what tables and plots call it
    rival     True: its best setting is chosen for it; False: slender's own
    problem   MULTINOMIAL, or the words for what else it minimises: then only accuracy is compared
    package   (module, name for pip) it needs beside slender's own dependencies, or None
    grid      its settings, each a dict
    curve     (task, setting, seed, record): one fit (or more, where the file says why), calling
              record(seconds, Linear) on its way; a true answer means: enough, stop

and, where there is a reason,

    refuses   (task): a sentence why it cannot run on this task, or None
    focus     (setting, curve, reached): the setting for the repeats, once a first run has shown
              at which point of its curve the target is reached (None: nowhere)

`seconds` is all that a user waits for until then, checking of the data included, and nothing
else: the clock stands still while `record` measures.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from slender.lab.recorder import Stopwatch

from ...objective import Linear, Task
from ...tap import tapped

MULTINOMIAL = "multinomial"
Record = Callable[[float, Linear], bool]


def curve_of_lbfgs(
    model: Any,
    module: Any,
    task: Task,
    record: Record,
    unpack: Callable[[np.ndarray, np.ndarray], Linear],
) -> Any:
    """The curve of one fit of a model that calls `module.optimize.minimize`; the fitted model.

    `unpack` turns the optimiser's vector, and the classes, into a Linear.
    """
    X, y = task.dataset.X_train, task.dataset.y_train
    classes = np.unique(y)
    watch = Stopwatch()

    def see(x: np.ndarray) -> bool:
        with watch.held():
            return record(watch.seconds, unpack(x, classes))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the race stops it, not its tol
        with tapped(module, see), watch:
            return model.fit(X, y)


def ladder(start: int = 0, ratio: float = 1.25) -> Iterator[int]:
    """Whole numbers above start, each larger by this ratio and by one at least."""
    k = start + 1
    while True:
        yield k
        k = max(k + 1, round(k * ratio))


def curve_of_whole_fits(
    fit: Callable[[int], tuple[Linear, bool]], passes: Iterable[int], record: Record
) -> None:
    """The curve of a solver that cannot be watched: a whole fit for each number of passes.

    `fit` returns the model and whether it stopped by itself: more passes would change nothing.
    """
    for number in passes:
        with Stopwatch() as watch:
            model, finished = fit(number)
        if record(watch.seconds, model) or finished:
            return
