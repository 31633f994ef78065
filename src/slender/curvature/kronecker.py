"""The multinomial Hessian as a Kronecker product, and its inverse.

    H = Σ_i w_i (diag p_i - p_i p_iᵀ) ⊗ x_i x_iᵀ + lam I   ≈   A ⊗ Σ + lam I

    A = Σ w_i (diag p_i - p_i p_iᵀ)   (C, C)    Σ = Σ w_i (x_i - x̄)(x_i - x̄)ᵀ / Σ w_i   (d, d)

exact at W = 0, where every p_i is the same, and a good shape later.  With A = U diag(a) Uᵀ and
Σ ≈ P diag(s) Pᵀ + s_rest (I - P Pᵀ), the k leading eigenpairs of a sample's Σ and one number for
all other directions,

    (A ⊗ Σ + lam I)⁻¹ G = U [ (Uᵀ G P) / (a s + lam) ] Pᵀ   on P's span,
                          U [ (Uᵀ G) / (a s_rest + lam) ]   off it.

This is SLND's low-rank curvature (lowrank.py) with the classes' side added: all classes share one
P, and A is C x C.  It preconditions W; the intercepts, in centred coordinates, get A⁺.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..rows import Rows
from .base import SAMPLE_BYTES
from .eigen import top_eigenpairs

MAX_SAMPLES = 4096
FULL_RANK = 1536  # up to here all eigenpairs: LAPACK takes a quarter of a second
MAX_RANK = 512  # and beyond, so many
FLOOR = 1e-7  # of the largest a s: below it a direction is rounding (lam = 0 has no other floor)
NULL = 1e-6  # of the largest a: the constant vector over classes


@dataclass(frozen=True)
class Kronecker:
    s: NDArray[Any]  # (k,) decreasing
    P: NDArray[Any]  # (d, k)
    rest: float  # the eigenvalue of all other directions

    def inverse(self, A: NDArray[np.float64], lam: float) -> "KroneckerInverse":
        a, U = np.linalg.eigh(A)
        a = np.maximum(a, 0.0)
        top = self.s[0] if len(self.s) else self.rest
        lam = max(lam, FLOOR * float(a[-1]) * float(top), np.finfo(np.float32).tiny)
        dtype = self.P.dtype
        intercept = np.where(a > NULL * a[-1], 1.0 / np.maximum(a, np.finfo(float).tiny), 0.0)
        return KroneckerInverse(
            U=U.astype(dtype),
            P=self.P,
            inside=(1.0 / (np.outer(a, self.s) + lam)).astype(dtype),
            outside=(1.0 / (a * self.rest + lam)).astype(dtype)[:, None],
            intercept=(U * intercept) @ U.T,
        )


@dataclass(frozen=True)
class KroneckerInverse:
    U: NDArray[Any]  # (C, C)
    P: NDArray[Any]  # (d, k)
    inside: NDArray[Any]  # (C, k)
    outside: NDArray[Any]  # (C, 1)
    intercept: NDArray[np.float64]  # (C, C)

    def __matmul__(self, G: NDArray[Any]) -> NDArray[Any]:
        """The inverse times a gradient [G_W, g] (C, d + 1)."""
        out = np.empty_like(G)
        T = self.U.T @ G[:, :-1]
        inside = T @ self.P
        if self.P.shape[1] < self.P.shape[0]:
            inside *= self.inside - self.outside
            T *= self.outside
            T += inside @ self.P.T
        else:  # P is a whole basis
            inside *= self.inside
            T = inside @ self.P.T
        np.matmul(self.U, T, out=out[:, :-1])
        out[:, -1] = self.intercept @ G[:, -1]
        return out


def estimate(
    rows: Rows,
    w: NDArray[Any],
    mean: NDArray[Any],
    trace: float,
    rng: np.random.Generator,
) -> Kronecker:
    """Σ from a sample of the rows of weights w; `mean`, and Σ's `trace`, are those of all rows."""
    active = np.flatnonzero(w)
    d = rows.shape[1]
    m = min(len(active), MAX_SAMPLES, SAMPLE_BYTES // (d * rows.dtype.itemsize))
    if m < 2:  # rows too wide to look at: one number for all directions
        return Kronecker(np.empty(0, rows.dtype), np.empty((d, 0), rows.dtype), trace / d)
    index = np.sort(rng.choice(active, m, replace=False))
    S = rows.dense(index) - mean
    share = w[index] / w[index].mean()
    S *= np.sqrt(share)[:, None]
    k = d if d <= FULL_RANK else min(MAX_RANK, m)
    s, P = top_eigenpairs(S, min(k, m, d), rng)
    s = np.maximum(s, 0)
    rest = max(0.0, float(trace) - float(s.sum(dtype=np.float64))) / max(1, d - len(s))
    return Kronecker(s, np.ascontiguousarray(P), rest)
