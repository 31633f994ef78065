"""One-vs-rest stochastic descent: the loop of SGD, SLND, SGD-QN and oLBFGS.

Per visit of class c to example i, with y = ±1 and z the row in the curvature's coordinates:

    g  = y F'(y (vᵀz + b))
    v <- (1 - eta_t lam) v - e z          e = min(eta_t c_i, cap_i) g        (eq. 11, whitened)
    b <- b - e beta²                      beta: the constant coordinate that the solver adds

    eta_t = eta / (1 + decay t)^power     decay = 0: a constant step (SLND)
                                          decay = lam eta, power = 1: 1 / (lam (t + t0)) (BB08)

This is the step in static coordinates (curvature/metric.py); SGD-QN (secant.py) and oLBFGS
(lbfgs.py) make it with a metric of their own, which changes during the fit.

Averaging uses an iterate every few visits and gives the j-th one weight j: early iterates lose
influence, and there is no burn-in to choose.

The reported objective is the mean, over the visits of a pass, of loss plus penalty before each
update.

Departures from SLND: cap_i limits the automatic step to `cap` times 1/(F''(0)‖z_i‖²), the largest
step that cannot overshoot on example i (twice that is still stable; a step given as a number is not
limited); weights c_i; averaging.  v is stored as scale * V, so that shrinking by lam costs O(1).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, astype, is_numpy, like, namespace, to_numpy, zeros
from ..curvature import STATES, Coordinates
from ..curvature.metric import FIXED, Metric
from ..labels import Labels, counts, positives
from ..losses import MarginLoss
from ..problem import Weights
from ..problem.linear import Linear
from ..rows import Rows
from .loop import Record, Solver
from .sampling import Draws, negatives_used
from .sweep import Iterate, Lengths, Sweep

AVERAGE_EVERY = 32  # visits between two iterates that enter the average: 2 % of the work;
AVERAGES_A_PASS = 32  # fewer if a class makes few visits, so that this many enter per pass
REPORT_EVERY = 8  # visits between two that enter the running objective,
REPORT_ALL = 2**16  # unless a pass has no more visits than this
NEVER = -1  # t & NEVER is 0 for no t > 0


@dataclass
class StochasticState:
    """All that changes during a fit."""

    rng: np.random.Generator
    iterate: Iterate
    metric: Any  # state of the metric, a NamedTuple of arrays


class StochasticData(NamedTuple):
    """Rows in the coordinates of the curvature, with their labels, norms and weights."""

    rows: Rows
    y: Labels
    active: NDArray[np.intp]  # examples that take part
    sqnorms: Array  # (n,) ‖z_i‖², where the rows are
    weights: Weights
    n_classes: int  # number of class rows of a solver
    coordinates: Coordinates


@dataclass(frozen=True)
class Stochastic(Solver[StochasticState]):
    """One-vs-rest on these examples; class rows in the order of the labels."""

    data: StochasticData
    loss: MarginLoss
    eta: float
    decay: float = 0.0
    power: float = 1.0
    lam: float = 0.0
    beta: float = 0.0
    cap: float = 1.0  # in units of 1/(F''(0)‖z_i‖²); inf: none
    average: bool = True
    negatives: float | str = "all"
    metric: Metric = FIXED

    made_of: ClassVar[tuple[type, ...]] = (StochasticState, Iterate, *STATES)

    def init(self, rng: np.random.Generator) -> StochasticState:
        """w = 0, as in the paper."""
        C, (_, dim), dtype = self.data.n_classes, self.data.rows.shape, self.data.rows.dtype

        def zero(dtype: Any, *columns: int) -> Array:
            return zeros((C, *columns), self.data.sqnorms, dtype)

        iterate = Iterate(
            V=zero(dtype, dim),
            scale=zero(np.float64) + 1.0,
            b=zero(np.float64),
            A=zero(dtype, dim if self.average else 0),
            a=zero(np.float64),
            m=zero(np.int64),
            t=zero(np.int64),
            total=zero(np.float64),
            seen=zero(np.int64),
            squares=zero(np.float64),
            looks=zero(np.int64),
        )
        metric = self.metric.start(C, dim, dtype, self.loss, float(self.lam))
        return StochasticState(rng, iterate, metric)

    def step(self, state: StochasticState) -> Record:
        """One pass."""
        data, iterate = self.data, state.iterate
        iterate.total[:], iterate.seen[:] = 0.0, 0
        iterate.squares[:], iterate.looks[:] = 0.0, 0
        y, weights = self._there
        settings = self._lengths, weights, state.metric, iterate
        data.rows.each_class(Sweep(self.loss, y, self._draws.visits(state.rng), *settings))
        total, seen, squares, looks = map(to_numpy, iterate[-4:])
        loss = float(total.sum() / max(1, seen.sum()))
        return {"objective": loss + 0.5 * self.lam * float((squares / np.maximum(1, looks)).mean())}

    @cached_property
    def _there(self) -> tuple[Labels, Weights]:
        """Labels and weights where the rows are."""
        data = self.data
        labels = data.y._replace(**{data.y._fields[0]: like(data.y[0], data.sqnorms)})
        return labels, Weights(*(like(each, data.sqnorms) for each in data.weights))

    @cached_property
    def _draws(self) -> Any:
        """What draws the visits of a pass: TensorDraws for rows on a device."""
        data, negatives = self.data, self.negatives
        if is_numpy(data.sqnorms):
            here = positives(data.y, data.n_classes, data.active)
            return Draws(data.rows, data.active, here, negatives)
        from ..device.draws import TensorDraws, positives_of  # noqa: PLC0415  (imports torch)

        active = like(data.active, data.sqnorms)
        y, _ = self._there
        drawn = None if negatives == "all" else self._n_visits - self._n_positives
        there = positives_of(y[0], y.first, data.n_classes, active)  # type: ignore[arg-type]
        return TensorDraws(active, there, self._n_positives, drawn)

    @cached_property
    def _n_positives(self) -> NDArray[np.intp]:
        return counts(self.data.y, self.data.n_classes, self.data.active)

    @property
    def _n_visits(self) -> NDArray[np.intp]:
        """Of each class, in a pass."""
        n = len(self.data.active)
        return self._n_positives + negatives_used(self.negatives, self._n_positives, n)

    @cached_property
    def _lengths(self) -> Lengths:
        """What determines the length of each step."""
        data, visits = self.data, self._n_visits
        curvature0, xp = self.loss.curvature(0.0), namespace(data.sqnorms)
        reach = curvature0 * (data.sqnorms + self.beta**2)  # 0 for the hinge: no cap
        none = reach <= 0
        cap = self.cap / xp.where(none, xp.ones_like(reach), reach)
        few = np.clip(visits // AVERAGES_A_PASS, 1, AVERAGE_EVERY)
        every = 2 ** np.log2(few).astype(np.int64) - 1
        never = np.full_like(every, NEVER)
        return Lengths(
            eta=float(self.eta),
            decay=float(self.decay),
            power=float(self.power),
            lam=float(self.lam),
            beta=float(self.beta),
            every=like(every if self.average else never, reach),
            report=(1 if visits.sum() <= REPORT_ALL else REPORT_EVERY) - 1,
            look=like(every if self.lam else never, reach),
            cap=xp.where(none, xp.full_like(reach, np.inf), cap),
        )

    def solution(self, state: StochasticState) -> Linear:
        return Linear(*map(to_numpy, self.data.coordinates.coef(*self.weights(state))))

    def weights(self, state: StochasticState) -> tuple[Array, Array]:
        """v and b; their averages if `average` is set and at least one iterate has entered."""
        iterate, xp = state.iterate, namespace(state.iterate.V)
        V = iterate.V * astype(iterate.scale, self.data.rows.dtype)[:, None]
        if not self.average:
            return V, iterate.b + 0.0
        averaged = iterate.m > 0
        V = xp.where(averaged[:, None], iterate.A, V)
        return V, xp.where(averaged, iterate.a, iterate.b)
