"""The outer loop, once: clock, trace, log, callbacks, Ctrl-C, BLAS's threads.

A solver is a problem with settings.  All that changes during a fit is in its state, so that the
loop drives any of them without knowing which:

    state = solver.init(rng)
    while not solver.finished(state):
        record = solver.step(state)         about one pass, and what it came to
    solver.end(state)                       what is left to do after the last step
    solver.solution(state)                  the model at this or any moment

A path is a solver too: its step is one value of the penalty, found by steps of another solver.

The clock sees nothing but work: evaluation and callbacks run while it stands still.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from ..problem.linear import Linear
from ..rows import one_blas_thread

Record = dict[str, float]  # "seconds", "passes", "objective", and what a solver adds
Callback = Callable[[Record, Callable[[], Linear]], bool | None]  # a true answer stops the fit
Ending = Literal["finished", "out of passes", "stopped", "interrupted"]
State = TypeVar("State")

LOG = logging.getLogger("slender")  # at INFO a line for each pass, for who wants to watch a fit


class Solver(ABC, Generic[State]):
    """What the loop drives."""

    @abstractmethod
    def init(self, rng: np.random.Generator) -> State:
        """Where a fit begins: arrays, numbers and the generator."""

    @abstractmethod
    def step(self, state: State) -> Record:
        """About one pass, which changes the state; at least the objective.

        "passes" are those so far; a step that does not name them is one.
        """

    @abstractmethod
    def solution(self, state: State) -> Linear:
        """The model at this moment, for raw features."""

    def finished(self, state: State) -> bool:
        """Is there nothing left to gain?"""
        return False

    def end(self, state: State, hurry: bool = False) -> Record | None:
        """What is to be done after the last step; a record, if that changed anything.

        In a hurry, after Ctrl-C or a callback's word, only what costs no pass.
        """
        return None


class Clock:
    """Seconds of work: `with clock: ...` counts, everything else does not."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def __enter__(self) -> "Clock":
        self._start = perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        self.seconds += perf_counter() - self._start


def steps(
    solver: Solver[State], state: State, most: float = np.inf, before: float = 0.0
) -> Iterator[Record]:
    """A record for each step, until nothing is left to gain or `most` passes are done.

    `before` is how many passes the state has behind it.
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
    """Drive a solver, adding a record of each step to the trace.

    `evaluate`, where given, replaces the step's estimate of the objective by an exact figure.  The
    trace may hold earlier passes, which count.  Ctrl-C ends the fit with what there is, and is
    raised where there is nothing.
    """
    clock = clock or Clock()
    before = trace[-1]["passes"] if trace else 0.0
    records = steps(solver, state, most, before)

    def keep(record: Record) -> Record:
        trace.append({"seconds": clock.seconds, "passes": record["passes"], **record})
        if evaluate:
            trace[-1]["objective"] = evaluate()
        note(trace[-1])
        return trace[-1]

    ending: Ending | None = None
    try:
        with one_blas_thread():  # in callbacks too: after a product on many the next pass is slow
            while (record := _next(records, clock)) is not None:
                record = keep(record)
                # every callback sees every record, also the one at which another asks to stop
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
    """One callback, several or none, as a user gives them."""
    if callbacks is None:
        return ()
    return (callbacks,) if callable(callbacks) else callbacks


def note(record: Mapping[str, Any]) -> None:
    """A line of the log: every figure of a record by its name."""
    if LOG.isEnabledFor(logging.INFO):
        LOG.info(", ".join(f"{name} {value:.5g}" for name, value in record.items()))
