"""TraceNormClassifier: multinomial regression of low rank, by rank-one descent."""

from dataclasses import replace
from math import ceil
from numbers import Integral, Real
from typing import Any

from ..rows import one_blas_thread
from ..solvers.loop import Clock, Ending, run
from ..solvers.rankone import PAIRS, RankOne, RankOneState, lambda1_max
from ..storage import PathLike
from .checkpoints import checkpointed
from .lowrank import LowRankClassifier
from .multinomial import warn_unproved
from .tracenorm_probe import TraceNormProbe
from .validation import (
    check_positive,
    generator,
)

# Of lambda1_max_, where lambda1 is not given: within half a point of the best accuracy on images
# and embeddings, where a tenth leaves most classes unlearned.
DEFAULT_SHARE = 0.003


class TraceNormClassifier(LowRankClassifier):
    """Multinomial logistic regression whose weight matrix has few singular values.

    Minimises (Harchaoui et al. 2012, eq. 4)

        lambda1 ‖W‖_* + lambda2 ‖W‖² + 1/n Σ_i c_i (ln Σ_c exp s_ic - s_iy),    s = W x + b

    where ‖W‖_* is the sum of the singular values of W, by rank-one descent
    (slender/solvers/rankone.py), until the objective is proved to be within `tol` of its minimum.
    All classes then share a few directions of the features: W = V diag(theta) Uᵀ.

    Parameters
    ----------
    lambda1 : float or None, default None
        Weight of the trace norm.  None: 0.003 of the value above which W = 0 (`lambda1_max_`).
    lambda2 : float, default 1e-4
        Weight of the squared norm; it may be 0.
    tol : float, default 1e-3
        Stop when the objective is proved to be within this share of the optimum.
    epsilon : float or None, default None
        Stop by conditions (C1) and (C2) of Harchaoui et al. 2012 at this threshold instead:
        absolute, in units of lambda1.
    fit_intercept : bool, default False
        Fit an intercept, which is not penalised.
    passes : int, default 400
        Largest number of readings of the data; a step takes two.
    pairs : int, default 32
        Singular pairs to add in a step; Harchaoui et al. 2012 add one.
    turn : bool, default True
        Optimise the directions of the atoms as well as their weights (step 5 of the solver);
        otherwise only the weights, as Harchaoui et al. 2012, which takes more passes.
    class_weight : dict, "balanced" or None, default None
        Multiplies the weight of each row by that of its class; "balanced" gives every class the
        same total weight.
    callbacks : callable, list of callables or None, default None
        Each is called as `callback(record, model)` after each step; a true answer ends the fit.
    random_state : int, RandomState, Generator or None, default None
        Seed of the random numbers: where the search for singular pairs starts.
    device, checkpoint, checkpoint_every
        As in LogisticClassifier.

    Attributes
    ----------
    U_, theta_, V_ : arrays (n_features, rank_), (rank_,), (n_classes, rank_)
        Singular vectors and values of W.  The model is stored and applied in this form.
    rank_ : int
    coef_ : array (n_classes, n_features), computed when asked for; (1, n_features) for two classes
    intercept_, classes_, n_features_in_
    lambda1_, lambda1_max_ : float
        The lambda1 used; and the value above which W = 0.
    gap_, objective_ : float
        objective_ is at most gap_ above the minimum (slender/problem/tracenorm.py).
    n_iter_ : int
        How many times X was read.
    trace_ : list of dict
        One record per step: seconds, passes, objective, gap, rank.

    Notes
    -----
    Ctrl-C ends the fit early, with a warning, and keeps the model so far.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from slender import TraceNormClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = TraceNormClassifier(fit_intercept=True, random_state=0).fit(X[:1300], y[:1300])
    >>> model.rank_ < 10
    True
    >>> model.gap_ <= 1e-3 * model.objective_
    True
    >>> model.score(X[1300:], y[1300:]) > 0.88
    True
    """

    def __init__(
        self,
        lambda1: float | None = None,
        lambda2: float = 1e-4,
        *,
        tol: float = 1e-3,
        epsilon: float | None = None,
        fit_intercept: bool = False,
        passes: int = 400,
        pairs: int = PAIRS,
        turn: bool = True,
        class_weight: Any = None,
        device: Any = None,
        callbacks: Any = None,
        random_state: Any = None,
        checkpoint: PathLike | None = None,
        checkpoint_every: float = 60.0,
    ) -> None:
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.tol = tol
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.passes = passes
        self.pairs = pairs
        self.turn = turn
        self.class_weight = class_weight
        self.device = device
        self.callbacks = callbacks
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "TraceNormClassifier":
        """Fit until the duality gap is at most `tol` times the objective."""
        self._check()
        clock = Clock()
        with clock, one_blas_thread():
            problem = self._read_problem(X, y, sample_weight)
        rng, self.trace_ = generator(self.random_state), []
        with checkpointed(self, rng, problem.rows, problem.y, sample_weight) as checkpoint:
            with clock, one_blas_thread():
                settings: dict[str, Any] = {
                    "epsilon": self.epsilon,
                    "pairs": self.pairs,
                    "turn": self.turn,
                }
                solver = RankOne(problem, self.tol, **settings)
                state = solver.init(rng)
                self.lambda1_max_ = lambda1_max(state)
                share = DEFAULT_SHARE * self.lambda1_max_
                self.lambda1_ = float(share if self.lambda1 is None else self.lambda1)
                solver = replace(solver, lambda1=self.lambda1_, lambda2=float(self.lambda2))
            limits = self.callbacks, self.passes, clock
            ending = run(solver, state, self.trace_, *limits, checkpoint=checkpoint)
        self._keep_factors(problem, state.here.at)
        self.gap_, self.objective_ = solver.gap(state), solver.objective(state)
        self.n_iter_ = ceil(problem.passes)
        self._say(solver, state, ending)
        self._settle(X)
        return self

    def path(
        self,
        X: Any,
        y: Any,
        n_lambda1: int = 10,
        n_lambda2: int = 10,
        alpha: float | None = None,
        validation: Any = 0.1,
    ) -> Any:
        """A TraceNormProbe with this estimator's other settings, fitted.

        Its path_ has one record per pair of penalties, its models_ the factors; the probe itself is
        the model of the chosen pair.  Callbacks are called after each pair.
        """
        if self.epsilon is not None:
            raise ValueError(
                f"epsilon={self.epsilon!r}: the fits of a path stop by tol, because one epsilon "
                "does not suit penalties that differ by decades: use epsilon=None, or call fit for "
                "each penalty"
            )
        replaced = ("lambda1", "lambda2", "epsilon")
        settings = {name: of for name, of in self.get_params().items() if name not in replaced}
        probe = TraceNormProbe(n_lambda1, n_lambda2, alpha=alpha, validation=validation, **settings)
        return probe.fit(X, y)

    def _check(self) -> None:
        super()._check()
        check_penalties(self.lambda1, self.lambda2)
        check_positive("pairs", self.pairs, kind=Integral)
        if self.epsilon is not None:
            check_positive("epsilon", self.epsilon)

    def _say(self, solver: RankOne, state: RankOneState, ending: Ending) -> None:
        if self.lambda1_ >= self.lambda1_max_:
            answer = "the most frequent class" if self.fit_intercept else "the same class"
            warn_unproved(
                f"lambda1={self.lambda1_:.4g} is not below lambda1_max_={self.lambda1_max_:.4g}, "
                f"so W = 0 is the optimum and every row gets {answer}; use a smaller lambda1"
            )
        elif ending != "stopped" and not solver.proved(state):
            interrupted = "interrupted: " if ending == "interrupted" else ""
            dtype = solver.problem.rows.dtype
            advice = "" if interrupted else f": {self._advice(state.stalled, dtype)}"
            warn_unproved(
                f"{interrupted}after reading X {self.n_iter_} times the objective "
                f"{self.objective_:.6g} {self._proved()}{advice}"
            )


def check_penalties(lambda1: Any, lambda2: Any) -> None:
    check_positive("lambda2", lambda2, zero=True)
    if isinstance(lambda1, Real) and lambda1 == 0:
        raise ValueError(
            "lambda1=0 means no trace norm; use LogisticClassifier(C=1/(2 n lambda2)), "
            "which minimises the same objective"
        )
    if lambda1 is not None:
        check_positive("lambda1", lambda1)
