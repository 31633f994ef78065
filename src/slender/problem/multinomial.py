"""The multinomial objective and its gradient, in one pass over the rows.

    P(W, b) = Σ_i w_i ( ln Σ_c exp s_ic - s_iy ) + lam/2 ‖W‖²,    s_i = W x_i + b,   w_i = c_i/n

Coordinates.  theta = [W, b'] (C, d + 1) with b' = b + W x̄, the score of the mean row
x̄ = Σ w_i x_i / Σ w_i: as if the features were centred, without touching them.  The gradient in
these coordinates is [G + lam W - g x̄ᵀ, g] with, for p_i the softmax of s_i,

    G = Σ_i w_i (p_i - e_y) x_iᵀ  (C, d)         g = Σ_i w_i (p_i - e_y)  (C,)

Centred, W and b' hardly disturb each other, which is what the curvature relies on.  Without an
intercept x̄ is 0 and so are b' and its gradient.

A block of rows is turned into scores, softmax and gradient while it is in a core's cache; the
n x C scores never exist.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable
from numpy.typing import NDArray

from ..metrics import measure
from ..rows import Rows, SubsetRows, add_product, map_blocks, product, row_squares
from .exponential import exp

# What a compiler may do to sums and products here: regroup them and use fused multiply-adds.
FAST = {"reassoc", "contract", "nsz"}
TRACE_ROUNDING = 32.0  # units in the last place that sums of squares over a block's rows may lose


class Point(NamedTuple):
    """The objective at theta, and what one pass learns beside it."""

    theta: NDArray[Any]  # (C, d + 1)
    lam: float
    objective: float
    gradient: NDArray[Any]  # (C, d + 1), with the penalty's part
    g: NDArray[np.float64]  # (C,) the intercepts' gradient, summed in float64
    A: NDArray[np.float64] | None  # (C, C) Σ w_i (diag p_i - p_i p_iᵀ), where it was asked for

    def at_lam(self, lam: float) -> "Point":
        """The same theta under another penalty: no pass, only the penalty's part changes."""
        W, change = self.theta[:, :-1], lam - self.lam
        gradient = self.gradient.copy()
        gradient[:, :-1] += W.dtype.type(change) * W
        objective = self.objective + 0.5 * change * sq_norm(W)
        return self._replace(lam=lam, objective=objective, gradient=gradient)


class _Sums:
    """One thread's share of the sums over rows."""

    def __init__(self, C: int, d: int, dtype: Any, second: bool) -> None:
        self.loss = 0.0
        self.G = np.zeros((C, d), dtype)
        self.scratch = np.empty((C, d), dtype)
        self.g = np.zeros(C)
        self.pp = np.zeros((C, C)) if second else None  # Σ w p pᵀ
        self.p = np.zeros(C)


@dataclass
class Multinomial:
    """Rows, their classes and weights; `passes` counts how often all rows were read."""

    rows: Rows
    y: NDArray[np.int32]  # (n,)
    w: NDArray[Any]  # (n,) c_i / n, in the rows' dtype
    n_classes: int
    intercept: bool = True
    passes: int = 0

    def __post_init__(self) -> None:
        self._moments()

    def _moments(self) -> None:
        """x̄ (d,), the classes' weights (C,), Σ w ‖x‖², and the trace of Σ w (x - x̄)(x - x̄)ᵀ."""
        d = self.rows.shape[1]
        self.class_weight = np.bincount(self.y, self.w, self.n_classes)
        self.total = float(self.class_weight.sum())

        def start() -> NDArray[np.float64]:
            return np.zeros(d + 1)

        def work(mine: NDArray[np.float64], lo: int, hi: int, block: Any) -> None:
            w = self.w[lo:hi]
            with np.errstate(over="ignore", invalid="ignore"):  # the caller asks if all are finite
                mine[:d] += w @ block
                mine[d] += w @ row_squares(block)

        sums = np.sum(map_blocks(self.rows, start, work), axis=0)
        self.mean = (sums[:d] / self.total).astype(self.rows.dtype)
        if not self.intercept:
            self.mean[:] = 0.0
        self.squares = float(sums[d])  # NaN or infinite where a row is
        mean_square = float(np.sum(self.mean.astype(np.float64) ** 2))
        # Far from zero a difference of large numbers: never below the truth, as a bound must be.
        rounding = TRACE_ROUNDING * float(np.finfo(self.rows.dtype).eps) * self.squares
        self.trace = max(self.squares - self.total * mean_square, 0.0) + rounding

    def start(self) -> NDArray[Any]:
        """theta at W = 0, with the best intercepts there: the classes' log shares."""
        theta = np.zeros((self.n_classes, self.rows.shape[1] + 1), self.rows.dtype)
        if self.intercept:
            shares = np.log(self.class_weight / self.total)
            theta[:, -1] = shares - shares.mean()
        return theta

    def model(self, theta: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """(W, b), as raw features want them."""
        W = np.ascontiguousarray(theta[:, :-1])
        return W, theta[:, -1] - W @ self.mean

    def theta(self, W: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        """The way back from (W, b)."""
        W = np.asarray(W, self.rows.dtype)
        centred = b + W @ self.mean if self.intercept else np.zeros(len(W))
        return np.column_stack([W, centred]).astype(self.rows.dtype)

    @property
    def dense_row_bytes(self) -> int:
        return self.rows.shape[1] * self.rows.dtype.itemsize

    def sample(self, index: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Some rows, centred, and weights that make them stand for all."""
        w = self.w[index]
        return self.rows.dense(index) - self.mean, w * self.rows.dtype.type(self.total / w.sum())

    def separated(self, theta: NDArray[Any]) -> bool:
        """Has every row of positive weight its own class on top?"""
        active = np.flatnonzero(self.w)
        rows = SubsetRows(self.rows, active)
        return measure(rows, self.y[active], *self.model(theta))["top1"] == 1.0

    def at(self, theta: NDArray[Any], lam: float, second: bool = False) -> Point:
        """Objective and gradient: one pass.  `second` asks for A too."""
        self.passes += 1
        C, d, dtype = self.n_classes, self.rows.shape[1], self.rows.dtype
        W, b = self.model(theta)
        WT = np.ascontiguousarray(W.T)
        b = b.astype(dtype)

        def start() -> _Sums:
            return _Sums(C, d, dtype, second)

        def work(mine: _Sums, lo: int, hi: int, block: Any) -> None:
            S = np.empty((hi - lo, C), dtype)
            product(block, WT, S)
            w, y = self.w[lo:hi], self.y[lo:hi]
            mine.loss += softmax_rows(S, b, w, y)
            if mine.pp is not None:
                mine.p += S.sum(axis=0, dtype=np.float64)
                P = S / np.sqrt(np.where(w > 0, w, 1))[:, None]
                mine.pp += P.T @ P
            S[np.arange(hi - lo), y] -= w
            mine.g += S.sum(axis=0, dtype=np.float64)
            add_product(S, block, mine.G, mine.scratch)

        sums = map_blocks(self.rows, start, work, C * dtype.itemsize)
        G, g = sums[0].G, sum(one.g for one in sums)
        for other in sums[1:]:
            G += other.G
        G += dtype.type(lam) * W
        gradient = np.zeros((C, d + 1), dtype)
        gradient[:, :d] = G
        if self.intercept:
            gradient[:, :d] -= np.outer(g, self.mean)
            gradient[:, d] = g
        objective = float(sum(one.loss for one in sums) + 0.5 * lam * sq_norm(W))
        A = None
        if second:
            A = np.diag(np.sum([one.p for one in sums], axis=0))
            A -= np.sum([one.pp for one in sums if one.pp is not None], axis=0)
        return Point(theta, lam, objective, gradient, np.asarray(g), A)


def sq_norm(A: NDArray[Any]) -> float:
    """‖A‖² in float64."""
    return float(np.einsum("cd,cd->", A, A, dtype=np.float64))


@njit(cache=True, nogil=True, fastmath=FAST)
def softmax_rows(S, b, w, y):  # type: ignore[no-untyped-def]
    """S <- w softmax(S + b), row by row, in place; returns the sum of w times the loss."""
    total = 0.0
    for i in range(S.shape[0]):
        s = S[i]
        largest = s[0] + b[0]
        for c in range(len(s)):
            s[c] += b[c]
            largest = max(largest, s[c])
        s_y = s[y[i]]
        normaliser = exp_rows(s, largest)
        total += w[i] * (np.log(normaliser) + (largest - s_y))
        share = w[i] / normaliser
        for c in range(len(s)):
            s[c] *= share
    return total


@register_jitable
def exp_rows(s, largest):  # type: ignore[no-untyped-def]
    """s <- exp(s - largest), in place; returns its sum."""
    normaliser = s.dtype.type(0)
    for c in range(len(s)):
        s[c] = exp(s[c] - largest)
        normaliser += s[c]
    return normaliser
