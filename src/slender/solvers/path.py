"""A path: the same problem at one lam after another, from strong to weak penalty.

Each value starts where the last one ended, with the gradient found there, the same curvature and
the pairs of L-BFGS: the data's part of them does not depend on lam, so that none costs a pass.

A value is solved as far as validation can tell: until the gap is tol times the objective, or a
share TELLS of the standard error of the held-out log loss, whichever is more.  Where the penalty is
weak and the objective small, a gap relative to it would ask for digits that no held-out row sees.
The gap of a record is what can be proved there without another pass.
"""

from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..metrics import measure
from ..problem import Multinomial
from ..problem.certificate import hopeful
from ..rows import Rows
from .loop import Record
from .newton import QuasiNewton

TELLS = 0.1  # of the standard error of the held-out log loss: a difference nobody can see
GAIN = 0.1  # of the gap aimed at: a step that gains less ends a value of the path
HOPELESS = 10.0  # times that gap: float32 has left too much undone to go on with it


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
        self.error = 0.0  # of the held-out log loss at the last value

    def walk_to(self, lam: float, tol: float, max_iter: int) -> Record:
        """Solve at lam, from where the last value ended."""
        solver = self.solver
        first = solver.problem.passes
        if self.started:
            solver.change_lam(lam)
        else:
            solver.begin(solver.problem.start(), lam)
            self.started = True
        while solver.problem.passes - first < max_iter:
            goal = max(tol * solver.point.objective, TELLS * self.error)
            nearly = hopeful(solver.point)
            if nearly <= goal or solver.decrease <= GAIN * goal:
                break
            if solver.stalled and (solver.wide or nearly <= HOPELESS * goal):
                break
            if solver.stalled:
                solver.widen()
            solver.step(goal / solver.point.objective)
        if solver.settled:
            solver.prove()
        solver.settle()  # after which the figures are those of the weights in the caller's dtype
        seconds = perf_counter() - self.begun
        judged = measure(*self.held_out, *self.model())
        self.error = judged["log_loss_error"]
        record: Record = {
            "objective": solver.point.objective,
            "gap": solver.gap,
            **judged,
            "passes": float(solver.problem.passes - first),
            "seconds": seconds,
        }
        self.begun = perf_counter()  # validation is off the clock
        return record

    def model(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.solver.model()


def mean_record(records: list[Record]) -> Record:
    """One record for all folds: sums of work, means of the rest, standard errors of those means."""
    merge = {"passes": sum, "seconds": sum, "top1_error": _of_mean, "log_loss_error": _of_mean}
    return {
        name: float(merge.get(name, np.mean)([record[name] for record in records]))  # type: ignore[operator]
        for name in records[0]
    }


def _of_mean(errors: list[float]) -> float:
    """The standard error of a mean of independent figures that have these."""
    return float(np.sqrt(np.sum(np.square(errors))) / len(errors))
