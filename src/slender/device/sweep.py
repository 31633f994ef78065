"""A pass of one-vs-rest stochastic descent on tensors: the visits of solvers/sweep.py.

Per visit of class c to example i, with z the row i, y = ±1 and s = y (scale vᵀz + b):

    total += c_i F(s)              at the visits that are reported
    e  = min(eta c_i, cap_i) y F'(s)
    v <- v - e / scale z
    b <- b - e beta²
    the average <- (1 - omega) average + omega (scale v),  omega = 2 / (m + 1)      at some visits

A class visits one example after the other, and classes are independent.  So in the kernel
(sweep_kernel.py) one program makes the visits of a class, with v in registers; in the twin one step
of a loop makes the p-th visit of every class.
"""

from typing import Any

from .compiled import runs_triton
from .margins import on_tensors
from .visits import SweepData, TensorVisits


def sweep_classes(
    loss: Any, data: SweepData, visits: TensorVisits, step: Any, iterate: Any
) -> None:
    """Make all visits: `iterate` changes in place; it and `step` are those of solvers/sweep.py."""
    if data.Z.stride(1) != 1:  # the kernel reads a row's numbers one after the other
        data = data._replace(Z=data.Z.contiguous())
    if runs_triton(data.Z):
        from .sweep_kernel import launch  # noqa: PLC0415  (imports Triton)

        launch(type(loss).__name__, data, visits, step, iterate)
    else:
        twin(loss, data, visits, step, iterate)


def twin(loss: Any, data: SweepData, visits: TensorVisits, step: Any, iterate: Any) -> None:
    """The same in plain torch."""
    formulas = on_tensors(loss)
    V, dtype = iterate.V, iterate.V.dtype
    classes = visits.first.new_tensor(range(len(V)))
    for p in range(visits.most):
        place = visits.first + p
        live = place < visits.last
        i = visits.index[place.clamp(max=len(visits.index) - 1)].long()
        z = data.Z[i].to(dtype)
        positive = (
            data.y[i] == classes + data.first
            if data.y.ndim == 1
            else data.y[i, classes + data.first]
        )
        y = positive.double() * 2.0 - 1.0
        s = y * (iterate.scale * (V * z).sum(1) + iterate.b)
        weight = data.example[i].double() * data.positive.where(positive, data.negative)

        reported = live & ((iterate.t & step.report) == 0)
        iterate.total.add_((weight * formulas.value(s)).where(reported, 0.0))
        iterate.seen.add_(reported)
        looked = live & ((iterate.t & step.look) == 0)
        if bool(looked.any()):
            squares = iterate.scale.square() * V.square().sum(1)
            iterate.squares.add_(squares.where(looked, 0.0))
            iterate.looks.add_(looked)

        e = (step.eta * weight).minimum(data.cap[i].double()) * y * formulas.slope(s)
        e = e.where(live, 0.0)
        V.sub_((e / iterate.scale).to(dtype)[:, None] * z)
        iterate.b.sub_(e * step.beta**2)
        iterate.t.add_(live)

        entered = live & ((iterate.t & step.every) == 0)
        if bool(entered.any()):
            iterate.m.add_(entered)
            omega = (2.0 / (iterate.m.double() + 1.0)).where(entered, 0.0)
            enter = (omega * iterate.scale).to(dtype)[:, None]
            iterate.A.mul_((1.0 - omega).to(dtype)[:, None]).add_(enter * V)
            iterate.a.add_(omega * (iterate.b - iterate.a))
