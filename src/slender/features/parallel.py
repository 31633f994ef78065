"""The same work on each of many images, in several processes, with a progress bar."""

import os
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import TypeVar

from joblib import Parallel, delayed, effective_n_jobs, parallel_config

from ..rows import one_blas_thread

WATCH_SECONDS = 1.0  # between two looks whether the parent is there

Task = TypeVar("Task")
Result = TypeVar("Result")


def each(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    n_jobs: int | None,
    *,
    at_once: int = 1,
    threads: bool = False,
    title: str | None = None,
) -> Iterator[Result]:
    """work(task) for each task, in the order of the tasks; `work` must be picklable.

    `at_once` tasks are sent to a process together with the work; `threads` takes threads of this
    process instead.  `title` is that of a progress bar, None shows none.
    """
    jobs = max(1, min(effective_n_jobs(n_jobs), len(tasks)))
    size = max(1, min(at_once, -(-len(tasks) // jobs)))
    parts = [tasks[low : low + size] for low in range(0, len(tasks), size)]
    with _bar(title, len(tasks)) as advance:
        for results in _done(work, parts, jobs, threads):
            yield from results
            advance(len(results))


def _done(
    work: Callable[[Task], Result], parts: Sequence[Sequence[Task]], jobs: int, threads: bool
) -> Iterator[list[Result]]:
    if jobs == 1:
        for part in parts:
            for task in part:  # so that the bar moves with each of them
                yield _work(work, [task])
        return
    if threads:
        yield from _in_threads(work, parts, jobs)
        return
    there = partial(_work_there, os.getpid())
    with parallel_config("loky", inner_max_num_threads=1):
        parallel = Parallel(n_jobs=jobs, return_as="generator")
        yield from _closing(parallel(delayed(there)(work, part) for part in parts))


def _in_threads(
    work: Callable[[Task], Result], parts: Sequence[Sequence[Task]], jobs: int
) -> Iterator[list[Result]]:
    """By threads of this process.

    joblib has them too, but warns if the caller stops early, and a warning cannot be suppressed
    while other threads change the filters.
    """
    asked: deque[Future[list[Result]]] = deque()
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for part in parts:
                asked.append(pool.submit(_work, work, part))
                if len(asked) > 2 * jobs:
                    yield asked.popleft().result()
            while asked:
                yield asked.popleft().result()
        finally:
            for future in asked:
                future.cancel()


def _closing(results: Generator[Result, None, None]) -> Iterator[Result]:
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
    _settle(parent)
    return _work(work, tasks)


@cache
def _settle(parent: int) -> None:
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
def _bar(title: str | None, total: int) -> Iterator[Callable[[int], object]]:
    """Something to call with the number of tasks that were done."""
    if title is None or not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console  # noqa: PLC0415  (slow to import)
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda count: bar.advance(task, count)
