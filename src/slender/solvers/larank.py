"""LaRank: an online solver of the SVM's dual (Bordes, Bottou, Gallinari and Weston 2007).

A pass is a sweep over fresh examples, with visits to support patterns in between (larank_sweep.py),
followed by a bound on the distance from the optimum.  Then the next pass is prepared.

Visits.  The gap is a sum over examples,

    primal - dual  =  lam Σ_i max_δ { δᵀg_i : β_i + δ feasible },

so the next pass visits as fresh examples only those that hold nearly all of the gap.  These parts
are only as accurate as the scores; the gap itself is proved in duality.py.

Thresholds.  If no example has a move with a gradient above tau and room for kappa, its part of the
gap is at most U_i tau, plus the little that kappa holds back.  So if nothing moves, or almost
nothing, tau is lowered if Σ U_i tau is about as large as the gap; otherwise kappa is set to 0; if
it is 0 already, the cause is rounding.

Rounding.  After each pass W is computed again as Σ β_i x_iᵀ and rounded to the dtype of the rows.
Once the gap is too small for float32 scores, W becomes float64; the rows stay as they are and are
widened number by number.  If that does not suffice either, the fit ends.

Length.  If all rows can be on the right side of their margins, C times a violation as small as
rounding errors may exceed the rest of the objective.  So the weights of the model are W times the
factor that was best one pass earlier (duality.py), which costs nothing and changes no prediction.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..problem.linear import Linear
from .duality import Dual, Kept, Primal, SVMProblem, dual_point, gap_between, primal_point
from .larank_sweep import MOVES, OPERATIONS, LaRankIterate, Rules
from .loop import Record, Solver
from .patterns import Patterns, empty, support

# Work of a pass, in units of the products with rows of W that a visit to every example takes.  If
# only a few examples are worth a visit, they are visited until this work is done, since the gap
# costs a pass too.
ROUND = 1.0
# Rows that are copied at a time if a kernel cannot read them (float16, integers): half of them are
# fresh examples, half are a random part of the support patterns, to draw from.
PORTION_BYTES = 16 * 2**20
LONGEST = 10.0  # most that W is multiplied by: if more seems best, it is too early for a length
SLOW = 1e-3  # share of the gap: thresholds may hold back a pass that raises the dual by less
# Number of such passes in a row; also of passes that neither raise the dual nor reduce the gap,
# which is due to rounding.
PATIENCE = 5


COVERED = 0.9  # share of the gap that the examples of the next pass hold


@dataclass
class LaRankState:
    """All that changes during a fit."""

    rng: np.random.Generator
    iterate: LaRankIterate
    rules: Rules
    kept: Kept  # the weights of the model
    fresh: NDArray[np.intp]  # examples of the next pass
    objective: float = 0.0  # not computed before the first pass
    gap: float = np.inf
    length: float = 1.0
    best: float = 0.0  # best dual value so far; it is 0 at β = 0
    least: float = np.inf  # smallest gap so far
    slow: int = 0  # number of slow passes in a row
    vain: int = 0  # number of passes in a row without any gain
    at_rest: bool = False  # does rounding allow no further step?


@dataclass(frozen=True)
class LaRank(Solver[LaRankState]):
    """Stops at a gap of tol times the objective; with None, when nothing moves any more.

    `patterns` are the initial coefficients, `visits` the examples that may be visited as fresh.
    """

    problem: SVMProblem
    rules: Rules = field(default_factory=Rules)
    tol: float | None = None
    active: bool = True
    patterns: Patterns | None = None
    visits: NDArray[np.intp] | None = None

    made_of: ClassVar[tuple[type, ...]] = (LaRankState, LaRankIterate, Patterns, Rules, Kept)

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
        """One pass, then the duality gap."""
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
        """Is the gap at most tol times the objective?"""
        return self.tol is not None and state.gap <= self.tol * state.objective

    def solution(self, state: LaRankState) -> Linear:
        return Linear(state.kept.W.copy(), state.kept.c)

    def sweep(self, state: LaRankState) -> bool:
        """Visit until the work of a pass is done or nothing moves; returns whether anything did."""
        counters = state.iterate.counters
        before, moves = counters[MOVES], -1
        rows, n_rows = self.problem.rows, self.problem.n_rows
        enough = counters[OPERATIONS] + ROUND * rows.shape[0] * n_rows
        while counters[OPERATIONS] < enough and counters[MOVES] > moves:
            moves = counters[MOVES]
            self._visit(state, self._shuffled(state.fresh, state.rng))
        return bool(counters[MOVES] > before)

    def _shuffled(self, index: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
        return index[self.problem.rows.random_order(index, rng)]

    def _visit(self, state: LaRankState, order: NDArray[np.intp]) -> None:
        """Visit all of `order`; if rows must be copied, in portions with patterns to draw from."""
        rows = self.problem.rows
        # `take` leaves the index of the last row unchanged if rows can be read in place
        last = rows.shape[0] - 1
        if rows.take(np.array([last]))[1][0] == last:
            self._sweep(state, np.arange(rows.shape[0]), order)
            return
        size = max(1, PORTION_BYTES // rows.row_bytes // 2)
        for lo in range(0, len(order), size):
            portion = order[lo : lo + size]
            drawn = self._shuffled(support(state.iterate.patterns), state.rng)[:size]
            state.iterate = state.rules.listing(state.iterate, drawn)
            self._sweep(state, np.union1d(portion, drawn), portion)

    def _sweep(self, state: LaRankState, here: NDArray[np.intp], order: NDArray[np.intp]) -> None:
        """One sweep over `order`, with access to the rows `here`."""
        rows = self.problem.rows
        row_of = np.full(rows.shape[0], -1)
        X, row_of[here] = rows.take(here)
        arguments = X, order, state.rng, row_of
        state.iterate = state.rules.sweep_over(self.problem, state.iterate, *arguments)

    def prove(self, state: LaRankState) -> tuple[Primal, Dual]:
        """Bound how far the weights of the model are from the optimum."""
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
        # rows of earlier calls that were not kept had no loss when they were visited
        state.objective = problem.lam * primal.value
        state.gap = problem.lam * gap if problem.whole else np.inf
        W = dual.W.astype(state.iterate.W.dtype, copy=False)
        state.iterate = state.iterate._replace(W=W, b=dual.b)
        return primal, dual

    def adapt(self, state: LaRankState, primal: Primal, dual: Dual, moved: bool) -> None:
        """Set visits, thresholds, dtype and length for the next pass."""
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
        # once W is wider than the rows, the parts show the rounding of the model more than the dual
        own = self.active and state.iterate.W.dtype == self.problem.rows.dtype
        state.fresh = worth_a_visit(primal.parts) if own else self._all()


def worth_a_visit(gaps: NDArray[np.float64]) -> NDArray[np.intp]:
    """The smallest set of examples that holds a share COVERED of the gap."""
    order = np.argsort(-gaps)
    held = np.cumsum(gaps[order])
    enough = np.searchsorted(held, COVERED * held[-1]) + 1
    return np.sort(order[:enough])
