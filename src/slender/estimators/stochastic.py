"""What the stochastic classifiers share: passes, partial_fit, scores corrected for the draws."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if

from ..arrays import like
from ..curvature import Coordinates, Curvature
from ..curvature.base import CurvatureSample
from ..labels import Indicator, Labels
from ..notices import warn
from ..problem import Weights
from ..problem.linear import Linear
from ..rows import Rows
from ..solvers.checkpoint import Checkpoint
from ..solvers.loop import Clock, Ending, Record, run
from ..solvers.minibatch import MiniBatch
from ..solvers.stochastic import Stochastic, StochasticData
from ..solvers.theorem2 import Theorem2
from .checkpoints import checkpointed
from .decomposition import Decomposition, OneVsRest
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

Descent = Stochastic | MiniBatch | Theorem2


def _has_posterior(estimator: Any) -> bool:
    decomposition = estimator._decomposition()
    if not decomposition.posterior:
        raise AttributeError(
            f"predict_proba: loss={estimator.loss!r} gives no probabilities; "
            f"loss={decomposition.with_posterior!r} does"
        )
    return True


@dataclass
class Seen:
    """In all calls so far; no array of the estimator, which scikit-learn would look for at X."""

    negatives: NDArray[np.float64]  # (2, C): there are, and were visited


class StochasticClassifier(LinearClassifier):
    """Base of the classifiers that visit one row, or one batch, at a time.

    A subclass defines the loss, the curvature and the solver (`_loss`, `_curvature`, `_choose`,
    `_solver`), and `_decomposition` if it is not one-vs-rest.
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
    _place: str  # where the rows of the fit are

    # -- fitting ---------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit from w = 0, with `passes` passes over the data."""
        self._check()
        rows = read_rows(self, X, reset=True, y=y)
        check_finite(rows)
        labels, self.classes_, n_class_rows = read_labels(y, rows.shape[0])
        labels, n_class_rows = self._decomposition().read(labels, n_class_rows)
        self._start(labels, n_class_rows)
        with checkpointed(self, self._rng, rows, labels[0], sample_weight) as checkpoint:
            self._advance(rows, labels, sample_weight, self.passes, checkpoint)
        self._settle(X)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """One more pass, over these rows.

        The first call sets the classes (give `classes` if its rows do not contain all of them) and
        estimates curvature and step from its rows; later calls keep all three.
        """
        self._check()
        first = not hasattr(self, "_state")
        if first and hasattr(self, "coef_"):
            raise ValueError(
                "partial_fit: a loaded model has weights but not the state of its fit; "
                "use fit, or continue with the original model object"
            )
        rows = read_rows(self, X, reset=first, y=y)
        check_finite(rows)
        if first:
            given = None if classes is None else np.unique(classes)
            labels, self.classes_, n_class_rows = read_labels(y, rows.shape[0], given)
        else:
            check_same_classes(classes, self.classes_)
            labels, _, n_class_rows = read_labels(y, rows.shape[0], self.classes_)
            if isinstance(labels, Indicator) != self.multilabel_:
                raise ValueError(
                    "y must be of the same kind in all calls: labels, or an indicator matrix"
                )
        labels, n_class_rows = self._decomposition().read(labels, n_class_rows)
        if first:
            self._start(labels, n_class_rows)
        self._advance(rows, labels, sample_weight, 1)
        self._settle(X)
        return self

    def _start(self, labels: Labels, n_class_rows: int) -> None:
        self.multilabel_ = isinstance(labels, Indicator)
        self._rng = generator(self.random_state)
        self._clock = Clock()
        self._coordinates: Coordinates | None = None
        self._state: Any = None
        self._seen = Seen(np.zeros((2, n_class_rows)))
        self.trace_ = []
        self.n_iter_ = 0

    def _advance(
        self,
        rows: Rows,
        labels: Labels,
        sample_weight: Any,
        passes: int,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        decomposition, rng = self._decomposition(), self._rng
        self._check_place(rows)
        C = self._seen.negatives.shape[1]
        weights = read_weights(sample_weight, self.class_weight, rows, labels, self.classes_, C)
        weights = decomposition.weigh(weights, labels)
        active = np.flatnonzero(weights.example)  # weight 0 is absence
        self._seen.negatives += decomposition.draws(labels, C, active)
        self.prior_shift_ = decomposition.prior_shift(
            self._seen.negatives
        )  # the draws bent the priors: undo it
        with self._clock:
            if self._coordinates is None:
                curvature0 = (
                    decomposition.curvature0 or 1.0
                )  # the hinge has none: no unit to measure in
                sample = CurvatureSample(rows, active, bool(self.fit_intercept), curvature0, rng)
                self._coordinates = self._curvature().estimate(sample)
            Z = self._coordinates.rows(rows)
            data = StochasticData(Z, labels, active, Z.sqnorms(), weights, C, self._coordinates)
            if self._state is None:
                self._choose(data)
            solver = self._solver(data)
            if self._state is None:
                self._state = solver.init(rng)
        state = self._state

        def exact() -> float:
            W, b = data.coordinates.coef(*solver.weights(state))
            return decomposition.objective(rows, labels, W, b, weights, self.lam)

        evaluate = exact if self.objective == "exact" else None
        limits = self.callbacks, passes, self._clock
        ending = run(solver, state, self.trace_, *limits, evaluate, checkpoint)
        self.n_iter_ = int(self.trace_[-1]["passes"])
        with self._clock, np.errstate(over="ignore"):  # of a fit that diverged, as said below
            W, b = solver.solution(state)
            b = b.astype(W.dtype) if self.fit_intercept else np.zeros(len(W), W.dtype)
        self._keep(Linear(W, b))
        self._say(ending, weights)

    def _check_place(self, rows: Rows) -> None:
        """Raise an error if later rows of partial_fit are elsewhere than the first ones."""
        place = "in memory" if rows.device is None else f"on {rows.device}"
        if self._state is not None and place != self._place:
            raise ValueError(
                f"partial_fit: the first rows were {self._place}, these are {place}; "
                "give all of them in the same place"
            )
        self._place = place

    def _say(self, ending: Ending, weights: Weights) -> None:
        if not np.isfinite(self.coef_).all() or self._diverged(weights):
            warn(
                f"the fit diverged (objective {self.trace_[-1]['objective']:.3g}, far above the "
                f"value at w = 0): {self.tamer}",
                ConvergenceWarning,
            )
        elif ending == "interrupted":
            warn(f"interrupted after {self.n_iter_} of {self.passes} passes", ConvergenceWarning)

    def _diverged(self, weights: Weights) -> bool:
        """Is the last pass's objective far above that of w = 0?  (On few rows it may be above.)"""
        typical = weights.example.mean() * max(weights.positive.max(), weights.negative.max())
        start = self._decomposition().at_zero(self._seen.negatives.shape[1])
        return not self.trace_[-1]["objective"] <= 10 * typical * (max(start, 0.0) + 1.0)

    def _after(self, solver: Descent, seed: int, passes: int = 1) -> float:
        """The objective on a sample after `passes` passes over it; the seed gives the order."""
        state: Any = solver.init(np.random.default_rng(seed))
        for _ in range(passes):
            solver.step(state)
        trial = solver.data
        W, b = solver.weights(state)
        return self._decomposition().objective(trial.rows, trial.y, W, b, trial.weights, self.lam)

    # -- what a subclass says --------------------------------------------------------------------

    def _loss(self) -> Any:
        raise NotImplementedError

    def _decomposition(self) -> Decomposition:
        return OneVsRest(self.loss, self._loss(), self.negatives, self.prior)

    def _curvature(self) -> Curvature:
        raise NotImplementedError

    def _choose(self, data: StochasticData) -> None:
        """Set what is estimated from the rows of the first call and then kept: rates, `name_`."""
        raise NotImplementedError

    def _solver(self, data: StochasticData) -> Descent:
        raise NotImplementedError

    def _check(self) -> None:
        """Raise an error for an invalid parameter."""
        check_positive("passes", self.passes, kind=Integral)
        check_choice("objective", self.objective, ("estimate", "exact"))
        self._decomposition().check()

    def _shapes(self, C: int, d: int) -> dict[str, tuple[int, ...]]:
        return {**super()._shapes(C, d), "prior_shift_": (C,)}

    def _check_use(self) -> None:
        self._decomposition().check()

    # -- predicting ------------------------------------------------------------------------------

    @available_if(_has_posterior)
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """P(class | x); rows sum to 1, except for multi-label models."""
        return self._predict_proba(X)

    def _calibrate(self, S: NDArray[Any]) -> NDArray[Any]:
        """score_c = logit f(h_c) + ln(M_c / N_c); without a posterior f, h_c is used as it is."""
        self._decomposition().calibrate(S)
        S += like(self.prior_shift_, S)
        return S

    def _probabilities(self, S: NDArray[Any]) -> NDArray[Any]:
        return self._decomposition().probabilities(S, apart=self.multilabel_ or self._binary)
