"""Mini-batch stochastic (sub-)gradient descent on the scores of all classes (AIMS, §4).

With s_i = W x_i + b the scores of row i, g_i (C,) the slope of its loss in them, c_i its weight:

    W <- (1 - eta_t lam) W - Σ_{i in batch} e_i g_i x_iᵀ     e_i = min(eta_t c_i / |batch|, cap_i)
    b <- b - beta² Σ_{i in batch} e_i g_i                    beta: the constant coordinate

    eta_t = eta / (1 + decay t)^power, t the number of updates so far:
        constant    decay = 0
        sqrt        decay = 1, power = 1/2           eta / sqrt(it), it from 1 (AIMS)
        optimal     decay = lam eta, power = 1       (BB08)

Each pass splits a new permutation of the rows into batches; the last one may be smaller.  The
reported objective is the mean over the batches, weighted by their numbers of rows, of the objective
on each before its update (AIMS).

g_i depends on the loss: `EachClass` applies a margin loss to the signed score of every class
(one-vs-rest; the objective is then a mean over the classes), `AllClasses` is a multi-class loss.  A
batch needs two matrix products; the kernel between them turns scores into -e_i g_i in place.

Departures from AIMS: weights c_i; an intercept; averaging, in which the j-th iterate has weight j;
and, for an automatic step, cap_i, which is `cap` divided by kappa ‖x_i‖², where kappa bounds the
curvature of the loss: it limits how far a row can move its own scores.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from ..kernels import kernel
from ..labels import Labels, sign
from ..losses import MarginLoss, MulticlassLoss, row_slope, row_value, slope, value
from ..overloads import method_of
from ..problem import Weights
from ..problem.linear import Linear, one_row
from ..rows import one_blas_thread
from .loop import Record, Solver
from .stochastic import StochasticData

CHUNK_BYTES = 2 * 2**20  # of rows gathered at once, in whole batches: about the cache of a core
AVERAGE_EVERY = 32  # updates between two iterates that enter the average;
AVERAGES_A_PASS = 32  # fewer if a pass has few batches, so that this many enter per pass


class EachClass(NamedTuple):
    """One-vs-rest: the loss of class c depends only on its own margin y_c s_c."""

    loss: MarginLoss

    def to_steps(
        self, s: NDArray[Any], i: int, y: Labels, weights: Weights, eta: float, cap: float
    ) -> float:
        total = 0.0
        for c in range(len(s)):
            s_y = sign(y, i, c)
            weight = weights.example[i] * (weights.positive[c] if s_y > 0 else weights.negative[c])
            z = s_y * s[c]
            total += weight * value(self.loss, z)
            s[c] = -min(eta * weight, cap) * s_y * slope(self.loss, z)
        return total

    def kappa(self) -> float:
        return float(self.loss.curvature(0.0))

    def terms(self, n_classes: int) -> int:
        """Number of losses per row: the objective is their mean."""
        return n_classes

    def kept(self, W: NDArray[Any], b: NDArray[Any]) -> Linear:
        """The model made from the solver's class rows."""
        return Linear(W, b)


class AllClasses(NamedTuple):
    """A multi-class loss of a row of scores; y has class indices that start at 0."""

    loss: MulticlassLoss

    def to_steps(
        self, s: NDArray[Any], i: int, y: Any, weights: Weights, eta: float, cap: float
    ) -> float:
        weight = weights.example[i]
        total = weight * row_value(self.loss, s, y.class_index[i])
        row_slope(self.loss, s, y.class_index[i], s)
        e = min(eta * weight, cap)
        for c in range(len(s)):
            s[c] *= -e
        return total

    def kappa(self) -> float:
        return self.loss.smoothness()

    def terms(self, n_classes: int) -> int:
        return 1

    def kept(self, W: NDArray[Any], b: NDArray[Any]) -> Linear:
        return one_row(W, b)


BatchLoss = EachClass | AllClasses


def to_steps(
    batch_loss: BatchLoss,
    s: NDArray[Any],
    i: int,
    y: Labels,
    weights: Weights,
    eta: float,
    cap: float,
) -> float:
    """s <- -e_i g_i for the scores s (C,) of row i; returns c_i times its loss."""
    return batch_loss.to_steps(s, i, y, weights, eta, cap)


@overload(to_steps)
def _to_steps(batch_loss, s, i, y, weights, eta, cap):  # type: ignore[no-untyped-def]
    method = method_of(batch_loss, "to_steps")
    return lambda batch_loss, s, i, y, weights, eta, cap: method(
        batch_loss, s, i, y, weights, eta, cap
    )


@kernel()
def slopes(batch_loss, S, b, index, y, weights, eta, cap):  # type: ignore[no-untyped-def]
    """`to_steps` on every row of S (rows of the batch, C); returns the sum of their losses."""
    total = 0.0
    for j in range(len(index)):
        s = S[j]
        for c in range(len(s)):
            s[c] += b[c]
        total += to_steps(batch_loss, s, index[j], y, weights, eta, cap[index[j]])
    return total


@dataclass
class MiniBatchState:
    """All that changes during a fit."""

    rng: np.random.Generator
    W: NDArray[Any]  # (C, d)
    b: NDArray[np.float64]  # (C,)
    A: NDArray[Any]  # (C, d) average of W; (C, 0) without averaging
    a: NDArray[np.float64]  # (C,) average of b
    m: NDArray[np.int64]  # () number of iterates in the average
    t: NDArray[np.int64]  # () number of updates so far


@dataclass(frozen=True)
class MiniBatch(Solver[MiniBatchState]):
    """Mini-batch descent on these examples."""

    data: StochasticData
    batch_loss: BatchLoss
    eta: float
    batch_size: int = 1
    decay: float = 0.0
    power: float = 1.0
    lam: float = 0.0
    beta: float = 0.0
    cap: float = np.inf  # in units of 1/(kappa ‖x_i‖²); inf: none
    average: bool = True

    made_of: ClassVar[tuple[type, ...]] = (MiniBatchState,)

    def init(self, rng: np.random.Generator) -> MiniBatchState:
        """W = 0."""
        C, (_, dim), dtype = self.data.n_classes, self.data.rows.shape, self.data.rows.dtype
        return MiniBatchState(
            rng,
            W=np.zeros((C, dim), dtype),
            b=np.zeros(C),
            A=np.zeros((C, dim if self.average else 0), dtype),
            a=np.zeros(C),
            m=np.zeros((), np.int64),
            t=np.zeros((), np.int64),
        )

    def step(self, state: MiniBatchState) -> Record:
        """One pass."""
        n = len(self.data.active)
        n_batches = -(-n // self.batch_size)
        every = int(np.clip(n_batches // AVERAGES_A_PASS, 1, AVERAGE_EVERY))
        total, scratch = 0.0, np.empty_like(state.W)
        order = self.data.active[self.data.rows.random_order(self.data.active, state.rng)]
        # Products this small are slower on many threads, hence one.  If the step is too large,
        # numbers may overflow: the estimator warns once that the fit diverged.
        with one_blas_thread(), np.errstate(over="ignore"):
            for index, block in self.batches(order):
                total += len(index) * self.update(state, index, block, scratch)
                if self.average and state.t % every == 0:
                    self._enter(state)
        return {"objective": total / n}

    def batches(self, order: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], Any]]:
        """The rows of each batch, as indices and as a block."""
        size, rows = self.batch_size, self.data.rows
        chunk = size * max(1, CHUNK_BYTES // (size * rows.row_bytes))
        for first in range(0, len(order), chunk):
            index = order[first : first + chunk]
            rows_of_chunk = rows.gather(index)
            rows.release()
            for lo in range(0, len(index), size):
                yield index[lo : lo + size], rows_of_chunk[lo : lo + size]

    def update(
        self, state: MiniBatchState, index: NDArray[np.intp], block: Any, scratch: NDArray[Any]
    ) -> float:
        """One step on the rows `index`, given as `block`; returns their objective before it."""
        W, size = state.W, len(index)
        terms = self.batch_loss.terms(len(W))
        eta = self.eta / (1.0 + self.decay * float(state.t)) ** self.power
        S = np.empty((size, len(W)), W.dtype)
        block.product(W.T, S)
        y, weights = self.data.y, self.data.weights
        loss = slopes(self.batch_loss, S, state.b, index, y, weights, eta / size, self._cap)
        objective = loss / (size * terms)
        if self.lam != 0.0:
            objective += 0.5 * self.lam * float(np.vdot(W, W)) / terms
            W *= W.dtype.type(1.0 - eta * self.lam)
        block.add_product(S, W, scratch)  # W <- W - Σ e_i g_i x_iᵀ
        if self.beta != 0.0:
            state.b[:] += self.beta**2 * S.sum(axis=0, dtype=np.float64)
        state.t[...] += 1
        return objective

    @cached_property
    def _cap(self) -> NDArray[np.float64]:
        reach = self.batch_loss.kappa() * (self.data.sqnorms.astype(np.float64) + self.beta**2)
        cap = np.full_like(reach, np.inf)
        np.divide(self.cap, reach, out=cap, where=reach > 0)  # 0 for a hinge: no curvature, no cap
        return cap

    def _enter(self, state: MiniBatchState) -> None:
        """Add the iterate to the average, in which the j-th iterate has weight j."""
        state.m[...] += 1
        omega = 2.0 / (float(state.m) + 1.0)
        keep, enter = state.W.dtype.type(1.0 - omega), state.W.dtype.type(omega)
        state.A[:] = keep * state.A + enter * state.W
        state.a[:] += omega * (state.b - state.a)

    def solution(self, state: MiniBatchState) -> Linear:
        return self.batch_loss.kept(*self.data.coordinates.coef(*self.weights(state)))

    def weights(self, state: MiniBatchState) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """W and b; their averages if `average` is set and at least one iterate has entered."""
        if self.average and state.m > 0:
            return state.A.copy(), state.a.copy()
        return state.W.copy(), state.b.copy()
