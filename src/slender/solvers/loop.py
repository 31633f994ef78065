"""The outer loop, once: clock, trace, log, callbacks, stopping.

The clock sees nothing but work: evaluation and callbacks run while it stands still.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any

from numpy.typing import NDArray

Record = dict[str, float]  # "seconds", "passes", "objective", and what a solver adds
Weights = Callable[[], tuple[NDArray[Any], NDArray[Any]]]  # (W, intercept) at this moment
Callback = Callable[[Record, Weights], bool | None]  # a true answer stops the fit

LOG = logging.getLogger("slender")  # at INFO a line for each pass, for who wants to watch a fit


class Clock:
    """Seconds of work: `with clock: ...` counts, everything else does not."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def __enter__(self) -> "Clock":
        self._start = perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        self.seconds += perf_counter() - self._start


def listed(callbacks: Callback | Sequence[Callback] | None) -> Sequence[Callback]:
    """One callback, several or none, as a user gives them."""
    if callbacks is None:
        return ()
    return (callbacks,) if callable(callbacks) else callbacks


def run(
    epochs: Iterable[Callable[[], Record]],
    clock: Clock,
    weights: Weights,
    trace: list[Record],
    callbacks: Callback | Sequence[Callback] | None = None,
    evaluate: Callable[[], float] | None = None,
) -> None:
    """Run each epoch under the clock and add its record to the trace.

    An epoch does one pass and returns at least its estimate of the objective; `evaluate`, where
    given, replaces that by an exact figure.  The trace may hold earlier passes, which count.
    """
    for epoch in epochs:
        with clock:
            found = epoch()
        passes = trace[-1]["passes"] + 1.0 if trace else 1.0
        record: Record = {"seconds": clock.seconds, "passes": passes, **found}
        if evaluate:
            record["objective"] = evaluate()
        trace.append(record)
        note(record)
        # every callback sees every record, also the one at which another asks to stop
        answers = [callback(record, weights) for callback in listed(callbacks)]
        if any(answers):
            break


def note(record: Mapping[str, Any]) -> None:
    """A line of the log: every figure of a record by its name."""
    if LOG.isEnabledFor(logging.INFO):
        LOG.info(", ".join(f"{name} {value:.5g}" for name, value in record.items()))
