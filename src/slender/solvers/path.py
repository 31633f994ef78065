"""A path: the same problem at one lam after another, from strong to weak penalty.

Each value starts where the last one ended, with the gradient found there, the same curvature and
the pairs of L-BFGS: the data's part of them does not depend on lam, so that none costs a pass.  A
value is done when its gap is proved small, or, where a proof would cost far more than it tells a
choice by validation, when a step gains next to nothing.
"""

from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..metrics import measure
from ..problem import Multinomial
from ..rows import Rows
from .loop import Record
from .newton import QuasiNewton

GAIN = 0.1  # of tol times the objective: a step that gains less ends a value of the path


class Walker:
    """One training part on its way along the path, and the rows it is judged on."""

    def __init__(
        self,
        problem: Multinomial,
        held_out: tuple[Rows, NDArray[np.int32]],
        rng: np.random.Generator,
    ) -> None:
        self.problem, self.held_out = problem, held_out
        self.begun = perf_counter()
        self.solver = QuasiNewton(problem, rng)
        self.started = False

    def walk_to(self, lam: float, tol: float, max_iter: int) -> Record:
        """Solve at lam, from where the last value ended."""
        solver = self.solver
        first = solver.problem.passes
        if self.started:
            solver.change_lam(lam)
        else:
            solver.begin(solver.problem.start(), lam)
            self.started = True
        while not solver.certified(tol) and not solver.stalled:
            if solver.problem.passes - first >= max_iter:
                break
            if solver.decrease <= GAIN * tol * solver.point.objective:
                solver.bound()
                break
            solver.step(tol)
        seconds = perf_counter() - self.begun
        record: Record = {
            "objective": solver.point.objective,
            "gap": solver.gap,
            **measure(*self.held_out, *self.model()),
            "passes": float(solver.problem.passes - first),
            "seconds": seconds,
        }
        self.begun = perf_counter()  # validation is off the clock
        return record

    def model(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.solver.model()


def mean_record(records: list[Record]) -> Record:
    """One record for all folds: sums of work, the largest gap, means of the rest."""
    merge = {"passes": sum, "seconds": sum, "gap": max}
    return {
        name: float(merge.get(name, np.mean)([record[name] for record in records]))  # type: ignore[operator]
        for name in records[0]
    }
