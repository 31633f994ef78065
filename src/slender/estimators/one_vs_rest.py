"""What the stochastic classifiers share: passes, partial_fit, draws undone in the scores."""

from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if

from ..curvature import Coordinates, Curvature
from ..curvature.base import Sample
from ..labels import Indicator, Labels
from ..notices import warn
from ..problem import Weights
from ..rows import Rows
from ..solvers.loop import Clock, Record, run
from ..solvers.stochastic import Data
from .forms import Form, OneVsRest
from .linear import LinearClassifier
from .validation import (
    check_choice,
    check_finite,
    check_positive,
    check_same_classes,
    generator,
    read_labels,
    read_rows,
    read_weights,
)


class Descent(Protocol):
    """A solver: settings that make a state, epochs that change it, the solution it holds."""

    def init(self, n_classes: int, dim: int, dtype: Any) -> Any: ...

    def epochs(
        self, state: Any, data: Data, passes: int, rng: np.random.Generator
    ) -> Iterator[Callable[[], Record]]: ...

    def solution(self, state: Any) -> tuple[NDArray[Any], NDArray[Any]]: ...


def _has_posterior(estimator: Any) -> bool:
    form = estimator._form()
    if not form.posterior:
        raise AttributeError(
            f"predict_proba: loss={estimator.loss!r} gives no posterior; "
            f"{form.with_posterior!r} does"
        )
    return True


class OneVsRestClassifier(LinearClassifier):
    """Base of the stochastic classifiers: one-vs-rest, unless `_form` says otherwise.

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

    tamer: ClassVar[str] = "use a smaller step, or step='auto'"  # what to do when it diverges

    trace_: list[Record]
    n_iter_: int

    # -- fitting ---------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit from w = 0, `passes` times over the data."""
        self._check()
        rows = read_rows(self, X, reset=True)
        check_finite(rows)
        labels, self.classes_, n_class_rows = read_labels(y, rows.shape[0])
        labels, n_class_rows = self._form().read(labels, n_class_rows)
        self._start(labels, n_class_rows)
        self._advance(rows, labels, sample_weight, self.passes)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """One more pass, over these rows.

        The first call fixes the classes (give `classes` if the first rows do not hold them all)
        and estimates curvature and step from its rows; later calls keep all three.
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
        else:
            check_same_classes(classes, self.classes_)
            labels, _, n_class_rows = read_labels(y, rows.shape[0], self.classes_)
            if isinstance(labels, Indicator) != self.multilabel_:
                raise ValueError("y must stay of one kind: labels, or an indicator matrix")
        labels, n_class_rows = self._form().read(labels, n_class_rows)
        if first:
            self._start(labels, n_class_rows)
        self._advance(rows, labels, sample_weight, 1)
        return self

    def _start(self, labels: Labels, n_class_rows: int) -> None:
        self.multilabel_ = isinstance(labels, Indicator)
        self._rng = generator(self.random_state)
        self._clock = Clock()
        self._coordinates: Coordinates | None = None
        self._descent: Descent | None = None
        self._state: Any = None
        self._seen = np.zeros((2, n_class_rows))  # negatives there are, negatives visited
        self.trace_ = []
        self.n_iter_ = 0

    def _advance(self, rows: Rows, labels: Labels, sample_weight: Any, passes: int) -> None:
        form, rng = self._form(), self._rng
        C = self._seen.shape[1]
        weights = read_weights(sample_weight, self.class_weight, rows, labels, self.classes_, C)
        weights = form.weigh(weights, labels)
        active = np.flatnonzero(weights.example)  # weight 0 is absence
        self._seen += form.draws(labels, C, active)
        self.prior_shift_ = form.prior_shift(self._seen)  # the draws bent the priors: undo it
        with self._clock:
            if self._coordinates is None:
                curvature0 = form.curvature0 or 1.0  # the hinge has none: no unit to measure in
                sample = Sample(rows, active, bool(self.fit_intercept), curvature0, rng)
                self._coordinates = self._curvature().estimate(sample)
            coordinates = self._coordinates
            Z = coordinates.rows(rows)
            data = Data(Z, labels, active, Z.sqnorms(), weights)
            epochs, solution = self._epochs(data, passes)

        def model() -> tuple[NDArray[Any], NDArray[Any]]:
            return form.coef(*coordinates.coef(*solution()))

        def exact() -> float:
            W, b = coordinates.coef(*solution())
            return form.objective(rows, labels, W, b, weights, self.lam)

        run(
            epochs,
            self._clock,
            model,
            self.trace_,
            self.callbacks,
            exact if self.objective == "exact" else None,
        )
        self.n_iter_ = int(self.trace_[-1]["passes"])
        with self._clock:
            W, b = model()
        self.coef_ = np.ascontiguousarray(W)
        with np.errstate(over="ignore"):  # of a fit that diverged, as said below
            self.intercept_ = b.astype(W.dtype) if self.fit_intercept else np.zeros(len(W), W.dtype)
        if not np.isfinite(W).all() or self._diverged(weights):
            warn(
                f"the fit diverged (objective {self.trace_[-1]['objective']:.3g}, far above that "
                f"of w = 0): {self.tamer}",
                ConvergenceWarning,
            )

    def _diverged(self, weights: Weights) -> bool:
        """Is the last pass's objective far above that of w = 0?  (On few rows it may be above.)"""
        typical = weights.example.mean() * max(weights.positive.max(), weights.negative.max())
        start = self._form().at_zero(self._seen.shape[1])
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

    def _after(
        self, descent: Descent, trial: Data, n_classes: int, seed: int, passes: int = 1
    ) -> float:
        """The objective on a sample after so many passes over it; the seed gives the order."""
        state = descent.init(n_classes, trial.rows.shape[1], trial.rows.dtype)
        for epoch in descent.epochs(state, trial, passes, np.random.default_rng(seed)):
            epoch()
        W, b = descent.solution(state)
        return self._form().objective(trial.rows, trial.y, W, b, trial.weights, self.lam)

    # -- what a subclass says --------------------------------------------------------------------

    def _loss(self) -> Any:
        raise NotImplementedError

    def _form(self) -> Form:
        return OneVsRest(self.loss, self._loss(), self.negatives, self.prior)

    def _curvature(self) -> Curvature:
        raise NotImplementedError

    def _solver(self, data: Data, n_classes: int, beta: float) -> Descent:
        raise NotImplementedError

    def _check(self) -> None:
        """Raise on a parameter that cannot be."""
        check_positive("passes", self.passes, kind=Integral)
        check_choice("objective", self.objective, ("estimate", "exact"))
        self._form().check()

    def _shapes(self, C: int, d: int) -> dict[str, tuple[int, ...]]:
        return {**super()._shapes(C, d), "prior_shift_": (C,)}

    def _check_use(self) -> None:
        self._form().check()

    # -- predicting ------------------------------------------------------------------------------

    @available_if(_has_posterior)
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """P(class | x), rows summing to 1; for multi-label models each class's own probability."""
        return self._predict_proba(X)

    def _calibrate(self, S: NDArray[Any]) -> NDArray[Any]:
        """score_c = logit f(h_c) + ln(M_c / N_c); a loss without posterior keeps its h_c."""
        self._form().calibrate(S)
        S += self.prior_shift_
        return S

    def _probabilities(self, S: NDArray[Any]) -> NDArray[Any]:
        return self._form().probabilities(S, apart=self.multilabel_ or self._binary)
