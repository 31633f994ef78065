"""Residuals, losses and doubts from the scores of a chunk of rows, on the device.

With s = S_i + b, p the softmax of s, `others` the sum of exp(s_c - s_top) over all classes but the
row's own, and `all` that sum plus the own class's term,

    doubt = 1 - p_y = others / all      loss = ln Σ exp s - s_y = log1p(others), if s_y is on top
    r     = w (p - e_y)                 whose own class is -w doubt

A small number is never computed as a difference of large ones, as in passes/residuals.py.

For tensor cores the residuals can be split into halves: pieces h_0, h_1, ... of half precision with

    r = h_0 + h_1 / u + h_2 / u² + ...      u = 2^11 for float16, 2^8 for bfloat16

where each piece is the rounding of what those before it leave, times u.  The caller scales w so
that r neither overflows nor vanishes in half precision.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays import zeros
from .compiled import runs_triton

HALF_UNITS = {"float16": 2.0**11, "bfloat16": 2.0**8}  # u: 2 to the number of digits
LEAST = 1e-37  # a smaller weight has no inverse in float32


class Softmax(NamedTuple):
    """What the rows of a chunk add to the sums of a pass."""

    loss: Any  # (m,)
    doubt: Any  # (m,)
    score: Any  # (m,) of the own class, with its intercept


def softmax_residuals(
    S: Any,
    b: Any,
    y: Any,
    w: Any,
    out: Sequence[Any] | None = None,
    factor: Any = None,
    columns: Any = None,
) -> Softmax:
    """The figures of m rows and C classes; the residuals go to `out`, or overwrite S.

    S (m, C): the scores without intercepts, float32 or float64, rows contiguous.  It is overwritten
    in any case.  b (C,) and w (m,) have its dtype, y (m,) is an integer.  `out`: None, or one to
    three tensors (m, C) of one half-precision dtype and stride, for the pieces h_0, h_1, h_2.
    `factor`: the scores are S times this tensor of no dimension, if it is given.  `columns`: None,
    or sums to which those of the columns are added, from `column_sums`.  A score that is not finite
    makes the loss of its row NaN.
    """
    if S.shape[0] > 0 and by_kernel(S):
        from .softmax_kernel import launch  # noqa: PLC0415  (imports Triton)

        columns = column_sums(S) if columns is None else columns
        return Softmax(*launch(S, b, y, w, out or (), half_unit(out), factor, columns))
    found = twin(S, b, y, w, factor, columns)
    split(S, out or ())
    return found


def column_sums(S: Any, bend: bool = False) -> Any:
    """Zeros (groups, 1 + bend, C) in float64, for the sums of the columns of chunks such as S.

    Added up over the groups they are (Σ r, Σ w p (1 - p)); `bend` requests the second.  A group is
    what a program of the kernel adds up by itself.
    """
    groups = 1
    if by_kernel(S):
        from .softmax_kernel import groups_of  # noqa: PLC0415  (imports Triton)

        groups = groups_of(S)
    return zeros((groups, 1 + bend, S.shape[1]), S, np.float64)


def by_kernel(S: Any) -> bool:
    return bool(S.element_size() == 4 and runs_triton(S))


def half_unit(out: Sequence[Any] | None) -> float:
    """u for these pieces."""
    return HALF_UNITS[str(out[0].dtype).removeprefix("torch.")] if out else 1.0


def twin(S: Any, b: Any, y: Any, w: Any, factor: Any = None, columns: Any = None) -> Softmax:
    """The same in plain torch; the residuals overwrite S."""
    own = y.long().unsqueeze(1)
    if factor is not None:
        S *= factor
    S += b
    s_y = S.gather(1, own)
    top = S.amax(1, keepdim=True) if S.shape[0] else s_y
    e_y = (s_y - top).exp_()
    S.scatter_(1, own, -float("inf"))
    S.sub_(top).exp_()  # 0 for the own class
    others = S.sum(1, keepdim=True)
    everything = others + e_y
    loss = (top - s_y) + others.log1p().where(s_y == top, everything.log())
    doubt = others / everything
    S *= w.unsqueeze(1) / everything
    S.scatter_(1, own, -w.unsqueeze(1) * doubt)
    if columns is not None:
        g, *bend = columns[0]
        g += S.double().sum(0)
        for a in bend:
            a += curvature(S, w).double().sum(0)
    return Softmax(loss[:, 0], doubt[:, 0], s_y[:, 0])


def curvature(R: Any, w: Any) -> Any:
    """w p (1 - p) of every pair, from the residuals R = w (p - e_y)."""
    size = R.abs()
    return size * (1.0 - size / w.clamp_min(LEAST)[:, None]).clamp_min(0.0)


def split(rest: Any, out: Sequence[Any]) -> None:
    """The pieces of `rest`, which is overwritten."""
    for piece in out:
        piece.copy_(rest)
        rest -= piece
        rest *= half_unit(out)
