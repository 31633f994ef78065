"""The Triton kernel of line.py: one program per row, whole in registers."""

from typing import Any

import torch
import triton
import triton.language as tl

from .softmax_kernel import FUSED, exp

PER_WARP = 512


def launch(s: Any, d: Any, rest: Any, w: Any, t: float) -> Any:
    """As line.line_moments."""
    m, K = s.shape
    out = s.new_empty((2, m))
    width = triton.next_power_of_2(K)
    with torch.cuda.device_of(s):  # Triton launches on the current device
        line_kernel[(m,)](
            s, d, rest, w, out, float(t), s.stride(0), d.stride(0), K, m,
            REST=len(rest) > 0, WIDTH=width, num_warps=max(1, width // PER_WARP), **FUSED,
        )  # fmt: skip
    return out.sum(1, dtype=torch.float64)


@triton.jit(do_not_specialize=["m"])
def line_kernel(  # type: ignore[no-untyped-def]
    S, D, rest, w, out, t, s_stride, d_stride, K, m, REST: tl.constexpr, WIDTH: tl.constexpr
):
    i = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, WIDTH)
    d = tl.load(D + i * d_stride + c, mask=c < K, other=0.0)
    s = tl.load(S + i * s_stride + c, mask=c < K, other=-float("inf")) + t * d
    top = tl.max(s, 0)
    if REST:
        variance = tl.load(rest + 3 * i + 2)
        drift = tl.load(rest + 3 * i + 1) + t * variance  # the mean of d at t
        other = tl.load(rest + 3 * i) + t * (drift - 0.5 * t * variance)
        top = tl.maximum(top, other)
    p = tl.where(c < K, exp(s - top), 0.0)
    total, first = tl.sum(p, 0), tl.sum(p * d, 0)
    if REST:
        q = exp(other - top)
        total += q
        first += q * drift
    first = first / total
    second = tl.sum(p * (d - first) * (d - first), 0)
    if REST:
        second += q * (variance + (drift - first) * (drift - first))
    w_i = tl.load(w + i)
    tl.store(out + i, w_i * first)
    tl.store(out + m + i, w_i * (second / total))
