"""One optimiser on one data set: what `slender run` does once and `slender compare` many times.

Times are the estimators' own: evaluation is off their clocks, and a first pass over a few rows has
compiled the kernels before they start.
"""

import copy
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..metrics import TOP
from ..solvers.loop import Record
from .optimisers import Optimiser, Options, Problem, choose, complete, estimator
from .splits import Split, mean_square

Entry = dict[str, float | None]  # of a curve; None where there is no figure, or no finite one
COMPILES = 512  # rows of the first pass, whose seconds are not counted


def experiment(
    split: Split,
    opt: str,
    obj: str,
    options: Options,
    seed: int = 0,
    exact: bool = True,
    watch: Callable[[Entry], bool | None] = lambda entry: None,
    device: Any = None,
) -> dict[str, Any]:
    """Fit, look after each pass, test at the end.

    `watch` is called with each entry of the curve: seconds, passes, objective (the solver's own
    figure, or its estimate along the pass: docs/experiments.md), exact (at the weights of the
    moment, if asked for), gap (or None), accuracies on training and validation rows, and where
    there are more than five classes the share of validation rows whose class is among the five
    best; a true answer ends the fit.  The test rows are looked at once, after the fit.  `device` is
    where to compute, of an estimator that has such a parameter.
    """
    about = describe(split, opt, obj, options, seed)
    whole, n = about["options"], about["rows"]
    obj, optimiser = choose(opt, obj)
    problem = _problem(optimiser, about["classes"], whole)
    class_index = np.unique(split.y_train, return_inverse=True)[1].astype(np.int32)
    lam = whole.get("lam", 0.0)
    model = estimator(opt, obj, whole, n, seed, device)
    of_intercept = 1.0 / (mean_square(split) or 1.0) if optimiser.penalised else 0.0
    curve: list[Entry] = []

    def look(record: Record, linear: Any) -> bool | None:
        if record["passes"] <= optimiser.looks:
            return None
        W, b = linear()
        entry = {"gap": None, **{name: _figure(of) for name, of in record.items()}}
        entry["passes"] = record["passes"] - optimiser.looks
        # along the pass, where the solver's own figure is another
        entry["objective"] = entry.pop("estimate", entry["objective"])
        if exact:
            at = W, b, lam, of_intercept
            entry["exact"] = _figure(
                problem.objective(problem.loss, split.X_train, class_index, *at)
            )
        now = copy.copy(model)
        now.coef_, now.intercept_ = W, b
        entry["train_accuracy"] = accuracy(now, split.X_train, split.y_train)
        entry |= prefixed("validation_", hits(now, split.X_val, split.y_val))
        curve.append(entry)
        return watch(entry)

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", RuntimeWarning)  # overflow of a rate too large, say
        _compile(split, opt, obj, whole, seed, device)
        said.clear()
        model.set_params(callbacks=[look])
        model.fit(split.X_train, split.y_train)
    return {
        **about,
        "curve": curve,
        "test": on_test_rows(model, split),
        "warnings": list(dict.fromkeys(" ".join(str(each.message).split()) for each in said)),
    }


def describe(split: Split, opt: str, obj: str, options: Options, seed: int) -> dict[str, Any]:
    """What an experiment is about, as it can be said before its fit."""
    obj, optimiser = choose(opt, obj)
    n, classes = len(split.y_train), len(np.unique(split.y_train))
    whole = complete(opt, obj, options, n)
    return {
        "opt": opt,
        "obj": obj,
        "seed": seed,
        "options": whole,
        "problem": title(_problem(optimiser, classes, whole), whole, optimiser.penalised),
        "rows": n,
        "features": split.X_train.shape[1],
        "classes": classes,
    }


def _problem(optimiser: Optimiser, classes: int, options: Mapping[str, Any]) -> Problem:
    of = optimiser.binary if optimiser.binary and classes == 2 else optimiser.problem
    return of.with_loss(options.get("loss"))


def title(problem: Problem, options: Mapping[str, Any], penalised: bool) -> str:
    """What must be equal for two objectives to be compared."""
    draws = options.get("negatives", "all")
    drawn = "" if draws == "all" else f", {draws:g} negatives per positive"
    penalty = f"lam = {options['lam']:g}" if options.get("lam") else "no penalty"
    intercept = ", penalised intercept" if penalised else ", intercept"
    return f"{problem.name}, {penalty}{drawn}" + (intercept if options.get("fit_intercept") else "")


def accuracy(model: Any, X: Any, y: NDArray[Any]) -> float:
    """The share of rows whose class is predicted; a label the model never saw counts as wrong."""
    return float(np.mean(model.predict(X) == y))


def hits(model: Any, X: Any, y: NDArray[Any]) -> dict[str, float]:
    """Accuracy, and top5 where there are more than five classes."""
    if len(model.classes_) <= TOP:
        return {"accuracy": accuracy(model, X, y)}
    right = model.predict_top_k(X, TOP) == y[:, None]
    return {"accuracy": float(right[:, 0].mean()), "top5": float(right.any(axis=1).mean())}


def prefixed(prefix: str, figures: Mapping[str, float]) -> dict[str, float]:
    return {prefix + name: figure for name, figure in figures.items()}


def on_test_rows(model: Any, split: Split) -> dict[str, Any]:
    """Figures on the test rows; for two classes the area under the precision-recall curve too."""
    found: dict[str, Any] = {
        "rows": len(split.y_test),
        **hits(model, split.X_test, split.y_test),
    }
    found["error"] = 1.0 - found["accuracy"]
    if len(model.classes_) == 2:
        from sklearn.metrics import average_precision_score  # noqa: PLC0415  (slow to import)

        positive = split.y_test == model.classes_[1]
        scores = model.decision_function(split.X_test)
        finite = bool(positive.any()) and bool(np.isfinite(scores).all())
        found["pr_area"] = float(average_precision_score(positive, scores)) if finite else None
    return found


def _compile(
    split: Split, opt: str, obj: str, options: Mapping[str, Any], seed: int, device: Any
) -> None:
    """One pass over a few rows of every class."""
    _, class_index = np.unique(split.y_train, return_inverse=True)
    order = np.argsort(class_index, kind="stable")
    rank = np.arange(len(order)) - np.searchsorted(
        class_index[order], class_index[order]
    )  # within its class
    few = np.sort(order[np.argsort(rank, kind="stable")[:COMPILES]])
    size = options.get("batch_size")
    smaller = {**options, "passes": 1, "batch_size": size and min(size, len(few))}
    small = estimator(opt, obj, smaller, len(few), seed, device)
    X = split.X_train[few]
    if isinstance(X, np.ndarray):  # numba compiles for rows that may not be written apart
        X.flags.writeable = split.X_train.flags.writeable
    small.fit(X, split.y_train[few])


def _figure(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
