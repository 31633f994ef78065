"""The Triton kernels of softmax.py, for float32.  Memory sets their speed, not arithmetic.

Up to IN_REGISTERS classes, a program holds its rows in registers: S is read once and the residuals
are written once.  Above that, a program reads its row twice.  The first time it keeps, for every
block of classes, its largest score and its sum of exponentials below that.  All blocks are scaled
to the largest score of the row once, at the end: an error per rescaling, as in an online softmax,
would grow with the number of blocks.
"""

from collections.abc import Sequence
from math import gcd
from typing import Any

import torch
import triton
import triton.language as tl

IN_REGISTERS = 8192  # classes
BLOCK = 4096  # classes, above that
TILE = 1024  # scores of a program at least: short rows share one
PER_THREAD = 8  # scores of a thread, if there are threads enough: loads of 16 bytes
MOST_WARPS = 16
FUSED = {"enable_fp_fusion": True}  # multiply and add in one instruction; Triton asks for a choice

# exp(x) = 2^k exp2(f) with x = (k + f) ln 2 and |f| <= 1/2.  ln 2 in two parts, the first so short
# that its product with k is exact: the error of exp2(x log2(e)) would grow with |x|.
LOG2_E = tl.constexpr(1.4426950408889634)
LN2_HIGH = tl.constexpr(0.693359375)
LN2_LOW = tl.constexpr(-2.12194440e-4)
UNDERFLOW = tl.constexpr(-87.0)  # below this e^x is no normal float32; 1e-38 is used instead
ROUND = tl.constexpr(12582912.0)  # 1.5 * 2^23: adding it rounds to an integer, in the lowest bits


def launch(
    S: Any, b: Any, y: Any, w: Any, out: Sequence[Any], unit: float, factor: Any
) -> tuple[Any, Any]:
    """As softmax.softmax_residuals; `unit` is u."""
    m, C = S.shape
    factor = S.new_ones(()) if factor is None else factor
    loss, doubt = w.new_empty(m), w.new_empty(m)
    pieces = [*out, S, S, S][:3]
    # Strides and C in units of `align`: the compiler then knows what divides them, and uses loads
    # of 16 bytes.  It would recognise 16 itself, but not the 8 that divides 1,000.
    steps = S.stride(0), pieces[0].stride(0), C
    align = gcd(16, *steps)
    units = [step // align for step in steps]
    given = (S, b, y, w, factor, loss, doubt, *pieces, *units, m)
    fixed = {"ALIGN": align, "PIECES": len(out), "UNIT": unit, **FUSED}
    with torch.cuda.device_of(S):  # Triton launches on the current device
        if C <= IN_REGISTERS:
            width = triton.next_power_of_2(C)
            rows = max(1, TILE // width)
            warps = min(MOST_WARPS, max(1, rows * width // (32 * PER_THREAD)))
            grid = (triton.cdiv(m, rows),)
            rows_kernel[grid](*given, ROWS=rows, WIDTH=width, **fixed, num_warps=warps)
        else:
            fixed |= {"WIDTH": BLOCK, "BLOCKS": triton.next_power_of_2(triton.cdiv(C, BLOCK))}
            long_row_kernel[(m,)](*given, **fixed, num_warps=MOST_WARPS)
    return loss, doubt


@triton.jit
def exp(x):  # type: ignore[no-untyped-def]
    """e^x for x <= 0; NaN for NaN."""
    x = tl.maximum(x, UNDERFLOW, propagate_nan=tl.PropagateNan.ALL)
    rounded = x * LOG2_E + ROUND
    k = rounded - ROUND
    f = ((x - k * LN2_HIGH) - k * LN2_LOW) * LOG2_E
    # The lowest bits of `rounded` are k: moved to the place of the exponent, they multiply by 2^k.
    power = rounded.to(tl.int32, bitcast=True) << 23
    e = (tl.exp2(f).to(tl.int32, bitcast=True) + power).to(tl.float32, bitcast=True)
    return e + 0.0 * x  # NaN, of which the line above makes some number


@triton.jit
def log1p(x, u):  # type: ignore[no-untyped-def]
    """ln(1 + x) for x >= 0, with all digits of a small x; u is 1 + x."""
    kept = u - 1.0  # what rounding left of x in u: ln(u) is wrong by the same share as this
    return tl.where(kept == 0.0, x, tl.log(u) * (x / tl.where(kept == 0.0, 1.0, kept)))


@triton.jit
def store(r, at, inside, hi, mid, lo, PIECES: tl.constexpr, UNIT: tl.constexpr):  # type: ignore[no-untyped-def]
    """The residuals, or their pieces."""
    if PIECES == 0:
        tl.store(hi + at, r, mask=inside)
    if PIECES >= 1:
        piece = r.to(hi.dtype.element_ty)
        tl.store(hi + at, piece, mask=inside)
    if PIECES >= 2:
        r = (r - piece.to(tl.float32)) * UNIT
        piece = r.to(mid.dtype.element_ty)
        tl.store(mid + at, piece, mask=inside)
    if PIECES >= 3:
        r = (r - piece.to(tl.float32)) * UNIT
        tl.store(lo + at, r.to(lo.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["m"])
def rows_kernel(  # type: ignore[no-untyped-def]
    S, b, y, w, factor, loss, doubt, hi, mid, lo,
    stride, out_stride, C, m,
    ROWS: tl.constexpr, WIDTH: tl.constexpr,
    ALIGN: tl.constexpr, PIECES: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """ROWS rows, each whole in registers."""
    stride, out_stride, C = stride * ALIGN, out_stride * ALIGN, C * ALIGN
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, WIDTH)
    here = i < m
    inside = here[:, None] & (c < C)[None, :]
    y_i = tl.load(y + i, mask=here, other=0)
    w_i = tl.load(w + i, mask=here, other=0.0)
    f = tl.load(factor)
    s_y = tl.load(S + i * stride + y_i, mask=here, other=0.0) * f + tl.load(b + y_i)
    s = tl.load(S + (i * stride)[:, None] + c[None, :], mask=inside, other=-float("inf"))
    s = s * f + tl.load(b + c[None, :], mask=(c < C)[None, :], other=0.0)
    if PIECES == 0:
        tl.debug_barrier()  # all threads have read s_y before one overwrites it
    if ROWS > 1:
        s = tl.where(here[:, None], s, 0.0)

    own = c[None, :] == y_i[:, None]
    top = tl.max(s, 1)
    e = tl.where(own, 0.0, exp(s - top[:, None]))
    others = tl.sum(e, 1)
    everything = others + exp(s_y - top)
    log_all = tl.where(s_y == top, log1p(others, everything), (top - s_y) + tl.log(everything))
    share = others / everything
    tl.store(loss + i, log_all, mask=here)
    tl.store(doubt + i, share, mask=here)
    r = tl.where(own, (-w_i * share)[:, None], e * (w_i / everything)[:, None])
    at = (i * out_stride)[:, None] + c[None, :]
    store(r, at, inside, hi, mid, lo, PIECES, UNIT)


@triton.jit(do_not_specialize=["m"])
def long_row_kernel(  # type: ignore[no-untyped-def]
    S, b, y, w, factor, loss, doubt, hi, mid, lo,
    stride, out_stride, C, m,
    WIDTH: tl.constexpr, BLOCKS: tl.constexpr,
    ALIGN: tl.constexpr, PIECES: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """One row, in BLOCKS blocks of WIDTH classes."""
    stride, out_stride, C = stride * ALIGN, out_stride * ALIGN, C * ALIGN
    i = tl.program_id(0).to(tl.int64)
    S += i * stride
    c = tl.arange(0, WIDTH)
    number = tl.arange(0, BLOCKS)
    y_i, w_i = tl.load(y + i), tl.load(w + i)
    f = tl.load(factor)
    s_y = tl.load(S + y_i) * f + tl.load(b + y_i)

    tops = tl.full((BLOCKS,), -float("inf"), tl.float32)
    sums = tl.zeros((BLOCKS,), tl.float32)
    for lo_c in range(0, C, WIDTH):
        inside = lo_c + c < C
        s = tl.load(S + lo_c + c, mask=inside, other=-float("inf"))
        s = s * f + tl.load(b + lo_c + c, mask=inside, other=0.0)
        top = tl.max(s, 0)
        e = tl.where(lo_c + c == y_i, 0.0, exp(s - top))
        this = number * WIDTH == lo_c
        tops = tl.where(this, top, tops)
        sums = tl.where(this, tl.sum(e, 0), sums)

    top = tl.max(tops, 0)
    others = tl.sum(sums * exp(tops - top), 0)
    everything = others + exp(s_y - top)
    log_all = tl.where(s_y == top, log1p(others, everything), (top - s_y) + tl.log(everything))
    share = others / everything
    tl.store(loss + i, log_all)
    tl.store(doubt + i, share)
    for lo_c in range(0, C, WIDTH):
        inside = lo_c + c < C
        s = tl.load(S + lo_c + c, mask=inside, other=-float("inf"))
        s = s * f + tl.load(b + lo_c + c, mask=inside, other=0.0)
        r = tl.where(lo_c + c == y_i, -w_i * share, exp(s - top) * (w_i / everything))
        store(r, i * out_stride + lo_c + c, inside, hi, mid, lo, PIECES, UNIT)
