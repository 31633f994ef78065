"""The outer loop of all solvers: clock, trace, log, callbacks, Ctrl-C, checkpoints, BLAS threads.

A solver is a problem with settings.  Everything that changes during a fit is in its state, so the
loop can run any solver:

    state = solver.init(rng)
    while not solver.finished(state):
        record = solver.step(state)         about one pass; returns its figures, or None
    solver.end(state)                       what is left to do after the last step
    solver.solution(state)                  the current model; may be called at any time

A path is a solver too: it solves the problem at one penalty after the other, by the steps of
another solver.  Its step returns None until all folds are through with a penalty.

Between two steps the state can be saved (checkpoint.py): it is a mutable dataclass, made of arrays,
numbers and the classes in `made_of`, and holds all that is not determined by data and settings.

The clock measures only the work of the solver: it stops during evaluation and callbacks.
"""

import logging
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np

from ..problem.linear import Linear
from ..rows import one_blas_thread
from ..rows.ahead import METER
from .checkpoint import Checkpoint, Saved, SavedRun

# "seconds", "passes", "objective", "bytes_read" if the rows are in files, and what a solver adds
Record = dict[str, float]
Callback = Callable[[Record, Callable[[], Linear]], bool | None]  # a true result stops the fit
Ending = Literal["finished", "out of passes", "stopped", "interrupted"]
State = TypeVar("State")

# Does whoever runs a fit in another thread, which Ctrl-C does not reach, want it to be interrupted?
STOP: ContextVar[Callable[[], bool]] = ContextVar("STOP", default=lambda: False)
LOG = logging.getLogger("slender")  # at level INFO, one line per pass


class Solver(ABC, Generic[State]):
    """What the loop needs of a solver."""

    made_of: ClassVar[tuple[type, ...]]  # the classes of slender that a state may contain

    @abstractmethod
    def init(self, rng: np.random.Generator) -> State:
        """The state at the start of a fit: arrays, numbers and the random generator."""

    @abstractmethod
    def step(self, state: State) -> Record | None:
        """Change the state by about one pass; returns at least the objective.

        "passes" is the number so far; a step whose record lacks it counts as one pass.  None: there
        is no record yet, but the state may be saved.
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


@dataclass
class Clock:
    """Seconds, and bytes of rows read from files, but only inside `with clock:`."""

    seconds: float = 0.0
    bytes_read: int = 0

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


def run(
    solver: Solver[State],
    state: State,
    trace: list[Record],
    callbacks: Callback | Sequence[Callback] | None = None,
    most: float = np.inf,
    clock: Clock | None = None,
    evaluate: Callable[[], float] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Ending:
    """Run a solver, and append one record to the trace for every step that returns one.

    `evaluate`, if given, replaces the step's estimate of the objective by an exact value.  The
    trace may hold earlier passes; their count is continued.  Ctrl-C ends the fit with the current
    model, or is raised if the trace is empty.  With a checkpoint, a saved fit is continued, and the
    first Ctrl-C waits for the end of the step, so that there is something to save.
    """
    fit = _Fit(solver, state, trace, listed(callbacks), clock or Clock(), evaluate)
    fit.stage = checkpoint.next_stage() if checkpoint else None
    ending = fit.resume()
    try:
        # one BLAS thread also in callbacks: after a product on many, a pass is slow
        with one_blas_thread(), patience(fit.stage is not None) as asked:
            ending = ending or fit.descend(most, asked)
    except KeyboardInterrupt:
        if checkpoint:
            checkpoint.closed = True
        if fit.stage and fit.whole:
            fit.stage.write(fit.saved)
        if not trace:
            raise
        ending = "interrupted"
    if ending is None:
        used_up = trace[-1]["passes"] - fit.before >= most if trace else False
        return "out of passes" if used_up and not solver.finished(state) else "finished"
    last = solver.end(state, hurry=True)
    if last is not None:
        fit.append(last)
    return ending


class _Fit(Generic[State]):
    """A call of `run`, on its way."""

    stage: SavedRun | None = None
    whole = True  # is the state that of the end of a step?

    def __init__(
        self,
        solver: Solver[State],
        state: State,
        trace: list[Record],
        callbacks: Sequence[Callback],
        clock: Clock,
        evaluate: Callable[[], float] | None,
    ) -> None:
        self.solver, self.state, self.trace = solver, state, trace
        self.callbacks, self.clock, self.evaluate = callbacks, clock, evaluate
        self.before = self.passes = trace[-1]["passes"] if trace else 0.0

    def resume(self) -> Ending | None:
        """Continue with what was saved, if anything was; had a callback stopped it?"""
        found = self.stage.restore(self.saved) if self.stage else None
        if found is None:
            return None
        self.before, self.passes = found["before"], found["passes"]
        LOG.info("a saved fit is continued after %g passes", self.passes)
        return "stopped" if found["stopped"] else None

    @property
    def saved(self) -> Saved:
        """What a checkpoint holds."""
        tree = [self.state, self.trace, self.clock]
        noted = {"before": self.before, "passes": self.passes}
        return Saved(tree, (*self.solver.made_of, Clock), noted)

    def descend(self, most: float, asked: Callable[[], bool]) -> Ending | None:
        """Steps until the solver is finished, `most` passes are done or a callback says so."""
        ending: Ending | None = None
        while ending is None and self.passes - self.before < most:
            interrupt(asked)
            self.whole = False
            with self.clock:
                if self.solver.finished(self.state):
                    break
                record = self.solver.step(self.state)
            self.whole = True
            if record is not None:
                self.passes = record.setdefault("passes", self.passes + 1.0)
                ending = self.keep(record)
                interrupt(asked)
            if self.stage:
                self.stage.stepped(self.saved, last=ending is not None)
        if self.stage:
            self.stage.finish(self.saved, stopped=ending == "stopped")
        self.whole = False
        if ending is None:
            with self.clock:
                last = self.solver.end(self.state)
            ending = None if last is None else self.keep(last)
        interrupt(asked)
        return ending

    def append(self, record: Record) -> None:
        self.trace.append({**self.clock.spent, "passes": self.passes, **record})
        if self.evaluate:
            self.trace[-1]["objective"] = self.evaluate()
        note(self.trace[-1])

    def keep(self, record: Record) -> Ending | None:
        """Append to the trace; does a callback stop the fit?"""
        self.append(record)
        # call every callback, also if an earlier one in the list stops the fit
        now = self.trace[-1]
        answers = [call(now, lambda: self.solver.solution(self.state)) for call in self.callbacks]
        return "stopped" if any(answers) else None


def interrupt(asked: Callable[[], bool]) -> None:
    """Where Ctrl-C that was pressed has its effect."""
    if asked():
        raise KeyboardInterrupt


@contextmanager
def patience(wanted: bool) -> Iterator[Callable[[], bool]]:
    """Gives a function that says if Ctrl-C was pressed: the first one then does nothing else.

    If not `wanted`, Ctrl-C is what it always is.  Other threads than the main one ask STOP.
    """
    usual = signal.default_int_handler
    main = threading.current_thread() is threading.main_thread()
    if not (wanted and main and signal.getsignal(signal.SIGINT) is usual):
        yield STOP.get() if wanted else lambda: False
        return
    pressed: list[int] = []

    def handle(number: int, frame: Any) -> None:
        if pressed:
            usual(number, frame)
        pressed.append(number)

    signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, usual)


def listed(callbacks: Callback | Sequence[Callback] | None) -> Sequence[Callback]:
    """The callbacks as a sequence; the user may give one, several or None."""
    if callbacks is None:
        return ()
    return (callbacks,) if callable(callbacks) else callbacks


def note(record: Mapping[str, Any]) -> None:
    """Log one line: the names and values of a record."""
    if LOG.isEnabledFor(logging.INFO):
        LOG.info(", ".join(f"{name} {value:.5g}" for name, value in record.items()))
