"""LaRank from pass to pass: what is proved of its weights, and what the next pass works with.

Visits.  The gap is a sum over examples,

    primal - dual  =  mu Σ_i max_δ { δᵀg_i : β_i + δ feasible },

so that the next pass need only visit as fresh ones those that hold nearly all of it.  The parts
are to the digits of the scores; the gap itself is proved in duality.py.

Thresholds.  If no example can move by more than tau with room for kappa, their parts of the gap
are at most U_i tau, and what little kappa holds back.  So when nothing moves, tau goes down if
Σ U_i tau is about the gap; else kappa does; else it is rounding.

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
from .duality import Dual, Primal, Terms, dual_point, primal_point
from .larank import MOVES, OPERATIONS, Data, LaRank, worth_a_visit
from .patterns import Patterns

# Of the products with rows of W that visiting every example takes.  A few examples may be all that
# is worth a visit; they are gone over until this much is done, since the gap costs a pass too.
ROUND = 1.0
LONGEST = 10.0  # times W: beyond that it is too early for a length to help
PATIENCE = 3  # passes in a row that moved but did not raise the dual: what moves is rounding


class Proof(NamedTuple):
    """What a pass came to, in units of 1/mu."""

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
        self.X, _ = rows.take(np.arange(rows.shape[0]))
        dual = dual_point(form, rows, terms, patterns, n_rows)
        self.kept = dual.rounded(rows.dtype, terms.bias)
        self.state = solver.init(patterns, self.kept.W.copy(), dual.b)
        self.length, self.best, self.vain = 1.0, 0.0, 0  # β = 0 has the dual value 0
        self.moved, self.at_rest = False, False

    def sweep(self, rng: np.random.Generator) -> None:
        """One pass: until its work is done, or nothing moves any more."""
        data, counters = Data(self.terms.U, self.terms.sq), self.state.counters
        before, moves = counters[MOVES], -1
        enough = counters[OPERATIONS] + ROUND * self.rows.shape[0] * len(self.state.W)
        while counters[OPERATIONS] < enough and counters[MOVES] > moves:
            moves = counters[MOVES]
            order = rng.permutation(self.fresh)
            self.state = self.solver.sweep_over(self.form, self.state, self.X, data, order, rng)
        self.moved = bool(counters[MOVES] > before)

    def prove(self) -> Proof:
        """How far the weights kept are from the optimum."""
        arguments = self.form, self.rows, self.terms, self.state.patterns
        dual = dual_point(*arguments, len(self.state.W))
        self.kept = dual.rounded(self.rows.dtype, self.terms.bias, self.length)
        primal = primal_point(*arguments, self.kept, self.length)
        self.vain = 0 if dual.value > self.best else self.vain + 1
        self.best = max(self.best, dual.value)
        gap = max(0.0, primal.value + primal.rounding - self.best)
        W = dual.W.astype(self.state.W.dtype, copy=False)
        self.state = self.state._replace(W=W, b=dual.b)
        return Proof(primal, dual, self.best, gap)

    def adapt(self, proof: Proof) -> None:
        """Visits, thresholds, dtype and length for the next pass."""
        primal = proof.primal
        self.length = float(np.clip(self.length * primal.factor, 1.0, LONGEST))
        narrow = self.state.W.dtype != np.float64
        rounded = narrow and primal.parts.sum() <= primal.blur
        if not rounded and (not self.moved or self.vain == PATIENCE):
            lowered = self.solver.lowered(proof.gap / self.terms.U.sum())
            rounded, self.solver, self.vain = lowered is None, lowered or self.solver, 0
        if rounded and narrow:
            self.state = self.state._replace(W=proof.dual.W)
        self.at_rest = rounded and not narrow
        # beyond float32 the parts say more of how the weights are rounded than of the dual
        own = self.active and self.state.W.dtype == self.rows.dtype
        self.fresh = worth_a_visit(primal.parts) if own else self.visits
