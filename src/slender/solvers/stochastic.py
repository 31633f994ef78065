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

from ..curvature import STATES, Coordinates
from ..curvature.metric import FIXED, Metric
from ..labels import Labels, positives
from ..losses import MarginLoss
from ..problem import Weights
from ..problem.linear import Linear
from ..rows import Rows
from .loop import Record, Solver
from .sampling import negatives_used, pass_over
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
    sqnorms: NDArray[Any]  # (n,) ‖z_i‖²
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
        iterate = Iterate(
            V=np.zeros((C, dim), dtype),
            scale=np.ones(C),
            b=np.zeros(C),
            A=np.zeros((C, dim if self.average else 0), dtype),
            a=np.zeros(C),
            m=np.zeros(C, np.int64),
            t=np.zeros(C, np.int64),
            total=np.zeros(C),
            seen=np.zeros(C, np.int64),
            squares=np.zeros(C),
            looks=np.zeros(C, np.int64),
        )
        metric = self.metric.start(C, dim, dtype, self.loss, float(self.lam))
        return StochasticState(rng, iterate, metric)

    def step(self, state: StochasticState) -> Record:
        """One pass."""
        data, iterate = self.data, state.iterate
        iterate.total[:], iterate.seen[:] = 0.0, 0
        iterate.squares[:], iterate.looks[:] = 0.0, 0
        order = data.rows.random_order(data.active, state.rng)
        visits = pass_over(data.active, order, self._mine, self.negatives, state.rng)
        settings = self._lengths, data.weights, state.metric, iterate
        data.rows.each_class(Sweep(self.loss, data.y, visits, *settings))
        loss = float(iterate.total.sum() / max(1, iterate.seen.sum()))
        squares = iterate.squares / np.maximum(1, iterate.looks)
        return {"objective": loss + 0.5 * self.lam * float(squares.mean())}

    @cached_property
    def _mine(self) -> list[NDArray[np.intp]]:
        """The positives of each class."""
        return positives(self.data.y, self.data.n_classes, self.data.active)

    @cached_property
    def _lengths(self) -> Lengths:
        """What determines the length of each step."""
        data, n_positives = self.data, np.array([len(p) for p in self._mine])
        visits = n_positives + negatives_used(self.negatives, n_positives, len(data.active))
        curvature0 = self.loss.curvature(0.0)
        reach = curvature0 * (data.sqnorms + self.beta**2)  # 0 for the hinge: no cap
        cap = np.full_like(reach, np.inf)
        np.divide(self.cap, reach, out=cap, where=reach > 0)
        few = np.clip(visits // AVERAGES_A_PASS, 1, AVERAGE_EVERY)
        every = 2 ** np.log2(few).astype(np.int64) - 1
        return Lengths(
            eta=float(self.eta),
            decay=float(self.decay),
            power=float(self.power),
            lam=float(self.lam),
            beta=float(self.beta),
            every=every if self.average else np.full_like(every, NEVER),
            report=(1 if visits.sum() <= REPORT_ALL else REPORT_EVERY) - 1,
            look=every if self.lam else np.full_like(every, NEVER),
            cap=cap,
        )

    def solution(self, state: StochasticState) -> Linear:
        return Linear(*self.data.coordinates.coef(*self.weights(state)))

    def weights(self, state: StochasticState) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """v and b; their averages if `average` is set and at least one iterate has entered."""
        iterate = state.iterate
        V = iterate.V * iterate.scale[:, None].astype(iterate.V.dtype)
        b = iterate.b.copy()
        if self.average:
            averaged = iterate.m > 0
            V[averaged], b[averaged] = iterate.A[averaged], iterate.a[averaged]
        return V, b
