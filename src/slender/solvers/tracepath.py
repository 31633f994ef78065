"""A path of trace-norm penalties: each pair starts from its neighbour's solution (004, §4.1).

lambda1 falls from lambda1_max on, lambda2 from its largest value; both geometrically.  The grid is
walked to and fro, so that two pairs in a row differ in one penalty by one step.  A new pair costs
no reading of X to begin: the risk's gradient does not depend on the penalties, and where the old
solution is proved good enough for the new pair none at all.  What a path is for, a choice by
validation, needs no more than a proof to LOOSER times the accuracy of the final fit.
"""

from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..metrics import measure
from ..problem import Multinomial
from ..problem.tracenorm import Factors, raw_intercepts
from ..rows import DenseRows, Rows
from .loop import Record
from .rankone import RankOne

LOOSER = 3.0

HeldOut = tuple[Rows, NDArray[np.int32]]  # rows, and their classes


def grid(lambda1s: Iterable[float], lambda2s: NDArray[np.float64]) -> Iterator[tuple[float, float]]:
    """All pairs, neighbours after neighbours; each lambda1 is asked for when its row begins."""
    for turn, lambda1 in enumerate(lambda1s):
        for lambda2 in lambda2s if turn % 2 == 0 else lambda2s[::-1]:
            yield float(lambda1), float(lambda2)


class TraceWalker:
    """One training part on its way along the path, and the rows it is judged on."""

    def __init__(self, problem: Multinomial, held_out: HeldOut, solver: RankOne) -> None:
        self.problem, self.held_out, self.solver = problem, held_out, solver
        self.lambda1 = np.inf
        self.judged: tuple[Factors | None, Record] = None, {}

    def walk_to(self, lambda1: float, lambda2: float, tol: float, max_iter: int) -> Record:
        """Solve at these penalties, from where the last pair ended."""
        solver, first, begun = self.solver, self.problem.passes, perf_counter()
        tol = LOOSER * tol
        # another lambda2 only stretches the atoms; another lambda1 asks for more of them
        stretched = lambda1 == self.lambda1 and len(solver.here.at.theta) > 0
        self.lambda1 = lambda1
        solver.set_penalties(lambda1, lambda2)
        for number in range(max_iter):
            if solver.gap <= tol * solver.objective or solver.stalled:
                break
            if number == 0 and stretched and solver.curvature is not None:
                solver.stretch(tol)
            else:
                solver.step(tol)
        seconds = perf_counter() - begun
        at = solver.here.at
        return {
            "objective": solver.objective,
            "gap": solver.gap,
            "rank": float(len(at.theta)),
            "trace_norm": float(at.theta.sum()),
            **self._judged(),
            "passes": float(self.problem.passes - first),
            "seconds": seconds,
        }

    def _judged(self) -> Record:
        """Accuracies on the held-out rows; once for each model."""
        at = self.solver.here.at
        if at is not self.judged[0]:
            (rows, codes), A, b = self.factored()
            self.judged = at, measure(rows, codes, A, b)
        return self.judged[1]

    def factored(self) -> tuple[HeldOut, NDArray[Any], NDArray[Any]]:
        """The held-out rows in the coordinates of the atoms; weights and intercepts there."""
        at, (rows, codes) = self.solver.here.at, self.held_out
        return (DenseRows(rows.matmat(at.U)), codes), at.A, raw_intercepts(self.problem, at)
