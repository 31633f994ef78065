"""Doubtful rows: single rows with a large share of a class's curvature, added to its block.

A row i is doubtful for class c if h_ic = w_i p_ic (1 - p_ic) is a large part of a_c = Σ_i h_ic.  If
a few rows hold most of a_c, the block of class c is not a_c times the shared covariance.  These
rows (passes/doubts.py) are then treated separately.  Without them a_c becomes r_c, and in rows
centred at m_c the block is

    B_c + U_cᵀ U_c        B_c = r_c Σ + lam I        U_c = the rows sqrt(h_ic) (x_i - m_c)

Its inverse contains a small matrix, with one row and column for each doubtful row of the class:

    B⁻¹ - B⁻¹ Uᵀ (I + U B⁻¹ Uᵀ)⁻¹ U B⁻¹

With Σ = P diag(s) Pᵀ + s_rest (I - P Pᵀ), inside = 1/(r s + lam) and outside = 1/(r s_rest + lam),

    U B⁻¹ Uᵀ = outside U Uᵀ + (U P) diag(inside - outside) (U P)ᵀ

where U Uᵀ, which is most of the work, does not depend on lam.

The other pairs of class c, whose curvature is r_c, are rows of the class and rows of other classes.
The means of these two groups are far apart compared with Σ, so each group is also a row of U_c: its
mean, with the group's curvature as h.  This needs no pass.  Pairs that are not doubtful have
h ≈ |ρ|, where ρ = w (p - e_y) is the residual, and sums of ρ are known from the gradient.  Let μ_c
be the mean of the rows of class c, and o_c = Σ w (1 - p_y) over these rows.  Then, for the sums
over the pairs of each group that are not doubtful,

    Σ_own |ρ| = o_c - Σ_doubtful,own |ρ|           Σ_own |ρ| x ≈ μ_c Σ_own |ρ|
    Σ_others ρ = g_c + o_c - Σ_doubtful,others ρ   Σ_others ρ x = G_c - Σ_doubtful ρ x + Σ_own |ρ| x

with G, g and o (`own`) of a Point.  The mean m_c of all pairs follows.  Where h is not about |ρ|,
because many rows are uncertain or misclassified, m_c is that of a sample, and U_c has doubtful rows
only.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..arrays import (
    Array,
    astype,
    bincount,
    dtype_of,
    is_numpy,
    largest,
    namespace,
    numbers,
    zeros,
)
from ..kernels import kernel
from ..passes.doubts import Doubts, Wanted
from ..passes.residuals import FAST
from ..problem import Multinomial, Point
from ..rows.threads import each_part, matmul
from .doubtful_tensors import BatchedCorrection, BatchedGram, batched_gram, sums_of_pairs

ROW_BYTES = 64 * 2**20  # of the doubtful rows, held dense; the least doubtful ones are left out
# Doubts a class has on average, K: as many as cost, K² (d + K) for each class, a small share of a
# pass (DOUBTS²) or so few multiply-adds in all, and have matrices of so many bytes.
DOUBTS, LITTLE, GRAM_BYTES, MOST_DOUBTS = 0.6, 10**7, 128 * 2**20, 128
CROWD = 4  # times the average is the most that a class may have
SHARE = 0.9  # h is about |ρ| if Σ h is more than this share of Σ |ρ|
FEW = 1e-3  # of a class's curvature: a group that holds less has no mean


def wanted(problem: Multinomial, a: Array) -> Wanted:
    """How many doubtful pairs a pass should look for, if the classes' curvature is about a (C,)."""
    (n, d), C, size = problem.rows.shape, problem.n_classes, problem.rows.dtype.itemsize
    small, little = DOUBTS**2 * n * d, LITTLE / C
    each = max(
        min(np.sqrt(small / d), np.cbrt(small), MOST_DOUBTS),
        min(np.sqrt(little / d), np.cbrt(little), n),
    )
    each = min(each, np.sqrt(GRAM_BYTES / (2 * size * C)))
    xp, tiny = namespace(a), float(np.finfo(np.float64).tiny)
    return Wanted(1.0 / xp.sqrt(xp.clip(a, tiny, None)), max(1, int(each * C)))


class DoubtfulRows(NamedTuple):
    """Pairs of a row and a class, ordered by class, and the rows: doubtful ones, then means."""

    X: Array  # (u, d) centred
    place: Array  # of each pair's row in X
    starts: Array  # (C + 1,) where a class's pairs begin
    root: Array  # sqrt(h) of each pair
    rest: Array  # (C,) the curvature of all pairs that are not doubtful
    a: Array  # (C,) of all pairs
    centres: Array | None = None  # (C, d) m_c, if the means of the classes are known,
    sure: Array | None = None  # (C,) and whether they are reliable

    @property
    def counts(self) -> Array:
        """(C,) number of pairs of each class."""
        return self.starts[1:] - self.starts[:-1]


def rows_of(problem: Multinomial, point: Point, means: Array | None = None) -> DoubtfulRows:
    """The doubtful rows, read from the rows of the problem.

    Given the means of the classes (C, d), centred, also those of the pairs that are not doubtful.
    """
    assert point.doubts is not None
    doubts = without_crowds(point.doubts)
    index, place = numbered(doubts.row)
    most = max(1, ROW_BYTES // (problem.rows.shape[1] * problem.rows.dtype.itemsize))
    if len(index) > most:
        kept = zeros((len(index),), index, np.bool_)
        kept[largest(bincount(place, doubts.h, len(index)), most)] = True
        doubts = doubts.only(kept[place])
        index, place = numbered(doubts.row)
    a, C, found = doubts.a, len(doubts.a), problem.rows.dense(index)
    room = 0 if means is None else 2 * C  # means are written behind the rows
    X = zeros((len(index) + room, found.shape[1]), found, dtype_of(found))
    X[: len(index)] = found
    del found
    X[: len(index)] -= problem.mean
    xp = namespace(a)
    rows = DoubtfulRows(
        X=X,
        place=place,
        starts=xp.searchsorted(doubts.of, numbers(C + 1, a)),
        root=astype(xp.sqrt(doubts.h), problem.rows.dtype),
        rest=xp.clip(a - bincount(doubts.of, doubts.h, C), 0.0, None),
        a=a,
    )
    return rows if means is None else with_means(rows, doubts, point, means, problem.intercept)


def numbered(row: Array) -> tuple[Array, Array]:
    """np.unique(row, return_inverse=True), whose hash table takes ten times as long."""
    xp = namespace(row)
    ordered = xp.sort(row)
    first = xp.concat([ordered[:1] == ordered[:1], ordered[1:] != ordered[:-1]])
    index = ordered[first]
    return index, xp.searchsorted(index, row)


def with_means(
    rows: DoubtfulRows, doubts: Doubts, point: Point, means: Array, centred: bool
) -> DoubtfulRows:
    """Add two rows for each class, the means of its rows and of others that are not doubtful.

    They are written to the end of X, where there is room for them.
    """
    of, r, h, C = doubts.of, doubts.r, doubts.h, len(rows.a)
    xp, tiny = namespace(rows.a), float(np.finfo(np.float32).tiny)
    u = len(rows.X) - 2 * C
    g, o = point.g, point.own
    own = xp.clip(o - bincount(of, xp.clip(-r, 0.0, None), C), 0.0, None)
    others = xp.clip(g + o - bincount(of, xp.clip(r, 0.0, None), C), 0.0, None)
    # where there is little, their sum of rows would be rounding
    others = xp.where(others >= FEW * rows.a, others, 0.0)
    share = rows.rest / xp.clip(own + others, tiny, None)  # h / |ρ|
    known = bincount(of, h, C) + share * (own + others)
    sure = (share > SHARE) | (rows.rest <= FEW * rows.a)

    def each(v: Array) -> Array:
        return astype(v, dtype_of(means))[:, None]

    rows.X[u : u + C] = means
    theirs = rows.X[u + C :]
    theirs[:] = point.gradient[:, :-1]
    theirs -= float(point.lam) * point.theta[:, :-1]  # Σ ρ x of all pairs
    theirs -= class_sums(rows, r)
    theirs += each(own) * means
    theirs *= each(astype(others > 0.0, np.float64) / xp.clip(others, tiny, None))
    centres = class_sums(rows, h)
    centres += each(share * own) * means
    centres += each(share * others) * theirs
    centres *= each(float(centred) / xp.clip(known, tiny, None))
    share = xp.where(sure, share, 0.0)
    classes = numbers(C, of)
    place = xp.concat([rows.place, u + numbers(2 * C, of)])
    roots = (astype(xp.sqrt(share * part), dtype_of(rows.root)) for part in (own, others))
    order = xp.argsort(xp.concat([of, classes, classes]), stable=True)
    return rows._replace(
        place=place[order],
        starts=rows.starts + 2 * numbers(C + 1, of),
        root=xp.concat([rows.root, *roots])[order],
        centres=centres,
        sure=sure,
    )


def class_sums(rows: DoubtfulRows, values: Array) -> Array:
    """(C, d) Σ values x over the pairs of each class."""
    X = rows.X
    if is_numpy(X):
        shape = len(rows.a), len(X)
        return csr_array((values.astype(X.dtype), rows.place, rows.starts), shape) @ X
    return sums_of_pairs(X, rows.place, rows.starts, values)


def without_crowds(doubts: Doubts) -> Doubts:
    """Keep at most CROWD times the mean number of pairs per class, those with the largest h.

    A class may have thousands of slightly doubtful rows, for instance while its intercept is still
    too large.  They would cost the cube of their number, and the shared covariance describes such a
    large number well.
    """
    of, C, xp = doubts.of, len(doubts.a), namespace(doubts.of)
    most = CROWD * (1 + len(of) // C)
    first = xp.searchsorted(of, of)  # where the class of each pair begins
    number = numbers(len(of), of) - first
    if not len(of) or int(number.max()) < most:
        return doubts
    by_h = xp.argsort(-doubts.h, stable=True)
    order = by_h[xp.argsort(of[by_h], stable=True)]
    return doubts.only(xp.sort(order[number < most]))


class Gram(NamedTuple):
    """U Uᵀ and U P of every class, with rows centred at m_c."""

    rows: DoubtfulRows
    centres: NDArray[Any]  # (C, d)
    Z: NDArray[Any]  # (u, k) the rows in the basis P,
    within: NDArray[Any]  # (C, k) and the centres
    places: NDArray[np.intp]  # (C + 1,) where a class's matrix begins
    UU: NDArray[Any]  # the matrices, one after the other


def gram_of(rows: DoubtfulRows, centres: Array, P: Array) -> Gram | BatchedGram:
    if not is_numpy(rows.X):
        return batched_gram(rows, centres, P)
    counts = rows.counts
    places = np.concatenate([[0], np.cumsum(counts**2)])
    gram = Gram(
        rows, centres, matmul(rows.X, P), matmul(centres, P), places,
        np.empty(places[-1], rows.X.dtype),
    )  # fmt: skip

    def part(lo: int, hi: int) -> None:
        fill(lo, hi, gram)

    each_part(counts**2 * (rows.X.shape[1] / 2.0) + 1.0, part)
    return gram


def correction_of(
    gram: Gram | BatchedGram, inside: Array, outside: Array
) -> "Correction | BatchedCorrection":
    if isinstance(gram, Gram):
        return Correction(gram, inside, outside)
    return BatchedCorrection(gram, inside, outside)


class Correction:
    """I + U B⁻¹ Uᵀ = L Lᵀ, class by class."""

    def __init__(self, gram: Gram, inside: NDArray[Any], outside: NDArray[Any]) -> None:
        self.gram = gram
        self.L = np.empty_like(gram.UU)
        rows, counts = gram.rows, gram.rows.counts
        self.good = np.zeros(len(counts), np.bool_)

        def part(lo: int, hi: int) -> None:
            factor(lo, hi, gram, inside, outside, self.L, self.good)

        each_part(counts**2 * (gram.Z.shape[1] / 2.0 + counts / 6.0) + 1.0, part)
        self._costs = 2.0 * counts * rows.X.shape[1] + counts**2 + 1.0

    def pull(self, V: NDArray[Any]) -> NDArray[Any]:
        """Uᵀ (I + U B⁻¹ Uᵀ)⁻¹ U V for V = B⁻¹ G, (C, d)."""
        out = np.zeros_like(V)

        def part(lo: int, hi: int) -> None:
            pull(lo, hi, V, self.gram, self.L, self.good, out)

        each_part(self._costs, part)
        return out


@register_jitable
def seen_from(centre, X, place, root):  # type: ignore[no-untyped-def]
    """The rows sqrt(h) (x - centre) of a class."""
    U = np.empty((len(place), X.shape[1]), X.dtype)
    for i in range(len(place)):
        x = X[place[i]]
        for j in range(len(x)):
            U[i, j] = root[i] * (x[j] - centre[j])
    return U


@register_jitable
def matrix_of(c, gram, matrices):  # type: ignore[no-untyped-def]
    """The matrix of class c in an array that holds the matrices of all classes."""
    K = gram.rows.starts[c + 1] - gram.rows.starts[c]
    return matrices[gram.places[c] : gram.places[c + 1]].reshape(K, K)


@kernel(fastmath=FAST)
def fill(lo, hi, gram):  # type: ignore[no-untyped-def]
    """The lower halves of U Uᵀ of classes lo to hi."""
    rows = gram.rows
    for c in range(lo, hi):
        first, last = rows.starts[c], rows.starts[c + 1]
        U = seen_from(gram.centres[c], rows.X, rows.place[first:last], rows.root[first:last])
        mine = matrix_of(c, gram, gram.UU)
        for i in range(len(U)):
            for j in range(i + 1):
                total = U.dtype.type(0)
                for k in range(U.shape[1]):
                    total += U[i, k] * U[j, k]
                mine[i, j] = total


@kernel(fastmath=FAST)
def factor(lo, hi, gram, inside, outside, L, good):  # type: ignore[no-untyped-def]
    """L of classes lo to hi; good is False for a class whose factorisation fails by rounding."""
    rows = gram.rows
    for c in range(lo, hi):
        first, last = rows.starts[c], rows.starts[c + 1]
        Y = seen_from(gram.within[c], gram.Z, rows.place[first:last], rows.root[first:last])
        given, mine = matrix_of(c, gram, gram.UU), matrix_of(c, gram, L)
        good[c] = True
        for i in range(len(Y)):
            scaled = Y[i] * (inside[c] - outside[c, 0])
            for j in range(i + 1):
                total = given[i, j] * outside[c, 0]
                for k in range(Y.shape[1]):
                    total += scaled[k] * Y[j, k]
                if i == j:
                    total += Y.dtype.type(1)
                for k in range(j):
                    total -= mine[i, k] * mine[j, k]
                if j < i:
                    mine[i, j] = total / mine[j, j]
                elif total > 0.5:  # it is at least 1, but for rounding
                    mine[i, i] = np.sqrt(total)
                else:
                    good[c] = False
            if not good[c]:
                break


@kernel(fastmath=FAST)
def pull(lo, hi, V, gram, L, good, out):  # type: ignore[no-untyped-def]
    """out_c = Uᵀ (L Lᵀ)⁻¹ U v_c for classes lo to hi."""
    X = gram.rows.X
    for c in range(lo, hi):
        first, last = gram.rows.starts[c], gram.rows.starts[c + 1]
        K = last - first
        if K == 0 or not good[c]:
            continue
        v, m, mine = V[c], gram.centres[c], matrix_of(c, gram, L)
        place, root = gram.rows.place[first:last], gram.rows.root[first:last]
        at_centre = X.dtype.type(0)
        for j in range(len(v)):
            at_centre += v[j] * m[j]
        u = np.empty(K, X.dtype)
        for i in range(K):
            x = X[place[i]]
            total = X.dtype.type(0)
            for j in range(len(v)):
                total += v[j] * x[j]
            total = root[i] * (total - at_centre)
            for j in range(i):
                total -= mine[i, j] * u[j]
            u[i] = total / mine[i, i]
        for i in range(K - 1, -1, -1):
            u[i] /= mine[i, i]
            for j in range(i):
                u[j] -= mine[i, j] * u[i]
        t, shift = out[c], X.dtype.type(0)
        for i in range(K):
            x, r = X[place[i]], root[i] * u[i]
            shift += r
            for j in range(len(v)):
                t[j] += r * x[j]
        for j in range(len(v)):
            t[j] -= shift * m[j]
