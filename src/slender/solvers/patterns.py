"""The dual of the linear SVM, one pattern per example, shared by LaRank and Frank-Wolfe.

    primal   lam/2 ‖W‖² + 1/n Σ_i c_i max_k { s_ik + 1[k != y_i] - s_iy_i },        s_i = W x_i
    dual     lam ( Σ_i β_i^{y_i} - ‖W‖²/2 ),      W = Σ_i β_i x_iᵀ                        (C, d)
             over Σ_k β_i^k = 0,  β_i^k <= U_i 1[k = y_i],  U_i = c_i/(n lam), n = Σ c

(AIMS has α in a simplex instead: β_i = U_i (e_{y_i} - α_i).)  The gradient of the dual in β_i^k
is, up to lam, g_ik = 1[k = y_i] - s_ik, so that the most violated class is the argmin of g.  By
weak duality, primal - dual bounds how far either is from its optimum.

A binary problem as in BB08 has one class row and one coefficient per example, β_i = ± α_i with
0 <= α_i <= U_i; its linear term is Σ α_i = Σ |β_i|.

An intercept is the weight of a constant column `bias`, penalised like the others: x stands for
[x, bias] and W for [W, b] throughout.  The last column is stored separately, since rows lack it.

An example has nonzero coefficients for few classes, so only these are stored, in slots.  An example
that needs more slots gets new ones, twice as many, at the end of a common array.  So an example
with coefficients for hundreds of classes costs hundreds of slots, not n times as many.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data import Examples, Part, Pass
from ..data.examples import Arrays
from ..kernels import kernel
from ..rows import Rows
from ..rows.kernel import axpy

FREE = -1  # the class of an unused slot
FIRST_SLOTS = 4

# Reductions may be reordered to use vector units; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "arcp", "nsz"}


class Patterns(NamedTuple):
    """β, sparse: example i has the slots from first[i] to first[i] + room[i]."""

    classes: NDArray[np.int32]  # (slots,) class of each slot
    beta: NDArray[np.float64]  # (slots,)
    first: NDArray[np.int64]  # (n,)
    room: NDArray[np.int64]  # (n,)
    end: NDArray[np.int64]  # (1,) number of slots assigned so far


class Pattern(NamedTuple):
    """Coefficients and scores of one example, for the classes under consideration."""

    classes: NDArray[np.int32]  # (C,)
    beta: NDArray[np.float64]  # (C,)
    before: NDArray[np.float64]  # (C,) beta before the move
    score: NDArray[np.float64]  # (C,) w_kᵀ x


def empty(n: int, n_rows: int) -> Patterns:
    """β = 0 for n examples and n_rows class rows."""
    return slots(np.full(n, min(n_rows, FIRST_SLOTS), np.int64))


def slots(room: NDArray[np.int64], spare: int = 0) -> Patterns:
    """β = 0 with room[i] slots for example i, and `spare` unassigned ones."""
    size = int(room.sum())
    classes, beta = np.full(size + spare, FREE, np.int32), np.zeros(size + spare)
    return Patterns(classes, beta, np.cumsum(room) - room, room.copy(), np.array([size]))


def with_slots(patterns: Patterns, K: int) -> Patterns:
    """The same coefficients, with at least K slots per example."""
    return packed(patterns, slots(np.maximum(patterns.room, K)))


def with_room(patterns: Patterns, more: int) -> Patterns:
    """The same coefficients, with at least `more` unassigned slots; abandoned ones are dropped."""
    return packed(patterns, slots(patterns.room, max(more, int(patterns.room.sum()) // 2)))


def chosen(patterns: Patterns, index: NDArray[np.intp]) -> Patterns:
    """The patterns of the examples `index`."""
    some = patterns._replace(first=patterns.first[index], room=patterns.room[index])
    return packed(some, slots(some.room))


def joined(a: Patterns, b: Patterns) -> Patterns:
    """The patterns of a, then those of b."""
    return Patterns(
        np.concatenate([a.classes, b.classes]),
        np.concatenate([a.beta, b.beta]),
        np.concatenate([a.first, b.first + len(a.beta)]),
        np.concatenate([a.room, b.room]),
        len(a.beta) + b.end,
    )


@kernel()
def packed(old, new):  # type: ignore[no-untyped-def]
    """Copy every coefficient of `old` into the slots of `new`."""
    for i in range(len(old.first)):
        for q in range(old.room[i]):
            new.classes[new.first[i] + q] = old.classes[old.first[i] + q]
            new.beta[new.first[i] + q] = old.beta[old.first[i] + q]
    return new


def scratch(n_rows: int) -> Pattern:
    """Memory for the pattern that a kernel works on."""
    return Pattern(np.zeros(n_rows, np.int32), *(np.zeros(n_rows) for _ in range(3)))


@dataclass(frozen=True)
class PatternsPass(Pass[Arrays]):
    """[W, b] = Σ_i β_i [x_i, bias]ᵀ."""

    patterns: Patterns
    n_rows: int
    bias: float

    def start(self, d: int, dtype: Any) -> Arrays:
        return Arrays(np.zeros((self.n_rows, d)), np.zeros(self.n_rows))

    def add(self, sums: Arrays, part: Part) -> None:
        here = np.arange(len(part.w))
        add_patterns(part.block.kernel_rows(), here, part.first, self.patterns, self.bias, *sums)


def primal_weights(
    rows: Rows, patterns: Patterns, n_rows: int, bias: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """[W, b] recomputed from these patterns in float64: a kernel's updates drift."""
    nothing = np.zeros(rows.shape[0])  # the pass uses neither classes nor weights
    W, b = Examples(rows, nothing, nothing).reduce(PatternsPass(patterns, n_rows, bias))
    return W, b


@kernel(fastmath=FAST)
def add_patterns(X, index, lo, patterns, bias, W, b):  # type: ignore[no-untyped-def]
    """[W, b] += Σ β [x, bias]ᵀ over the examples from lo on; only nonzero β cost time."""
    for j in range(len(index)):
        for q in own_slots(patterns, lo + j):
            beta, c = patterns.beta[q], patterns.classes[q]
            if beta != 0.0:
                axpy(X, beta, index[j], W[c])
                b[c] += beta * bias


def squared(W: NDArray[Any], b: NDArray[np.float64]) -> float:
    """‖[W, b]‖²."""
    return float(np.einsum("cd,cd->", W, W, dtype=np.float64) + b @ b)


@kernel(forceinline=True)
def own_slots(patterns, i):  # type: ignore[no-untyped-def]
    """The slots of example i."""
    return range(patterns.first[i], patterns.first[i] + patterns.room[i])


def support(patterns: Patterns) -> NDArray[np.intp]:
    """The examples with a nonzero coefficient."""
    return np.flatnonzero(largest(patterns))


@kernel()
def largest(patterns):  # type: ignore[no-untyped-def]
    """β_i^{y_i}, or α_i, of every example: its largest coefficient, since they sum to 0."""
    out = np.zeros(len(patterns.first))
    for i in range(len(out)):
        for q in own_slots(patterns, i):
            out[i] = max(out[i], abs(patterns.beta[q]))
    return out


@kernel()
def spread(patterns, lo, out):  # type: ignore[no-untyped-def]
    """out (b, C) = β of the examples from lo on."""
    for i in range(len(out)):
        for q in own_slots(patterns, lo + i):
            if patterns.classes[q] != FREE:
                out[i, patterns.classes[q]] = patterns.beta[q]


@kernel()
def magnitudes(patterns, sq, n_rows):  # type: ignore[no-untyped-def]
    """Σ_i |β_ic| ‖x_i‖ for every class row c."""
    out = np.zeros(n_rows)
    for i in range(len(sq)):
        for q in own_slots(patterns, i):
            if patterns.classes[q] != FREE:
                out[patterns.classes[q]] += abs(patterns.beta[q]) * np.sqrt(sq[i])
    return out


@kernel(forceinline=True)
def read_all(patterns, i, pattern):  # type: ignore[no-untyped-def]
    """Read all classes of example i into `pattern`; returns their number."""
    C = len(pattern.beta)
    for c in range(C):
        pattern.classes[c] = c
        pattern.beta[c] = pattern.before[c] = 0.0
    for q in own_slots(patterns, i):
        c = patterns.classes[q]
        if c != FREE:
            pattern.beta[c] = pattern.before[c] = patterns.beta[q]
    return C


@kernel(forceinline=True)
def read_used(patterns, i, pattern):  # type: ignore[no-untyped-def]
    """Read the classes of example i that have a slot into `pattern`; returns their number."""
    m = 0
    for q in own_slots(patterns, i):
        if patterns.classes[q] != FREE:
            pattern.classes[m] = patterns.classes[q]
            pattern.beta[m] = pattern.before[m] = patterns.beta[q]
            m += 1
    return m


@kernel(forceinline=True)
def shorten(pattern, y, few):  # type: ignore[no-untyped-def]
    """Keep class y, those with a coefficient, and the `few` best others; returns how many.

    Only classes with a coefficient and the class of the best score can move, so a move need
    consider only these few, not thousands.
    """
    top = np.full(few, -np.inf)  # scores, the best first
    for c in range(len(pattern.score)):
        s = pattern.score[c]
        if s > top[-1] and c != y and pattern.beta[c] == 0.0:
            q = few - 1
            while q > 0 and top[q - 1] < s:
                top[q] = top[q - 1]
                q -= 1
            top[q] = s
    m, equal = 0, 0  # of equal scores, keep the first: as many as there are places
    for q in range(few):
        equal += top[q] == top[-1]
    for c in range(len(pattern.score)):
        s = pattern.score[c]
        if s < top[-1] and c != y and pattern.beta[c] == 0.0:
            continue
        if s == top[-1] and c != y and pattern.beta[c] == 0.0:
            equal -= 1
            if equal < 0:
                continue
        pattern.classes[m] = c
        pattern.beta[m] = pattern.before[m] = pattern.beta[c]
        pattern.score[m] = s
        m += 1
    return m


@kernel(forceinline=True)
def wanted(patterns, i, pattern, m):  # type: ignore[no-untyped-def]
    """The number of new slots that example i needs for the first m entries of `pattern`."""
    used = 0
    for q in range(m):
        used += pattern.beta[q] != 0.0
    if used <= patterns.room[i]:
        return 0
    return min(max(used, 2 * patterns.room[i]), len(pattern.beta))


@kernel(forceinline=True)
def fits(patterns, i, pattern, m):  # type: ignore[no-untyped-def]
    """Are there enough slots for the first m entries of `pattern`?"""
    return patterns.end[0] + wanted(patterns, i, pattern, m) <= len(patterns.beta)


@kernel(fastmath=FAST, forceinline=True)
def follow(pattern, m, X, row, factor, bias, W, b):  # type: ignore[no-untyped-def]
    """[W, b] += factor (β - β before) [x, bias]ᵀ for m entries; returns how many rows changed."""
    touched = 0
    for q in range(m):
        moved = factor * (pattern.beta[q] - pattern.before[q])
        if moved != 0.0:
            c = pattern.classes[q]
            axpy(X, moved, row, W[c])
            b[c] += moved * bias
            touched += 1
    return touched


@kernel(forceinline=True)
def write(patterns, i, pattern, m):  # type: ignore[no-untyped-def]
    """Write the first m entries of `pattern` back to example i."""
    more = wanted(patterns, i, pattern, m)
    if more > 0:
        patterns.first[i], patterns.room[i] = patterns.end[0], more
        patterns.end[0] += more
    slot = patterns.first[i]
    for q in range(m):
        if pattern.beta[q] != 0.0:
            patterns.classes[slot] = pattern.classes[q]
            patterns.beta[slot] = pattern.beta[q]
            slot += 1
    for free in range(slot, patterns.first[i] + patterns.room[i]):
        patterns.classes[free] = FREE
        patterns.beta[free] = 0.0
