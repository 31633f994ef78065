"""A path of trace-norm penalties: each pair starts from its neighbour's solution (004, §4.1).

lambda1 falls from lambda1_max on, lambda2 from its largest value; both geometrically.  The grid is
walked to and fro, so that two pairs in a row differ in one penalty by one step.  A new pair costs
no reading of X to begin: the risk's gradient does not depend on the penalties, and where the old
solution is proved good enough for the new pair none at all.
"""

from collections.abc import Iterator
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ..metrics import measure
from ..problem import Multinomial
from ..problem.tracenorm import Factors, raw_intercepts
from ..rows import DenseRows, Rows
from .loop import Record
from .rankone import RankOne


def grid(
    lambda1s: NDArray[np.float64], lambda2s: NDArray[np.float64]
) -> Iterator[tuple[float, float]]:
    """All pairs, neighbours after neighbours."""
    for turn, lambda1 in enumerate(lambda1s):
        for lambda2 in lambda2s if turn % 2 == 0 else lambda2s[::-1]:
            yield float(lambda1), float(lambda2)


class TraceWalker:
    """One training part on its way along the path, and the rows it is judged on."""

    def __init__(
        self, problem: Multinomial, held_out: tuple[Rows, NDArray[np.int32]], solver: RankOne
    ) -> None:
        self.problem, self.held_out, self.solver = problem, held_out, solver
        self.lambda1 = np.inf

    def walk_to(self, lambda1: float, lambda2: float, tol: float, max_iter: int) -> Record:
        """Solve at these penalties, from where the last pair ended."""
        solver, first, begun = self.solver, self.problem.passes, perf_counter()
        # another lambda2 only stretches the atoms; another lambda1 asks for more of them
        stretched = lambda1 == self.lambda1
        self.lambda1 = lambda1
        solver.set_penalties(lambda1, lambda2)
        for number in range(max_iter):
            if solver.gap <= tol * solver.objective or solver.stalled:
                break
            solver.step(tol, within=stretched and number == 0)
        seconds = perf_counter() - begun
        at = solver.here.at
        return {
            "objective": solver.objective,
            "gap": solver.gap,
            "rank": float(len(at.theta)),
            "trace_norm": float(at.theta.sum()),
            **self._judged(at),
            "passes": float(self.problem.passes - first),
            "seconds": seconds,
        }

    def _judged(self, at: Factors) -> Record:
        """Accuracies on the held-out rows, through the factors."""
        rows, codes = self.held_out
        return measure(DenseRows(rows.matmat(at.U)), codes, at.A, raw_intercepts(self.problem, at))
