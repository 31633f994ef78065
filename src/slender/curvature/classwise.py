"""The multinomial Hessian class by class, and its inverse.

The block of class c's weights and intercept is, with h_ic = w_i p_ic (1 - p_ic) and a_c = Σ_i h_ic,

    Σ_i h_ic [x_i, 1]ᵀ[x_i, 1]  =  a_c [ Σ_c + m_c m_cᵀ   m_c ]        m_c, Σ_c: mean and covariance
                                       [ m_cᵀ              1  ]        of the rows under h_c

m_c differs from class to class: the rows for which p_c is neither 0 nor 1 lie near class c.  If
rows are centred at m_c (so that the intercept is b_c + w_cᵀ m_c), the block has no entries between
weights and intercept:

    g̃ = g                            ṽ_b = A⁺ g̃           A = Σ w_i (diag p_i - p_i p_iᵀ)
    G̃_c = G_c - g_c m_cᵀ             V_c = (a_c Σ + lam I)⁻¹ G̃_c
                                     v_b = ṽ_b - diag(V Mᵀ)

with one Σ for all classes, the covariance within classes, P diag(s) Pᵀ + s_rest (I - P Pᵀ), from
the leading eigenpairs of a sample.  This is SLND's curvature (lowrank.py), shared by all classes,
but each class has its own centre and size.  The centres save a quarter to a third of the passes of
a fit.  Rows that contribute much to the curvature of a class are added to its block one by one
(doubtful.py).  A⁺ is applied by conjugate gradients (problem/intercepts.py), so that beyond a few
hundred classes nothing grows with the square of their number.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import (
    Array,
    astype,
    contiguous,
    copy,
    dtype_of,
    is_numpy,
    namespace,
    row_dots,
    set_diagonal,
    zeros,
)
from ..krylov import top_eigenpairs
from ..losses import exp_of_rows
from ..problem import Multinomial
from ..problem.intercepts import (
    DENSE,
    LOOSELY,
    ClassCurvature,
    ClassDiagonal,
    ClassMatrix,
    ClassSample,
    solve,
)
from ..rows.threads import matmul
from .base import SAMPLE_BYTES
from .doubtful import Correction, DoubtfulRows, Gram, correction_of, gram_of
from .doubtful_tensors import BatchedCorrection, BatchedGram

MIN_SAMPLES, MAX_SAMPLES = 16, 4096
MAX_RANK = 256  # eigenpairs: on embeddings and pixels more gain no pass, and 64 lose some
REST = 1e-3  # of a class's curvature: so much at least is not known
CENTRED = 0.9  # of a class's mean: the only row of its class shall not count for nothing
LEAST = float(np.finfo(np.float32).tiny)  # of the weight of a class in a sample
# Of the largest a s: below it a direction is rounding (lam = 0 has no other floor).
FLOOR = {"f": 1e-7, "d": 1e-18}
CLASS_BYTES = 128 * 2**20  # of a sample's softmax, kept for A; beyond, A's diagonal has to do
# At so many classes half of the sample does, and so on, since each row costs C exponentials; but a
# SHARE of all rows is looked at anyway, which costs less than that share of a pass.
MANY_CLASSES, SHARE = 2500, 1 / 16
PRODUCTS = 50  # with A, at most, for one A⁺ g


class Classwise:
    """A sample of rows, and the covariance within classes estimated from it."""

    def __init__(
        self,
        X: Array,
        w: Array,
        y: Array,
        intercept: bool,
        rng: np.random.Generator,
        of: int = 0,
    ) -> None:
        self.X, self.w, self.y, self.intercept = X, w, y, intercept  # (m, d) centred, (m,), (m,)
        self.of = of or len(X)  # rows that the sample was drawn from
        self.means: Array | None = None  # (C, d) of the classes, centred, once they are known
        m, d = X.shape
        xp = namespace(X)
        S = _class_centred(X, y, w) if is_numpy(X) else _class_centred_there(X, y, w)
        S *= xp.sqrt(w / w.mean())[:, None]
        s, P = top_eigenpairs(S, min(MAX_RANK, m, d), rng)
        trace = float(astype(row_dots(S, S), np.float64).sum()) / m
        self.s, self.P = xp.clip(s, 0, None), contiguous(P)  # (k,) decreasing, (d, k)
        self.rest = max(0.0, trace - float(astype(s, np.float64).sum())) / max(1, d - len(s))

    @classmethod
    def of_problem(cls, problem: Multinomial, rng: np.random.Generator) -> "Classwise":
        """From a sample of the rows of a problem."""
        n = problem.examples.n_active
        m = sample_size(n, problem.rows.shape[1] * problem.rows.dtype.itemsize)
        X, y, w, _ = problem.sample(m, rng)
        return cls(X, w, y, problem.intercept, rng, of=n)

    def astype(self, dtype: Any, rng: np.random.Generator) -> "Classwise":
        """The curvature of the same sample, computed again with another dtype."""
        X, w = astype(self.X, dtype), astype(self.w, dtype)
        other = Classwise(X, w, self.y, self.intercept, rng, self.of)
        other.means = None if self.means is None else astype(self.means, dtype)
        return other

    def classes(self, theta: Array, least: Array | float = 0.0) -> tuple[ClassCurvature, Array]:
        """A and the centres m_c - x̄ (C, d) at theta, estimated from the sample.

        `least` is a lower bound on the curvature of each class.  If all rows of the sample are
        classified with certainty, the sample shows no curvature, though other rows may have some.
        """
        C, dtype, wide = len(theta), dtype_of(self.X), np.float64
        fewest = max(1, int(SHARE * self.of))
        every = max(1, min(1 + C // MANY_CLASSES, len(self.X) // fewest))
        rows, weights = self.X[::every], self.w[::every]
        weights = weights * (self.w.sum() / weights.sum())
        m = len(rows)
        mass, a = zeros((C,), rows, wide), zeros((C,), rows, wide)
        centres = zeros((C, self.X.shape[1]), rows, dtype)
        kept = m if m * C * dtype.itemsize <= CLASS_BYTES else 0
        softmaxes = zeros((kept, C), rows, dtype)
        step = max(1, CLASS_BYTES // (4 * C * dtype.itemsize))
        for lo in range(0, m, step):
            X, w = rows[lo : lo + step], weights[lo : lo + step, None]
            P = matmul(X, theta[:, :-1].T)
            P += theta[:, -1]
            P = _softmax(P)
            if kept:
                softmaxes[lo : lo + step] = P
            h = P * w
            mass += _column_sums(h)
            h *= 1 - P
            a += _column_sums(h)
            if self.intercept:
                centres += matmul(h.T, X)
        if self.intercept:
            tiny = float(np.finfo(dtype).tiny)
            centres /= astype(namespace(a).clip(a, tiny, None), dtype)[:, None]
        more = namespace(a).clip(least - a, 0.0, None)
        return _class_curvature(softmaxes, weights, mass + more, a + more), centres

    def blocks(
        self,
        theta: Array,
        least: Array | float = 0.0,
        most: Array | float = np.inf,
        doubtful: DoubtfulRows | None = None,
    ) -> "Blocks":
        """The blocks at theta; `least` and `most` bound the curvature of each class."""
        A, centres = self.classes(theta, least)
        if doubtful is None:
            diagonal = A.diagonal
            return Blocks(self, A, centres, namespace(diagonal).clip(diagonal, None, most))
        if doubtful.centres is not None:
            assert doubtful.sure is not None
            centres = namespace(centres).where(doubtful.sure[:, None], doubtful.centres, centres)
        rest = namespace(doubtful.a).maximum(doubtful.rest, REST * doubtful.a)
        return Blocks(self, A, centres, rest, gram_of(doubtful, centres, self.P))

    def diagonal(self, inverse: "Inverse", lam: float) -> Array:
        """The inverse of the diagonal of the same blocks, (C, d + 1): simpler, and always safe."""
        a, xp = inverse.A.diagonal, namespace(self.X)
        variances = _column_sums(self.w[:, None] * self.X * self.X)
        bends = a[:, None] * xp.concat([variances, zeros((1,), a, np.float64) + 1.0])
        bends[:, :-1] += lam
        tiny = float(np.finfo(np.float32).tiny)
        return astype(1.0 / xp.clip(bends, tiny, None), dtype_of(self.P))


@dataclass(frozen=True)
class Blocks:
    """The Hessian without the penalty."""

    of: Classwise
    A: ClassCurvature
    centres: Array  # (C, d) m_c - x̄
    rest: Array  # (C,) the curvature that belongs to the shared covariance
    gram: Gram | BatchedGram | None = None  # of the rows that hold the rest of it

    def inverse(self, lam: float) -> "Inverse":
        """The inverse blocks for a penalty."""
        P, s, dtype = self.of.P, self.of.s, dtype_of(self.of.P)
        floor = FLOOR[dtype.char] * float(self.A.diagonal.max()) * float(s[0])
        lam = max(lam, floor, float(np.finfo(np.float32).tiny))
        inside = astype(1.0 / (self.rest[:, None] * s + lam), dtype)
        outside = astype(1.0 / (self.rest * self.of.rest + lam), dtype)[:, None]
        correction = correction_of(self.gram, inside, outside) if self.gram else None
        return Inverse(P, inside, outside, self.A, self.centres, correction)


@dataclass(frozen=True)
class Inverse:
    P: Array  # (d, k)
    inside: Array  # (C, k)
    outside: Array  # (C, 1)
    A: ClassCurvature
    centres: Array  # (C, d) m_c - x̄
    correction: Correction | BatchedCorrection | None = None

    @cached_property
    def steep(self) -> bool:
        """Can the rounding error of the part inside the basis, times `outside`, exceed it?"""
        worst = float((self.outside / self.inside[:, :1]).max())
        return worst * float(np.finfo(dtype_of(self.inside)).eps) > LOOSELY

    def __matmul__(self, gradient: Array) -> Array:
        """The inverse times [G, g] (C, d + 1).

        The part of G outside the basis is computed by a projection, not as a difference of two
        products with 1/lam; if the inverse is `steep`, by two projections.
        """
        out = copy(gradient)
        g = gradient[:, -1:]
        G = self._shared(gradient[:, :-1] - g * self.centres)
        if self.correction is not None:
            G -= self._shared(self.correction.pull(G))
        out[:, :-1] = G
        v = solve(self.A, astype(g[:, 0], np.float64), LOOSELY, PRODUCTS)
        v = v - row_dots(G, self.centres)
        out[:, -1] = v - v.mean()  # a common shift changes nothing, and would cost digits
        return out

    def _shared(self, G: Array) -> Array:
        """B⁻¹ G, in place."""
        within = matmul(G, self.P)
        G -= matmul(within, self.P.T)
        if self.steep:
            G -= matmul(matmul(G, self.P), self.P.T)
        G *= self.outside
        G += matmul(within * self.inside, self.P.T)
        return G


def _softmax(S: Array) -> Array:
    """Of every row, in place if S is an array."""
    if not is_numpy(S):
        return S.softmax(1)
    P = exp_of_rows(S)
    P /= P.sum(axis=1, keepdims=True)
    return P


def _column_sums(h: Array) -> Array:
    """In float64."""
    return h.sum(axis=0, dtype=np.float64) if is_numpy(h) else astype(h, np.float64).sum(0)


def _class_curvature(P: Array, w: Array, mass: Array, a: Array) -> ClassCurvature:
    """A from the sample's softmax P; its diagonal if P was too large to keep."""
    if len(P) == 0:
        return ClassDiagonal(a)
    if len(a) > DENSE:
        return ClassSample(P, w, mass, a)
    A = -astype(matmul(P.T, P * w[:, None]), np.float64)
    set_diagonal(A, a)
    return ClassMatrix(A)


def sample_size(n: int, row_bytes: int) -> int:
    """Number of rows to sample out of n; they are stored dense, also if X is not."""
    return min(n, MAX_SAMPLES, max(MIN_SAMPLES, SAMPLE_BYTES // row_bytes))


def _class_centred(X: NDArray[Any], y: NDArray[np.int32], w: NDArray[Any]) -> NDArray[Any]:
    """Rows minus nearly all of the mean of their class, scaled so that squares have the right mean.

    For n rows with variance v, the squares of x - u x̄ have the mean v (1 - (2u - u²)/n), which is
    much less than v if the sample has few rows of each class.
    """
    order = np.argsort(y, kind="stable")
    starts = np.flatnonzero(np.diff(y[order], prepend=-1))
    sums = np.add.reduceat((X * w[:, None])[order], starts, axis=0)
    # weights may have underflown in the dtype of the rows: such rows count for nothing
    weight = np.maximum(np.add.reduceat(w[order], starts), LEAST)
    squares = np.maximum(np.add.reduceat(w[order].astype(np.float64) ** 2, starts), LEAST**2)
    alike = weight.astype(np.float64) ** 2 / squares  # as many rows of one weight
    count = np.maximum(alike, np.maximum(len(y) * weight, 1.0))  # a weight of two is a row twice
    longer = np.sqrt(count / (count - CENTRED * (2.0 - CENTRED)))
    place = np.empty(len(y), np.intp)
    place[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(y)))
    centred = X - X.dtype.type(CENTRED) * (sums / weight[:, None])[place]
    centred *= longer.astype(X.dtype)[place][:, None]
    return centred


def _class_centred_there(X: Array, y: Array, w: Array) -> Array:
    """The same on a device."""
    C, wide = int(y.max()) + 1, astype(w, np.float64)
    zero = zeros((C,), X, np.float64)
    sums = zeros((C, X.shape[1]), X, dtype_of(X)).index_add_(0, y, X * w[:, None])
    weight = zero.index_add(0, y, wide).clamp_min(LEAST)
    squares = zero.index_add(0, y, wide**2).clamp_min(LEAST**2)
    alike = weight**2 / squares
    count = namespace(X).maximum(alike, (len(y) * weight).clamp_min(1.0))
    longer = (count / (count - CENTRED * (2.0 - CENTRED))).sqrt()
    means = sums / astype(weight, dtype_of(X))[:, None]
    return (X - CENTRED * means[y]) * astype(longer, dtype_of(X))[y][:, None]
