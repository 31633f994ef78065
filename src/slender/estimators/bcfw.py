"""BCFWClassifier: the multi-class SVM by block-coordinate Frank-Wolfe (seed 003, §5)."""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..rows import one_blas_thread
from ..solvers.bcfw import LOSS, SQUARES, Data, FrankWolfe, restarted, widened
from ..solvers.directions import Multiclass
from ..solvers.duality import Kept, Terms, dual_point, gap_between, primal_point, row_squares
from ..solvers.loop import Clock, Record
from ..solvers.patterns import empty, support
from .svm import SVMClassifier
from .validation import check_positive, generator


class BCFWClassifier(SVMClassifier):
    """Multi-class linear SVM by block-coordinate Frank-Wolfe: no step size, a duality gap.

    Minimises the practical's objective, Crammer and Singer's hinge and a penalty:

        1/n Σ_i c_i max_k { s_ik + 1[k != y_i] - s_iy_i } + lam/2 ‖W‖²,       s = W x,  n = Σ_i c_i

    lam = 1/(n C) of LIBLINEAR's and scikit-learn's Crammer-Singer SVM.  A row of weight 2 is two
    rows.

    Parameters
    ----------
    lam : float, default 0.01
        Weight of the penalty, lam/2 ‖W‖².
    batch_size : int or None, default None
        Examples per step: 1 is the block-coordinate algorithm of Lacoste-Julien et al. 2013, n is
        Frank-Wolfe over all rows.  None: 1, which needs the fewest passes and, since it touches
        only the rows of W that move, reaches a given gap soonest.
    passes : int, default 50
        Largest number of passes over the data.
    tol : float or None, default 1e-2
        Stop when the objective is proved to be within this share of the optimum.  None: never stop
        early.
    average : bool, default True
        Average the iterates, with weights that grow linearly.
    fit_intercept : bool, default True
        Fit an intercept, as the weight of a constant column as large as a typical row, penalised
        like the other weights.
    class_weight : dict, "balanced" or None, default None
        Multiplies the weight of each row by that of its class; "balanced" gives every class the
        same total weight.
    callbacks : callable, list of callables or None, default None
        Each is called as `callback(record, weights)` after each pass; a true answer ends the fit.
    random_state : int, RandomState, Generator or None, default None
        Seed of the random numbers: the order of the blocks.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, n_iter_
        As in scikit-learn.  Two classes: coef_ is (1, d), the difference of the two rows of W.
    gap_ : float
        objective - optimum is at most this, rounding included.
    objective_ : float
        Of coef_ and intercept_ as they are kept, computed in float64.
    trace_ : list of dict
        One record per pass: seconds, passes, objective, gap, dual, support (examples with a dual
        coefficient), estimate (the mean of the blocks' objectives before their steps).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from slender import BCFWClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = BCFWClassifier(random_state=0).fit(X[:1300] / 16, y[:1300])
    >>> model.gap_ <= 1e-2 * model.objective_
    True
    >>> model.score(X[1300:] / 16, y[1300:]) > 0.9
    True
    """

    def __init__(
        self,
        lam: float = 0.01,
        *,
        batch_size: int | None = None,
        passes: int = 50,
        tol: float | None = 1e-2,
        average: bool = True,
        fit_intercept: bool = True,
        class_weight: Any = None,
        callbacks: Any = None,
        random_state: Any = None,
    ) -> None:
        self.lam = lam
        self.batch_size = batch_size
        self.passes = passes
        self.tol = tol
        self.average = average
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.callbacks = callbacks
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "BCFWClassifier":
        """Fit from W = 0 until the gap is small, or `passes` times over the data."""
        self._check()
        examples = self._read_examples(X, y, sample_weight)
        if self.batch_size is not None and self.batch_size > examples.n:
            raise ValueError(
                f"batch_size={self.batch_size} is more than the {examples.n} training rows; "
                f"use at most {examples.n}, or None"
            )
        C, clock = len(self.classes_), Clock()
        active = np.flatnonzero(examples.weight)
        rng = generator(self.random_state)
        with clock:
            rows = examples.rows
            sq = row_squares(rows)
            bias = self._constant(sq, examples)
            U = examples.weight / (examples.total * self.lam)
            data = Data(rows, examples.y, U, sq + bias**2, bias)
            form, terms = Multiclass(examples.y), Terms(U, data.sq, bias)
            solver = FrankWolfe(self.batch_size or 1, bool(self.average))
            W = np.zeros((C, rows.shape[1]), rows.dtype)
            state = solver.init(empty(rows.shape[0], C), W)
        kept, best = Kept(W, state.b), 0.0
        self.trace_ = []

        def epoch() -> Record:
            nonlocal state, kept, best
            which = rng.permutation(solver.n_blocks(len(active)))
            state = solver.sweep(state, data, active, which)
            losses, squares = state.numbers[[LOSS, SQUARES]]
            estimate = self.lam * (losses + 0.5 * squares / len(active))

            dual = dual_point(form, rows, terms, state.patterns, C)
            state = restarted(state, dual.W, dual.b)
            kept = self._kept(*solver.solution(state), bias, rows.dtype)
            primal = primal_point(form, rows, terms, state.patterns, kept)
            best = max(best, dual.value)
            gap = gap_between(primal, best)
            if gap <= primal.blur:
                state = widened(state, dual.W)
            return {
                "estimate": float(estimate),
                "objective": self.lam * primal.value,
                "gap": self.lam * gap,
                "dual": self.lam * best,
                "support": float(len(support(state.patterns))),
            }

        with one_blas_thread():
            epochs = self._epochs(epoch, self.passes, lambda: False)
            self._run(epochs, clock, lambda: (kept.W.copy(), kept.c))
        if C == 2:
            self.coef_ = self.coef_[1:] - self.coef_[:1]
            self.intercept_ = self.intercept_[1:] - self.intercept_[:1]
        self._warn_unless_finished(False)
        return self

    def _kept(self, W: NDArray[Any], b: NDArray[np.float64], bias: float, dtype: Any) -> Kept:
        """What the model keeps; of two classes their difference, here half of it on each side."""
        if len(W) == 2:
            W, b = (W[1] - W[0]) / 2, (b[1] - b[0]) / 2
            W, b = np.stack([-W, W]), np.stack([-b, b])
        return Kept(W.astype(dtype), (bias * b).astype(dtype))

    def _check(self) -> None:
        check_positive("lam", self.lam)
        if self.batch_size is not None:
            check_positive("batch_size", self.batch_size, kind=Integral)
        super()._check()
