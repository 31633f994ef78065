"""How good a model is, by row blocks: the n x C scores are never held whole."""

import copy
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..estimators.validation import check_length, read_indicator, shown
from ..rows import blocks

TOP = 5
INDICATOR_BYTES = 2**24  # of one block of predicted indicators


class Scores(NamedTuple):
    """Shares of right answers.

    For a multi-label model a row is right at k when one of its classes is among the k best, and a
    class's accuracy is the share of its rows where it was predicted.
    """

    rows: int
    top1: float
    top5: float | None  # None below TOP classes
    mean_per_class: float
    accuracy: NDArray[np.float64]  # (C,) of each class; nan without rows
    support: NDArray[np.intp]  # (C,) rows of each class


def evaluate(model: Any, X: Any, y: NDArray[Any]) -> Scores:
    """The scores of a fitted model on rows with known labels."""
    check_length(len(y), X.shape[0])
    multilabel = bool(model.multilabel_)
    if multilabel != (y.ndim == 2):
        kind = "an indicator matrix" if multilabel else "one label a row"
        raise ValueError(f"the model was fitted on {kind}; give y of the same kind")
    C = len(model.classes_)
    k = TOP if C >= TOP else 1
    best = _places(model.predict_top_k(X, k), model.classes_)  # (n, k)
    if multilabel:
        if y.shape[1] != C:
            raise ValueError(f"y has {y.shape[1]} columns but the model has {C} classes")
        y = read_indicator(y)
        right = np.take_along_axis(y, best, axis=1)
        hits, support = _indicator_hits(model, X, y)
    else:
        truth = _known(_places(y, model.classes_), y)
        right = best == truth[:, None]
        hits = np.bincount(truth[right[:, 0]], minlength=C)
        support = np.bincount(truth[truth >= 0], minlength=C)
    accuracy = np.divide(hits, support, out=np.full(C, np.nan), where=support > 0)
    return Scores(
        rows=len(y),
        top1=float(right[:, 0].mean()),
        top5=float(right.any(axis=1).mean()) if k == TOP else None,
        mean_per_class=float(np.nanmean(accuracy)) if support.any() else float("nan"),
        accuracy=accuracy,
        support=support,
    )


def _places(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """The place of each label in the sorted classes; -1 where it is none of them."""
    if (labels.dtype.kind in "UO") != (classes.dtype.kind in "UO"):
        raise ValueError(
            f"y holds {labels.dtype} but the model's classes are {classes.dtype} "
            f"(such as {shown(classes[0])}); give labels of the same kind"
        )
    place = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return np.where(classes[place] == labels, place, -1)


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
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Per class: rows where it is there and predicted, rows where it is there."""
    n, C = y.shape
    hits = np.zeros(C, np.intp)
    for lo, hi in blocks(n, 8 * C, INDICATOR_BYTES):
        hits += ((model.predict(X[lo:hi]) != 0) & y[lo:hi]).sum(axis=0)
    return hits, y.sum(axis=0)


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
