"""The error of G = Rᵀ X, as the device adds it up: measured where it arises.

A device adds up tens of thousands of rows in one product.  In float32 some units cut digits off
instead of rounding, and the error then depends on what the sums are on their way: those of rows
sorted by class may grow to a multiple of the result.  It also depends on the kernel that the
library chooses for this shape.  So nothing stands in for the product: the one that the pass itself
makes, with the residuals of its point, is compared with float64 on one chunk of rows,

    E = G - Rᵀ X          R as it was multiplied (for halves, the sum of their pieces)

The whole of Rᵀ X in float64 would take longer than a pass.  With random signs Ω (d, m),

    ‖E‖² is the mean of ‖E Ω‖² / m, whose relative deviation is at most sqrt(2 / m)

(Hutchinson 1990; ‖.‖ is Frobenius' norm), and X Ω, the `probes` of the rows, is computed once for
all passes.  The sums of the other chunks are of the same kind, so that the error of all of them is
taken to be SAFETY ‖E‖ / Σ r_i ‖x_i‖ times this sum over all rows, and at least half a unit in the
last place of it.  There is nothing to compare float64 with: its sums are taken to be off by
sqrt(rows) units, since errors of single roundings are independent (Higham and Mary 2019).
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..rows.tensor import TensorBlock

PROBES = 16  # m
SAFETY = 3.0  # for what the signs miss, and for chunks that differ from the one measured
WIDENED = 16384  # rows in float64 at a time


def probes_of(block: TensorBlock) -> Tensor:
    """X Ω (rows, m), in float64."""
    Omega = signs(block.shape[1], block.X.device)
    starts = range(0, block.shape[0], WIDENED)
    return torch.cat([block[lo : lo + WIDENED].astype(np.float64) @ Omega for lo in starts])


@cache
def signs(d: int, device: torch.device) -> Tensor:
    """Ω (d, m): the same ones everywhere."""
    drawn = torch.randint(2, (d, PROBES), generator=torch.Generator().manual_seed(0))
    return (2.0 * drawn - 1.0).to(device, torch.float64)


def summing_error(
    G: Tensor, pieces: Sequence[Tensor], shift: int, scale: Any, probes: Tensor, size: Tensor
) -> Tensor:
    """Relative to `size`, the chunk's Σ r ‖x‖, for the R of these pieces; a tensor.

    R = scale (pieces[0] + pieces[1] / 2^shift + ...); no scale is 1.
    """
    true = probes.new_zeros((G.shape[0], PROBES))
    for lo in range(0, len(probes), WIDENED):
        hi = lo + WIDENED
        for k, piece in enumerate(pieces):
            true += (piece[lo:hi].double().T @ probes[lo:hi]) * 2.0 ** (-shift * k)
    true = true if scale is None else true * scale
    E = G.double() @ signs(G.shape[1], G.device) - true
    norm = (E.square().sum() / PROBES).sqrt()
    least = torch.finfo(G.dtype).eps / 2.0
    tiny = torch.finfo(torch.float64).tiny
    return (SAFETY * norm / size.clamp_min(tiny)).clamp_min(least)


def summing_of_float64(rows: int) -> float:
    """The same for float64, of a chunk of so many rows."""
    return float(np.finfo(np.float64).eps * np.sqrt(rows))
