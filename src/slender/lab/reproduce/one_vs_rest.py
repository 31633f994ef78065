"""The rival of Harchaoui et al. 2012: one-vs-rest linear SVMs.

Their protocol: C by three-fold cross-validation over five values between 0.1 and 1e4, and the
weight of the positives ("optimal rebalancing": none, or balanced).  They use LIBLINEAR, which takes
minutes here and was no more accurate (python -m benchmarks.semipq has it); these SVMs are fitted by
averaged SGD, all classes together.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from ...estimators.sgd import SGDClassifier
from .material import evenly

CS = np.logspace(-1, 4, 5)
FOLDS = 3
CV_ROWS = 1500  # that cross-validation sees at most; the chosen SVMs are fitted to all rows
PASSES = 20


def one_vs_rest(X: Any, y: NDArray[Any], seed: int = 0) -> SGDClassifier:
    """The fitted SVMs of the setting that cross-validation chose."""
    svm = SGDClassifier("hinge", passes=PASSES, fit_intercept=False, random_state=seed)
    few = evenly(y, CV_ROWS)
    folds = min(FOLDS, int(np.unique(y[few], return_counts=True)[1].min()))
    C, weight = 1.0, None
    if folds > 1:
        n = len(few) * (folds - 1) / folds
        grid = {"lam": list(1.0 / (n * CS)), "class_weight": [None, "balanced"]}
        parts = StratifiedKFold(folds, shuffle=True, random_state=seed)
        chosen = GridSearchCV(svm, grid, cv=parts, refit=False).fit(X[few], y[few]).best_params_
        C, weight = 1.0 / (n * chosen["lam"]), chosen["class_weight"]
    return svm.set_params(lam=1.0 / (len(y) * C), class_weight=weight).fit(X, y)


def top_k(scores: NDArray[Any], classes: NDArray[Any], y: NDArray[Any], most: int) -> list[float]:
    """The share of rows whose class is among the k best scores, for k = 1 to `most`."""
    if scores.ndim == 1:  # of two classes
        scores = np.stack([-scores, scores], axis=1)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :most]
    hits = classes[best] == y[:, None]
    return [float(value) for value in np.cumsum(hits, axis=1).mean(axis=0)]
