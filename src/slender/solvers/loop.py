"""The outer loop of all solvers: clock, trace, log, callbacks, Ctrl-C, BLAS threads.

A solver is a problem with settings.  Everything that changes during a fit is in its state, so the
loop can run any solver:

    state = solver.init(rng)
    while not solver.finished(state):
        record = solver.step(state)         about one pass; returns its figures
    solver.end(state)                       what is left to do after the last step
    solver.solution(state)                  the current model; may be called at any time

A path is a solver too: each of its steps solves the problem at one penalty, by another solver.

The clock measures only the work of the solver: it stops during evaluation and callbacks.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from ..problem.linear import Linear
from ..rows import one_blas_thread
from ..rows.ahead import METER

# "seconds", "passes", "objective", "bytes_read" if the rows are in files, and what a solver adds
Record = dict[str, float]
Callback = Callable[[Record, Callable[[], Linear]], bool | None]  # a true result stops the fit
Ending = Literal["finished", "out of passes", "stopped", "interrupted"]
State = TypeVar("State")

LOG = logging.getLogger("slender")  # at level INFO, one line per pass


class Solver(ABC, Generic[State]):
    """What the loop needs of a solver."""

    @abstractmethod
    def init(self, rng: np.random.Generator) -> State:
        """The state at the start of a fit: arrays, numbers and the random generator."""

    @abstractmethod
    def step(self, state: State) -> Record:
        """Change the state by about one pass; returns at least the objective.

        "passes" is the number so far; a step whose record lacks it counts as one pass.
        """

    @abstractmethod
    def solution(self, state: State) -> Linear:
        """The current model, for raw features."""

    def finished(self, state: State) -> bool:
        """Is the goal reached, or no further progress possible?"""
        return False

    def end(self, state: State, hurry: bool = False) -> Record | None:
        """Do what is left after the last step; returns a record if that changed anything.

        With `hurry`, after Ctrl-C or if a callback stopped the fit, it must not cost a pass.
        """
        return None


class Clock:
    """Seconds, and bytes of rows read from files, but only inside `with clock:`."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.bytes_read = seconds, 0

    def __enter__(self) -> "Clock":
        self._start = perf_counter(), METER.total
        return self

    def __exit__(self, *exc: object) -> None:
        start, before = self._start
        self.seconds += perf_counter() - start
        self.bytes_read += METER.total - before

    @property
    def spent(self) -> Record:
        """The seconds, and the bytes if anything was read."""
        read = {"bytes_read": float(self.bytes_read)} if self.bytes_read else {}
        return {"seconds": self.seconds, **read}


def steps(
    solver: Solver[State], state: State, most: float = np.inf, before: float = 0.0
) -> Iterator[Record]:
    """One record per step, until the solver is finished or `most` passes are done.

    `before` is the number of passes made before.
    """
    passes = before
    while not solver.finished(state) and passes - before < most:
        record = solver.step(state)
        passes = record.setdefault("passes", passes + 1.0)
        yield record
    last = solver.end(state)
    if last is not None:
        last.setdefault("passes", passes)
        yield last


def run(
    solver: Solver[State],
    state: State,
    trace: list[Record],
    callbacks: Callback | Sequence[Callback] | None = None,
    most: float = np.inf,
    clock: Clock | None = None,
    evaluate: Callable[[], float] | None = None,
) -> Ending:
    """Run a solver, and append one record per step to the trace.

    `evaluate`, if given, replaces the step's estimate of the objective by an exact value.  The
    trace may hold earlier passes; their count is continued.  Ctrl-C ends the fit with the current
    model, or is raised if the trace is empty.
    """
    clock = clock or Clock()
    before = trace[-1]["passes"] if trace else 0.0
    records = steps(solver, state, most, before)

    def keep(record: Record) -> Record:
        trace.append({**clock.spent, "passes": record["passes"], **record})
        if evaluate:
            trace[-1]["objective"] = evaluate()
        note(trace[-1])
        return trace[-1]

    ending: Ending | None = None
    try:
        with one_blas_thread():  # also in callbacks: after a product on many, a pass is slow
            while (record := _next(records, clock)) is not None:
                record = keep(record)
                # call every callback, also if an earlier one in the list stops the fit
                answers = [
                    call(record, lambda: solver.solution(state)) for call in listed(callbacks)
                ]
                if any(answers):
                    ending = "stopped"
                    break
    except KeyboardInterrupt:
        if not trace:
            raise
        ending = "interrupted"
    if ending is None:
        used_up = trace[-1]["passes"] - before >= most if trace else False
        return "out of passes" if used_up and not solver.finished(state) else "finished"
    last = solver.end(state, hurry=True)
    if last is not None:
        keep({"passes": trace[-1]["passes"], **last})
    return ending


def _next(records: Iterator[Record], clock: Clock) -> Record | None:
    with clock:
        return next(records, None)


def listed(callbacks: Callback | Sequence[Callback] | None) -> Sequence[Callback]:
    """The callbacks as a sequence; the user may give one, several or None."""
    if callbacks is None:
        return ()
    return (callbacks,) if callable(callbacks) else callbacks


def note(record: Mapping[str, Any]) -> None:
    """Log one line: the names and values of a record."""
    if LOG.isEnabledFor(logging.INFO):
        LOG.info(", ".join(f"{name} {value:.5g}" for name, value in record.items()))
