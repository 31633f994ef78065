"""A model as a fitted estimator of scikit-learn."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .scoring import ScoringModel, linear


def to_sklearn(model: Any) -> Any:
    """A fitted estimator of scikit-learn with the same predictions, scores and probabilities.

    softmax             LogisticRegression
    one-vs-rest         SGDClassifier with loss="log_loss" or "hinge": one matrix, σ(s) / Σ σ(s)
    multi-label         OneVsRestClassifier of binary SGDClassifiers
    rows of norm 1      a Pipeline with Normalizer before it
    """
    from sklearn.linear_model import LogisticRegression, SGDClassifier  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import Normalizer  # noqa: PLC0415

    form = linear(model).tempered()
    if form.link == "softmax":
        C = float(getattr(model, "C_", getattr(model, "C", 1.0)))  # those with a lam have neither
        estimator = LogisticRegression(C=C, fit_intercept=model.fit_intercept)
    else:
        loss = "log_loss" if form.link else "hinge"
        estimator = SGDClassifier(loss=loss, fit_intercept=model.fit_intercept)
    if form.multilabel:
        estimator = _multilabel(estimator, form)
    else:
        _fill(estimator, form.W, form.b, form.classes)
    if hasattr(model, "feature_names_in_"):
        estimator.feature_names_in_ = model.feature_names_in_
    return make_pipeline(Normalizer(), estimator) if form.normalise else estimator


def _fill(estimator: Any, W: NDArray[Any], b: NDArray[Any], classes: NDArray[Any]) -> Any:
    estimator.coef_, estimator.intercept_ = W.copy(), b.copy()
    estimator.classes_, estimator.n_features_in_ = classes.copy(), W.shape[1]
    return estimator


def _multilabel(estimator: Any, form: ScoringModel) -> Any:
    from sklearn.base import clone  # noqa: PLC0415
    from sklearn.multiclass import OneVsRestClassifier  # noqa: PLC0415
    from sklearn.preprocessing import LabelBinarizer  # noqa: PLC0415

    several = OneVsRestClassifier(estimator)
    several.estimators_ = [
        _fill(clone(estimator), w[None], b[None], np.array([0, 1]))
        for w, b in zip(form.W, form.b, strict=True)
    ]
    indicator = np.eye(len(form.W), dtype=np.int64)
    several.label_binarizer_ = LabelBinarizer(sparse_output=True).fit(indicator)
    several.n_features_in_ = form.W.shape[1]
    return several
