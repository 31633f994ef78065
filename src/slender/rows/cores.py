"""The number of threads: set_num_threads, else SLENDER_NUM_THREADS, else the number of cores.

A process in a container, or one of several that share a machine, has fewer cores than the machine.
"""

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from numbers import Integral
from pathlib import Path

VARIABLE = "SLENDER_NUM_THREADS"
SHARE = "NUMBA_NUM_THREADS"  # set by joblib in its processes, so that they share the cores
QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container: CPU time and period, in microseconds

_chosen: int | None = None
_share = threading.local()  # of this thread, if it may not use all


def num_threads() -> int:
    """The number of threads that a fit or a prediction uses."""
    given = getattr(_share, "threads", None) or _chosen or _variable(VARIABLE)
    return given or min(limit for limit in (_cpus(), _quota(), _variable(SHARE)) if limit)


def set_num_threads(count: int | None) -> None:
    """Set the number of threads; None: SLENDER_NUM_THREADS if set, else one thread per core."""
    if count is not None and not (isinstance(count, Integral) and count > 0):
        raise ValueError(f"num_threads={count!r} must be a whole number of at least 1, or None")
    global _chosen  # noqa: PLW0603  (one for the process, as its cores)
    _chosen = None if count is None else int(count)


@contextmanager
def sharing(count: int) -> Iterator[None]:
    """Work of this thread uses so many threads: a worker of a cluster has a share of the cores."""
    before = getattr(_share, "threads", None)
    _share.threads = count
    try:
        yield
    finally:
        _share.threads = before


def _variable(name: str) -> int | None:
    """A number of threads in the environment, or None."""
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        what = "must be a whole number of at least 1"
        raise ValueError(f"the environment variable {name}={text!r} {what}")
    return int(text)


def _cpus() -> int:
    """The number of cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _quota() -> int | None:
    """The CPU quota of the container (cgroup v2) in cores, rounded up; None if there is none."""
    try:
        quota, period = QUOTA.read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else math.ceil(int(quota) / int(period))
