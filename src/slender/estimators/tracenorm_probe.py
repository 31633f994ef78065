"""TraceNormProbe: both penalties of the trace norm, chosen along a path on held-out rows."""

from math import ceil
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..curvature.classwise import Classwise
from ..problem import Multinomial
from ..problem.tracenorm import Factors
from ..rows import one_blas_thread
from ..solvers.checkpoint import Checkpoint
from ..solvers.loop import Clock, Record, run
from ..solvers.path import Path, PathState, RankOneFold
from ..solvers.rankone import PAIRS, RankOne, lambda1_max
from ..storage import PathLike
from .checkpoints import checkpointed
from .choice import HALF, Choice, Labelled, best_of, read_values, spread, warn_at_edge
from .lowrank import LowRankClassifier
from .multinomial import warn_unproved
from .validation import (
    check_finite,
    check_positive,
    generator,
    read_class_index,
    read_rows,
    read_sample_weight,
)

LAMBDA1 = 1.0, 0.01  # of lambda1_max_: where the path begins, and where it may end
LEAST = 1e-5  # of lambda1_max_: where it ends at last
FAR = 3.0  # times below the chosen lambda1, or without a gain: validation has turned
LAMBDA2 = 1e-2, 1e-6
PENALTIES = ("lambda1", "lambda2")


class TraceNormProbe(LowRankClassifier):
    """TraceNormClassifier with lambda1 and lambda2 chosen by validation.

    Tries a grid of penalties from strong to weak, each pair warm-started from its neighbour, then
    fits the pair that did best on the held-out rows to all rows.

    Parameters
    ----------
    n_lambda1 : int, default 10
        Number of values of lambda1, evenly in the logarithm from the value above which W = 0
        (`lambda1_max_`) to 0.01 of it, and further at the same ratio until the validation figures
        have become worse.
    n_lambda2 : int, default 10
        Number of values of lambda2, evenly in the logarithm from 1e-2 to 1e-6.
    alpha : float between 0 and 1, or None, default None
        Ratio of one value to the one before (alpha of Harchaoui et al. 2012), instead of these
        ends.
    lambda1s : sequence of float or None, default None
        Values of lambda1, instead of a number of them.
    lambda2s : sequence of float or None, default None
        Values of lambda2, instead of a number of them.
    shots : int or None, default None
        Fit on this many rows of each class, drawn at random.
    validation, select, refit
        As in LinearProbe.
    tol : float, default 1e-3
        The final fit stops when its objective is proved to be within this share of the optimum;
        those along the path stop at three times this share.
    passes : int, default 400
        Largest number of readings of the data for each pair of penalties; a step takes two.
    fit_intercept, pairs, turn, class_weight
        As in TraceNormClassifier.
    random_state : int, RandomState, Generator or None, default None
        Seed of the random numbers: held-out rows, shots, and where the search for singular pairs
        starts.
    callbacks : callable, list of callables or None, default None
        Each is called as `callback(record of path_, model)` after each pair; a true answer ends
        the path.
    device, checkpoint, checkpoint_every
        As in LogisticClassifier.

    Attributes
    ----------
    lambda1_, lambda2_ : float
        The pair that `select` chose; the first one on the path if several are equally good.
    lambda1_max_ : float
        On the training part (with folds: the largest of them), the lambda1 above which W = 0.
    path_ : list of dict
        One record per pair: lambda1, lambda2, objective, gap, rank, trace_norm, passes, seconds;
        and on the held-out rows top1, top5, mean_per_class, log_loss and their standard errors.
        With folds it has means, as in LinearProbe, and `folds_` has the records of each fold.
    models_ : list of Factors (U, theta, V, b)
        The model of each pair on the (first) training part, in factored form; b are the scores of
        the mean row of that part.
    U_, theta_, V_, rank_, coef_, intercept_, classes_, gap_, objective_, n_iter_, trace_
        Of the final fit, as in TraceNormClassifier.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from slender import TraceNormProbe
    >>> X, y = load_digits(return_X_y=True)
    >>> probe = TraceNormProbe(5, 2, fit_intercept=True, random_state=0)
    >>> probe.fit(X[:1300] / 16, y[:1300]).rank_ < 10
    True
    >>> len(probe.path_) >= 10
    True
    """

    may_be_raised = ()  # the limit of passes holds for every pair

    def __init__(
        self,
        n_lambda1: int = 10,
        n_lambda2: int = 10,
        *,
        alpha: float | None = None,
        lambda1s: Any = None,
        lambda2s: Any = None,
        validation: Any = 0.1,
        shots: int | None = None,
        select: str = "auto",
        refit: bool = True,
        tol: float = 1e-3,
        passes: int = 400,
        fit_intercept: bool = False,
        pairs: int = PAIRS,
        turn: bool = True,
        class_weight: Any = None,
        device: Any = None,
        callbacks: Any = None,
        random_state: Any = None,
        checkpoint: PathLike | None = None,
        checkpoint_every: float = 60.0,
    ) -> None:
        self.n_lambda1 = n_lambda1
        self.n_lambda2 = n_lambda2
        self.alpha = alpha
        self.lambda1s = lambda1s
        self.lambda2s = lambda2s
        self.validation = validation
        self.shots = shots
        self.select = select
        self.refit = refit
        self.tol = tol
        self.passes = passes
        self.fit_intercept = fit_intercept
        self.pairs = pairs
        self.turn = turn
        self.class_weight = class_weight
        self.device = device
        self.callbacks = callbacks
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> "TraceNormProbe":
        """Fit the path, choose the penalties, fit the final model; `groups` go to the splitter."""
        self._check()
        choice, rng = self._choice(), generator(self.random_state)
        choice.check_place(self, X)
        rows = read_rows(self, X, reset=True, y=y)
        check_finite(rows)  # before any split, so that an error names the user's row
        class_index = read_class_index(self, y, rows.shape[0])
        weight = read_sample_weight(sample_weight, rows)
        examples = Labelled(rows, class_index, self.classes_)
        more = choice.fingerprints(self, groups)
        with checkpointed(self, rng, rows, class_index, sample_weight, **more) as checkpoint:
            parts, judge = choice.parts(X, y, groups, examples, rng), choice.judge(examples)
            folds = []
            with one_blas_thread():
                for part in parts:
                    problem = self._problem(rows, class_index, weight, part.train)
                    held_out = choice.held_out(self, examples, part, lambda x: x)
                    solver = RankOne(problem, self.tol, pairs=self.pairs, turn=self.turn)
                    folds.append(RankOneFold(solver, held_out, judge, self.passes, rng))
            curvature, interrupted = self._walk(folds, rng, checkpoint)
            best = best_of(self.path_, self.select)
            self.lambda1_, self.lambda2_ = (self.path_[best][name] for name in PENALTIES)
            index = choice.final_index(parts, examples, rng)
            problem = folds[0].problem
            if index is not parts[0].train:
                problem = self._problem(rows, class_index, weight, index)
            learned = self.models_[best], curvature
            self._finish(problem, *learned, interrupted, rng, checkpoint)
        self._settle(X)
        return self

    def _choice(self) -> Choice:
        return Choice(self.validation, self.shots, self.refit, self.select)

    def _walk(
        self, folds: list[RankOneFold], rng: np.random.Generator, checkpoint: Checkpoint | None
    ) -> tuple[Classwise | None, bool]:
        """Set path_ and models_; return the first fold's curvature, and if Ctrl-C ended it."""
        path = Path(folds, self._following)
        with one_blas_thread():
            state = path.init(rng)
        self.lambda1_max_ = max(lambda1_max(walk.state) for walk in state.walks)
        self.path_, self.folds_, self.models_ = state.path, state.folds, state.walks[0].models
        ending = run(path, state, self.path_, self.callbacks, checkpoint=checkpoint)
        if ending == "finished":
            self._warn_at_edges()
        return state.walks[0].state.curvature, ending == "interrupted"

    def _finish(
        self,
        problem: Multinomial,
        start: Factors,
        curvature: Classwise | None,
        hurry: bool,
        rng: np.random.Generator,
        checkpoint: Checkpoint | None,
    ) -> None:
        """Fit the chosen pair to a proved accuracy, from the path's model."""
        solver = RankOne(
            problem,
            self.tol,
            self.lambda1_,
            self.lambda2_,
            pairs=self.pairs,
            turn=self.turn,
            start=start,
            curvature=curvature,
        )
        clock, self.trace_ = Clock(), []
        with clock, one_blas_thread():
            state = solver.init(rng)
        most = 1 if hurry else self.passes
        ending = run(solver, state, self.trace_, most=most, clock=clock, checkpoint=checkpoint)
        self._keep_factors(problem, state.here.at)
        self.gap_, self.objective_ = solver.gap(state), solver.objective(state)
        self.n_iter_ = ceil(problem.passes - state.first)
        where = f"lambda1={self.lambda1_:.3g}, lambda2={self.lambda2_:.3g}"
        what = f"the objective at {where} {self._proved()}"
        if hurry or ending == "interrupted":
            warn_unproved(f"interrupted: {what}")
        elif not solver.proved(state):
            warn_unproved(f"{what}: {self._advice(state.stalled, problem.rows.dtype)}")

    def _following(self, state: PathState) -> Record | None:
        """The pair next to the last one: row by row in alternating directions."""
        lambda2s = self._read_lambda2s()
        row, place = divmod(len(state.path), len(lambda2s))
        before = state.folds[0][-1]["lambda1"] if state.path else np.inf
        lambda1 = before if place else self._lambda1_of(row, before)
        if lambda1 is None:
            return None
        lambda2 = (lambda2s if row % 2 == 0 else lambda2s[::-1])[place]
        return {"lambda1": float(lambda1), "lambda2": float(lambda2)}

    def _lambda1_of(self, row: int, before: float) -> float | None:
        """From strong to weak; our own values go on until validation gets worse."""
        if self.lambda1s is not None:
            values = read_values("lambda1s", self.lambda1s)[::-1]
            return values[row] if row < len(values) else None
        largest = self.lambda1_max_ or 1.0  # 0: no feature tells classes apart, and W = 0 at any
        first, last = (largest * share for share in LAMBDA1)
        values = self._values(first, last, self.n_lambda1)
        if row < len(values):
            return values[row]
        return before * (values[1] / values[0]) if self._goes_on(before) else None

    def _goes_on(self, lambda1: float) -> bool:
        """Is it worth going below this lambda1, since validation still gets better?"""
        if self.alpha is not None or self.n_lambda1 == 1 or lambda1 <= LEAST * self.lambda1_max_:
            return False
        best, before = self.path_[best_of(self.path_, self.select)], FAR * lambda1
        lowest = min(record["log_loss"] for record in self.path_)
        then = min(r["log_loss"] for r in self.path_ if r["lambda1"] >= before)
        return bool(best["lambda1"] < before and then - lowest > HALF * best["log_loss_error"])

    def _read_lambda2s(self) -> NDArray[np.float64]:
        if self.lambda2s is not None:
            return read_values("lambda2s", self.lambda2s)[::-1]
        return self._values(*LAMBDA2, self.n_lambda2)

    def _values(self, first: float, last: float, number: int) -> NDArray[np.float64]:
        if self.alpha is not None:
            return np.asarray(first * float(self.alpha) ** np.arange(number))
        return spread(first, last, number)

    def _warn_at_edges(self) -> None:
        best = self.path_[best_of(self.path_, self.select)]
        if best["lambda1"] >= self.lambda1_max_:
            return  # W = 0, and so it is with any larger penalty
        for name, other in (PENALTIES, PENALTIES[::-1]):
            row = [record for record in self.path_ if record[other] == best[other]]
            given = self.alpha is not None or getattr(self, f"{name}s") is not None
            warn_at_edge(name, row, best, given)

    def _check(self) -> None:
        super()._check()
        self._choice().check()
        for name in ("n_lambda1", "n_lambda2", "pairs"):
            check_positive(name, getattr(self, name), kind=Integral)
        if self.alpha is not None and not 0.0 < float(self.alpha) < 1.0:
            raise ValueError(f"alpha={self.alpha!r} must lie between 0 and 1")
        given = {name: getattr(self, name) for name in ("lambda1s", "lambda2s")}
        given = {name: values for name, values in given.items() if values is not None}
        for name, values in given.items():
            read_values(name, values)
        if self.alpha is not None and len(given) == len(PENALTIES):
            raise ValueError(
                f"alpha={self.alpha!r} has no effect if both lambda1s and lambda2s are given: "
                "use alpha=None"
            )
