"""cyanure's LogisticRegression (solver "auto": MISO or SVRG, accelerated by QNing).

Minimises the same objective: its multiclass-logistic loss is a mean, its intercept unregularised.

It cannot be watched from outside, so the curve is made of whole fits, each of a quarter more
passes.  In the repeats the fits begin below the number of passes that was needed, in steps of a
twentieth: its time to the target is at most that much too long.  The weights it returns are those
of its last look at the duality gap, which costs it a pass; so it looks once, at the end.

Every fit of it sets OpenMP to teams that shrink with the machine's load, for all that share the
process.  That is undone: scikit-learn would run on one thread after it, and faiss's BLAS, which
counts on two, would wait for ever.
"""

import logging
import math
import warnings
from collections.abc import Sequence
from typing import Any

from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import ThreadpoolController

from ...objective import Linear, Task
from . import MULTINOMIAL, Record, curve_of_whole_fits, ladder

name = "cyanure"
rival = True
problem = MULTINOMIAL
package = ("cyanure", "cyanure")
grid: list[dict[str, Any]] = [{}]
FINE = 1.05  # between one whole fit and the next, in the repeats
LEAST, STILL = 20, 4  # it has converged when, after so many passes, a fit with this many times
# the passes is no better in float32; its duality gap need not get to the last bits
OBJECTIVE = 1  # the place of the objective in optimization_info_


def focus(setting: dict[str, Any], curve: Sequence[Any], reached: int | None) -> dict[str, Any]:
    tried = [number for number, _ in zip(ladder(), curve, strict=False)]
    if reached is None:
        return {"start": tried[-1] - 1}  # one long fit shows again that it is not enough
    return {"start": tried[reached - 1] if reached else 0}


def curve(task: Task, setting: dict[str, Any], seed: int, record: Record) -> None:
    start = setting.get("start")
    passes = ladder() if start is None else ladder(start, FINE)
    lowest, since = math.inf, 1

    def fit(number: int) -> tuple[Linear, bool]:
        nonlocal lowest, since
        model = _fit(task, seed, number)
        objective = model.optimization_info_[0, OBJECTIVE, -1]
        if objective < lowest:
            lowest, since = objective, number
        finished = number >= max(LEAST, STILL * since)
        return Linear(model.coef_.T, model.intercept_, model.classes_), finished

    curve_of_whole_fits(fit, passes, record)


def _fit(task: Task, seed: int, passes: int) -> Any:
    from cyanure.estimators import LogisticRegression

    logging.getLogger("Cyanure").setLevel(logging.WARNING)  # it tells its loss at every fit
    model = LogisticRegression(
        penalty="l2",
        lambda_1=task.lam,
        max_iter=passes,
        duality_gap_interval=passes,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # stopping early is the point
        model.fit(task.dataset.X_train, task.dataset.y_train)
    for openmp in ThreadpoolController().select(user_api="openmp").lib_controllers:
        openmp.dynlib.omp_set_dynamic(0)
    return model
