"""Work that Ctrl-C ends, with what there is to keep."""

import contextvars
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from .output import say

Result = TypeVar("Result")


class Interrupted(Exception):  # noqa: N818  (it is none)
    """Ctrl-C, where there is something to say about what was written."""


class Ending:
    """A callback of a fit: once Ctrl-C was pressed, the step that runs is the last one."""

    def __init__(self) -> None:
        self.begun = self.asked = self.ended = False

    def __call__(self, record: Any, weights: Any) -> bool:
        return self.stop()

    def stop(self) -> bool:
        """Between two steps: shall the fit end here?"""
        self.begun, self.ended = True, self.asked
        return self.asked


def interruptible(
    work: Callable[[], Result],
    ending: Ending | None = None,
    then: str = "the best so far is written",
) -> Result:
    """work(), in another thread: Ctrl-C reaches this one even while a compiled kernel runs.

    With an `ending` among its callbacks, a fit that has something to keep is ended rather than
    left; a second Ctrl-C leaves it.  So is other work that asks `ending.stop()` between its steps;
    `then` says what happens after the last one.
    """
    future: Future[Result] = Future()

    def target() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    context = contextvars.copy_context()  # newer Pythons keep the warnings' settings there
    if ending is not None:
        from ..solvers.loop import STOP

        context.run(STOP.set, ending.stop)
    threading.Thread(target=context.run, args=(target,), daemon=True).start()
    try:
        _await(future)
    except KeyboardInterrupt:
        if ending is None or not ending.begun:
            raise
        ending.asked = True
        say(f"interrupted: this step is the last, then {then} (again: leave now)")
        _await(future)
    return future.result()


def end_processes() -> None:
    """Those that this one has started, and that would go on without it."""
    if "multiprocessing" in sys.modules:
        for child in sys.modules["multiprocessing"].active_children():
            child.terminate()


def _await(future: Future[Any]) -> None:
    """Until it is done.  (Not by joining its thread, which Python 3.11 can interrupt only once.)"""
    while not future.done():
        wait([future], 0.2)  # a wait without end cannot be interrupted on Windows
