"""A path: the same problem at one penalty after another, evaluated on held-out rows.

A path is a solver like any other (loop.py).  It solves the problem at one value of the penalties
after another, for every training part, by the steps of another solver: newton.py for C, rankone.py
for a pair of trace-norm penalties.  Each value starts where the last one ended.  The folds of a
cross-validation take turns at each value, and a record has their mean.

C.  The start at a new value costs no pass: the gradient found at the last one, the curvature and
the pairs of L-BFGS can be used again, since the data's part of them does not depend on lam.  A
value is solved only as accurately as validation can distinguish: until the gap is the largest of
tol times the objective, a share TELLS of the standard error of the held-out log loss, and a share
STEEP of what the log loss changed at the last value, but at most LOOSEST times the objective.  If
the penalty is weak and the objective small, a gap relative to the objective would ask for accuracy
that has no effect on held-out rows.  Where the log loss still changes much from value to value, an
error that is small beside that change does not affect the choice; where it turns, the change
vanishes.  The gap of a record is the one that can be proved without another pass.

Trace norm (TN12, §4.1).  lambda1 decreases from lambda1_max, lambda2 from its largest value, both
geometrically.  The grid is traversed back and forth, so that consecutive pairs differ in one
penalty by one step.  The start at a new pair does not read X, since the gradient of the risk does
not depend on the penalties; if the old solution is proved good enough for the new pair, X is not
read at all.  The path serves to choose penalties by validation; for this, LOOSER times the gap of
the final fit is enough.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, to_numpy
from ..data import Examples
from ..data.examples import Readings
from ..problem import Multinomial
from ..problem.certificate import hopeful
from ..problem.linear import Linear, one_row
from ..problem.tracenorm import Factors, raw_intercepts
from .loop import Clock, Record, Solver
from .newton import Newton
from .quasinewton import NewtonState, begin, descend, enter, narrow
from .rankone import RankOne

TELLS = 0.1  # of the standard error of the held-out log loss: smaller differences do not matter
STEEP = 0.05  # of the change of the held-out log loss from one value to the next,
LOOSEST = 0.1  # but at most this share of the objective: values may lie decades apart
GAIN = 0.1  # of the target gap: a step that gains less is the last one at its penalty
HOPELESS = 10.0  # times the target gap: if float32 stalls above it, continue in float64
LOOSER = 3.0


# The figures of W and b on held-out examples.
Judge = Callable[[Examples, NDArray[Any], NDArray[Any]], Record]


@dataclass
class Walk:
    """How far a fold has come."""

    read: Readings  # of the fold's rows
    state: Any = None  # of the solver; passed on from value to value
    error: float = 0.0  # the gap that validation cannot notice, from the last values,
    steep: float = 0.0  # and one that is small beside the change between them
    models: list[Factors] = field(default_factory=list)  # of every value, if they are kept
    judged: Record = field(default_factory=dict)  # the last figures on the held-out rows
    found: Record | None = None  # at this value so far; None: not begun
    before: float = 0.0  # passes before this value
    passes: float = 0.0  # of the last record
    clock: Clock = field(default_factory=Clock)  # of the work at this value


class Fold(ABC):
    """One training part along the path, and the rows that it is evaluated on."""

    problem: Multinomial

    def __init__(
        self, held_out: Examples, judge: Judge, most: float, rng: np.random.Generator
    ) -> None:
        self.held_out, self.judge, self.most, self.rng = held_out, judge, most, rng

    def start(self) -> Walk:
        return Walk(self.problem.examples.read)

    @abstractmethod
    def solver(self, walk: Walk, penalties: Record) -> Solver[Any]:
        """The solver for one value of the penalties."""

    @abstractmethod
    def judged(self, walk: Walk) -> Record:
        """The figures of the current model on the held-out rows."""

    @abstractmethod
    def solution(self, walk: Walk) -> Linear:
        """The current model."""

    def advance(self, walk: Walk, penalties: Record) -> Record | None:
        """One step towards these penalties, from the last solution; a record after the last one.

        The evaluation at the end is not timed.
        """
        if walk.found is None:
            walk.found, walk.clock = {}, Clock()
        with walk.clock:
            solver = self.solver(walk, penalties)
            if walk.state is None:
                walk.state = solver.init(self.rng)
            if not walk.found:
                walk.before = walk.passes = walk.read.passes
            if not solver.finished(walk.state) and walk.passes - walk.before < self.most:
                walk.found = solver.step(walk.state) or walk.found
                walk.passes = walk.found["passes"]
                last = False
            else:
                walk.found, last = solver.end(walk.state) or walk.found, True
        if not last:
            return None
        spent = {"passes": walk.read.passes - walk.before, **walk.clock.spent}
        found, walk.found = walk.found, None
        return {**penalties, **found, **self.judged(walk), **spent}


@dataclass
class PathState:
    """The records so far; the loop appends one to `path` after each value."""

    rng: np.random.Generator  # of all folds
    path: list[Record]  # means of all folds
    folds: list[list[Record]]
    walks: list[Walk]  # of the folds
    kept: dict[int, Any] = field(default_factory=dict)  # models that may yet be chosen, by place
    value: Record | None = None  # the penalties at work
    done: list[Record] = field(default_factory=list)  # of the folds that are through with them


@dataclass(frozen=True)
class Path(Solver[PathState]):
    """All folds, at one value of the penalties after another.

    `following(state)` are the next penalties, or None at the end; they may depend on the records.
    """

    folds: Sequence[Fold]
    following: Callable[[PathState], Record | None]

    made_of: ClassVar[tuple[type, ...]] = (
        PathState,
        Walk,
        Clock,
        *Newton.made_of,
        *RankOne.made_of,
    )

    def init(self, rng: np.random.Generator) -> PathState:
        return PathState(rng, [], [[] for _ in self.folds], [fold.start() for fold in self.folds])

    def step(self, state: PathState) -> Record | None:
        """One step of one fold; a record when all folds are through with a value."""
        assert state.value is not None
        place = len(state.done)
        record = self.folds[place].advance(state.walks[place], state.value)
        if record is not None:
            state.done.append(record)
        if len(state.done) < len(self.folds):
            return None
        for mine, record in zip(state.folds, state.done, strict=True):
            mine.append(record)
        mean = mean_record(state.done)
        state.value, state.done = None, []
        return mean

    def finished(self, state: PathState) -> bool:
        if state.value is None:
            state.value = self.following(state)
        return state.value is None

    def solution(self, state: PathState) -> Linear:
        """The model of the first fold."""
        return self.folds[0].solution(state.walks[0])


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

    `error` is a gap that validation cannot notice, `steep` one that is small beside the last change
    of the held-out log loss.
    """

    error: float = 0.0
    steep: float = 0.0

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
        steep = min(self.steep, LOOSEST * state.objective)
        return max(self.tol * state.objective, self.error, steep)


class NewtonFold(Fold):
    """A fold of a path of C; `columns` are the factors that the features were multiplied by."""

    def __init__(self, problem: Multinomial, tol: float, columns: Any, *held_out: Any) -> None:
        super().__init__(*held_out)
        self.problem, self.tol, self.columns = problem, tol, columns

    def solver(self, walk: Walk, penalties: Record) -> NewtonAlong:
        lam = self.problem.lam_of(penalties["C"])
        return NewtonAlong(self.problem, lam, self.tol, error=walk.error, steep=walk.steep)

    def model(self, walk: Walk) -> tuple[Array, Array]:
        """(W, b), one row per class, for the rows as they are fitted."""
        return Newton(self.problem, walk.state.lam, self.tol).model(walk.state)

    def judged(self, walk: Walk) -> Record:
        figures = self.judge(self.held_out, *self.model(walk))
        before = walk.judged.get("log_loss", figures["log_loss"])
        change = abs(figures["log_loss"] - before)
        walk.error, walk.steep = TELLS * figures["log_loss_error"], STEEP * change
        walk.judged = figures
        return figures

    def solution(self, walk: Walk) -> Linear:
        W, b = self.model(walk)
        coef, intercept = one_row(to_numpy(W), to_numpy(b))
        return Linear(coef if self.columns is None else coef * self.columns, intercept)


# -- a path of the trace norm ----------------------------------------------------------------------


class RankOneFold(Fold):
    """A fold of a path of lambda1 and lambda2; `models` has the factors of every pair."""

    def __init__(self, rankone: RankOne, *held_out: Any) -> None:
        super().__init__(*held_out)
        self.problem = rankone.problem
        self.rankone = replace(rankone, tol=LOOSER * rankone.tol, stretches=True)

    def start(self) -> Walk:
        """At W = 0, which says what the largest lambda1 is."""
        return Walk(self.problem.examples.read, self.rankone.init(self.rng))

    def solver(self, walk: Walk, penalties: Record) -> RankOne:
        lambda1, lambda2 = penalties["lambda1"], penalties["lambda2"]
        return replace(self.rankone, lambda1=lambda1, lambda2=lambda2)

    def judged(self, walk: Walk) -> Record:
        """The figures, computed once per model."""
        at, held_out = walk.state.here.at, self.held_out
        if not walk.models or at is not walk.models[-1]:
            within = held_out.project(at.U)  # in the coordinates of the atoms
            walk.judged = self.judge(within, at.A, raw_intercepts(self.problem, at))
        walk.models.append(at)
        return {"trace_norm": float(at.theta.sum()), **walk.judged}

    def solution(self, walk: Walk) -> Linear:
        return self.rankone.solution(walk.state)
