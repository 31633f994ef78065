"""TraceNormClassifier: multinomial regression of low rank, by rank-one descent."""

from collections.abc import Callable, Iterator
from math import ceil
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..problem import Multinomial
from ..problem.tracenorm import Factors, raw_intercepts
from ..rows import one_blas_thread
from ..solvers.loop import Clock, Record, run
from ..solvers.rankone import PAIRS, RankOne
from .multinomial import MultinomialClassifier, warn_unproved
from .validation import check_positive, generator, read_codes, read_rows, read_sample_weight

# Of lambda1_max_, where lambda1 is not given: within half a point of the best accuracy on images
# and embeddings, where a tenth leaves most classes unlearned.
DEFAULT_SHARE = 0.003


class LowRankClassifier(MultinomialClassifier):
    """A model held as intercept_ and W = V diag(theta) Uᵀ: scores cost r (d + C) a row."""

    U_: NDArray[Any]  # (d, r)
    theta_: NDArray[np.float64]  # (r,)
    V_: NDArray[Any]  # (C, r)
    rank_: int
    lambda1_: float
    lambda1_max_: float

    @property
    def coef_(self) -> NDArray[Any]:  # type: ignore[override]
        """(C, d), made on demand; (1, d) for two classes."""
        return self._left @ self.U_.T

    @coef_.setter
    def coef_(self, W: NDArray[Any]) -> None:
        """Other weights in place of the fitted ones: their factors."""
        self.V_, self.theta_, Ut = np.linalg.svd(W, full_matrices=False)
        self.U_ = np.ascontiguousarray(Ut.T)

    @property
    def _left(self) -> NDArray[Any]:
        """V diag(theta), (C, r); the difference of its two rows for two classes."""
        left = self.V_ * self.theta_.astype(self.V_.dtype)
        return left[1:] - left[:1] if len(left) == 2 else left

    @property
    def _class_rows(self) -> int:
        return len(self.intercept_)

    @property
    def _weights_dtype(self) -> Any:
        return self.U_.dtype

    def _shapes(self, C: int, d: int) -> dict[str, tuple[int, ...]]:
        r, n_classes = len(self.theta_), len(self.classes_)
        return {"U_": (d, r), "theta_": (r,), "V_": (n_classes, r), "intercept_": (C,)}

    def _linear(self, block: Any) -> NDArray[Any]:
        left, (d, r) = self._left, self.U_.shape
        if r * (d + len(left)) < d * len(left):
            return np.asarray((block @ self.U_) @ left.T)
        return np.asarray(block @ (self.U_ @ left.T))

    def _keep_factors(self, problem: Multinomial, at: Factors) -> None:
        self.U_, self.theta_, self.V_ = at.U, at.theta, at.V
        self.rank_ = len(at.theta)
        b = raw_intercepts(problem, at)
        self.intercept_ = (b[1:] - b[:1] if len(b) == 2 else b).astype(at.U.dtype)


class TraceNormClassifier(LowRankClassifier):
    """Multinomial logistic regression whose weight matrix has few singular values.

    Minimises (Harchaoui et al. 2012, eq. 4)

        lambda1 ‖W‖_* + lambda2 ‖W‖² + 1/n Σ_i c_i (ln Σ_c exp s_ic - s_iy),    s = W x + b

    ‖W‖_* being the sum of W's singular values, by rank-one descent (slender/solvers/rankone.py),
    until the objective is proved to be within `tol` of its minimum.  Classes then share a few
    directions of the features: W = V diag(theta) Uᵀ.

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
    max_iter : int, default 200
        Largest number of steps; each reads the data twice.
    pairs : int, default 32
        Singular pairs to add in a step; Harchaoui et al. 2012 add one.
    turn : bool, default True
        Turn the atoms as well as weighing them (step 5 of the solver); otherwise it is the
        algorithm of Harchaoui et al. 2012, which reads the data more often.
    class_weight : dict, "balanced" or None, default None
        Multiplies the weight of each row by that of its class; "balanced" gives every class the
        same total weight.
    callbacks : callable, list of callables or None, default None
        Each is called as `callback(record, weights)` after each step; a true answer ends the fit.
    random_state : int, RandomState, Generator or None, default None
        Seed of the random numbers: where the search for singular pairs starts.

    Attributes
    ----------
    U_, theta_, V_ : arrays (n_features, rank_), (rank_,), (n_classes, rank_)
        Singular vectors and values of W.  The model is stored and applied in this form.
    rank_ : int
    coef_ : array (n_classes, n_features), made on demand; (1, n_features) for two classes
    intercept_, classes_, n_features_in_
    lambda1_, lambda1_max_ : float
        What was used; and from where on W = 0.
    gap_, objective_ : float
        objective - minimum is at most gap_ (slender/problem/tracenorm.py).
    n_iter_ : int
        Times X was read.
    trace_ : list of dict
        A record a step: seconds, passes, objective, gap, rank.

    Notes
    -----
    Ctrl-C ends the fit early with a warning and keeps what was reached.

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
        max_iter: int = 200,
        pairs: int = PAIRS,
        turn: bool = True,
        class_weight: Any = None,
        callbacks: Any = None,
        random_state: Any = None,
    ) -> None:
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.tol = tol
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.pairs = pairs
        self.turn = turn
        self.class_weight = class_weight
        self.callbacks = callbacks
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "TraceNormClassifier":
        """Fit to the certified optimum."""
        self._check()
        rows = read_rows(self, X, reset=True)
        codes = read_codes(self, y, rows.shape[0])
        weight = read_sample_weight(sample_weight, rows)
        clock = Clock()
        with clock, one_blas_thread():
            problem = self._problem(rows, codes, weight)
            solver = RankOne(problem, generator(self.random_state), self.pairs, self.turn)
            self.lambda1_max_ = lambda1_max(solver)
            share = DEFAULT_SHARE * self.lambda1_max_
            self.lambda1_ = float(share if self.lambda1 is None else self.lambda1)
            solver.set_penalties(self.lambda1_, float(self.lambda2), self.epsilon)
        self.trace_ = []
        ended = ""
        try:
            with one_blas_thread():
                run(
                    descend(solver, self.tol, self.epsilon, self.max_iter),
                    clock,
                    lambda: weights(solver),
                    self.trace_,
                    self.callbacks,
                )
        except KeyboardInterrupt:
            if not self.trace_:
                raise
            ended = "interrupted: "
        self._keep_factors(problem, solver.here.at)
        self.gap_, self.objective_ = solver.gap, solver.objective
        self.n_iter_ = ceil(problem.passes)
        self._say(solver, ended)
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
        """A grid of penalties with this estimator's other settings: a fitted TraceNormProbe.

        Its path_ has a record for each pair, its models_ the factors; it has chosen a pair and
        fitted it.  Callbacks see each pair, as a probe's do.
        """
        if self.epsilon is not None:
            raise ValueError(
                f"epsilon={self.epsilon!r}: a path stops by tol, since one threshold cannot serve "
                "penalties decades apart: use epsilon=None here, or fit, penalty by penalty"
            )
        from .tracenorm_probe import TraceNormProbe  # noqa: PLC0415  (which needs this file)

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

    def _say(self, solver: RankOne, ended: str) -> None:
        if self.lambda1_ >= self.lambda1_max_:
            answer = "the most frequent class" if self.fit_intercept else "the same class"
            warn_unproved(
                f"lambda1={self.lambda1_:.4g} is not below lambda1_max_={self.lambda1_max_:.4g}: "
                f"W = 0 is the optimum and every row gets {answer}; use a smaller lambda1"
            )
        elif not finished(solver, self.tol, self.epsilon):
            out_of_steps = len(self.trace_) > self.max_iter
            if not (ended or solver.stalled or out_of_steps):
                return  # a callback wanted it so
            advice = "" if ended else f": {self._advice(solver.stalled, solver.Z.dtype)}"
            warn_unproved(
                f"{ended}after reading X {self.n_iter_} times the objective {self.objective_:.6g} "
                f"{self._proved()}{advice}"
            )


def weights(solver: RankOne) -> tuple[NDArray[Any], NDArray[Any]]:
    """(W, b) in the shapes of coef_ and intercept_, for callbacks."""
    W, b = solver.here.at.W, raw_intercepts(solver.problem, solver.here.at)
    return (W[1:] - W[:1], b[1:] - b[:1]) if len(b) == 2 else (W, b)


def lambda1_max(solver: RankOne) -> float:
    """‖∇R(0)‖, the largest singular value of the gradient at W = 0, where a new solver stands."""
    return float(solver.here.sigma[0])


def check_penalties(lambda1: Any, lambda2: Any) -> None:
    check_positive("lambda2", lambda2, zero=True)
    if isinstance(lambda1, Real) and lambda1 == 0:
        raise ValueError(
            "lambda1=0 leaves no trace norm; use LogisticClassifier(C=1/(2 n lambda2)), "
            "which minimises the same objective"
        )
    if lambda1 is not None:
        check_positive("lambda1", lambda1)


def finished(solver: RankOne, tol: float, epsilon: float | None) -> bool:
    """Is the goal reached: a proved gap, or the paper's conditions?"""
    if epsilon is not None:
        return solver.optimal(epsilon)
    return solver.gap <= tol * solver.objective


def descend(
    solver: RankOne, tol: float, epsilon: float | None, max_iter: int
) -> Iterator[Callable[[], Record]]:
    """The steps of a fit, the first being the start itself."""

    def record() -> Record:
        return {
            "passes": float(solver.problem.passes),
            "objective": solver.objective,
            "gap": solver.gap,
            "rank": float(len(solver.here.at.theta)),
        }

    def step() -> Record:
        solver.step(tol)
        return record()

    yield record
    for _ in range(max_iter):
        if finished(solver, tol, epsilon) or solver.stalled:
            break
        yield step
