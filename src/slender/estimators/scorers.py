"""scikit-learn's scorers on held-out rows, which `select` may name."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import get_scorer

from ..places import to_host
from ..problem.linear import one_row
from ..rows import Rows
from .multinomial import MultinomialClassifier

INSTEAD = "use another one, such as 'balanced_accuracy', 'f1_macro' or 'log_loss'"


class Candidate(MultinomialClassifier):
    """The model of one penalty in the form that scorers need; X is a row store, already scaled.

    Predictions for rows on workers are made there; what a scorer is given of them comes here.
    """

    def _rows(self, X: Rows, method: str) -> Rows:
        return X

    def decision_function(self, X: Rows) -> NDArray[Any]:
        return X.each_row(super().decision_function)

    def predict(self, X: Rows) -> NDArray[Any]:
        return X.each_row(super().predict)

    def predict_proba(self, X: Rows) -> NDArray[Any]:
        return X.each_row(super().predict_proba)


def candidate(classes: NDArray[Any], W: NDArray[Any], b: NDArray[Any]) -> Candidate:
    model = Candidate()
    model.classes_ = classes
    model._keep(one_row(to_host(W), to_host(b)))
    return model


def read_scorer(name: Any, ours: tuple[str, ...]) -> Any:
    """The scorer of scikit-learn of this name; an error if it is not one for classifiers."""
    try:
        scorer = get_scorer(name) if isinstance(name, str) else None
    except ValueError:
        scorer = None
    if scorer is None:
        raise ValueError(
            f"select={name!r} must be one of {list(ours)} or the name of a scikit-learn scorer; "
            "sklearn.metrics.get_scorer_names() lists them"
        )
    if scorer._score_func.__module__.endswith("_regression"):
        raise ValueError(f"select={name!r} is a scorer for regression; {INSTEAD}")
    return scorer


def score(name: str, model: Candidate, rows: Rows, y: NDArray[Any]) -> float:
    """The score of this name; greater is better, as for all scorers of scikit-learn."""
    try:
        with warnings.catch_warnings():
            # at a tiny C every row gets one class, and the precision of the others is 0 / 0
            warnings.simplefilter("ignore", UndefinedMetricWarning)
            value = float(get_scorer(name)(model, rows, y))
    except (ValueError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(
            f"select={name!r} cannot score the held-out rows ({reason}); {INSTEAD}"
        ) from error
    if not np.isfinite(value):
        raise ValueError(f"select={name!r} is {value} on the held-out rows; {INSTEAD}")
    return value
