"""Residuals and losses from the scores of a block, one row after the other, in cache.

A small number is never computed as a difference of large ones.  With `others` the sum of
exp(s_c - s_top) over all classes but the row's own, and `all` that sum plus the own class's term,

    1 - p_y = others / all          ln Σ exp s - s_y = log1p(others), if the own class is on top

so that a row with p_y close to 1 keeps all digits of its loss and of its residual p - e_y.
Otherwise, in float32, 1 - p_y and ln(all) would be exactly 0 below 6e-8, and the objective too
small.
"""

import numpy as np
from numba.extending import register_jitable

from ..kernels import kernel
from .exponential import exp

# What a compiler may do to sums and products here: regroup them and use fused multiply-adds.
FAST = {"reassoc", "contract", "nsz"}
TINY = 1e-300  # a smaller weight counts as 0
CHUNK = 512  # classes whose exponentials are summed in the dtype of the scores

# What `residuals` adds up over rows: Σ w loss, Σ w ln Σ exp s, and, for bounds on rounding errors
# (rounding.py), Σ r, Σ r ‖x‖, Σ r², Σ r² ‖x‖² with r = w (1 - p_y).
LOSS, LSE, R, R_X, RR, RR_X = range(6)
N_SUMS = 6


@kernel(fastmath=FAST)
def residuals(S, b, w, y, sizes, g, own, sums):  # type: ignore[no-untyped-def]
    """S <- w (softmax(S + b) - e_y), in place, for weights w and norms `sizes` of the rows.

    g (C,) += Σ w (p - e_y),  own (C,) += Σ w (1 - p_y) over the rows of each class,
    sums (N_SUMS,) += the sums named above.
    """
    for i in range(S.shape[0]):
        s, c_y = S[i], y[i]
        top = s[0] + b[0]
        for c in range(len(s)):
            s[c] += b[c]
            top = max(top, s[c])
        s_y = s[c_y]
        e_y = exp(s_y - top)
        s[c_y] = top - s.dtype.type(200.0)  # its exponential is negligible, and replaced below
        others = exp_row(s, top)
        everything = others + e_y
        loss = np.log1p(others) if s_y == top else float(top - s_y) + np.log(everything)
        doubt = others / everything

        share = s.dtype.type(w[i] / everything)
        for c in range(len(s)):
            s[c] *= share
        s[c_y] = s.dtype.type(-w[i] * doubt)
        for c in range(len(s)):
            g[c] += s[c]
        r, size = w[i] * doubt, float(sizes[i])
        own[c_y] += r
        sums[LOSS] += w[i] * loss
        sums[LSE] += w[i] * (loss + float(s_y))
        sums[R] += r
        sums[R_X] += r * size
        sums[RR] += r * r
        sums[RR_X] += r * r * size * size


@register_jitable
def exp_row(s, top):  # type: ignore[no-untyped-def]
    """s <- exp(s - top), in place; returns its sum in float64."""
    total = 0.0
    for lo in range(0, len(s), CHUNK):
        chunk = s[lo : lo + CHUNK]
        part = s.dtype.type(0)
        for c in range(len(chunk)):
            chunk[c] = exp(chunk[c] - top)
            part += chunk[c]
        total += part
    return total


@kernel(fastmath=FAST)
def curvature_rows(S, w, y, a):  # type: ignore[no-untyped-def]
    """a (C,) += Σ w p (1 - p), from the residuals S = w (p - e_y)."""
    for i in range(S.shape[0]):
        if w[i] < TINY:
            continue
        s, share = S[i], 1.0 / w[i]
        for c in range(len(s)):  # -s is w (1 - p) for the own class, and s is w p for any other
            size = float(abs(s[c]))
            a[c] += size * max(0.0, 1.0 - size * share)


@kernel(fastmath=FAST)
def root_rows(S, w, y, P):  # type: ignore[no-untyped-def]
    """P <- sqrt(w) p, from the residuals S = w (p - e_y)."""
    for i in range(S.shape[0]):
        share = S.dtype.type(1.0 / np.sqrt(w[i]) if w[i] > TINY else 0.0)
        s, p = S[i], P[i]
        for c in range(len(s)):
            p[c] = s[c] * share
        p[y[i]] = S.dtype.type(w[i] + s[y[i]]) * share
