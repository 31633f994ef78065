"""The Triton kernel of sweep.py: one program per class, its v in registers.

A visit waits for the dot product of the one before it, so the time of a pass is that of the longest
chain of visits, unless memory is slower.  For that chain to be short, a row of up to PER_WARP
numbers belongs to one warp, whose sum needs no barrier.  Rows are read four visits before they are
used, and the indices of examples four visits before that: a program then seldom waits for memory.
Four visits are written out, each with the registers of its row.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from .softmax_kernel import FUSED, log1p
from .visits import SweepData, TensorVisits

PER_WARP = 512  # numbers of a row: 16 registers of a thread for each of v and the rows ahead
MOST_WARPS = 16


def launch(loss: str, data: SweepData, visits: TensorVisits, step: Any, iterate: Any) -> None:
    """As sweep.sweep_classes, for the loss of this name."""
    C, k = iterate.V.shape
    width = triton.next_power_of_2(k)
    # Numbers as a tensor: as arguments of the kernel they would be rounded to float32.
    numbers = (step.eta, step.beta**2)
    indicator = data.y.ndim == 2
    with torch.cuda.device_of(data.Z):  # Triton launches on the current device
        sweep_kernel[(C,)](
            data.Z, data.y.view(torch.uint8) if indicator else data.y, data.example, data.cap,
            data.positive, data.negative,
            visits.index, visits.first, visits.last,
            iterate.V.new_tensor(numbers, dtype=iterate.b.dtype), step.every, step.look,
            *iterate,
            data.Z.stride(0), data.y.stride(0), data.first, step.report, k,
            LOSS=loss, INDICATOR=indicator, AVERAGE=iterate.A.shape[1] > 0, WIDTH=width,
            num_warps=min(MOST_WARPS, max(1, width // PER_WARP)), **FUSED,
        )  # fmt: skip


@triton.jit
def value(s, LOSS: tl.constexpr):  # type: ignore[no-untyped-def]
    """F(s)."""
    if LOSS == "Logistic":
        e = tl.exp(-tl.abs(s))
        F = tl.maximum(-s, 0.0) + log1p(e, 1.0 + e)
    elif LOSS == "CalibratedHinge":
        F = tl.maximum(-s, 0.0) - tl.log(2.0 + tl.abs(s))
    elif LOSS == "Squared":
        F = 0.25 * (1.0 - s) * (1.0 - s)
    elif LOSS == "Hinge":
        F = tl.maximum(1.0 - s, 0.0)
    else:
        tl.static_assert(LOSS == "Exponential")
        F = tl.exp(-s)
    return F


@triton.jit
def slope(s, LOSS: tl.constexpr):  # type: ignore[no-untyped-def]
    """F'(s)."""
    if LOSS == "Logistic":
        e = tl.exp(-tl.abs(s))
        F = tl.where(s >= 0.0, -e, -1.0) / (1.0 + e)
    elif LOSS == "CalibratedHinge":
        f = 1.0 / (2.0 + tl.abs(s))
        F = tl.where(s >= 0.0, -f, f - 1.0)
    elif LOSS == "Squared":
        F = 0.5 * (s - 1.0)
    elif LOSS == "Hinge":
        F = tl.where(s < 1.0, -1.0, 0.0).to(s.dtype)
    else:
        tl.static_assert(LOSS == "Exponential")
        F = -tl.exp(-s)
    return F


@triton.jit
def example_at(index, p, last):  # type: ignore[no-untyped-def]
    """The example of visit p; any, if there is no such visit."""
    return tl.load(index + p, mask=p < last, other=0).to(tl.int64)


@triton.jit
def fetch(i, data, o, inside, dtype: tl.constexpr, INDICATOR: tl.constexpr):  # type: ignore[no-untyped-def]
    """Example i: its row, whether it is positive for the class, its weight and its cap."""
    Z, stride, y, y_stride, row, weights, caps = data
    z = tl.load(Z + i * stride + o, mask=inside, other=0.0).to(dtype)
    if INDICATOR:  # noqa: SIM108  (Triton compiles one of the two)
        positive = tl.load(y + i * y_stride + row) != 0
    else:
        positive = tl.load(y + i) == row
    return z, positive, tl.load(weights + i).to(dtype), tl.load(caps + i).to(dtype)


@triton.jit
def visit(  # type: ignore[no-untyped-def]
    here, example, state, step, A, o, inside, dtype: tl.constexpr,
    LOSS: tl.constexpr, AVERAGE: tl.constexpr,
):  # fmt: skip
    """The state after the visit of an example; as before if there is none `here`."""
    z, positive, weight, cap = example
    v, scale, b, a, m, t, total, seen, squares, looks = state
    eta, beta2, every, look, report, of_positives, of_negatives = step
    if here:
        y = tl.where(positive, 1.0, -1.0).to(dtype)
        s = y * (scale * tl.sum(v * z, 0) + b)
        weight *= tl.where(positive, of_positives, of_negatives)
        if (t & report) == 0:
            total += (weight * value(s, LOSS)).to(tl.float64)
            seen += 1
        if (t & look) == 0:
            squares += (scale * scale * tl.sum(v * v, 0)).to(tl.float64)
            looks += 1

        e = tl.minimum(eta * weight, cap) * y * slope(s, LOSS)
        v -= (e / scale) * z
        b -= e * beta2
        t += 1

        if AVERAGE:  # noqa: SIM102  (known when it is compiled)
            if (t & every) == 0:
                m += 1
                omega = 2.0 / (m.to(dtype) + 1.0)
                average = tl.load(A + o, mask=inside, other=0.0)
                tl.store(A + o, (1.0 - omega) * average + (omega * scale) * v, mask=inside)
                a += omega * (b - a)
    return v, scale, b, a, m, t, total, seen, squares, looks


@triton.jit
def sweep_kernel(  # type: ignore[no-untyped-def]
    Z, y, example, cap, positive, negative,
    index, first, last,
    numbers, every, look,
    V, scale, b, A, a, m, t, total, seen, squares, looks,
    stride, y_stride, first_class, report, k,
    LOSS: tl.constexpr, INDICATOR: tl.constexpr, AVERAGE: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """All visits of one class."""
    dtype: tl.constexpr = V.dtype.element_ty
    c = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, WIDTH)
    inside = o < k
    V += c * k + o
    A += c * k
    step = (
        tl.load(numbers).to(dtype), tl.load(numbers + 1).to(dtype),
        tl.load(every + c), tl.load(look + c), report,
        tl.load(positive + c).to(dtype), tl.load(negative + c).to(dtype),
    )  # fmt: skip
    state = (
        tl.load(V, mask=inside, other=0.0),
        tl.load(scale + c).to(dtype), tl.load(b + c).to(dtype), tl.load(a + c).to(dtype),
        tl.load(m + c), tl.load(t + c),
        tl.load(total + c), tl.load(seen + c), tl.load(squares + c), tl.load(looks + c),
    )  # fmt: skip

    data = Z, stride, y, y_stride, first_class + c, example, cap
    lo, hi = tl.load(first + c), tl.load(last + c)
    e0 = fetch(example_at(index, lo, hi), data, o, inside, dtype, INDICATOR)
    e1 = fetch(example_at(index, lo + 1, hi), data, o, inside, dtype, INDICATOR)
    e2 = fetch(example_at(index, lo + 2, hi), data, o, inside, dtype, INDICATOR)
    e3 = fetch(example_at(index, lo + 3, hi), data, o, inside, dtype, INDICATOR)
    i0, i1 = example_at(index, lo + 4, hi), example_at(index, lo + 5, hi)
    i2, i3 = example_at(index, lo + 6, hi), example_at(index, lo + 7, hi)
    for p in range(lo, hi, 4):
        state = visit(p < hi, e0, state, step, A, o, inside, dtype, LOSS, AVERAGE)
        e0 = fetch(i0, data, o, inside, dtype, INDICATOR)
        i0 = example_at(index, p + 8, hi)
        state = visit(p + 1 < hi, e1, state, step, A, o, inside, dtype, LOSS, AVERAGE)
        e1 = fetch(i1, data, o, inside, dtype, INDICATOR)
        i1 = example_at(index, p + 9, hi)
        state = visit(p + 2 < hi, e2, state, step, A, o, inside, dtype, LOSS, AVERAGE)
        e2 = fetch(i2, data, o, inside, dtype, INDICATOR)
        i2 = example_at(index, p + 10, hi)
        state = visit(p + 3 < hi, e3, state, step, A, o, inside, dtype, LOSS, AVERAGE)
        e3 = fetch(i3, data, o, inside, dtype, INDICATOR)
        i3 = example_at(index, p + 11, hi)

    v_, scale_, b_, a_, m_, t_, total_, seen_, squares_, looks_ = state
    tl.store(V, v_, mask=inside)
    tl.store(scale + c, scale_)
    tl.store(b + c, b_)
    tl.store(a + c, a_)
    tl.store(m + c, m_)
    tl.store(t + c, t_)
    tl.store(total + c, total_)
    tl.store(seen + c, seen_)
    tl.store(squares + c, squares_)
    tl.store(looks + c, looks_)
