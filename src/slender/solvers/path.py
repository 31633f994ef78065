"""A path: the same problem at one penalty after another, evaluated on held-out rows.

A path is a solver like any other (loop.py).  Its step solves the problem at one value of the
penalties, for every training part, by the steps of another solver: newton.py for C, rankone.py for
a pair of trace-norm penalties.  Each value starts where the last one ended.  The folds of a
cross-validation advance together, and a record has their mean.

C.  The start at a new value costs no pass: the gradient found at the last one, the curvature and
the pairs of L-BFGS can be used again, since the data's part of them does not depend on lam.  A
value is solved only as accurately as validation can distinguish: until the gap is tol times the
objective, or a share TELLS of the standard error of the held-out log loss, whichever is larger.  If
the penalty is weak and the objective small, a gap relative to the objective would ask for accuracy
that has no effect on held-out rows.  The gap of a record is the one that can be proved without
another pass.

Trace norm (TN12, §4.1).  lambda1 decreases from lambda1_max, lambda2 from its largest value, both
geometrically.  The grid is traversed back and forth, so that consecutive pairs differ in one
penalty by one step.  The start at a new pair does not read X, since the gradient of the risk does
not depend on the penalties; if the old solution is proved good enough for the new pair, X is not
read at all.  The path serves to choose penalties by validation; for this, LOOSER times the gap of
the final fit is enough.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Examples
from ..problem import Multinomial
from ..problem.certificate import hopeful
from ..problem.linear import Linear, one_row
from ..problem.tracenorm import Factors, raw_intercepts
from .loop import Clock, Record, Solver, steps
from .newton import Newton
from .quasinewton import NewtonState, begin, descend, enter, narrow
from .rankone import RankOne

TELLS = 0.1  # of the standard error of the held-out log loss: smaller differences do not matter
GAIN = 0.1  # of the target gap: a step that gains less is the last one at its penalty
HOPELESS = 10.0  # times the target gap: if float32 stalls above it, continue in float64
LOOSER = 3.0


# The figures of W and b on held-out examples.
Judge = Callable[[Examples, NDArray[Any], NDArray[Any]], Record]


class Fold(ABC):
    """One training part along the path, and the rows that it is evaluated on."""

    state: Any = None  # of the solver; passed on from value to value

    def __init__(
        self, held_out: Examples, judge: Judge, most: float, rng: np.random.Generator
    ) -> None:
        self.held_out, self.judge, self.most, self.rng = held_out, judge, most, rng

    @abstractmethod
    def solver(self, penalties: Record) -> Solver[Any]:
        """The solver for one value of the penalties."""

    @abstractmethod
    def judged(self) -> Record:
        """The figures of the current model on the held-out rows."""

    def walk_to(self, penalties: Record) -> Record:
        """Solve at these penalties, from the last solution; then evaluate, which is not timed."""
        with Clock() as clock:
            solver = self.solver(penalties)
            if self.state is None:
                self.state = solver.init(self.rng)
            before = self.passes
            found: Record = {}
            for record in steps(solver, self.state, self.most, before):
                found = record
        spent = {"passes": self.passes - before, **clock.spent}
        return {**penalties, **found, **self.judged(), **spent}

    @property
    @abstractmethod
    def passes(self) -> float:
        """Number of passes so far."""

    @abstractmethod
    def solution(self) -> Linear:
        """The current model."""


@dataclass
class PathState:
    """The records so far; the loop appends one to `path` after each value."""

    path: list[Record]  # means of all folds
    folds: list[list[Record]]
    value: Record | None = None  # the next penalties, once they are known


@dataclass(frozen=True)
class Path(Solver[PathState]):
    """All folds, at one value of the penalties after another, until `turned(path)` is true.

    A value may be chosen when its turn comes, so `values` is an iterator.
    """

    folds: Sequence[Fold]
    values: Iterator[Record]
    turned: Callable[[list[Record]], bool] = field(default=lambda path: False)

    def init(self, rng: np.random.Generator) -> PathState:
        return PathState([], [[] for _ in self.folds])

    def step(self, state: PathState) -> Record:
        assert state.value is not None
        value, state.value = state.value, None
        records = [fold.walk_to(value) for fold in self.folds]
        for mine, record in zip(state.folds, records, strict=True):
            mine.append(record)
        return mean_record(records)

    def finished(self, state: PathState) -> bool:
        if state.path and state.value is None and self.turned(state.path):
            return True
        if state.value is None:
            state.value = next(self.values, None)
        return state.value is None

    def solution(self, state: PathState) -> Linear:
        """The model of the first fold."""
        return self.folds[0].solution()


def mean_record(records: list[Record]) -> Record:
    """One record for all folds: sums of work, means of the rest, standard errors of those means."""
    merge = dict.fromkeys(("passes", "seconds", "bytes_read"), sum)
    merge |= dict.fromkeys(("top1_error", "log_loss_error"), _of_mean)  # type: ignore[arg-type]
    names = dict.fromkeys(name for record in records for name in record)
    return {  # a fold that read nothing has no bytes
        name: float(merge.get(name, np.mean)([record.get(name, 0.0) for record in records]))  # type: ignore[operator]
        for name in names
    }


def _of_mean(errors: list[float]) -> float:
    """The standard error of a mean of independent figures with these standard errors."""
    return float(np.sqrt(np.sum(np.square(errors))) / len(errors))


# -- a path of C -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class NewtonAlong(Newton):
    """One value of lam, solved as accurately as validation can distinguish.

    `error` is the standard error of the held-out log loss.
    """

    error: float = 0.0

    def step(self, state: NewtonState) -> Record:
        if state.point is None:
            begin(self.problem, state, state.theta, self.lam)
        elif state.lam != self.lam:
            enter(state, state.point.at_lam(self.lam))
        else:
            if state.stalled:
                self.widen(state)
            descend(self.at_work(state), state, self._goal(state) / state.objective)
        return self.record(state)

    def finished(self, state: NewtonState) -> bool:
        if state.point is None or state.lam != self.lam:
            return False
        goal, nearly = self._goal(state), hopeful(state.point)
        if nearly <= goal or state.decrease <= GAIN * goal:
            return True
        return state.stalled and (not narrow(self.at_work(state)) or nearly <= HOPELESS * goal)

    def end(self, state: NewtonState, hurry: bool = False) -> Record:
        if self.settled(state):
            self.prove(state)
        self.settle(state)  # from here on the figures are those of the rounded weights
        return self.record(state)

    def _goal(self, state: NewtonState) -> float:
        return max(self.tol * state.objective, TELLS * self.error)


class NewtonFold(Fold):
    """A fold of a path of C; `columns` are the factors that the features were multiplied by."""

    def __init__(self, problem: Multinomial, tol: float, columns: Any, *held_out: Any) -> None:
        super().__init__(*held_out)
        self.problem, self.tol, self.columns = problem, tol, columns
        self.error = 0.0  # standard error of the held-out log loss at the last value

    def solver(self, penalties: Record) -> NewtonAlong:
        lam = self.problem.lam_of(penalties["C"])
        self.last = NewtonAlong(self.problem, lam, self.tol, error=self.error)
        return self.last

    @property
    def passes(self) -> float:
        return float(self.problem.passes)

    def model(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """(W, b), one row per class, for the rows as they are fitted."""
        return self.last.model(self.state)

    def judged(self) -> Record:
        figures = self.judge(self.held_out, *self.model())
        self.error = figures["log_loss_error"]
        return figures

    def solution(self) -> Linear:
        coef, intercept = one_row(*self.model())
        return Linear(coef if self.columns is None else coef * self.columns, intercept)


# -- a path of the trace norm ----------------------------------------------------------------------


def grid(lambda1s: Iterable[float], lambda2s: NDArray[np.float64]) -> Iterator[Record]:
    """All pairs, each next to the one before; a lambda1 is requested when its row begins."""
    for turn, lambda1 in enumerate(lambda1s):
        for lambda2 in lambda2s if turn % 2 == 0 else lambda2s[::-1]:
            yield {"lambda1": float(lambda1), "lambda2": float(lambda2)}


class RankOneFold(Fold):
    """A fold of a path of lambda1 and lambda2; `models` has the factors of every pair."""

    def __init__(self, rankone: RankOne, *held_out: Any) -> None:
        super().__init__(*held_out)
        self.rankone = replace(rankone, tol=LOOSER * rankone.tol, stretches=True)
        self.state = rankone.init(self.rng)
        self.models: list[Factors] = []
        self._judged: Record = {}

    def solver(self, penalties: Record) -> RankOne:
        lambda1, lambda2 = penalties["lambda1"], penalties["lambda2"]
        return replace(self.rankone, lambda1=lambda1, lambda2=lambda2)

    @property
    def passes(self) -> float:
        return float(self.rankone.problem.passes)

    def judged(self) -> Record:
        """The figures, computed once per model."""
        at, held_out = self.state.here.at, self.held_out
        if not self.models or at is not self.models[-1]:
            within = held_out.project(at.U)  # in the coordinates of the atoms
            self._judged = self.judge(within, at.A, raw_intercepts(self.rankone.problem, at))
        self.models.append(at)
        return {"trace_norm": float(at.theta.sum()), **self._judged}

    def solution(self) -> Linear:
        return self.rankone.solution(self.state)
