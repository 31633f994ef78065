"""A sweep: the visits of one pass, by classes, for one-vs-rest stochastic descent (stochastic.py).

    Sweep(...).run(rows)             all classes, here, on all cores
    Sweep(...).run_on_device(Z)      all classes, where the tensor Z is (device/sweep.py)
    Sweep(...).of_classes(lo, hi)    some of them: threads, or machines, share a sweep by classes

A class reads and writes only its own row of the state, so the result is the same to the last bit
however the classes are divided.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, is_numpy, like, to_numpy
from ..curvature.metric import At, Fixed, move
from ..device.sweep import sweep_classes
from ..device.visits import SweepData, TensorVisits
from ..kernels import kernel
from ..labels import Labels, sign
from ..losses import MarginLoss, slope, value
from ..problem import Weights
from ..registry import ESTIMATORS
from ..rows import Rows
from ..rows.kernel import dot
from ..rows.threads import each_part
from .sampling import Visits

PARTS = 2  # parts of the classes per thread: few, since those of a part share a chunk in cache

# Reductions may be reordered to use vector units; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "arcp", "nsz"}


class Iterate(NamedTuple):
    """The iterate of a fit, where its rows are; one row per class."""

    V: Array  # (C, k) v / scale
    scale: Array  # (C,) float64, as those below that are no counts
    b: Array  # (C,)
    A: Array  # (C, k) average of v; (C, 0) without averaging
    a: Array  # (C,) average of b
    m: Array  # (C,) int64: number of iterates in the average
    t: Array  # (C,) number of visits so far
    total: Array  # (C,) sum of the losses reported in this pass
    seen: Array  # (C,) number of these losses
    squares: Array  # (C,) sum of ‖v‖² at the visits of this pass that compute it
    looks: Array  # (C,) number of these visits


class Lengths(NamedTuple):
    """What determines the length of a step, and which visits are averaged and reported."""

    eta: float
    decay: float
    power: float
    lam: float
    beta: float
    every: Array  # (C,) an iterate enters the average if t & every is 0; a power
    report: int  # of two minus one, to avoid a division per visit; likewise for reported losses,
    look: Array  # (C,) and for the penalty
    cap: Array  # (n,)


@dataclass(frozen=True)
class Sweep:
    """One pass: the visits of all classes, or of some, and what they change (rows/classwork.py).

    The state, `metric` and `iterate`, is changed in place.  On a device all arrays are tensors.
    """

    loss: MarginLoss
    y: Labels
    visits: Any  # PassVisits, or TensorVisits
    step: Lengths
    weights: Weights
    metric: Any
    iterate: Iterate

    @property
    def costs(self) -> NDArray[Any]:
        return self.visits.counts() * (2 * self.iterate.V.shape[1])

    @property
    def state(self) -> list[NDArray[Any]]:
        return [values for values in (*self.iterate, *self.metric) if np.ndim(values)]

    @property
    def lasting(self) -> tuple[NDArray[Any], ...]:
        return self.y[0], self.weights.example, self.step.cap

    @property
    def order(self) -> NDArray[np.intp]:
        return self.visits.order

    def of_classes(self, lo: int, hi: int) -> "Sweep":
        step, weights = self.step, self.weights

        def some(state: Any) -> Any:  # also the settings of a metric are part of its state
            return type(state)(*(v[lo:hi] if np.ndim(v) else v for v in state))

        return replace(
            self,
            y=self.y.from_class(lo),
            visits=self.visits.of_classes(lo, hi),
            step=step._replace(every=step.every[lo:hi], look=step.look[lo:hi]),
            weights=Weights(weights.example, weights.positive[lo:hi], weights.negative[lo:hi]),
            metric=some(self.metric),
            iterate=some(self.iterate),
        )

    def run(self, rows: Rows) -> None:
        """Threads wait for each other at the end of a portion, since they share its rows."""
        for visits in self.visits.portions(rows.row_bytes):
            X, index = rows.take(visits.order)
            state = self.metric, self.iterate
            sweep(self.loss, X, index, self.y, visits, self.step, self.weights, *state)

    def run_on_device(self, Z: Array) -> None:
        """All classes, on the device of the rows Z (n, k).

        Arrays of NumPy, from a fit whose state is on another machine, are sent there; then the
        state comes back.
        """
        if self.lacks_device is not None:
            able = [each.name for each in ESTIMATORS.values() if each.load().on_device]
            raise ValueError(
                f"{self.lacks_device} has no form for rows on a device; these estimators have one: "
                f"{', '.join(able)}"
            )
        there = self._sent(Z) if is_numpy(self.iterate.V) else self
        data = SweepData(Z, there.y[0], there.y.first, *there.weights, there.step.cap)
        sweep_classes(self.loss, data, there.visits, there.step, there.iterate)
        if there is not self:
            for mine, theirs in zip(self.iterate, there.iterate, strict=True):
                mine[...] = to_numpy(theirs)

    @property
    def lacks_device(self) -> str | None:
        """What has no form for a device; None if all has."""
        if not isinstance(self.metric, Fixed):
            return f"the metric {type(self.metric).__name__}, learned during the fit,"
        return "a step that decays, or a penalty," if self.step.decay or self.step.lam else None

    def _sent(self, Z: Array) -> "Sweep":
        """The same sweep with its arrays where Z is."""

        def there(values: Any) -> Any:
            return like(values, Z) if is_numpy(values) else values

        step, y = self.step, self.y
        index, first, last = self.visits.listed()
        most = int(self.visits.counts().max(initial=0))
        return replace(
            self,
            y=y._replace(**{y._fields[0]: there(y[0])}),
            visits=TensorVisits(there(index.astype(np.int32)), there(first), there(last), most),
            step=Lengths(*map(there, step)),
            weights=Weights(*map(there, self.weights)),
            iterate=Iterate(*map(there, self.iterate)),
        )


def sweep(
    loss: MarginLoss,
    X: Any,
    index: NDArray[np.intp],
    y: Labels,
    visits: Visits,
    step: Lengths,
    weights: Weights,
    metric: Any,
    iterate: Iterate,
) -> None:
    """Visit a portion, classes in parallel.

    Classes are computed independently, so the result does not depend on the number of threads.
    """

    def work(first: int, last: int) -> None:
        visit_each(first, last, loss, X, index, y, visits, step, weights, metric, iterate)

    costs = (visits.last - visits.first).sum(axis=0) * (2 * iterate.V.shape[1])
    each_part(costs, work, PARTS)


@kernel(fastmath=FAST, error_model="numpy")
def visit_each(first, last, loss, X, index, y, visits, step, weights, metric, iterate):  # type: ignore[no-untyped-def]
    """The visits of classes first, ..., last - 1, one chunk after the other."""
    for k in range(len(visits.first)):
        for c in range(first, last):
            visit(k, c, loss, X, index, y, visits, step, weights, metric, iterate)


@kernel(inline="always")  # not compiled for itself as well: saves a quarter of the time
def visit(k, c, loss, X, index, y, visits, step, weights, metric, iterate):  # type: ignore[no-untyped-def]
    """The visits of class c in chunk k, one after the other."""
    v = iterate.V[c].copy()  # a copy tells the compiler that a step changes no row: saves 9 %
    average = iterate.A[c]
    scale, b, t = iterate.scale[c], iterate.b[c], iterate.t[c]
    every, look = step.every[c], step.look[c]
    for p in range(visits.first[k, c], visits.last[k, c]):
        j = visits.pos[p]
        i = visits.order[j]
        s_y = sign(y, i, c)
        z = s_y * (scale * dot(X, index[j], v) + b)
        weight = weights.example[i] * (weights.positive[c] if s_y > 0 else weights.negative[c])
        if (t & step.report) == 0:
            iterate.total[c] += weight * value(loss, z)
            iterate.seen[c] += 1
        if (t & look) == 0:
            square = 0.0
            for q in range(len(v)):
                square += v[q] * v[q]
            iterate.squares[c] += scale * scale * square
            iterate.looks[c] += 1

        eta = step.eta
        if step.decay != 0.0:
            eta /= (1.0 + step.decay * t) ** step.power
        at = At(c, index[j], t, s_y, weight, slope(loss, z), eta, step.cap[i], step.lam, step.beta)
        scale, b = move(metric, at, loss, X, v, scale, b)
        t += 1

        if (t & every) == 0:
            iterate.m[c] += 1
            omega = 2.0 / (iterate.m[c] + 1.0)  # the j-th iterate has weight j
            keep, enter = v.dtype.type(1.0 - omega), v.dtype.type(omega * scale)
            for q in range(len(v)):
                average[q] = keep * average[q] + enter * v[q]
            iterate.a[c] += omega * (b - iterate.a[c])
    iterate.V[c, :] = v
    iterate.scale[c], iterate.b[c], iterate.t[c] = scale, b, t
