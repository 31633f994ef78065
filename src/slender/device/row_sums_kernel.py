"""The Triton kernels of row_sums.py: their speed is that of memory."""

from math import gcd
from typing import Any

import torch
import triton
import triton.language as tl

from .softmax_kernel import WARPS_A_CORE, cores

PER_THREAD = 8  # numbers of a thread, if there are threads enough: loads of 16 bytes
AHEAD = 3  # rows that a program has loaded: the next ones, and that it works on
ROWS = 64  # of a program that adds up classes: rows in order of their class
WIDTH = 1024  # numbers of each of them


def launch_moments(X: Any, w: Any) -> tuple[Any, Any]:
    """As row_sums.moments."""
    m, d = X.shape
    width = triton.next_power_of_2(d)
    warps = max(1, width // (32 * PER_THREAD))
    programs = min(m, cores(X.device) * max(1, WARPS_A_CORE // warps))
    squares = X.new_empty(m, dtype=torch.float32)
    sums = w.new_empty((programs, d))
    align = gcd(16, X.stride(0))
    with torch.cuda.device_of(X):  # Triton launches on the current device
        moments_kernel[(programs,)](
            X, w, squares, sums, X.stride(0) // align, d, m,
            ALIGN=align, WIDTH=width, STAGES=AHEAD, num_warps=min(warps, 16), enable_fp_fusion=True,
        )  # fmt: skip
    return sums.sum(0), squares


def launch_classes(X: Any, w: Any, y: Any, out: Any) -> None:
    """As row_sums.add_by_class."""
    m, d = X.shape
    by_class = torch.sort(y)
    width = min(WIDTH, triton.next_power_of_2(d))
    align = gcd(16, X.stride(0))
    with torch.cuda.device_of(X):
        classes_kernel[(triton.cdiv(m, ROWS), triton.cdiv(d, width))](
            X, w, by_class.values, by_class.indices, out, X.stride(0) // align, d, m,
            ALIGN=align, ROWS=ROWS, WIDTH=width,
            num_warps=max(1, width // (32 * PER_THREAD)), enable_fp_fusion=True,
        )  # fmt: skip


@triton.jit(do_not_specialize=["m"])
def moments_kernel(  # type: ignore[no-untyped-def]
    X, w, squares, sums, stride, d, m,
    ALIGN: tl.constexpr, WIDTH: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One row after the other, each whole in registers."""
    j = tl.arange(0, WIDTH)
    inside = j < d
    wide = tl.program_id(0).to(tl.int64) * 0
    total = tl.zeros((WIDTH,), tl.float64)
    for row in tl.range(tl.program_id(0), m, tl.num_programs(0), num_stages=STAGES):
        i = row + wide
        x = tl.load(X + i * (stride * ALIGN) + j, mask=inside, other=0.0).to(tl.float32)
        tl.store(squares + i, tl.sum(x * x, 0))
        total += x.to(tl.float64) * tl.load(w + i)
    tl.store(sums + tl.program_id(0).to(tl.int64) * d + j, total, mask=inside)


@triton.jit(do_not_specialize=["m"])
def classes_kernel(  # type: ignore[no-untyped-def]
    X, w, y, order, out, stride, d, m,
    ALIGN: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """ROWS rows in order of their class: added to `out` whenever the class changes."""
    j = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = j < d
    lo = tl.program_id(0) * ROWS
    c = tl.load(y + lo).to(tl.int64)
    total = tl.zeros((WIDTH,), tl.float64)
    for p in range(lo, tl.minimum(lo + ROWS, m)):
        c_p = tl.load(y + p).to(tl.int64)
        i = tl.load(order + p)
        x = tl.load(X + i * (stride * ALIGN) + j, mask=inside, other=0.0)
        if c_p != c:
            tl.atomic_add(out + c * d + j, total, mask=inside)
            total = tl.zeros((WIDTH,), tl.float64)
            c = c_p
        total += x.to(tl.float64) * tl.load(w + i)
    tl.atomic_add(out + c * d + j, total, mask=inside)
