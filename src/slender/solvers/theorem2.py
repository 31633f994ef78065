"""SLND with the step of its Theorem 2: for studying the theory, on small data.

Each step costs a pass over the sample of a class, so the time of a fit is quadratic in the number
of rows.  The sample of a class is drawn once and kept: the theorem does not cover new draws.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..labels import positives, sign
from ..losses import MarginLoss
from ..problem.linear import Linear
from ..theory import RiskSample
from .loop import Record, Solver
from .sampling import pass_over
from .stochastic import StochasticData


@dataclass
class Theorem2State:
    """One fixed sample and one iterate per class."""

    rng: np.random.Generator
    samples: list[RiskSample]


@dataclass(frozen=True)
class Theorem2(Solver[Theorem2State]):
    """One-vs-rest; beta is the constant coordinate of the intercept."""

    data: StochasticData
    loss: MarginLoss
    negatives: float | str
    beta: float

    made_of: ClassVar[tuple[type, ...]] = (Theorem2State, RiskSample)

    def init(self, rng: np.random.Generator) -> Theorem2State:
        """Draw the samples; w = 0."""
        data, C = self.data, self.data.n_classes
        drawn: list[list[NDArray[np.intp]]] = [[] for _ in range(C)]
        mine = positives(data.y, C, data.active)
        order = data.rows.random_order(data.active, rng)
        visited = pass_over(data.active, order, mine, self.negatives, rng)
        for visits in visited.portions(data.rows.row_bytes):
            for c in range(C):
                drawn[c].append(visits.of_class(c))
        return Theorem2State(rng, [self._sample(c, np.concatenate(drawn[c])) for c in range(C)])

    def _sample(self, c: int, index: NDArray[np.intp]) -> RiskSample:
        weights, Z = self.data.weights, self.data.rows.dense(index)
        if self.beta:
            Z = np.hstack([Z, np.full((len(Z), 1), self.beta, Z.dtype)])
        y = np.array([sign(self.data.y, i, c) for i in index], Z.dtype)
        of_side = np.where(y > 0, weights.positive[c], weights.negative[c])
        return RiskSample.at_zero(Z, y, (weights.example[index] * of_side).astype(Z.dtype))

    def step(self, state: Theorem2State) -> Record:
        """One pass over each sample."""
        for sample in state.samples:
            for i in state.rng.permutation(len(sample.y)):
                sample.take_step(self.loss, int(i))
        return {"objective": float(np.mean([sample.risk(self.loss) for sample in state.samples]))}

    def solution(self, state: Theorem2State) -> Linear:
        return Linear(*self.data.coordinates.coef(*self.weights(state)))

    def weights(self, state: Theorem2State) -> tuple[NDArray[Any], NDArray[Any]]:
        """V (C, k) and the intercepts b (C,)."""
        V = np.array([sample.v for sample in state.samples])
        if self.beta:
            return V[:, :-1], V[:, -1] * self.beta
        return V, np.zeros(len(V))
