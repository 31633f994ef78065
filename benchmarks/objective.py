"""What is measured of a model at a point of its curve; the clock stands still meanwhile."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slender.datasets import Dataset
from slender.lab.recorder import Recorder

BLOCK = 4096  # rows widened to float64 at a time


class Linear(NamedTuple):
    """A linear classifier of three classes or more, frozen at one moment of its training."""

    coef: NDArray[Any]  # (C, d)
    intercept: NDArray[Any]  # (C,)
    classes: NDArray[Any]  # (C,)


class Task(NamedTuple):
    """Multinomial logistic regression of a data set at one C, scikit-learn's."""

    dataset: Dataset
    C: float

    @property
    def lam(self) -> float:
        return 1 / (len(self.dataset.X_train) * self.C)


def linear(model: Any) -> Linear:
    """A fitted model of slender or scikit-learn."""
    return Linear(model.coef_, model.intercept_, model.classes_)


def without_intercept(W: NDArray[Any], classes: NDArray[Any]) -> Linear:
    return Linear(W, np.zeros(len(W), W.dtype), classes)


def measure(model: Linear, dataset: Dataset) -> dict[str, float]:
    """Shares of the test rows whose label is the best class, and among the five best."""
    scores = dataset.X_test @ model.coef.T + model.intercept  # (n, C)
    scores[np.isnan(scores)] = -np.inf  # a diverged class wins nothing
    n_best = min(5, len(model.classes))
    five = np.argpartition(-scores, n_best - 1, axis=1)[:, :n_best]
    truth = np.asarray(dataset.y_test)
    return {
        "top1": float(np.mean(model.classes[scores.argmax(axis=1)] == truth)),
        "top5": float(np.mean((model.classes[five] == truth[:, None]).any(axis=1))),
    }


def multinomial(model: Linear, task: Task) -> float:
    """1/n Σ_i [ln Σ_c exp(s_ic) - s_iy] + lam/2 ‖W‖² in float64, whatever the model's type.

    The intercept is not penalised.  Written apart from slender's own, which it judges.
    """
    X, y = task.dataset.X_train, np.searchsorted(model.classes, task.dataset.y_train)
    W, b = model.coef.astype(np.float64), model.intercept.astype(np.float64)
    total = 0.0
    with np.errstate(all="ignore"):  # a diverged model has an infinite objective, no warning
        for lo in range(0, len(X), BLOCK):
            S = X[lo : lo + BLOCK].astype(np.float64) @ W.T
            S += b
            S -= S.max(axis=1, keepdims=True)
            own = S[np.arange(len(S)), y[lo : lo + BLOCK]]
            # scipy.special.logsumexp(S, axis=1) - own, which takes eight times as long
            total += float((np.log(np.exp(S, out=S).sum(axis=1)) - own).sum())
        value = total / len(X) + 0.5 * task.lam * float(np.vdot(W, W))
    return value if np.isfinite(value) else np.inf


def reached(model: Linear, task: Task) -> dict[str, float]:
    """The objective, and the accuracies."""
    return {"objective": multinomial(model, task), **measure(model, task.dataset)}


def recorder(task: Task, budget: float, target: float | None = None) -> Recorder:
    """Of a solver's curve on this task."""
    return Recorder(
        lambda model: reached(model, task),
        lambda model: Linear(*map(np.copy, model)),  # solvers go on in the same arrays
        budget,
        target,
    )
