"""The same work on each of many images, in several processes, with a progress bar."""

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from joblib import Parallel, delayed, effective_n_jobs, parallel_config

from ..rows import one_blas_thread

WATCH_SECONDS = 1.0  # between two looks whether the parent is there
TASKS_AT_ONCE = 8  # that are sent to a process together with the model

Task = TypeVar("Task")
Result = TypeVar("Result")


def each(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    n_jobs: int | None,
    title: str,
    progress: bool,
) -> Iterator[Result]:
    """work(task) for each task, in the order of the tasks; `work` must be picklable."""
    jobs = min(effective_n_jobs(n_jobs), len(tasks))
    size = min(TASKS_AT_ONCE, -(-len(tasks) // jobs))
    parts = [tasks[low : low + size] for low in range(0, len(tasks), size)]
    with _bar(title, len(tasks), progress) as advance:
        for results in _done(work, parts, jobs):
            yield from results
            advance(len(results))


def _done(
    work: Callable[[Task], Result], parts: Sequence[Sequence[Task]], jobs: int
) -> Iterator[list[Result]]:
    if jobs == 1:
        for part in parts:
            for task in part:  # so that the bar moves with each of them
                yield _work(work, [task])
        return
    with parallel_config("loky", inner_max_num_threads=1):
        parallel = Parallel(n_jobs=jobs, return_as="generator")
        here = os.getpid()
        yield from closing(parallel(delayed(_work_there)(here, work, part) for part in parts))


def closing(results: Generator[Result, None, None]) -> Iterator[Result]:
    """The results of joblib; without its warning if the caller stops before the last one."""
    try:
        for result in results:  # noqa: UP028  (`yield from` would close them outside of `finally`)
            yield result
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            results.close()


def _work(work: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    """On one thread, here as in other processes: results do not depend on where they are made."""
    with one_blas_thread():
        return [work(task) for task in tasks]


def _work_there(parent: int, work: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    """In another process."""
    settle(parent)
    return _work(work, tasks)


@cache
def settle(parent: int) -> None:
    """Let this process end when its parent does, also if that is killed, or has been already.

    Ctrl-C reaches both; only the parent handles it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()


def _leave_with(parent: int) -> None:
    while os.getppid() == parent:  # the children of a killed process get another parent
        time.sleep(WATCH_SECONDS)
    os._exit(1)


@contextmanager
def _bar(title: str, total: int, progress: bool) -> Iterator[Callable[[int], object]]:
    """Something to call with the number of tasks that were done."""
    if not progress or not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console  # noqa: PLC0415  (slow to import)
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda count: bar.advance(task, count)
