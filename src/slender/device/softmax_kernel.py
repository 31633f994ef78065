"""The Triton kernels of softmax.py, for float32.  Memory sets their speed, not arithmetic.

Up to IN_REGISTERS classes, a program holds one row after the other in registers (of short rows,
several at a time): S is read once, the residuals are written once, and the sums of their columns
stay in registers until the program has no row left.  Then they are added to what the program has
found in other chunks.  A program waits for the largest score of a row and for its sum: so it has
few threads, there are many programs, and rows are loaded ahead.

Above that, one kernel reads the rows for their largest score and their sum of exponentials, by
blocks of classes.  All blocks are scaled to the largest score of the row once, at the end: an error
per rescaling, as in an online softmax, would grow with the number of blocks.  A second kernel reads
them for the residuals, each program a block of classes of many rows, and adds up its columns.
"""

from collections.abc import Sequence
from functools import cache
from math import gcd
from typing import Any

import torch
import triton
import triton.language as tl

IN_REGISTERS = 8192  # classes
BLOCK = 4096  # classes, above that, of one row
COLUMNS, COLUMN_WARPS = 1024, 4  # classes, above that, of many rows
TILE = 1024  # scores of a program at a time, at least: short rows share one
PER_THREAD = 16  # scores of a thread, if there are threads enough
MOST_WARPS = 16
WARPS_A_CORE = 16  # of all programs on a multiprocessor: more have no registers
GROUPS = 32  # of rows whose columns are added up apart, if rows are long
AHEAD = 3  # tiles that a program has loaded: the next ones, and that it works on
INTERPRETED_CORES = 2  # multiprocessors, where there are none
FUSED = {"enable_fp_fusion": True}  # multiply and add in one instruction; Triton asks for a choice

# exp(x) = 2^k exp2(f) with x = (k + f) ln 2 and |f| <= 1/2.  ln 2 in two parts, the first so short
# that its product with k is exact: the error of exp2(x log2(e)) would grow with |x|.
LOG2_E = tl.constexpr(1.4426950408889634)
LN2_HIGH = tl.constexpr(0.693359375)
LN2_LOW = tl.constexpr(-2.12194440e-4)
UNDERFLOW = tl.constexpr(-87.0)  # below this e^x is no normal float32; 1e-38 is used instead
ROUND = tl.constexpr(12582912.0)  # 1.5 * 2^23: adding it rounds to an integer, in the lowest bits
LEAST = tl.constexpr(1e-37)  # a smaller weight has no inverse


def launch(
    S: Any, b: Any, y: Any, w: Any, out: Sequence[Any], unit: float, factor: Any, columns: Any
) -> Any:
    """As softmax.softmax_residuals; `unit` is u.  The figures of the rows (3, m)."""
    (m, C), (groups, sums, _) = S.shape, columns.shape
    factor = S.new_ones(()) if factor is None else factor
    figures = S.new_empty((3, m))
    pieces = [*out, S, S, S][:3]
    # Strides and C in units of `align`: the compiler then knows what divides them, and uses loads
    # of 16 bytes.  It would recognise 16 itself, but not the 8 that divides 1,000.
    steps = S.stride(0), pieces[0].stride(0), C
    align = gcd(16, *steps)
    units = [step // align for step in steps]
    fixed = {"ALIGN": align, "PIECES": len(out), "UNIT": unit, "BEND": sums > 1, **FUSED}
    with torch.cuda.device_of(S):  # Triton launches on the current device
        if C <= IN_REGISTERS:
            rows, width, warps = tile(C)
            rows_kernel[(min(triton.cdiv(m, rows), groups),)](
                S, b, y, w, factor, figures, *pieces, columns, *units, m,
                ROWS=rows, WIDTH=width, STAGES=AHEAD, **fixed, num_warps=warps,
            )  # fmt: skip
        else:
            blocks = triton.next_power_of_2(triton.cdiv(C, BLOCK))
            sizes = S.new_empty((2, m))
            normalise_kernel[(m,)](
                S, b, y, w, factor, figures, sizes, units[0], C, m,
                ALIGN=align, WIDTH=BLOCK, BLOCKS=blocks, **FUSED, num_warps=MOST_WARPS,
            )  # fmt: skip
            columns_kernel[(triton.cdiv(C, COLUMNS), min(m, groups))](
                S, b, y, w, factor, figures, sizes, *pieces, columns, *units, m,
                WIDTH=COLUMNS, STAGES=AHEAD, **fixed, num_warps=COLUMN_WARPS,
            )  # fmt: skip
    return figures


def groups_of(S: Any) -> int:
    """Of rows whose columns are added up apart: programs that run at the same time, at most."""
    m, C = S.shape
    if C > IN_REGISTERS:
        return min(m, GROUPS)
    rows, _, warps = tile(C)
    return int(min(triton.cdiv(m, rows), cores(S.device) * (WARPS_A_CORE // warps)))


def tile(C: int) -> tuple[int, int, int]:
    """The rows that a program holds at a time, their width there, and its warps."""
    width = triton.next_power_of_2(C)
    rows = max(1, TILE // width)
    return rows, width, min(MOST_WARPS, max(1, rows * width // (32 * PER_THREAD)))


@cache
def cores(device: Any) -> int:
    """The multiprocessors of a GPU."""
    if device.type != "cuda":
        return INTERPRETED_CORES
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


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


@triton.jit
def store_figures(figures, i, m, here, s_y, top, others, everything):  # type: ignore[no-untyped-def]
    """loss, doubt and the score of the own class; returns the doubt."""
    log_all = tl.where(s_y == top, log1p(others, everything), (top - s_y) + tl.log(everything))
    doubt = others / everything
    tl.store(figures + i, log_all, mask=here)
    tl.store(figures + m + i, doubt, mask=here)
    tl.store(figures + 2 * m + i, s_y, mask=here)
    return doubt


@triton.jit
def curvature(r, w):  # type: ignore[no-untyped-def]
    """w p (1 - p), from r = w (p - e_y)."""
    size = tl.abs(r)
    return size * tl.maximum(1.0 - size / tl.maximum(w, LEAST), 0.0)


@triton.jit
def add(sums, found, inside):  # type: ignore[no-untyped-def]
    """No other program has these sums."""
    tl.store(sums, tl.load(sums, mask=inside, other=0.0) + found, mask=inside)


@triton.jit(do_not_specialize=["m"])
def rows_kernel(  # type: ignore[no-untyped-def]
    S, b, y, w, factor, figures, hi, mid, lo, sums,
    stride, out_stride, C, m,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, STAGES: tl.constexpr,
    ALIGN: tl.constexpr, PIECES: tl.constexpr, UNIT: tl.constexpr, BEND: tl.constexpr,
):  # fmt: skip
    """ROWS rows after ROWS others, each whole in registers."""
    stride, out_stride, C = stride * ALIGN, out_stride * ALIGN, C * ALIGN
    c = tl.arange(0, WIDTH)
    known = (c < C)[None, :]
    bias = tl.load(b + c[None, :], mask=known, other=0.0)
    f = tl.load(factor)
    g = tl.zeros((ROWS, WIDTH), tl.float64)
    a = tl.zeros((ROWS, WIDTH), tl.float32)
    step = tl.num_programs(0) * ROWS
    for first in tl.range(tl.program_id(0) * ROWS, m, step, num_stages=STAGES):
        i = first + tl.arange(0, ROWS).to(tl.int64)
        here = i < m
        inside = here[:, None] & known
        y_i = tl.load(y + i, mask=here, other=0)
        w_i = tl.load(w + i, mask=here, other=0.0)
        s_y = tl.load(S + i * stride + y_i, mask=here, other=0.0) * f + tl.load(b + y_i)
        s = tl.load(S + (i * stride)[:, None] + c[None, :], mask=inside, other=-float("inf"))
        s = s * f + bias
        if PIECES == 0:
            tl.debug_barrier()  # all threads have read s_y before one overwrites it
        if ROWS > 1:
            s = tl.where(here[:, None], s, 0.0)

        mine = c[None, :] == y_i[:, None]
        top = tl.max(s, 1)
        e = tl.where(mine, 0.0, exp(s - top[:, None]))
        others = tl.sum(e, 1)
        everything = others + exp(s_y - top)
        doubt = store_figures(figures, i, m, here, s_y, top, others, everything)
        r = tl.where(mine, (-w_i * doubt)[:, None], e * (w_i / everything)[:, None])
        store(r, (i * out_stride)[:, None] + c[None, :], inside, hi, mid, lo, PIECES, UNIT)
        g += r.to(tl.float64)
        if BEND:
            a += curvature(r, w_i[:, None])

    sums += tl.program_id(0).to(tl.int64) * (1 + BEND) * C + c
    add(sums, tl.sum(g, 0), c < C)
    if BEND:
        add(sums + C, tl.sum(a.to(tl.float64), 0), c < C)


@triton.jit(do_not_specialize=["m"])
def normalise_kernel(  # type: ignore[no-untyped-def]
    S, b, y, w, factor, figures, sizes, stride, C, m,
    WIDTH: tl.constexpr, BLOCKS: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """Figures of one row, read in BLOCKS blocks; `sizes`: its largest score, and w / everything."""
    i = tl.program_id(0).to(tl.int64)
    S += i * (stride * ALIGN)
    c = tl.arange(0, WIDTH)
    number = tl.arange(0, BLOCKS)
    y_i = tl.load(y + i)
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
    store_figures(figures, i, m, True, s_y, top, others, everything)
    tl.store(sizes + i, top)
    tl.store(sizes + m + i, tl.load(w + i) / everything)


@triton.jit(do_not_specialize=["m"])
def columns_kernel(  # type: ignore[no-untyped-def]
    S, b, y, w, factor, figures, sizes, hi, mid, lo, sums,
    stride, out_stride, C, m,
    WIDTH: tl.constexpr, STAGES: tl.constexpr,
    ALIGN: tl.constexpr, PIECES: tl.constexpr, UNIT: tl.constexpr, BEND: tl.constexpr,
):  # fmt: skip
    """The residuals of WIDTH classes, of every so many rows."""
    stride, out_stride, C = stride * ALIGN, out_stride * ALIGN, C * ALIGN
    c = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside = c < C
    bias = tl.load(b + c, mask=inside, other=0.0)
    f = tl.load(factor)
    g = tl.zeros((WIDTH,), tl.float64)
    a = tl.zeros((WIDTH,), tl.float32)
    wide = tl.program_id(1).to(tl.int64) * 0
    for row in tl.range(tl.program_id(1), m, tl.num_programs(1), num_stages=STAGES):
        i = row + wide
        s = tl.load(S + i * stride + c, mask=inside, other=-float("inf")) * f + bias
        w_i = tl.load(w + i)
        mine = c == tl.load(y + i)
        share = tl.load(sizes + m + i)
        r = tl.where(mine, -w_i * tl.load(figures + m + i), exp(s - tl.load(sizes + i)) * share)
        store(r, i * out_stride + c, inside, hi, mid, lo, PIECES, UNIT)
        g += r.to(tl.float64)
        if BEND:
            a += curvature(r, w_i)

    sums += tl.program_id(1).to(tl.int64) * (1 + BEND) * C + c
    add(sums, g, inside)
    if BEND:
        add(sums + C, a.to(tl.float64), inside)
