"""What the multinomial estimators share: reading data, weights, binary shapes, softmax."""

from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from ..arrays import is_tensor
from ..data import examples_of
from ..notices import warn
from ..problem import Multinomial
from ..rows import Rows, some_of
from ..solvers.loop import Record
from .linear import LinearClassifier
from .placing import check_same_home
from .scores import exp_of_rows, sigmoid
from .validation import (
    check_finite,
    check_positive,
    read_class_index,
    read_rows,
    read_sample_weight,
    row_weights,
    shown,
)

FARTHEST = 1e12  # from 1, for the weight of all rows in float32


class MultinomialClassifier(LinearClassifier):
    """Base of the estimators that minimise a penalised multinomial loss.

    With the L2 penalty it is scikit-learn's objective, divided by n C:
    1/n Σ c_i loss_i + ‖W‖²/(2 n C).  A binary problem stores one row, w = W_1 - W_0; it is fitted
    as a softmax of two rows, whose lam is twice that of the single row.
    """

    fit_intercept: bool
    class_weight: Any
    tol: float
    limit: ClassVar[str] = "max_iter"  # the parameter that says how often the rows may be read

    distributed: ClassVar[bool] = True

    multilabel_ = False
    link: ClassVar[Literal["softmax"] | None] = "softmax"
    temperature_ = 1.0
    trace_: list[Record]
    gap_: float
    objective_: float
    n_iter_: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = False
        return tags

    def predict_proba(self, X: Any) -> Any:
        """P(class | row), (n, n_classes)."""
        return self._predict_proba(X)

    def predict_log_proba(self, X: Any) -> Any:
        """ln P(class | row), (n, n_classes)."""
        check_same_home(self, X, "predict_log_proba")
        P = self.predict_proba(X)
        with np.errstate(divide="ignore"):
            return P.log() if is_tensor(P) else np.log(P)

    def _probabilities(self, S: Any) -> Any:
        S /= self.temperature_
        return sigmoid(S) if self._binary else exp_of_rows(S)

    def _check(self) -> None:
        check_positive("tol", self.tol)
        check_positive(self.limit, getattr(self, self.limit), kind=Integral)

    def _check_use(self) -> None:
        check_positive("temperature_", self.temperature_)

    # -- what a warning says ---------------------------------------------------------------------

    def _proved(self) -> str:
        share = self.gap_ / self.objective_ if self.objective_ > 0 else np.inf
        return f"is proved to lie within {self.gap_:.2g} ({share:.1e} of it) of the optimum"

    def _advice(self, stalled: bool, dtype: Any) -> str:
        """What to change if a fit ended without a proof."""
        if not stalled:
            return f"raise {self.limit}={getattr(self, self.limit)}, or tol={self.tol}"
        other = "" if dtype == np.float64 else ", or fit float64 features"
        return f"{dtype} allows no further step: raise tol={self.tol}{other}"

    # -- reading ---------------------------------------------------------------------------------

    def _read_problem(self, X: Any, y: Any, sample_weight: Any) -> Multinomial:
        """The problem that a user's rows, classes and weights pose."""
        rows = read_rows(self, X, reset=True, y=y)
        class_index = read_class_index(self, y, rows.shape[0])
        return self._problem(rows, class_index, read_sample_weight(sample_weight, rows))

    def _problem(
        self,
        rows: Rows,
        class_index: NDArray[np.int32],
        sample_weight: NDArray[Any] | None,
        index: NDArray[np.intp] | None = None,
    ) -> Multinomial:
        """The problem of these rows, or of those in `index`; checks the rows."""
        if index is not None and len(index) < len(class_index):
            rows, class_index = some_of(rows, index), class_index[index]
            sample_weight = None if sample_weight is None else sample_weight[index]
        weight = row_weights(sample_weight, self.class_weight, class_index, self.classes_)
        active = class_index if (weight > 0).all() else class_index[weight > 0]
        rows_of_class = np.bincount(active, minlength=len(self.classes_))
        lost = np.flatnonzero(rows_of_class == 0)
        if len(lost):
            raise ValueError(
                f"class {shown(self.classes_[lost[0]])} has no training row of positive weight; "
                "remove its rows, or give them a weight"
            )
        w = weight / np.count_nonzero(weight)
        if not 1.0 / FARTHEST < w.sum() < FARTHEST:  # float32 would lose such weights, or overflow
            rows = rows.widened()
        examples = examples_of(rows, class_index, w)
        problem = Multinomial(examples, len(self.classes_), bool(self.fit_intercept))
        if not np.isfinite(problem.squares):
            check_finite(rows)
            raise ValueError(
                f"X contains numbers whose squares overflow {rows.dtype}; scale the features down"
            )
        return problem.fine_enough()


def warn_unproved(message: str) -> None:
    """Warn that a fit ended without a proof."""
    warn(message, ConvergenceWarning)
