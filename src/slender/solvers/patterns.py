"""The dual of the linear SVM, one pattern an example, shared by LaRank and Frank-Wolfe.

    primal   mu/2 ‖W‖² + 1/n Σ_i c_i max_k { s_ik + 1[k != y_i] - s_iy_i },        s_i = W x_i
    dual     mu ( Σ_i β_i^{y_i} - ‖W‖²/2 ),      W = Σ_i β_i x_iᵀ                        (C, d)
             over Σ_k β_i^k = 0,  β_i^k <= U_i 1[k = y_i],  U_i = c_i/(n mu)

(seed 003 has α in a simplex instead: β_i = U_i (e_{y_i} - α_i).)  The gradient of the dual in β_i^k
is, up to mu, g_ik = 1[k = y_i] - s_ik, so that the most violated class is the argmin of g.  Weak
duality makes primal - dual a bound on how far either is from its optimum.

A binary problem as in seed 002 has one class row and one coefficient an example, β_i = ± α_i with
0 <= α_i <= U_i; its linear term is Σ α_i = Σ |β_i|.

An intercept is the weight of a constant column `bias`, penalised with the others: x stands for
[x, bias] and W for [W, b] throughout, the last column kept apart since rows do not have it.

Few classes of an example ever have a coefficient, so only those are stored: K slots an example,
more when some example needs more.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..rows import Rows, map_blocks
from ..rows.kernel import KernelRows, axpy, kernel_rows

FREE = -1  # a slot that no class has
FIRST_SLOTS = 4

# Reductions may be reordered to use vector units; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "arcp", "nsz"}


class Patterns(NamedTuple):
    """β, sparse."""

    classes: NDArray[np.int32]  # (n, K) class of each slot
    beta: NDArray[np.float64]  # (n, K)


class Pattern(NamedTuple):
    """One example's coefficients and scores, side by side for the classes looked at."""

    classes: NDArray[np.int32]  # (C,)
    beta: NDArray[np.float64]  # (C,)
    before: NDArray[np.float64]  # (C,) beta as it was
    score: NDArray[np.float64]  # (C,) w_kᵀ x


def empty(n: int, n_rows: int) -> Patterns:
    """β = 0 for n examples and n_rows class rows."""
    K = min(n_rows, FIRST_SLOTS)
    return Patterns(np.full((n, K), FREE, np.int32), np.zeros((n, K)))


def with_slots(patterns: Patterns, K: int) -> Patterns:
    """The same with K slots."""
    more = ((0, 0), (0, K - patterns.beta.shape[1]))
    return Patterns(
        np.pad(patterns.classes, more, constant_values=FREE), np.pad(patterns.beta, more)
    )


def with_room(patterns: Patterns, n_rows: int) -> Patterns:
    """The same with twice the slots."""
    return with_slots(patterns, min(n_rows, 2 * patterns.beta.shape[1]))


def scratch(n_rows: int) -> Pattern:
    """Where a kernel keeps the pattern it works on."""
    return Pattern(np.zeros(n_rows, np.int32), *(np.zeros(n_rows) for _ in range(3)))


def reader(rows: Rows, lo: int, hi: int, block: Any) -> tuple[KernelRows, NDArray[np.intp]]:
    """A block as a kernel reads it, and where its rows lie in that."""
    if isinstance(block, np.ndarray):
        return kernel_rows(block), np.arange(hi - lo)
    return rows.take(np.arange(lo, hi))


def primal_weights(
    rows: Rows, patterns: Patterns, n_rows: int, bias: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """[W, b] = Σ_i β_i [x_i, bias]ᵀ, anew and in float64: what a kernel adds up drifts."""

    def start() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.zeros((n_rows, rows.shape[1])), np.zeros(n_rows)

    def work(mine: Any, lo: int, hi: int, block: Any) -> None:
        add_patterns(*reader(rows, lo, hi, block), lo, patterns, bias, *mine)

    (W, b), *others = map_blocks(rows, start, work)
    for other, other_b in others:
        W += other
        b += other_b
    return W, b


@njit(cache=True, nogil=True, fastmath=FAST)
def add_patterns(X, index, lo, patterns, bias, W, b):  # type: ignore[no-untyped-def]
    """[W, b] += Σ β [x, bias]ᵀ over the examples from lo on: only coefficients cost anything."""
    for j in range(len(index)):
        for q in range(patterns.beta.shape[1]):
            beta, c = patterns.beta[lo + j, q], patterns.classes[lo + j, q]
            if beta != 0.0:
                axpy(X, beta, index[j], W[c])
                b[c] += beta * bias


def squared(W: NDArray[Any], b: NDArray[np.float64]) -> float:
    """‖[W, b]‖²."""
    return float(np.einsum("cd,cd->", W, W, dtype=np.float64) + b @ b)


def support(patterns: Patterns) -> NDArray[np.intp]:
    """The examples with a coefficient."""
    return np.flatnonzero((patterns.beta != 0.0).any(axis=1))


@njit(cache=True, nogil=True)
def spread(patterns, lo, out):  # type: ignore[no-untyped-def]
    """out (b, C) = β of the examples from lo on."""
    for i in range(len(out)):
        for q in range(patterns.beta.shape[1]):
            c = patterns.classes[lo + i, q]
            if c != FREE:
                out[i, c] = patterns.beta[lo + i, q]


@njit(cache=True, nogil=True)
def linear_term(patterns):  # type: ignore[no-untyped-def]
    """Σ_i β_i^{y_i}, or Σ α_i: of an example's coefficients the largest, since they sum to 0."""
    total = 0.0
    for i in range(len(patterns.beta)):
        largest = 0.0
        for q in range(patterns.beta.shape[1]):
            largest = max(largest, abs(patterns.beta[i, q]))
        total += largest
    return total


@njit(cache=True, nogil=True)
def magnitudes(patterns, sq, n_rows):  # type: ignore[no-untyped-def]
    """Σ_i |β_ic| ‖x_i‖ for every class row c."""
    out = np.zeros(n_rows)
    for i in range(len(sq)):
        for q in range(patterns.beta.shape[1]):
            if patterns.classes[i, q] != FREE:
                out[patterns.classes[i, q]] += abs(patterns.beta[i, q]) * np.sqrt(sq[i])
    return out


@njit(cache=True, nogil=True, forceinline=True)
def read_all(patterns, i, pattern):  # type: ignore[no-untyped-def]
    """Every class of example i into `pattern`; how many."""
    C = len(pattern.beta)
    for c in range(C):
        pattern.classes[c] = c
        pattern.beta[c] = pattern.before[c] = 0.0
    for q in range(patterns.beta.shape[1]):
        c = patterns.classes[i, q]
        if c != FREE:
            pattern.beta[c] = pattern.before[c] = patterns.beta[i, q]
    return C


@njit(cache=True, nogil=True, forceinline=True)
def read_used(patterns, i, pattern):  # type: ignore[no-untyped-def]
    """The classes of example i that have a coefficient into `pattern`; how many."""
    m = 0
    for q in range(patterns.beta.shape[1]):
        if patterns.classes[i, q] != FREE:
            pattern.classes[m] = patterns.classes[i, q]
            pattern.beta[m] = pattern.before[m] = patterns.beta[i, q]
            m += 1
    return m


@njit(cache=True, nogil=True, forceinline=True)
def shorten(pattern, y, few):  # type: ignore[no-untyped-def]
    """Keep class y, those with a coefficient and, of the others, the `few` best; how many.

    Only classes with a coefficient and the class of the best score ever move: a move looks at
    these few and not at thousands.
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
    m, equal = 0, 0  # of equals the first: as many as there are places for
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


@njit(cache=True, nogil=True, forceinline=True)
def fits(patterns, pattern, m):  # type: ignore[no-untyped-def]
    """Are there slots enough for the first m of `pattern`?"""
    used = 0
    for q in range(m):
        used += pattern.beta[q] != 0.0
    return used <= patterns.beta.shape[1]


@njit(cache=True, nogil=True, fastmath=FAST, forceinline=True)
def follow(pattern, m, X, row, factor, bias, W, b):  # type: ignore[no-untyped-def]
    """[W, b] += factor (β - β before) [x, bias]ᵀ, the first m of `pattern`; rows touched."""
    touched = 0
    for q in range(m):
        moved = factor * (pattern.beta[q] - pattern.before[q])
        if moved != 0.0:
            c = pattern.classes[q]
            axpy(X, moved, row, W[c])
            b[c] += moved * bias
            touched += 1
    return touched


@njit(cache=True, nogil=True, forceinline=True)
def write(patterns, i, pattern, m):  # type: ignore[no-untyped-def]
    """The first m of `pattern` back to example i."""
    slot = 0
    for q in range(m):
        if pattern.beta[q] != 0.0:
            patterns.classes[i, slot] = pattern.classes[q]
            patterns.beta[i, slot] = pattern.beta[q]
            slot += 1
    for free in range(slot, patterns.beta.shape[1]):
        patterns.classes[i, free] = FREE
        patterns.beta[i, free] = 0.0
