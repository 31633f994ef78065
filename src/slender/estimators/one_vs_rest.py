"""What SLND and SGD share: one-vs-rest, passes, partial_fit, draws undone in the scores."""

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if

from ..curvature import Coordinates, Curvature
from ..curvature.base import Sample
from ..labels import Indicator, Labels, counts
from ..losses import MarginLoss, to_logits
from ..problem import Weights, one_vs_rest
from ..rows import Rows
from ..solvers.loop import Clock, Record, run
from ..solvers.sampling import negatives_used
from ..solvers.stochastic import Data, State, Stochastic
from .linear import LinearClassifier
from .validation import (
    check_choice,
    check_finite,
    check_positive,
    generator,
    read_labels,
    read_rows,
    read_weights,
)


def _has_posterior(estimator: Any) -> bool:
    loss = estimator._loss()
    if not hasattr(loss, "posterior"):
        raise AttributeError(
            f"predict_proba: loss={estimator.loss!r} gives no posterior; 'logistic' does"
        )
    return True


class OneVsRestClassifier(LinearClassifier):
    """Base of the stochastic one-vs-rest classifiers.

    A subclass says which loss, which curvature and which solver: `_loss`, `_curvature`, `_solver`.
    """

    loss: str
    lam: float = 0.0  # no penalty, unless a subclass has one
    negatives: float | str
    prior: str
    passes: int
    fit_intercept: bool
    class_weight: Any
    objective: str
    callbacks: Any
    random_state: Any

    trace_: list[Record]
    n_iter_: int

    # -- fitting ---------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit from w = 0, `passes` times over the data."""
        self._check()
        rows = read_rows(self, X, reset=True)
        check_finite(rows)
        labels, self.classes_, n_class_rows = read_labels(y, rows.shape[0])
        self._start(labels, n_class_rows)
        self._advance(rows, labels, sample_weight, self.passes)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """One more pass, over these rows.

        The first call fixes the classes (give `classes` if the first rows do not hold them all)
        and estimates curvature and step from its rows; later calls keep both.
        """
        self._check()
        first = not hasattr(self, "_state")
        if first and hasattr(self, "coef_"):
            raise ValueError(
                "partial_fit: a loaded model has weights but not the state of its fit; "
                "use fit, or go on with the model that was fitted here"
            )
        rows = read_rows(self, X, reset=first)
        check_finite(rows)
        if first:
            given = None if classes is None else np.unique(classes)
            labels, self.classes_, n_class_rows = read_labels(y, rows.shape[0], given)
            self._start(labels, n_class_rows)
        else:
            labels, _, _ = read_labels(y, rows.shape[0], self.classes_)
            if isinstance(labels, Indicator) != self.multilabel_:
                raise ValueError("y must stay of one kind: labels, or an indicator matrix")
        self._advance(rows, labels, sample_weight, 1)
        return self

    def _start(self, labels: Labels, n_class_rows: int) -> None:
        self.multilabel_ = isinstance(labels, Indicator)
        self._rng = generator(self.random_state)
        self._clock = Clock()
        self._coordinates: Coordinates | None = None
        self._descent: Stochastic | None = None
        self._state: State | None = None
        self._seen = np.zeros((2, n_class_rows))  # negatives there are, negatives visited
        self.trace_ = []
        self.n_iter_ = 0

    def _advance(self, rows: Rows, labels: Labels, sample_weight: Any, passes: int) -> None:
        C = self._seen.shape[1]
        weights = read_weights(sample_weight, self.class_weight, rows, labels, self.classes_, C)
        active = np.flatnonzero(weights.example)  # weight 0 is absence
        self._count(labels, active)
        loss, rng = self._loss(), self._rng
        with self._clock:
            if self._coordinates is None:
                curvature0 = loss.curvature(0.0) or 1.0  # the hinge has none: no unit to measure in
                sample = Sample(rows, active, bool(self.fit_intercept), curvature0, rng)
                self._coordinates = self._curvature().estimate(sample)
            coordinates = self._coordinates
            Z = coordinates.rows(rows)
            data = Data(Z, labels, active, Z.sqnorms(), weights)
            epochs, solution = self._epochs(data, passes)

        def model() -> tuple[NDArray[Any], NDArray[Any]]:
            return coordinates.coef(*solution())

        def exact() -> float:
            return one_vs_rest(loss, rows, labels, *model(), weights, self.lam)

        run(
            epochs,
            self._clock,
            model,
            self.trace_,
            self.callbacks or (),
            exact if self.objective == "exact" else None,
        )
        self.n_iter_ = int(self.trace_[-1]["passes"])
        with self._clock:
            W, b = model()
        self.coef_ = np.ascontiguousarray(W)
        self.intercept_ = b.astype(W.dtype) if self.fit_intercept else np.zeros(C, W.dtype)
        if not np.isfinite(W).all() or self._diverged(weights):
            warnings.warn(
                f"the fit diverged (objective {self.trace_[-1]['objective']:.3g}, far above that "
                f"of w = 0): use a smaller step, or step='auto'",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _diverged(self, weights: Weights) -> bool:
        """Is the last pass's objective far above that of w = 0?  (On few rows it may be above.)"""
        typical = weights.example.mean() * max(weights.positive.max(), weights.negative.max())
        start = self._loss().value(0.0)
        return not self.trace_[-1]["objective"] <= 10 * typical * (max(start, 0.0) + 1.0)

    def _epochs(self, data: Data, passes: int) -> tuple[Any, Any]:
        """The epochs still to run and a function that gives the solution at any moment."""
        C = self._seen.shape[1]
        assert self._coordinates is not None
        if self._descent is None or self._state is None:
            self._descent = self._solver(data, C, self._coordinates.bias)
            self._state = self._descent.init(C, self._coordinates.dim, data.rows.dtype)
        descent, state = self._descent, self._state
        return descent.epochs(state, data, passes, self._rng), lambda: descent.solution(state)

    def _count(self, labels: Labels, active: NDArray[np.intp]) -> None:
        """Remember how the draws bent the priors, to undo it in the scores."""
        n_positives = counts(labels, self._seen.shape[1], active)
        used = negatives_used(self.negatives, n_positives, len(active))
        self._seen += np.array([len(active) - n_positives, used])
        others, visited = self._seen
        share = np.divide(visited, others, out=np.ones_like(others), where=others > 0)
        undone = self.prior == "empirical" and hasattr(self._loss(), "logit")
        self.prior_shift_ = np.log(share) if undone else np.zeros_like(share)

    # -- what a subclass says --------------------------------------------------------------------

    def _loss(self) -> MarginLoss:
        raise NotImplementedError

    def _curvature(self) -> Curvature:
        raise NotImplementedError

    def _solver(self, data: Data, n_classes: int, beta: float) -> Stochastic:
        raise NotImplementedError

    def _check(self) -> None:
        """Raise on a parameter that cannot be."""
        loss = self._loss()
        check_positive("passes", self.passes, kind=Integral)
        check_choice("prior", self.prior, ("empirical", "uniform"))
        check_choice("objective", self.objective, ("estimate", "exact"))
        if self.negatives != "all":
            check_positive("negatives", self.negatives)
            if self.prior == "empirical" and not hasattr(loss, "logit"):
                raise ValueError(
                    f"negatives={self.negatives!r} shifts the prior, which loss={self.loss!r} "
                    "cannot undo: use prior='uniform', negatives='all' or loss='logistic'"
                )

    # -- predicting ------------------------------------------------------------------------------

    @available_if(_has_posterior)
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """P(class | x), rows summing to 1; for multi-label models each class's own probability."""
        return self._predict_proba(X)

    def _calibrate(self, S: NDArray[Any]) -> NDArray[Any]:
        """score_c = logit f(h_c) + ln(M_c / N_c); a loss without posterior keeps its h_c."""
        to_logits(self._loss(), S)
        S += self.prior_shift_
        return S

    def _probabilities(self, S: NDArray[Any]) -> NDArray[Any]:
        if self.multilabel_ or self._binary:
            return expit(S)
        L = log_expit(S)  # relative to the best class, lest all underflow
        return np.exp(L - L.max(axis=1, keepdims=True))
