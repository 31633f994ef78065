"""What the two SVM estimators share: reading data, the duality gap, keeping the model."""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from ..data import Examples
from ..notices import warn
from ..solvers.checkpoint import Checkpoint
from ..solvers.loop import Clock, Ending, Record, Solver, run
from .linear import LinearClassifier
from .validation import (
    check_finite,
    check_positive,
    read_class_index,
    read_rows,
    read_sample_weight,
    row_weights,
)


class SVMClassifier(LinearClassifier):
    """Base of LaRankClassifier and BCFWClassifier: a duality gap after each pass.

    The intercept is the weight of a constant column as large as a typical row, and penalised, as
    in LIBLINEAR: an unpenalised one would couple the dual coefficients of all examples.
    """

    passes: int
    tol: float | None
    fit_intercept: bool
    class_weight: Any
    callbacks: Any
    random_state: Any

    multilabel_ = False
    trace_: list[Record]
    gap_: float
    objective_: float
    n_iter_: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = False
        return tags

    def _check(self) -> None:
        check_positive("passes", self.passes, kind=Integral)
        if self.tol is not None:
            check_positive("tol", self.tol)

    def _read_examples(
        self, X: Any, y: Any, sample_weight: Any, reset: bool = True, classes: Any = None
    ) -> Examples:
        rows = read_rows(self, X, reset=reset)
        check_finite(rows)
        class_index = read_class_index(self, y, rows.shape[0], classes)
        given = read_sample_weight(sample_weight, rows)
        weight = row_weights(given, self.class_weight, class_index, self.classes_)
        if not weight.any():
            raise ValueError("sample_weight is 0 for every row: there is nothing to fit")
        return Examples(rows, class_index, weight)

    def _constant(self, sq: NDArray[np.float64], examples: Examples) -> float:
        """The value of the constant column: the weighted root mean square norm of the rows."""
        if not self.fit_intercept:
            return 0.0
        shares = examples.w / examples.w.sum()
        return float(np.sqrt(shares @ np.where(shares > 0.0, sq, 0.0)) or 1.0)

    def _run(
        self,
        solver: Solver[Any],
        state: Any,
        most: int,
        clock: Clock,
        checkpoint: Checkpoint | None = None,
    ) -> Ending:
        """Run the solver and keep the model."""
        limits = self.callbacks, most, clock
        ending = run(solver, state, self.trace_, *limits, checkpoint=checkpoint)
        last = self.trace_[-1]
        self.gap_, self.objective_ = last["gap"], last["objective"]
        self.n_iter_ = int(last["passes"])
        self._keep(solver.solution(state))
        return ending

    def _say(self, ending: Ending) -> None:
        """Warn if the fit ended before the gap was small enough, and say what to change."""
        wanted = -np.inf if self.tol is None else self.tol * self.objective_
        if ending == "stopped" or self.gap_ <= wanted:
            return
        if ending != "interrupted" and self.tol is None:
            return  # nothing was asked for
        share = self.gap_ / self.objective_ if self.objective_ > 0 else np.inf
        reached = (
            f"after {self.n_iter_} passes the objective {self.objective_:.6g} is proved to lie "
            f"within {self.gap_:.2g} ({share:.1e} of it) of the optimum"
        )
        if ending == "interrupted":
            message = f"interrupted: {reached}"
        elif ending == "out of passes":
            message = f"{reached}: raise passes={self.passes}, or tol={self.tol}"
        else:
            float32 = self.coef_.dtype == np.float32
            other = "give X as float64" if float32 else "scale the columns (StandardScaler)"
            message = (
                f"{reached}: rounding prevents a smaller gap; raise tol={self.tol}, or {other}"
            )
        warn(message, ConvergenceWarning)
