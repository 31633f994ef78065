"""BCFWClassifier: the multi-class SVM by block-coordinate Frank-Wolfe (seed 003, §5)."""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..losses import CrammerSinger
from ..problem import multiclass
from ..rows import one_blas_thread
from ..solvers.bcfw import LOSS, SQUARE, SQUARES, Data, FrankWolfe, State
from ..solvers.loop import Clock, Record
from ..solvers.patterns import empty, linear_term, primal_weights, squared, support
from .svm import Examples, SVMClassifier
from .validation import check_positive, generator


class BCFWClassifier(SVMClassifier):
    """Multi-class linear SVM by block-coordinate Frank-Wolfe: no step size, a duality gap.

    Minimises the practical's objective, Crammer and Singer's hinge and a penalty:

        1/n Σ_i c_i max_k { s_ik + 1[k != y_i] - s_iy_i } + mu/2 ‖W‖²,       s = W x

    mu = 1/(n C) of LIBLINEAR's and scikit-learn's Crammer-Singer SVM.

    Parameters
    ----------
    mu : float, default 0.01
        The penalty.
    batch_size : int or None
        Examples a step, b: 1 is Algorithm 4, n is Frank-Wolfe over all (Algorithm 1).  None: 1,
        which needs the fewest passes and, since it touches only the rows of W that move, comes
        to a given gap soonest.
    passes : int, default 50
        Times over the data, at most.
    tol : float or None, default 1e-2
        Stop when the gap is at most this share of the objective; None: after `passes`.
    averaging : bool, default True
        Average the iterates, weights growing linearly.
    fit_intercept : bool, default True
        The weight of a constant column as large as a typical row, penalised like the others; the
        practical has none.
    class_weight : dict, "balanced" or None
        Multiplies the weight of each row by its class's.
    callbacks : list of callables, called with (record, weights) after each pass
        A true answer ends the fit.
    random_state : seed of the order of the blocks

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, n_iter_
        As in scikit-learn.  Two classes: coef_ is (1, d), the difference of the two rows of W.
    gap_ : float
        objective - optimum is at most this.
    objective_ : float
        Of the model kept.
    trace_ : list of dict
        A record a pass: seconds, passes, objective, gap, dual, support (examples with a dual
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
        mu: float = 0.01,
        *,
        batch_size: int | None = None,
        passes: int = 50,
        tol: float | None = 1e-2,
        averaging: bool = True,
        fit_intercept: bool = True,
        class_weight: Any = None,
        callbacks: Any = None,
        random_state: Any = None,
    ) -> None:
        self.mu = mu
        self.batch_size = batch_size
        self.passes = passes
        self.tol = tol
        self.averaging = averaging
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
            sq = rows.sqnorms().astype(np.float64)
            bias = self._constant(sq, examples)
            U = examples.weight / (examples.n * self.mu)
            data = Data(rows, examples.y, U, sq + bias**2, bias)
            solver = FrankWolfe(self.batch_size or 1, bool(self.averaging))
            W = np.zeros((C, rows.shape[1]), rows.dtype)
            state = solver.init(empty(rows.shape[0], C), W)
        self.trace_ = []

        def epoch() -> Record:
            nonlocal state
            which = rng.permutation(solver.n_blocks(len(active)))
            state = solver.sweep(state, data, active, which)
            losses, squares = state.numbers[[LOSS, SQUARES]]
            estimate = self.mu * (losses + 0.5 * squares / len(active))
            return {"estimate": float(estimate), **self._certify(solver, state, data, examples)}

        def weights() -> tuple[NDArray[Any], NDArray[Any]]:
            W, b = solver.solution(state)
            return W, bias * b

        with one_blas_thread():
            self._run(self._epochs(epoch, self.passes), clock, weights)
        if C == 2:
            self.coef_ = self.coef_[1:] - self.coef_[:1]
            self.intercept_ = self.intercept_[1:] - self.intercept_[:1]
        self._warn_unless_finished()
        return self

    def _certify(self, solver: FrankWolfe, state: State, data: Data, examples: Examples) -> Record:
        """Objective and gap of the model; W is added up anew, so that the dual is its own."""
        W, b = primal_weights(data.rows, state.patterns, len(state.W), data.bias)
        state.W[:], state.b[:] = W, b
        state.numbers[SQUARE] = squared(W, b)
        linear = linear_term(state.patterns, data.y)
        dual = float(self.mu * (linear - 0.5 * state.numbers[SQUARE]))
        W, b = solver.solution(state)
        loss = multiclass(CrammerSinger(), data.rows, data.y, W, data.bias * b, examples.weight)
        primal = loss + 0.5 * self.mu * squared(W, b)
        return {
            "objective": primal,
            "gap": max(0.0, primal - dual),
            "dual": dual,
            "support": float(len(support(state.patterns))),
        }

    def _check(self) -> None:
        check_positive("mu", self.mu)
        if self.batch_size is not None:
            check_positive("batch_size", self.batch_size, kind=Integral)
        super()._check()
