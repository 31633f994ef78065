"""The Triton kernel of pairs.py: its speed is that of the cache, which holds most rows."""

from typing import Any

import torch
import triton
import triton.language as tl

from .softmax_kernel import FUSED

TILE = 4096  # numbers of a program at a time
WIDEST = 1024  # of them in one row
WARPS = 4


def launch(X: Any, place: Any, V: Any, of: Any) -> Any:
    """As pairs.dots."""
    k, d = len(place), X.shape[1]
    out = X.new_empty(k)
    width = min(WIDEST, triton.next_power_of_2(d))
    pairs = TILE // width
    with torch.cuda.device_of(X):  # Triton launches on the current device
        dots_kernel[(triton.cdiv(k, pairs),)](
            X, place, V, of, out, X.stride(0), V.stride(0), d, k,
            PAIRS=pairs, WIDTH=width, num_warps=WARPS, **FUSED,
        )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["k"])
def dots_kernel(  # type: ignore[no-untyped-def]
    X, place, V, of, out, x_stride, v_stride, d, k,
    PAIRS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """PAIRS pairs, by blocks of WIDTH columns."""
    i = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    here = i < k
    x_row = tl.load(place + i, mask=here, other=0).to(tl.int64) * x_stride
    v_row = tl.load(of + i, mask=here, other=0).to(tl.int64) * v_stride
    total = tl.zeros((PAIRS, WIDTH), out.dtype.element_ty)
    for lo in range(0, d, WIDTH):
        j = lo + tl.arange(0, WIDTH)
        inside = here[:, None] & (j < d)[None, :]
        x = tl.load(X + x_row[:, None] + j[None, :], mask=inside, other=0.0)
        v = tl.load(V + v_row[:, None] + j[None, :], mask=inside, other=0.0)
        total += x * v
    tl.store(out + i, tl.sum(total, 1), mask=here)
