"""The multinomial Hessian class by class, and its inverse.

The block of class c's weights and intercept is, with h_ic = w_i p_ic (1 - p_ic) and a_c = Σ_i h_ic,

    Σ_i h_ic [x_i, 1]ᵀ[x_i, 1]  =  a_c [ Σ_c + m_c m_cᵀ   m_c ]        m_c, Σ_c: mean and covariance
                                       [ m_cᵀ              1  ]        of the rows under h_c

m_c differs from class to class: the rows that class c has doubts about lie around class c.  Seen
from m_c (intercept b_c + w_cᵀ m_c) weights and intercept do not disturb each other:

    g̃ = g                            ṽ_b = A⁺ g̃           A = Σ w_i (diag p_i - p_i p_iᵀ)
    G̃_c = G_c - g_c m_cᵀ             V_c = (a_c Σ + lam I)⁻¹ G̃_c
                                     v_b = ṽ_b - diag(V Mᵀ)

with one Σ for all classes, the covariance within classes, P diag(s) Pᵀ + s_rest (I - P Pᵀ) by the
leading eigenpairs of a sample.  This is SLND's curvature (lowrank.py), shared by all classes, with
each class's own centre and size; the centre saves a quarter to a third of the passes of a fit.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from ..rows import row_squares
from ..rows.threads import matmul
from .base import SAMPLE_BYTES
from .eigen import top_eigenpairs

MIN_SAMPLES, MAX_SAMPLES = 16, 4096
MAX_RANK = 256  # eigenpairs: on embeddings and pixels more gain no pass, and 64 lose some
CENTRED = 0.9  # of a class's mean: the only row of its class shall not count for nothing
FLOOR = 1e-7  # of the largest a s: below it a direction is rounding (lam = 0 has no other floor)
NULL = 1e-6  # of the largest eigenvalue of A: the constant vector over classes


class Classwise:
    """A sample of rows, and the covariance within classes they show."""

    def __init__(
        self,
        X: NDArray[Any],
        w: NDArray[Any],
        y: NDArray[np.int32],
        intercept: bool,
        rng: np.random.Generator,
    ) -> None:
        self.X, self.w, self.intercept = X, w, intercept  # (m, d) centred, (m,)
        m, d = X.shape
        S = _class_centred(X, y, w)
        S *= np.sqrt(w / w.mean())[:, None]
        s, P = top_eigenpairs(S, min(MAX_RANK, m, d), rng)
        trace = float(row_squares(S).sum(dtype=np.float64)) / m
        self.s, self.P = np.maximum(s, 0), np.ascontiguousarray(P)  # (k,) decreasing, (d, k)
        self.rest = max(0.0, trace - float(s.sum(dtype=np.float64))) / max(1, d - len(s))

    def classes(self, theta: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """A (C, C), and the classes' centres m_c - x̄ (C, d), at theta, as the sample has them."""
        P = matmul(self.X, theta[:, :-1].T)
        P += theta[:, -1]
        P = softmax(P, axis=1)
        h = P * self.w[:, None]
        A = np.diag(h.sum(axis=0, dtype=np.float64)) - matmul(P.T, h)
        if not self.intercept:
            return A, np.zeros((len(A), self.X.shape[1]), P.dtype)
        h *= 1 - P
        size = np.maximum(h.sum(axis=0), np.finfo(P.dtype).tiny)
        return A, matmul(h.T, self.X) / size[:, None]

    def inverse(self, theta: NDArray[Any], lam: float) -> "Inverse":
        """The inverse blocks at theta."""
        A, centres = self.classes(theta)
        a = np.maximum(np.diag(A), 0.0)
        floor = FLOOR * float(a.max()) * float(self.s[0])
        lam = max(lam, floor, float(np.finfo(np.float32).tiny))
        dtype = self.P.dtype
        return Inverse(
            P=self.P,
            inside=(1.0 / (np.outer(a, self.s) + lam)).astype(dtype),
            outside=(1.0 / (a * self.rest + lam)).astype(dtype)[:, None],
            intercept=np.linalg.pinv(A, rcond=NULL, hermitian=True),
            centres=centres,
        )


@dataclass(frozen=True)
class Inverse:
    P: NDArray[Any]  # (d, k)
    inside: NDArray[Any]  # (C, k)
    outside: NDArray[Any]  # (C, 1)
    intercept: NDArray[Any]  # (C, C)
    centres: NDArray[Any]  # (C, d) m_c - x̄

    def __matmul__(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """The inverse times [G, g] (C, d + 1)."""
        out = np.empty_like(gradient)
        g = gradient[:, -1:]
        G = gradient[:, :-1] - g * self.centres
        inside = matmul(G, self.P)
        inside *= self.inside - self.outside
        G *= self.outside
        G += matmul(inside, self.P.T)
        out[:, :-1] = G
        v = self.intercept @ g[:, 0] - np.einsum("cd,cd->c", G, self.centres)
        out[:, -1] = v - v.mean()  # a common shift changes nothing, and would cost digits
        return out


def sample_size(n: int, dense_row_bytes: int) -> int:
    """Rows to look at, of n; they are held dense, whatever they come from."""
    return min(n, MAX_SAMPLES, max(MIN_SAMPLES, SAMPLE_BYTES // dense_row_bytes))


def _class_centred(X: NDArray[Any], y: NDArray[np.int32], w: NDArray[Any]) -> NDArray[Any]:
    """Rows less nearly all of their class's mean."""
    order = np.argsort(y, kind="stable")
    starts = np.flatnonzero(np.diff(y[order], prepend=-1))
    sums = np.add.reduceat((X * w[:, None])[order], starts, axis=0)
    means = sums / np.add.reduceat(w[order], starts)[:, None]
    place = np.empty(len(y), np.intp)
    place[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(y)))
    return X - X.dtype.type(CENTRED) * means[place]
