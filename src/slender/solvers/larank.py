"""LaRank: an online solver of the SVM's dual (Bordes, Bottou, Gallinari and Weston 2007).

A pass is a sweep over fresh examples, with support patterns visited in between (larank_sweep.py),
and a proof of how far the weights are from the optimum; then follows what the next pass works with.

Visits.  The gap is a sum over examples,

    primal - dual  =  lam Σ_i max_δ { δᵀg_i : β_i + δ feasible },

so that the next pass need only visit as fresh ones those that hold nearly all of it.  The parts
are to the digits of the scores; the gap itself is proved in duality.py.

Thresholds.  If no example can move by more than tau with room for kappa, their parts of the gap
are at most U_i tau, and what little kappa holds back.  So when nothing moves, or next to nothing,
tau goes down if Σ U_i tau is about the gap; else kappa does; else it is rounding.

Rounding.  After each pass W is Σ β_i x_iᵀ again, rounded to the rows' dtype.  Once the gap is less
than float32 scores can show, W becomes float64: the rows stay as they are and are widened number by
number.  When that is not enough either, the ascent is at rest.

Length.  Where all rows can be on the right side of their margins, C times a violation as small as
rounding may be more than all the rest of the objective.  So the weights kept are W times the number
that was best for them a pass ago (duality.py), which costs nothing and changes no prediction.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..problem.linear import Linear
from .duality import Dual, Kept, Primal, SVMProblem, dual_point, gap_between, primal_point
from .larank_sweep import MOVES, OPERATIONS, LaRankIterate, Rules
from .loop import Record, Solver
from .patterns import Patterns, empty, support

# Of the products with rows of W that visiting every example takes.  A few examples may be all that
# is worth a visit; they are gone over until this much is done, since the gap costs a pass too.
ROUND = 1.0
# Rows at a time where they must be copied (float16, integers): half of them fresh examples, half
# support patterns to draw from, of all there are a random part.
PORTION_BYTES = 16 * 2**20
LONGEST = 10.0  # times W: beyond that it is too early for a length to help
SLOW = 1e-3  # of the gap: passes that raise the dual by less may be held back by the thresholds
# Such passes in a row; and passes that neither raise it nor narrow the gap, which is rounding.
PATIENCE = 5


COVERED = 0.9  # of the gap: the share that the examples of the next pass hold


@dataclass
class LaRankState:
    """All that changes during a fit."""

    rng: np.random.Generator
    iterate: LaRankIterate
    rules: Rules
    kept: Kept  # weights as the model keeps them
    fresh: NDArray[np.intp]  # examples of the next pass
    objective: float = 0.0  # not looked at yet
    gap: float = np.inf
    length: float = 1.0
    best: float = 0.0  # dual value so far; that of β = 0 is 0
    least: float = np.inf  # gap
    slow: int = 0
    vain: int = 0
    at_rest: bool = False  # does rounding allow no further step?


@dataclass(frozen=True)
class LaRank(Solver[LaRankState]):
    """To a gap of tol times the objective; None: for as long as anything moves.

    `patterns` are coefficients to begin with, `visits` the examples that may come as fresh ones.
    """

    problem: SVMProblem
    rules: Rules = field(default_factory=Rules)
    tol: float | None = None
    active: bool = True
    patterns: Patterns | None = None
    visits: NDArray[np.intp] | None = None

    def init(self, rng: np.random.Generator) -> LaRankState:
        problem = self.problem
        patterns = self.patterns or empty(problem.rows.shape[0], problem.n_rows)
        dual = dual_point(problem, patterns)
        kept = dual.rounded(problem.rows.dtype, problem.bias)
        iterate = self.rules.init(patterns, kept.W.copy(), dual.b)
        return LaRankState(rng, iterate, self.rules, kept, self._all())

    def _all(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.problem.U) if self.visits is None else self.visits

    def step(self, state: LaRankState) -> Record:
        """One pass, and what is proved after it."""
        moved = self.sweep(state)
        primal, dual = self.prove(state)
        if not self.reached(state):
            self.adapt(state, primal, dual, moved)
        counters = state.iterate.counters
        return {
            "objective": state.objective,
            "gap": state.gap,
            "dual": self.problem.lam * state.best,
            "support": float(len(support(state.iterate.patterns))),
            "moves": float(counters[MOVES]),
            "operations": float(counters[OPERATIONS]),
        }

    def finished(self, state: LaRankState) -> bool:
        return state.at_rest or self.reached(state)

    def reached(self, state: LaRankState) -> bool:
        """Is the gap as small as asked for?"""
        return self.tol is not None and state.gap <= self.tol * state.objective

    def solution(self, state: LaRankState) -> Linear:
        return Linear(state.kept.W.copy(), state.kept.c)

    def sweep(self, state: LaRankState) -> bool:
        """Until the work of a pass is done, or nothing moves any more; whether anything did."""
        counters = state.iterate.counters
        before, moves = counters[MOVES], -1
        rows, n_rows = self.problem.rows, self.problem.n_rows
        enough = counters[OPERATIONS] + ROUND * rows.shape[0] * n_rows
        while counters[OPERATIONS] < enough and counters[MOVES] > moves:
            moves = counters[MOVES]
            self._visit(state, state.rng.permutation(state.fresh))
        return bool(counters[MOVES] > before)

    def _visit(self, state: LaRankState, order: NDArray[np.intp]) -> None:
        """All of `order`; where rows must be copied, in portions with patterns to draw from."""
        rows = self.problem.rows
        # rows that are read where they are say so by the place of the last one
        last = rows.shape[0] - 1
        if rows.take(np.array([last]))[1][0] == last:
            self._sweep(state, np.arange(rows.shape[0]), order)
            return
        size = max(1, PORTION_BYTES // rows.row_bytes // 2)
        for lo in range(0, len(order), size):
            portion = order[lo : lo + size]
            drawn = state.rng.permutation(support(state.iterate.patterns))[:size]
            state.iterate = state.rules.listing(state.iterate, drawn)
            self._sweep(state, np.union1d(portion, drawn), portion)

    def _sweep(self, state: LaRankState, here: NDArray[np.intp], order: NDArray[np.intp]) -> None:
        """One sweep with the rows `here` at hand."""
        rows = self.problem.rows
        row_of = np.full(rows.shape[0], -1)
        X, row_of[here] = rows.take(here)
        arguments = X, order, state.rng, row_of
        state.iterate = state.rules.sweep_over(self.problem, state.iterate, *arguments)

    def prove(self, state: LaRankState) -> tuple[Primal, Dual]:
        """How far the weights kept are from the optimum."""
        problem, patterns = self.problem, state.iterate.patterns
        dual = dual_point(problem, patterns)
        state.kept = dual.rounded(problem.rows.dtype, problem.bias, state.length)
        primal = primal_point(problem, patterns, state.kept, state.length)
        rise = dual.value - state.best
        state.best = max(state.best, dual.value)
        gap = gap_between(primal, state.best)
        state.slow = 0 if rise > SLOW * gap else state.slow + 1
        state.vain = 0 if rise > 0.0 or gap < state.least else state.vain + 1
        state.least = min(state.least, gap)
        # rows of earlier calls that are gone had no loss when they were seen
        state.objective = problem.lam * primal.value
        state.gap = problem.lam * gap if problem.whole else np.inf
        W = dual.W.astype(state.iterate.W.dtype, copy=False)
        state.iterate = state.iterate._replace(W=W, b=dual.b)
        return primal, dual

    def adapt(self, state: LaRankState, primal: Primal, dual: Dual, moved: bool) -> None:
        """Visits, thresholds, dtype and length for the next pass."""
        state.length = float(np.clip(state.length * primal.factor, 1.0, LONGEST))
        narrow = state.iterate.W.dtype != np.float64
        rounded = narrow and primal.parts.sum() <= primal.blur
        if not moved or state.slow >= PATIENCE:
            gap = gap_between(primal, state.best)
            lowered = state.rules.lowered(gap / float(self.problem.U.sum()))
            if lowered:
                state.rules, state.slow, state.vain = lowered, 0, 0
            else:
                rounded = rounded or not moved or state.vain >= PATIENCE
        if rounded and narrow:
            state.iterate = state.iterate._replace(W=dual.W)
        state.at_rest = rounded and not narrow
        # beyond float32 the parts say more of how the weights are rounded than of the dual
        own = self.active and state.iterate.W.dtype == self.problem.rows.dtype
        state.fresh = worth_a_visit(primal.parts) if own else self._all()


def worth_a_visit(gaps: NDArray[np.float64]) -> NDArray[np.intp]:
    """The fewest examples that hold COVERED of the gap."""
    order = np.argsort(-gaps)
    held = np.cumsum(gaps[order])
    enough = np.searchsorted(held, COVERED * held[-1]) + 1
    return np.sort(order[:enough])
