"""The Triton kernel of ranks.py: one program per row, read twice by blocks of classes."""

from typing import Any

import torch
import triton
import triton.language as tl

from .softmax_kernel import FUSED, exp, log1p

BLOCK = 4096  # classes at a time
PER_WARP = 512


def launch(S: Any, b: Any, y: Any, temperature: float) -> tuple[Any, Any]:
    """As ranks.ranks_and_losses."""
    m, C = S.shape
    rank, loss = y.new_empty(m, dtype=torch.int32), S.new_empty(m)
    width = min(BLOCK, triton.next_power_of_2(C))
    with torch.cuda.device_of(S):  # Triton launches on the current device
        ranks_kernel[(m,)](
            S, b, y, rank, loss, S.stride(0), C, 1.0 / temperature,
            WIDTH=width, num_warps=max(1, width // PER_WARP), **FUSED,
        )  # fmt: skip
    return rank, loss


@triton.jit
def ranks_kernel(  # type: ignore[no-untyped-def]
    S, b, y, rank, loss, stride, C, scale, WIDTH: tl.constexpr
):
    i = tl.program_id(0).to(tl.int64)
    S += i * stride
    y_i = tl.load(y + i)
    s_y = tl.load(S + y_i) + tl.load(b + y_i)
    top, larger = s_y, 0
    for lo in range(0, C, WIDTH):
        c = lo + tl.arange(0, WIDTH)
        s = tl.load(S + c, mask=c < C, other=-float("inf"))
        s += tl.load(b + c, mask=c < C, other=0.0)
        before = (s > s_y) | ((s == s_y) & (c < y_i))
        larger += tl.sum((before & (c < C)).to(tl.int32), 0)
        top = tl.maximum(top, tl.max(s, 0))
    others = 0.0
    for lo in range(0, C, WIDTH):
        c = lo + tl.arange(0, WIDTH)
        s = tl.load(S + c, mask=c < C, other=-float("inf"))
        s += tl.load(b + c, mask=c < C, other=0.0)
        e = tl.where((c == y_i) | (c >= C), 0.0, exp((s - top) * scale))
        others += tl.sum(e, 0)
    everything = others + exp((s_y - top) * scale)
    behind = (top - s_y) * scale + tl.log(everything)
    tl.store(loss + i, tl.where(s_y == top, log1p(others, everything), behind))
    tl.store(rank + i, larger)
