"""One sweep of LaRank over the examples (larank.py has the fit).

A visit moves the coefficients of one example (patterns.py has the dual).  There are three kinds:

    process     a fresh example, all classes
    reprocess   a random support pattern, all classes
    optimize    a random support pattern, only the few classes that it has coefficients for

Multi-class: with k+ the class of largest gradient among those whose coefficient may grow, and k-
the class of smallest gradient, move by λ along e_{k+} - e_{k-}:

    λ = min { (g_{k+} - g_{k-}) / (2 ‖x‖²),  room of k+ },    gain  λ (g_{k+} - g_{k-}) - λ² ‖x‖²

Binary, as in BB08: α <- max{0, min{α - (y wᵀx - 1)/‖x‖², U}}.

A move counts only if its gradient exceeds tau and there is room for a move of kappa.  Every move
that counts gains at least min{tau²/(2ν²), kappa tau/2}, where ν is the largest norm of a direction
in feature space.  Since the dual is at most n U, this bounds the number of moves (BB08).

The kind of the next visit is drawn in proportion to the dual gain per operation of each kind: a
running mean with rate ADAPT, at least 1/FLOOR of the sum.  Cost is measured in operations, products
with one row of W, and not in seconds, so that a seed reproduces a run.

Departures: the reference code makes ten reprocesses or optimizes whenever one is drawn; this was
measured to need half to four fifths more operations than making one.  Once the scores of an example
are known, up to `inner` moves are made on it before W is updated (each move costs O(C), not
O(C d)); `inner=1` is the paper's single move.  `reprocess=False` visits fresh examples only, the
rival of LaRank in BB08.  The moves are in svm_forms.py, and what happens between two passes is in
larank.py.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import kernel
from .duality import SVMProblem
from .patterns import FAST, Patterns, fits, follow, scratch, support, with_room, write
from .svm_forms import TIE, Limits, at_bound, improve

PROCESS, REPROCESS, OPTIMIZE = 0, 1, 2
ADAPT = 0.05
FLOOR = 20.0
DRAWS = 2**16  # random numbers passed to the kernel at a time, at most
DRAWS_A_VISIT = 16  # random numbers per example of an order, if that is less
NOWHERE = -1
DONE, MORE_ROOM, MORE_DRAWS = 0, 1, 2  # why the kernel returned

# Indices into LaRankIterate.counters.
POSITION, KIND, DRAWN, LISTED, MOVES, OPERATIONS = range(6)


class LaRankIterate(NamedTuple):
    """The iterate, and the state of a sweep."""

    W: NDArray[Any]  # (C, d), or (1, d)
    b: NDArray[np.float64]  # (C,), or (1,)
    patterns: Patterns
    listed: NDArray[np.int64]  # (n,) support patterns to draw from, the first counters[LISTED]
    place: NDArray[np.int64]  # (n,) position of an example in `listed`, or NOWHERE
    counters: NDArray[np.int64]  # (6,)
    rates: NDArray[np.float64]  # (3,) dual gain per operation of each kind


@dataclass(frozen=True)
class Rules:
    """Which moves count, and how the next visit is chosen."""

    tau: float = 1e-4
    kappa: float = 1e-6
    inner: int = 8
    adaptive: bool = True  # else one reprocess and one optimize after each process
    skip_bound: bool = True  # do not draw patterns whose coefficients are all at the bound
    reprocess: bool = True  # else fresh examples only

    def init(self, patterns: Patterns, W: NDArray[Any], b: NDArray[np.float64]) -> LaRankIterate:
        """The iterate with these patterns and their weights."""
        n = len(patterns.first)
        state = LaRankIterate(
            W,
            b,
            patterns,
            np.zeros(n, np.int64),
            np.full(n, NOWHERE),
            np.zeros(6, np.int64),
            np.zeros(3),
        )
        return self.listing(state, support(patterns))

    def listing(self, state: LaRankIterate, drawn: NDArray[np.intp]) -> LaRankIterate:
        """The iterate with these patterns as the list to draw from."""
        state.place[:] = NOWHERE
        state.counters[LISTED] = 0
        list_patterns(drawn, state)
        return state

    def lowered(self, share: float) -> "Rules | None":
        """Rules with lower thresholds, for when nothing moves; None if these are not the cause.

        `share` is the gap in units of lam Σ U_i: the tau that would hold back all of the gap.
        """
        if self.tau > 0.5 * share:
            return replace(self, tau=0.01 * share)
        return replace(self, kappa=0.0) if self.kappa > 0.0 else None

    def sweep_over(
        self,
        problem: SVMProblem,
        state: LaRankIterate,
        X: Any,
        order: NDArray[np.intp],
        rng: np.random.Generator,
        row_of: NDArray[np.intp] | None = None,
    ) -> LaRankIterate:
        """Visit every example of `order` once as a fresh one, and support patterns in between.

        `row_of` has the position of each example in X; None: X holds all of them, in order.
        """
        limits = Limits(self.tau, self.kappa, self.inner, problem.bias, TIE * self.tau)
        row_of = np.arange(len(state.place)) if row_of is None else row_of
        pattern = scratch(len(state.W))
        size = min(DRAWS, DRAWS_A_VISIT * (len(order) + 1))
        draws = rng.random(size)
        state.counters[[POSITION, KIND, DRAWN]] = 0, PROCESS, 0
        while True:
            answer = sweep(
                problem.form,
                X,
                row_of,
                problem.U,
                problem.sq,
                order,
                draws,
                limits,
                self.adaptive,
                self.skip_bound,
                self.reprocess,
                state,
                pattern,
            )
            if answer == DONE:
                return state
            if answer == MORE_ROOM:
                state = state._replace(patterns=with_room(state.patterns, len(state.W)))
            else:
                draws = rng.random(size)
                state.counters[DRAWN] = 0


@kernel()
def list_pattern(i, listed, state):  # type: ignore[no-untyped-def]
    """Add example i to the list to draw from, or remove it."""
    place, last = state.place[i], state.counters[LISTED] - 1
    if listed and place == NOWHERE:
        state.listed[last + 1] = i
        state.place[i] = last + 1
        state.counters[LISTED] += 1
    elif not listed and place != NOWHERE:
        moved = state.listed[last]
        state.listed[place] = moved
        state.place[moved] = place
        state.place[i] = NOWHERE
        state.counters[LISTED] -= 1


@kernel()
def list_patterns(drawn, state):  # type: ignore[no-untyped-def]
    for i in drawn:
        list_pattern(i, True, state)


@kernel(fastmath=FAST)
def sweep(  # type: ignore[no-untyped-def]
    form, X, row_of, U, sq, order, draws, limits, adaptive, skip_bound, reprocess, state, pattern
):
    """Run LaRank to the end of `order`, or until more slots or random numbers are needed."""
    counters, rates = state.counters, state.rates
    while True:
        if counters[DRAWN] + 2 > len(draws):
            return MORE_DRAWS
        kind = counters[KIND]
        if kind != PROCESS and (counters[LISTED] == 0 or not reprocess):
            kind = PROCESS
        if kind == PROCESS:
            if counters[POSITION] >= len(order):
                return DONE
            i = order[counters[POSITION]]
        else:
            i = state.listed[int(draws[counters[DRAWN]] * counters[LISTED])]

        operations, m, gain, moves = improve(
            form, i, X, row_of[i], U[i], sq[i], kind == OPTIMIZE, limits, state, pattern
        )
        if moves > 0:
            if not fits(state.patterns, i, pattern, m):
                return MORE_ROOM  # nothing was changed: repeat the visit with more slots
            operations += follow(pattern, m, X, row_of[i], 1.0, limits.bias, state.W, state.b)
            write(state.patterns, i, pattern, m)
            supports = False
            for q in range(m):
                supports = supports or pattern.beta[q] != 0.0
            if supports and skip_bound:
                supports = not at_bound(form, i, U[i], pattern, m)
            list_pattern(i, supports, state)
        counters[MOVES] += moves
        counters[OPERATIONS] += operations
        counters[POSITION if kind == PROCESS else DRAWN] += 1
        rate = gain / operations
        if rates[kind] == 0.0:
            rates[kind] = rate
        else:
            rates[kind] += ADAPT * (rate - rates[kind])
        choose(adaptive, kind, draws, counters, rates)


@kernel()
def choose(adaptive, kind, draws, counters, rates):  # type: ignore[no-untyped-def]
    """Choose the kind of the visit after one of `kind`."""
    if not adaptive:  # process, reprocess, optimize, process ...
        counters[KIND] = (kind + 1) % 3
        return
    floor = (rates[0] + rates[1] + rates[2]) / FLOOR
    for k in range(3):
        rates[k] = max(rates[k], floor)
    r = draws[counters[DRAWN]] * (rates[0] + rates[1] + rates[2])
    counters[DRAWN] += 1
    if r <= rates[PROCESS]:
        counters[KIND] = PROCESS
    elif r <= rates[PROCESS] + rates[REPROCESS]:
        counters[KIND] = REPROCESS
    else:
        counters[KIND] = OPTIMIZE
