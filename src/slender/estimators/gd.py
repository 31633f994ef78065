"""GDClassifier: batch gradient descent on the multinomial objective."""

from math import ceil
from numbers import Integral
from typing import Any

import numpy as np

from ..losses import MULTICLASS_LOSSES, fit_for, smooth
from ..problem import Multinomial
from ..rows import one_blas_thread
from ..solvers.gradient import GDState, GradientDescent, lipschitz
from ..solvers.loop import Clock, Ending, run
from ..storage import PathLike
from .checkpoints import checkpointed
from .multinomial import MultinomialClassifier, warn_unproved
from .validation import (
    check_choice,
    check_positive,
    generator,
)


class GDClassifier(MultinomialClassifier):
    """Multinomial logistic regression by gradient descent over all rows.

    Minimises 1/n Σ_i c_i (ln Σ_c exp s_ic - s_iy) + lam/2 ‖W‖², s = W x + b with b unpenalised,
    by W <- W - step ∇.  It starts at W = 0 with the best intercepts there, the logarithms of the
    shares of the classes.  Every pass is one step.  It is a baseline for comparisons:
    LogisticClassifier reaches the same optimum in a few passes.

    Parameters
    ----------
    loss : {"cross_entropy"}, default "cross_entropy"
        The only one so far.
    lam : float, default 1e-4
        Weight of the L2 penalty; 1/(n C) for the C of LogisticClassifier (2/(n C) with two classes,
        which are two rows here).
    step : float or "lipschitz", default "lipschitz"
        Length of a step.  "lipschitz": 1/L, where L = lambda_max(Σ c_i/n (x_i, 1)(x_i, 1)ᵀ)/2 +
        lam, or a bound just above it, with which the objective falls at every step.
    passes : int, default 100
        Number of passes over the data.  The first evaluates W = 0; each later one is a step.
    tol : float or None, default None
        Stop when the objective is proved to be within this share of the optimum.  None: never stop
        early.
    fit_intercept : bool, default True
        Fit an intercept, which is not penalised.
    class_weight : dict, "balanced" or None, default None
        Multiplies the weight of each row by that of its class; "balanced" gives every class the
        same total weight.
    callbacks : callable, list of callables or None, default None
        Each is called as `callback(record, model)` after each pass; a true answer ends the fit.
    random_state : int, RandomState, Generator or None, default None
        Seed of the random numbers: the start of the search for L.
    checkpoint, checkpoint_every
        As in LogisticClassifier.

    Attributes
    ----------
    coef_ : array (n_classes, n_features); (1, n_features) for two classes
    intercept_, classes_, n_features_in_
    step_ : float
        Length of a step.
    gap_ : float
        objective_ is at most this far above the optimum: a duality gap
        (slender/problem/certificate.py).
    objective_ : float
        The objective above, at the fitted weights.
    n_iter_ : int
        Number of passes over the data.
    trace_ : list of dict
        One record per pass: seconds, passes, objective, gap.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from slender import GDClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = GDClassifier(random_state=0).fit(X[:1300], y[:1300])
    >>> model.trace_[-1]["objective"] < model.trace_[0]["objective"]
    True
    >>> model.score(X[1300:], y[1300:]) > 0.85
    True
    """

    tol: float | None  # type: ignore[assignment]  # here there need not be one

    def __init__(
        self,
        loss: str = "cross_entropy",
        *,
        lam: float = 1e-4,
        step: float | str = "lipschitz",
        passes: int = 100,
        tol: float | None = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        callbacks: Any = None,
        random_state: Any = None,
        checkpoint: PathLike | None = None,
        checkpoint_every: float = 60.0,
    ) -> None:
        self.loss = loss
        self.lam = lam
        self.step = step
        self.passes = passes
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.callbacks = callbacks
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "GDClassifier":
        """Fit from W = 0."""
        self._check()
        clock = Clock()
        with clock, one_blas_thread():
            problem = self._read_problem(X, y, sample_weight)
        rng, self.trace_ = generator(self.random_state), []
        with checkpointed(self, rng, problem.rows, problem.y, sample_weight) as checkpoint:
            with clock, one_blas_thread():
                self.step_ = self._length(problem, rng)
                solver = GradientDescent(problem, self.step_, float(self.lam), self.tol)
                state = solver.init(rng)
            limits = self.callbacks, self.passes, clock
            ending = run(solver, state, self.trace_, *limits, checkpoint=checkpoint)
        self._keep(solver.solution(state))
        self.gap_, self.objective_ = state.gap, state.objective
        self.n_iter_ = ceil(problem.passes)
        self._say(solver, state, ending)
        return self

    def _check(self) -> None:
        able = fit_for(smooth, MULTICLASS_LOSSES)
        if self.loss in MULTICLASS_LOSSES and self.loss not in able:
            raise ValueError(
                f"loss={self.loss!r} is not differentiable everywhere, as GDClassifier needs: "
                f"use loss={able[0]!r}, or SGDClassifier(loss={self.loss!r})"
            )
        check_choice("loss", self.loss, able)
        check_positive("lam", self.lam, zero=True)
        check_positive("passes", self.passes, kind=Integral)
        if isinstance(self.step, str):
            check_choice("step", self.step, ("lipschitz",))
        else:
            check_positive("step", self.step)
        if self.tol is not None:
            check_positive("tol", self.tol)
            if self.lam == 0.0:
                raise ValueError(
                    f"tol={self.tol} needs a duality gap, which does not exist without a penalty: "
                    "use lam > 0, or tol=None"
                )

    def _length(self, problem: Multinomial, rng: np.random.Generator) -> float:
        if not isinstance(self.step, str):
            return float(self.step)
        L = lipschitz(problem, float(self.lam), rng)
        return 1.0 / L if L > 0.0 else 1.0  # rows that are all 0: the gradient is 0 too

    def _say(self, solver: GradientDescent, state: GDState, ending: Ending) -> None:
        """Warn if the fit diverged or stopped early, and say what to change."""
        start = self.trace_[0]["objective"]
        reached = f"after {self.n_iter_} passes the objective {self.objective_:.6g}"
        if not self.objective_ <= start or solver.overflows(state):
            warn_unproved(
                f"the fit diverged (objective {self.objective_:.3g}, but {start:.3g} at W = 0): "
                "use a smaller step, or step='lipschitz'"
            )
        elif ending == "interrupted":
            warn_unproved(f"interrupted: {reached} {self._proved()}")
        elif ending == "out of passes" and self.tol is not None:
            warn_unproved(
                f"{reached} {self._proved()}: raise passes={self.passes}, or tol={self.tol}; "
                "LogisticClassifier needs far fewer passes"
            )
