"""SLND with the step of Theorem 2: for studying the theory, on small data.

Each step costs a pass over the class's sample, so a fit is quadratic in the rows.  The sample of a
class is drawn once and kept: the theorem says nothing of fresh draws.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..labels import positives, sign
from ..losses import MarginLoss
from ..theory import Sample
from .loop import Record
from .sampling import pass_over
from .stochastic import Data


class TheoreticalDescent:
    """One fixed sample and one iterate a class."""

    def __init__(
        self,
        loss: MarginLoss,
        data: Data,
        n_classes: int,
        negatives: float | str,
        beta: float,
        rng: np.random.Generator,
    ) -> None:
        self.loss, self.beta, self.rng = loss, beta, rng
        drawn: list[list[NDArray[np.intp]]] = [[] for _ in range(n_classes)]
        mine = positives(data.y, n_classes, data.active)
        for visits in pass_over(data.active, mine, negatives, data.rows.row_bytes, rng):
            for c in range(n_classes):
                drawn[c].append(visits.of_class(c))
        self.samples = []
        for c in range(n_classes):
            index = np.concatenate(drawn[c])
            Z = data.rows.dense(index)
            if beta:
                Z = np.hstack([Z, np.full((len(Z), 1), beta, Z.dtype)])
            y = np.array([sign(data.y, i, c) for i in index], Z.dtype)
            of_side = np.where(y > 0, data.weights.positive[c], data.weights.negative[c])
            weight = (data.weights.example[index] * of_side).astype(Z.dtype)
            self.samples.append(Sample.at_zero(Z, y, weight))

    def epochs(self, passes: int) -> Iterator[Callable[[], Record]]:
        def epoch() -> Record:
            for sample in self.samples:
                for i in self.rng.permutation(len(sample.y)):
                    sample.descend(self.loss, int(i))
            risks = [sample.risk(self.loss) for sample in self.samples]
            return {"objective": float(np.mean(risks))}

        for _ in range(passes):
            yield epoch

    def solution(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """v (C, k) and the solver's own bias b (C,)."""
        V = np.array([sample.v for sample in self.samples])
        if self.beta:
            return V[:, :-1], V[:, -1] * self.beta
        return V, np.zeros(len(V))
