"""How good a model is, by row blocks: the n x C scores are never held whole."""

import copy
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..estimators.validation import check_length, read_indicator, shown
from ..metrics import calibration_error
from ..rows import blocks

TOP = 5
INDICATOR_BYTES = 2**24  # of one block of predicted indicators
SCORES_BYTES = 2**28  # of the scores of all rows for some classes


class Scores(NamedTuple):
    """Shares of right answers.

    For a multi-label model a row is right when all its classes are predicted and no other, which is
    what `score` of the estimator counts, and right at k when one of them is among the k best.
    """

    rows: int
    accuracy: float
    top1: float
    top5: float | None  # None below TOP classes
    hits: NDArray[np.intp]  # (C,) rows of each class that were predicted to be
    predicted: NDArray[np.intp]  # (C,) rows predicted to be of it
    support: NDArray[np.intp]  # (C,) rows of it

    @property
    def recall(self) -> NDArray[np.float64]:
        """Of each class; nan without rows."""
        return _share(self.hits, self.support)

    @property
    def precision(self) -> NDArray[np.float64]:
        """Of each class; nan where it was never predicted."""
        return _share(self.hits, self.predicted)

    @property
    def f1(self) -> NDArray[np.float64]:
        """Of each class, 2 hits / (predicted + support); nan where it neither is nor was."""
        return _share(2 * self.hits, self.predicted + self.support)

    @property
    def mean_per_class(self) -> float:
        """The mean recall of the classes that have rows."""
        return known_mean(self.recall)

    @property
    def f1_micro(self) -> float:
        """Of all classes' counts together."""
        return float(_share(2 * self.hits.sum(), (self.predicted + self.support).sum()))

    @property
    def f1_macro(self) -> float:
        """The mean of the classes'."""
        return known_mean(self.f1)


def known_mean(values: NDArray[np.float64]) -> float:
    """Of those that are there; nan if none is."""
    there = values[~np.isnan(values)]
    return float(there.mean()) if len(there) else float("nan")


def _share(part: Any, whole: Any) -> Any:
    return np.divide(part, whole, out=np.full(np.shape(whole), np.nan), where=whole > 0)


def evaluate(model: Any, X: Any, y: NDArray[Any]) -> Scores:
    """The scores of a fitted model on rows with known labels."""
    check_length(len(y), X.shape[0])
    multilabel = bool(model.multilabel_)
    if multilabel != (y.ndim == 2):
        kind = "an indicator matrix" if multilabel else "one label per row"
        raise ValueError(f"the model was fitted on {kind}; give y of the same kind")
    C = len(model.classes_)
    k = TOP if C >= TOP else 1
    best = _places(model.predict_top_k(X, k), model.classes_)  # (n, k)
    if multilabel:
        if y.shape[1] != C:
            raise ValueError(f"y has {y.shape[1]} columns but the model has {C} classes")
        y = read_indicator(y)
        right = np.take_along_axis(y, best, axis=1)
        whole, hits, predicted, support = _indicator_hits(model, X, y)
    else:
        truth = _known(_places(y, model.classes_), y)
        right = best == truth[:, None]
        whole = int(right[:, 0].sum())
        hits = np.bincount(truth[right[:, 0]], minlength=C)
        predicted = np.bincount(best[:, 0], minlength=C)
        support = np.bincount(truth[truth >= 0], minlength=C)
    return Scores(
        rows=len(y),
        accuracy=whole / len(y),
        top1=float(right[:, 0].mean()),
        top5=float(right.any(axis=1).mean()) if k == TOP else None,
        hits=hits,
        predicted=predicted,
        support=support,
    )


class Answers(NamedTuple):
    """What a model says of each row, and what is true; classes by their places."""

    truth: NDArray[np.intp]  # (n,); -1 where the label is none of the classes
    said: NDArray[np.intp]  # (n,)
    confidence: NDArray[np.float64]  # (n,) the probability of `said`, or see `answers`

    @property
    def right(self) -> NDArray[np.bool_]:
        return self.truth == self.said


def answers(model: Any, X: Any, y: NDArray[Any]) -> Answers:
    """Of a model of one class per row.

    Without probabilities, confidence is how far the best score lies above the second.
    """
    n, C = len(y), len(model.classes_)
    said, confidence = np.empty(n, np.intp), np.empty(n)
    for lo, hi in _blocks(model, X):
        if hasattr(model, "predict_proba"):
            P = model.predict_proba(X[lo:hi])
            said[lo:hi], confidence[lo:hi] = P.argmax(axis=1), P.max(axis=1)
            continue
        S = model.decision_function(X[lo:hi])
        if S.ndim == 1:
            said[lo:hi], confidence[lo:hi] = S > 0, np.abs(S)
        else:
            second, first = np.partition(S, (C - 2, C - 1), axis=1)[:, -2:].T
            said[lo:hi], confidence[lo:hi] = S.argmax(axis=1), first - second
    return Answers(_places(y, model.classes_), said, confidence)


def calibration(model: Any, X: Any, y: NDArray[Any]) -> float | None:
    """The expected calibration error; None without probabilities of one class per row."""
    if model.multilabel_ or not hasattr(model, "predict_proba"):
        return None
    found = answers(model, X, y)
    return calibration_error(found.confidence, found.right)


def figures(
    model: Any, X: Any, y: NDArray[Any], scores: Scores
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Of all rows, and of each class; None where there is none."""
    found = {
        "accuracy": scores.accuracy,  # what the estimator's `score` says
        "top1": scores.top1,
        "top5": scores.top5,
        "mean_per_class": scores.mean_per_class,
        "ece": calibration(model, X, y),
    }
    each = {"recall": scores.recall, "precision": scores.precision}
    if model.multilabel_:
        each["average_precision"] = average_precision(model, X, y)
        found["mean_average_precision"] = known_mean(each["average_precision"])
        found |= {"f1_micro": scores.f1_micro, "f1_macro": scores.f1_macro}
    by_class = [
        {
            "class": name,
            **{figure: None if np.isnan(of[c]) else float(of[c]) for figure, of in each.items()},
            "support": int(scores.support[c]),
        }
        for c, name in enumerate(model.classes_.tolist())
    ]
    return found, by_class


def average_precision(model: Any, X: Any, y: NDArray[Any]) -> NDArray[np.float64]:
    """(C,) of each class of a multi-label model; nan without rows.  As scikit-learn has it.

    A class needs the scores of all rows: some classes at a time, so that they fit.
    """
    from sklearn.metrics import average_precision_score  # noqa: PLC0415  (slow to import)

    n, C = y.shape
    found = np.full(C, np.nan)
    for first, last in blocks(C, 8 * n, SCORES_BYTES):
        S = np.empty((n, last - first))
        for lo, hi in _blocks(model, X):
            S[lo:hi] = model.decision_function(X[lo:hi])[:, first:last]
        for c in range(first, last):
            if (y[:, c] != 0).any():
                found[c] = average_precision_score(y[:, c] != 0, S[:, c - first])
    return found


def confusion(model: Any, X: Any, y: NDArray[Any]) -> NDArray[np.intp]:
    """(C, C) rows of each class (down) by what they were predicted to be (across)."""
    if model.multilabel_:
        raise ValueError(
            "a multi-label model confuses no two classes; --per-class shows each one's recall "
            "and precision"
        )
    C, truth = len(model.classes_), _places(y, model.classes_)
    known = truth >= 0
    pairs = truth * C + _places(model.predict(X), model.classes_)
    return np.bincount(pairs[known], minlength=C * C).reshape(C, C)


def _blocks(model: Any, X: Any) -> Iterator[tuple[int, int]]:
    """Of rows and of answers: a slice of a store is read into memory."""
    return blocks(X.shape[0], 8 * max(len(model.classes_), X.shape[1]), INDICATOR_BYTES)


def _places(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """The place of each label among the classes; -1 where it is none of them."""
    if (labels.dtype.kind in "UO") != (classes.dtype.kind in "UO"):
        raise ValueError(
            f"y holds {labels.dtype} but the model's classes are {classes.dtype} "
            f"(such as {shown(classes[0])}); give labels of the same kind"
        )
    order = np.argsort(classes)  # the columns of an indicator frame stand as their user put them
    place = np.minimum(np.searchsorted(classes, labels, sorter=order), len(classes) - 1)
    return np.where(classes[order[place]] == labels, order[place], -1)


def _known(truth: NDArray[np.intp], y: NDArray[Any]) -> NDArray[np.intp]:
    unknown = np.flatnonzero(truth < 0)
    if len(unknown) == len(truth):
        raise ValueError(f"no label of y is a class of the model (the first is {shown(y[0])})")
    if len(unknown):
        warnings.warn(
            f"{len(unknown)} rows have a label that the model does not know "
            f"(the first is {shown(y[unknown[0]])}); they count as wrong",
            stacklevel=2,
        )
    return truth


def _indicator_hits(
    model: Any, X: Any, y: NDArray[np.bool_]
) -> tuple[int, NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Rows that are right; per class: rows where it is there and predicted, predicted, there."""
    C = y.shape[1]
    whole, hits, predicted = 0, np.zeros(C, np.intp), np.zeros(C, np.intp)
    for lo, hi in _blocks(model, X):
        said, true = model.predict(X[lo:hi]) != 0, y[lo:hi]
        whole += int((said == true).all(axis=1).sum())
        hits += (said & true).sum(axis=0)
        predicted += said.sum(axis=0)
    return whole, hits, predicted, y.sum(axis=0)


class Watch:
    """A callback that scores the model after every pass and keeps the figures in the trace."""

    def __init__(self, model: Any, X: Any, y: NDArray[Any]) -> None:
        self.model, self.X, self.y = model, X, y

    def __call__(self, record: dict[str, float], weights: Any) -> None:
        probe = copy.copy(self.model)
        probe.coef_, probe.intercept_ = weights()
        scores = evaluate(probe, self.X, self.y)
        record["validation_top1"] = scores.top1
        if scores.top5 is not None:
            record["validation_top5"] = scores.top5
