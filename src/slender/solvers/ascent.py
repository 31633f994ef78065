"""LaRank from pass to pass: what is proved of its weights, and what the next pass works with.

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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..rows import Rows
from .directions import Form
from .duality import Dual, Primal, Terms, dual_point, gap_between, primal_point
from .larank import MOVES, OPERATIONS, Data, LaRank, worth_a_visit
from .patterns import Patterns, support

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


class Proof(NamedTuple):
    """What a pass came to, in units of 1/lam."""

    primal: Primal
    dual: Dual
    best: float  # dual value so far
    gap: float


class Ascent:
    """One fit: `sweep`, `prove` and, unless that is enough, `adapt`."""

    def __init__(
        self,
        form: Form,
        rows: Rows,
        terms: Terms,
        solver: LaRank,
        patterns: Patterns,
        n_rows: int,
        visits: NDArray[np.intp],
        active: bool,
    ) -> None:
        """From these patterns; `visits` are the examples that may come as fresh ones."""
        self.form, self.rows, self.terms, self.solver = form, rows, terms, solver
        self.visits, self.active, self.fresh = visits, active, visits
        # rows that are read where they are say so by the place of the last one
        last = rows.shape[0] - 1
        self.copied = rows.take(np.array([last]))[1][0] != last
        dual = dual_point(form, rows, terms, patterns, n_rows)
        self.kept = dual.rounded(rows.dtype, terms.bias)
        self.state = solver.init(patterns, self.kept.W.copy(), dual.b)
        self.length, self.best = 1.0, 0.0  # the dual value of β = 0
        self.least, self.slow, self.vain = np.inf, 0, 0
        self.moved, self.at_rest = False, False

    def sweep(self, rng: np.random.Generator) -> None:
        """One pass: until its work is done, or nothing moves any more."""
        counters = self.state.counters
        before, moves = counters[MOVES], -1
        enough = counters[OPERATIONS] + ROUND * self.rows.shape[0] * len(self.state.W)
        while counters[OPERATIONS] < enough and counters[MOVES] > moves:
            moves = counters[MOVES]
            self._visit(rng.permutation(self.fresh), rng)
        self.moved = bool(counters[MOVES] > before)

    def _visit(self, order: NDArray[np.intp], rng: np.random.Generator) -> None:
        """All of `order`; where rows must be copied, in portions with patterns to draw from."""
        if not self.copied:
            self._sweep(np.arange(self.rows.shape[0]), order, rng)
            return
        size = max(1, PORTION_BYTES // self.rows.row_bytes // 2)
        for lo in range(0, len(order), size):
            portion = order[lo : lo + size]
            drawn = rng.permutation(support(self.state.patterns))[:size]
            self.state = self.solver.listing(self.state, drawn)
            self._sweep(np.union1d(portion, drawn), portion, rng)

    def _sweep(
        self, here: NDArray[np.intp], order: NDArray[np.intp], rng: np.random.Generator
    ) -> None:
        """One sweep with the rows `here` at hand."""
        data, row_of = Data(self.terms.U, self.terms.sq), np.full(self.rows.shape[0], -1)
        X, row_of[here] = self.rows.take(here)
        self.state = self.solver.sweep_over(self.form, self.state, X, data, order, rng, row_of)

    def prove(self) -> Proof:
        """How far the weights kept are from the optimum."""
        arguments = self.form, self.rows, self.terms, self.state.patterns
        dual = dual_point(*arguments, len(self.state.W))
        self.kept = dual.rounded(self.rows.dtype, self.terms.bias, self.length)
        primal = primal_point(*arguments, self.kept, self.length)
        rise = dual.value - self.best
        self.best = max(self.best, dual.value)
        gap = gap_between(primal, self.best)
        self.slow = 0 if rise > SLOW * gap else self.slow + 1
        self.vain = 0 if rise > 0.0 or gap < self.least else self.vain + 1
        self.least = min(self.least, gap)
        W = dual.W.astype(self.state.W.dtype, copy=False)
        self.state = self.state._replace(W=W, b=dual.b)
        return Proof(primal, dual, self.best, gap)

    def adapt(self, proof: Proof) -> None:
        """Visits, thresholds, dtype and length for the next pass."""
        primal = proof.primal
        self.length = float(np.clip(self.length * primal.factor, 1.0, LONGEST))
        narrow = self.state.W.dtype != np.float64
        rounded = narrow and primal.parts.sum() <= primal.blur
        if not self.moved or self.slow >= PATIENCE:
            lowered = self.solver.lowered(proof.gap / float(self.terms.U.sum()))
            if lowered:
                self.solver, self.slow, self.vain = lowered, 0, 0
            else:
                rounded = rounded or not self.moved or self.vain >= PATIENCE
        if rounded and narrow:
            self.state = self.state._replace(W=proof.dual.W)
        self.at_rest = rounded and not narrow
        # beyond float32 the parts say more of how the weights are rounded than of the dual
        own = self.active and self.state.W.dtype == self.rows.dtype
        self.fresh = worth_a_visit(primal.parts) if own else self.visits
