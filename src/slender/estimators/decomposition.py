"""Two ways to treat a problem with many classes, for the stochastic estimators.

    OneVsRest     one margin loss per class and row: classes are learned separately, and a row may
                  have several classes
    MultiClass    one loss of all scores of a row: every row has one class

A decomposition defines the labels and weights that its solver sees, the number of rows of W in that
solver, the objective, and how scores become calibrated scores and probabilities.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from ..arrays import Array, is_numpy
from ..device import margins
from ..labels import Indicator, Labels, counts
from ..losses import MULTICLASS_LOSSES, MarginLoss, MulticlassLoss, exp_of_rows, to_logits
from ..problem import Weights, multiclass, one_vs_rest
from ..rows import Rows
from ..solvers.minibatch import AllClasses, BatchLoss, EachClass
from ..solvers.sampling import negatives_used
from .validation import check_choice, check_positive, shown


class Decomposition(Protocol):
    """What the stochastic estimators need to know of a decomposition."""

    apart: ClassVar[bool]  # are classes learned separately, so that each may visit other rows?
    with_posterior: ClassVar[str]  # a loss of this decomposition that has one

    @property
    def curvature0(self) -> float:
        """F''(0), or a bound on the curvature in a row's scores; 0: there is none."""

    @property
    def batch(self) -> BatchLoss:
        """The loss as the mini-batch solver needs it."""

    @property
    def posterior(self) -> bool:
        """Do scores give probabilities?"""

    def check(self) -> None:
        """Raise an error for settings of the draws of negatives that it cannot use."""

    def read(self, labels: Labels, n_class_rows: int) -> tuple[Labels, int]:
        """The labels as the solver sees them, and the number of its class rows."""

    def weigh(self, weights: Weights, labels: Labels) -> Weights:
        """The weights as the solver sees them."""

    def objective(
        self,
        rows: Rows,
        labels: Labels,
        W: NDArray[Any],
        b: NDArray[Any],
        weights: Weights,
        lam: float,
    ) -> float:
        """The objective at the solver's W and b."""

    def at_zero(self, n_class_rows: int) -> float:
        """The loss of a row whose scores are all 0."""

    def draws(self, labels: Labels, n_class_rows: int, active: NDArray[np.intp]) -> NDArray[Any]:
        """(2, C): the number of negatives of each class, and how many a pass visits."""

    def prior_shift(self, draws: NDArray[Any]) -> NDArray[Any]:
        """What to add to the score of each class to correct for the draws."""

    def calibrate(self, S: NDArray[Any]) -> None:
        """S <- calibrated scores, in place."""

    def probabilities(self, S: NDArray[Any], apart: bool) -> NDArray[Any]:
        """Probabilities from calibrated scores S; `apart`: for each column independently."""


@dataclass(frozen=True)
class OneVsRest:
    name: str
    loss: MarginLoss
    negatives: float | str = "all"
    prior: str = "empirical"

    apart: ClassVar[bool] = True
    with_posterior: ClassVar[str] = "logistic"

    @property
    def curvature0(self) -> float:
        return float(self.loss.curvature(0.0))

    @property
    def batch(self) -> EachClass:
        return EachClass(self.loss)

    @property
    def posterior(self) -> bool:
        return hasattr(self.loss, "posterior")

    def check(self) -> None:
        check_choice("prior", self.prior, ("empirical", "uniform"))
        if self.negatives == "all":
            if self.prior == "uniform":
                raise ValueError(
                    "prior='uniform' keeps the effect of drawing negatives in the scores, but "
                    "negatives='all' draws none: use negatives=1, or prior='empirical' "
                    "(class_weight='balanced' also favours rare classes)"
                )
        else:
            check_positive("negatives", self.negatives)
            if self.prior == "empirical" and not hasattr(self.loss, "logit"):
                raise ValueError(
                    f"negatives={shown(self.negatives)} shifts the prior, which loss={self.name!r} "
                    "cannot undo: use prior='uniform', negatives='all' or loss='logistic'"
                )

    def read(self, labels: Labels, n_class_rows: int) -> tuple[Labels, int]:
        return labels, n_class_rows

    def weigh(self, weights: Weights, labels: Labels) -> Weights:
        return weights

    def objective(
        self,
        rows: Rows,
        labels: Labels,
        W: NDArray[Any],
        b: NDArray[Any],
        weights: Weights,
        lam: float,
    ) -> float:
        return one_vs_rest(self.loss, rows, labels, W, b, weights, lam)

    def at_zero(self, n_class_rows: int) -> float:
        return self.loss.value(0.0)

    def draws(self, labels: Labels, n_class_rows: int, active: NDArray[np.intp]) -> NDArray[Any]:
        n_positives = counts(labels, n_class_rows, active)
        used = negatives_used(self.negatives, n_positives, len(active))
        return np.array([len(active) - n_positives, used])

    def prior_shift(self, draws: NDArray[Any]) -> NDArray[Any]:
        others, visited = draws
        share = np.divide(visited, others, out=np.ones_like(others), where=others > 0)
        undone = self.prior == "empirical" and hasattr(self.loss, "logit")
        return np.log(share) if undone else np.zeros_like(share)

    def calibrate(self, S: Array) -> None:
        (to_logits if is_numpy(S) else margins.to_logits)(self.loss, S)

    def probabilities(self, S: Array, apart: bool) -> Array:
        if not is_numpy(S):
            return margins.probabilities(S, apart)
        if apart:
            return np.asarray(expit(S))
        L = log_expit(S)  # relative to the best class, lest all underflow
        return exp_of_rows(np.asarray(L))


@dataclass(frozen=True)
class MultiClass:
    """A binary problem is fitted with two rows of W and stored as one, w = W_1 - W_0."""

    name: str
    loss: MulticlassLoss
    negatives: float | str = "all"
    prior: str = "empirical"

    apart: ClassVar[bool] = False
    with_posterior: ClassVar[str] = "cross_entropy"

    @property
    def curvature0(self) -> float:
        return self.loss.smoothness()

    @property
    def batch(self) -> AllClasses:
        return AllClasses(self.loss)

    @property
    def posterior(self) -> bool:
        return hasattr(self.loss, "posterior")

    def check(self) -> None:
        for option, given, default in (
            ("negatives", self.negatives, "all"),
            ("prior", self.prior, "empirical"),
        ):
            if given != default:
                raise ValueError(
                    f"{option}={shown(given)} belongs to one-vs-rest, but loss={self.name!r} "
                    f"compares all classes of a row: use {option}={default!r}, or loss='logistic'"
                )

    def read(self, labels: Labels, n_class_rows: int) -> tuple[Labels, int]:
        if isinstance(labels, Indicator):
            raise ValueError(
                f"y is an indicator matrix, but loss={self.name!r} gives each row one class; "
                "use loss='logistic' for several classes per row"
            )
        return labels._replace(first=0), max(2, n_class_rows)

    def weigh(self, weights: Weights, labels: Labels) -> Weights:
        """c_i: the weight of the example times the weight of its class."""
        assert not isinstance(labels, Indicator)
        example = weights.example * weights.positive[labels.class_index].astype(
            weights.example.dtype
        )
        ones = np.ones_like(weights.positive)
        return Weights(example, ones, ones)

    def objective(
        self,
        rows: Rows,
        labels: Labels,
        W: NDArray[Any],
        b: NDArray[Any],
        weights: Weights,
        lam: float,
    ) -> float:
        assert not isinstance(labels, Indicator)
        return multiclass(self.loss, rows, labels.class_index, W, b, weights.example, lam)

    def at_zero(self, n_class_rows: int) -> float:
        return self.loss.value(np.zeros(n_class_rows), 0)

    def draws(self, labels: Labels, n_class_rows: int, active: NDArray[np.intp]) -> NDArray[Any]:
        return np.zeros((2, n_class_rows))

    def prior_shift(self, draws: NDArray[Any]) -> NDArray[Any]:
        C = draws.shape[1]
        return np.zeros(1 if C == 2 else C)

    def calibrate(self, S: NDArray[Any]) -> None:
        """Nothing to do: scores are log probabilities already, up to a common shift."""

    def probabilities(self, S: NDArray[Any], apart: bool) -> NDArray[Any]:
        if apart:  # a binary problem's one score
            return np.asarray(expit(S))
        return exp_of_rows(S)


def decomposition_of(loss: str) -> type[OneVsRest] | type[MultiClass]:
    """The decomposition that a loss of this name needs."""
    return MultiClass if loss in MULTICLASS_LOSSES else OneVsRest
