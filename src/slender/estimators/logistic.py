"""LogisticClassifier: multinomial logistic regression at one C, to a proved accuracy."""

from math import ceil
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..places import to_host
from ..problem import Multinomial
from ..problem.linear import two_rows
from ..solvers.loop import Clock, Ending, run
from ..solvers.newton import Newton
from ..solvers.quasinewton import NewtonState
from ..storage import PathLike
from .checkpoints import checkpointed
from .multinomial import MultinomialClassifier, warn_unproved
from .validation import (
    check_positive,
    generator,
)


class LogisticClassifier(MultinomialClassifier):
    """L2-regularised multinomial logistic regression, with a proved distance to the optimum.

    Minimises scikit-learn's LogisticRegression objective, divided by n C:

        1/n Σ_i c_i (ln Σ_c exp s_ic - s_iy) + ‖W‖²/(2 n C),    s = W x + b, b unpenalised

    by L-BFGS on a class-centred low-rank curvature (slender/solvers/newton.py), until
    `gap_` is at most `tol` times the objective.

    Parameters
    ----------
    C : float, default 1.0
        Inverse strength of the penalty, as in scikit-learn; inf means no penalty.
    tol : float, default 1e-3
        Stop when the objective is proved to be within this share of the optimum.
    max_iter : int, default 1000
        Largest number of passes over the data.
    fit_intercept : bool, default True
        Fit an intercept, which is not penalised.
    class_weight : dict, "balanced" or None, default None
        Multiplies the weight of each row by that of its class; "balanced" gives every class the
        same total weight.
    warm_start : bool, default False
        Start from the fitted coef_, if there is one for the same classes and features.
    device : str or None, default None
        Where to compute.  None: where X is, which is the device of a tensor, else the cores of this
        machine; "cpu": these cores; "cuda" or "cuda:1": a GPU, to which X is sent (docs/gpu.md).
    callbacks : callable, list of callables or None, default None
        Each is called as `callback(record, model)` after each step; a true answer ends the fit.
    random_state : int, RandomState, Generator or None, default None
        Seed of the random numbers: the rows that curvature and line search sample.
    checkpoint : str, path or None, default None
        Folder to save the state of the fit in while it runs; the same fit continues from there
        after it was killed, or after passes were added, and ends as if nothing had happened
        (docs/resuming.md).
    checkpoint_every : float, default 60
        Seconds between two writes.

    Attributes
    ----------
    coef_ : array (n_classes, n_features); (1, n_features) for two classes
    intercept_, classes_, n_features_in_
    gap_ : float
        objective_ is at most this far above the optimum: a duality gap
        (slender/problem/certificate.py).
    objective_ : float
        The objective above, at the fitted weights.
    n_iter_ : int
        Number of passes over the data.
    trace_ : list of dict
        One record per step: seconds, passes, objective, gap.

    Notes
    -----
    Ctrl-C ends the fit early, with a warning, and keeps the model so far.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from slender import LogisticClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LogisticClassifier(C=0.01).fit(X[:1300], y[:1300])
    >>> model.gap_ <= 1e-3 * model.objective_
    True
    >>> model.score(X[1300:], y[1300:]) > 0.9
    True
    """

    may_be_raised = ("max_iter",)
    on_device: ClassVar[bool] = True

    def __init__(
        self,
        C: float = 1.0,
        *,
        tol: float = 1e-3,
        max_iter: int = 1000,
        fit_intercept: bool = True,
        class_weight: Any = None,
        warm_start: bool = False,
        device: Any = None,
        callbacks: Any = None,
        random_state: Any = None,
        checkpoint: PathLike | None = None,
        checkpoint_every: float = 60.0,
    ) -> None:
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.device = device
        self.callbacks = callbacks
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "LogisticClassifier":
        """Fit until the duality gap is at most `tol` times the objective."""
        self._check()
        before = self._fitted_weights() if self.warm_start else None
        clock = Clock()
        with clock:
            problem = self._read_problem(X, y, sample_weight)
            start = self._start(problem, before)
            solver = Newton(problem, problem.lam_of(self.C), self.tol, start)
        rng, self.trace_ = generator(self.random_state), []
        with checkpointed(self, rng, problem.rows, problem.y, sample_weight) as checkpoint:
            with clock:
                state = solver.init(rng)
            limits = self.callbacks, self.max_iter, clock
            ending = run(solver, state, self.trace_, *limits, checkpoint=checkpoint)
        self._keep(solver.solution(state))
        self.gap_, self.objective_ = state.gap, state.objective
        self.n_iter_ = ceil(problem.passes)
        self._say(solver, state, ending)
        self._settle(X)
        return self

    def _check(self) -> None:
        if not (isinstance(self.C, Real) and self.C == np.inf):
            check_positive("C", self.C)
        super()._check()

    def _fitted_weights(self) -> Any:
        if not hasattr(self, "coef_"):
            return None
        return self._names, *two_rows(to_host(self.coef_), to_host(self.intercept_))

    def _start(self, problem: Multinomial, before: Any) -> NDArray[Any] | None:
        """The weights of the previous fit, if they suit this problem."""
        if before is None:
            return None
        classes, W, b = before
        same = np.array_equal(classes, self.classes_) and W.shape[1] == problem.rows.shape[1]
        return problem.theta(W, b) if same else None

    def _say(self, solver: Newton, state: NewtonState, ending: Ending) -> None:
        """Warn if the fit ended without a proof, and say what to change."""
        interrupted = "interrupted: " if ending == "interrupted" else ""
        if solver.lam == 0.0:
            if solver.problem.separated(*solver.model(state)):
                warn_unproved(
                    f"the classes are separated perfectly, so without a penalty (C=inf) the "
                    f"optimum lies at infinity; the objective of the stored weights is "
                    f"{self.objective_:.3g}: use a finite C"
                )
            elif interrupted or ending == "out of passes":
                advice = f"raise max_iter={self.max_iter}, or use a finite C"
                warn_unproved(f"{interrupted}{self._reached()}: {advice}")
        elif solver.proved(state) or ending == "stopped":
            return
        elif interrupted:
            warn_unproved(f"{interrupted}{self._reached()}")
        else:  # finished without a proof: float32, or even float64, has no digits for it
            advice = self._advice(ending == "finished", solver.problem.rows.dtype)
            warn_unproved(f"{self._reached()}: {advice}")

    def _reached(self) -> str:
        return f"after {self.n_iter_} passes the objective {self.objective_:.6g} {self._proved()}"
