"""The Triton kernel of picking.py.

A program reads TILE pairs after TILE others.  Where one has a score above the threshold, which is
rare, it asks a counter that all programs share for as many places as it needs.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from .softmax_kernel import FUSED, cores, curvature

TILE = 2048
WARPS = 4
PROGRAMS = 8  # a multiprocessor


def launch(
    R: Any, w: Any, sizes: Any, scale: Any, least: Any, first: int,
    score: Any, place: Any, r: Any, h: Any, filled: int,
) -> Any:  # fmt: skip
    """As picking.pick; returns how many places were asked for, those filled before included."""
    m, C = R.shape
    count = torch.full((1,), filled, dtype=torch.int32, device=R.device)
    width = min(TILE, triton.next_power_of_2(C))
    blocks, rows = triton.cdiv(C, width), TILE // width
    tiles = blocks * triton.cdiv(m, rows)
    with torch.cuda.device_of(R):  # Triton launches on the current device
        pick_kernel[(min(tiles, PROGRAMS * cores(R.device)),)](
            R, w, sizes, scale, least, score, place, r, h, count,
            R.stride(0), C, m, tiles, first, len(score),
            BLOCKS=blocks, ROWS=rows, WIDTH=width, num_warps=WARPS, **FUSED,
        )  # fmt: skip
    return count


@triton.jit(do_not_specialize=["m", "tiles", "first", "room"])
def pick_kernel(  # type: ignore[no-untyped-def]
    R, w, sizes, scale, least, score, place, r, h, count,
    stride, C, m, tiles, first, room,
    BLOCKS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """ROWS rows of WIDTH classes after others; BLOCKS such tiles cover all classes of a row."""
    threshold = tl.load(least)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        i = (tile // BLOCKS) * ROWS + tl.arange(0, ROWS).to(tl.int64)
        c = (tile % BLOCKS) * WIDTH + tl.arange(0, WIDTH)
        inside = (i < m)[:, None] & (c < C)[None, :]
        at = (i * stride)[:, None] + c[None, :]
        size = tl.load(sizes + i, mask=i < m, other=0.0)
        w_i = tl.load(w + i, mask=i < m, other=0.0)
        r_ic = tl.load(R + at, mask=inside, other=0.0).to(tl.float32)
        h_ic = curvature(r_ic, w_i[:, None])
        value = h_ic * (size * size)[:, None] * tl.load(scale + c, mask=c < C, other=0.0)[None, :]
        hit = (value > threshold) & inside
        hits = tl.sum(tl.sum(hit.to(tl.int32), 1), 0)
        if hits > 0:
            number = tl.cumsum(tl.reshape(hit.to(tl.int32), (ROWS * WIDTH,)), 0)
            to = tl.atomic_add(count, hits) + tl.reshape(number, (ROWS, WIDTH)) - 1
            hit = hit & (to < room)
            pair = ((i + first) * C)[:, None] + c[None, :]
            tl.store(score + to, value, mask=hit)
            tl.store(place + to, pair, mask=hit)
            tl.store(r + to, r_ic, mask=hit)
            tl.store(h + to, h_ic, mask=hit)
