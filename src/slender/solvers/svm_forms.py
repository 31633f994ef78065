"""Forms of the SVM: how the dual coefficients of one example move (larank_sweep.py has the loop).

A form has four methods that kernels call: `improve` moves the coefficients of an example, `survey`
computes its margin, `at_bound` tests whether all its coefficients are at a bound, and `mend` moves
them to a feasible point nearby.
"""

from typing import NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from ..kernels import kernel
from ..overloads import method_of
from ..rows.kernel import KernelRows, dot, scores
from .patterns import FAST, FREE, own_slots, read_all, read_used, shorten

TIE = 1e-5  # of tau: if a move makes two gradients equal up to rounding, the first class counts
MANY = 32  # classes: with more, those that can move are selected first, which pays


class Limits(NamedTuple):
    """Which moves count, and how many are made on one example."""

    tau: float
    kappa: float  # in units of U
    inner: int
    bias: float
    tie: float


class Exact(NamedTuple):
    """What is needed to compute scores in float64, and their rounding errors (duality.py)."""

    X: KernelRows
    place: NDArray[np.intp]  # (rows of a block,) their positions in X
    W: NDArray[np.float64]  # (C, d)
    c: NDArray[np.float64]  # (C,)
    delta: NDArray[np.float64]  # (n,) rounding error of a score in float64
    coarser: float  # factor for the rounding error of the given scores


@kernel(fastmath=FAST)
def score64(exact, j, k):  # type: ignore[no-untyped-def]
    """The score of class k for row j of the block, in float64."""
    return dot(exact.X, exact.place[j], exact.W[k]) + exact.c[k]


class Multiclass(NamedTuple):
    """Crammer and Singer's SVM."""

    y: NDArray[np.int32]  # (n,)

    def improve(self, i, X, row, U, sq, used_only, limits, state, pattern):  # type: ignore[no-untyped-def]
        """Returns (products made, classes left in `pattern`, dual gain, moves) of example i."""
        y = self.y[i]
        if used_only:
            m = read_used(state.patterns, i, pattern)
            for q in range(m):
                pattern.score[q] = dot(X, row, state.W[pattern.classes[q]])
        else:
            m = read_all(state.patterns, i, pattern)
            scores(X, row, state.W, pattern.score)
        for q in range(m):
            pattern.score[q] += limits.bias * state.b[pattern.classes[q]]
        products = m
        if not used_only and m > MANY:
            m = shorten(pattern, y, limits.inner + 1)
        gain, moves = 0.0, 0
        while moves < limits.inner:
            grows, shrinks = -1, 0
            g_grows, g_shrinks = -np.inf, np.inf
            for q in range(m):
                mine = pattern.classes[q] == y
                g = (1.0 if mine else 0.0) - pattern.score[q]
                room = (U if mine else 0.0) - pattern.beta[q]
                if room > limits.kappa * U and g > g_grows + limits.tie:
                    grows, g_grows = q, g
                if g < g_shrinks - limits.tie:
                    shrinks, g_shrinks = q, g
            if grows < 0 or g_grows - g_shrinks <= limits.tau:
                break
            bound = U if pattern.classes[grows] == y else 0.0
            room = bound - pattern.beta[grows]
            slope = g_grows - g_shrinks
            step = room if sq <= 0.0 else min(slope / (2.0 * sq), room)
            pattern.beta[grows] = bound if step == room else pattern.beta[grows] + step
            pattern.beta[shrinks] -= step
            pattern.score[grows] += step * sq
            pattern.score[shrinks] -= step * sq
            gain += step * slope - step * step * sq
            moves += 1
        return products, m, gain, moves

    def survey(self, i, j, s, exact):  # type: ignore[no-untyped-def]
        """(margin, bound on its error) of example i, row j of a block.

        The scores s select the classes that may be nearest; their scores are computed in float64.
        """
        y, delta = self.y[i], exact.coarser * exact.delta[i]
        own, nearest = float(s[y]), np.inf
        for c in range(len(s)):
            if c != y:
                nearest = min(nearest, own - s[c])
        if nearest > 1.0 + 2.0 * delta:
            return nearest, 0.0  # no loss, in spite of rounding
        own64, margin = score64(exact, j, y), np.inf
        for c in range(len(s)):
            if c != y and own - s[c] <= nearest + 4.0 * delta:
                margin = min(margin, own64 - score64(exact, j, c))
        return margin, (2.0 * exact.delta[i] if margin <= 1.0 + 2.0 * exact.delta[i] else 0.0)

    def at_bound(self, i, U, pattern, m):  # type: ignore[no-untyped-def]
        """Is the pattern at a corner: U on its own class, -U on one other?"""
        inside = 0
        for q in range(m):
            inside += pattern.beta[q] != 0.0 and abs(pattern.beta[q]) != U
        return inside == 0

    def mend(self, i, U, patterns):  # type: ignore[no-untyped-def]
        """Make the others at most 0, and the own class minus their sum, at most U."""
        own, total = -1, 0.0
        for q in own_slots(patterns, i):
            if patterns.classes[q] == self.y[i]:
                own = q
            elif patterns.classes[q] != FREE:
                patterns.beta[q] = min(patterns.beta[q], 0.0)
                total -= patterns.beta[q]
        # without a coefficient of the own class, the others are rounding errors
        share = 0.0 if own < 0 else min(1.0, U / total) if total > 0.0 else 1.0
        for q in own_slots(patterns, i):
            patterns.beta[q] *= share
        if own >= 0:
            patterns.beta[own] = min(total, U)


class Binary(NamedTuple):
    """The two-class SVM of BB08."""

    sign: NDArray[np.int8]  # (n,) ±1

    def improve(self, i, X, row, U, sq, used_only, limits, state, pattern):  # type: ignore[no-untyped-def]
        sign = self.sign[i]
        m = read_all(state.patterns, i, pattern)
        alpha = sign * pattern.beta[0]
        g = 1.0 - sign * (dot(X, row, state.W[0]) + limits.bias * state.b[0])
        room = U - alpha if g > 0.0 else alpha
        if abs(g) <= limits.tau or room <= limits.kappa * U:
            return m, m, 0.0, 0
        step = room if sq <= 0.0 else min(abs(g) / sq, room)
        if step == room:
            alpha = U if g > 0.0 else 0.0
        else:
            alpha += step if g > 0.0 else -step
        pattern.beta[0] = sign * alpha
        return m, m, step * abs(g) - 0.5 * step * step * sq, 1

    def survey(self, i, j, s, exact):  # type: ignore[no-untyped-def]
        margin = float(self.sign[i] * s[0])
        if margin > 1.0 + exact.coarser * exact.delta[i]:
            return margin, 0.0
        margin = self.sign[i] * score64(exact, j, 0)
        return margin, (exact.delta[i] if margin <= 1.0 + exact.delta[i] else 0.0)

    def at_bound(self, i, U, pattern, m):  # type: ignore[no-untyped-def]
        return abs(pattern.beta[0]) == U

    def mend(self, i, U, patterns):  # type: ignore[no-untyped-def]
        """Nothing to do: a clipped step ends within its bounds."""


Form = Multiclass | Binary


# Functions for compiled code (see overloads.py).


def improve(form, i, X, row, U, sq, used_only, limits, state, pattern):  # type: ignore[no-untyped-def]
    """Move the coefficients of example i, in `pattern` only."""
    return form.improve(i, X, row, U, sq, used_only, limits, state, pattern)


def survey_one(form, i, j, s, exact):  # type: ignore[no-untyped-def]
    """The margin of example i, by which its own class is ahead, and a bound on its error."""
    return form.survey(i, j, s, exact)


def at_bound(form, i, U, pattern, m):  # type: ignore[no-untyped-def]
    """Are all coefficients of example i at a bound?"""
    return form.at_bound(i, U, pattern, m)


def mend(form, i, U, patterns):  # type: ignore[no-untyped-def]
    """Move the coefficients of example i to a feasible point nearby."""
    form.mend(i, U, patterns)


@overload(improve, jit_options={"forceinline": True})
def _improve(form, i, X, row, U, sq, used_only, limits, state, pattern):  # type: ignore[no-untyped-def]
    method = method_of(form, "improve")
    return lambda form, i, X, row, U, sq, used_only, limits, state, pattern: method(
        form, i, X, row, U, sq, used_only, limits, state, pattern
    )


@overload(survey_one, jit_options={"forceinline": True})
def _survey_one(form, i, j, s, exact):  # type: ignore[no-untyped-def]
    method = method_of(form, "survey")
    return lambda form, i, j, s, exact: method(form, i, j, s, exact)


@overload(at_bound, jit_options={"forceinline": True})
def _at_bound(form, i, U, pattern, m):  # type: ignore[no-untyped-def]
    method = method_of(form, "at_bound")
    return lambda form, i, U, pattern, m: method(form, i, U, pattern, m)


@overload(mend)
def _mend(form, i, U, patterns):  # type: ignore[no-untyped-def]
    method = method_of(form, "mend")
    return lambda form, i, U, patterns: method(form, i, U, patterns)
