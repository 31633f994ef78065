"""Whether the machine was quiet, awake and how long something took on it."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import psutil
from threadpoolctl import threadpool_info

from slender.solvers.loop import Clock

QUIET = 0.1


class Neighbours:
    """Cores that other processes kept busy during the block; above QUIET, distrust its seconds."""

    cores: float

    def __enter__(self) -> "Neighbours":
        self._start = perf_counter(), self._seconds()
        return self

    def __exit__(self, *exc: object) -> None:
        began, before = self._start
        self.cores = max(0.0, (self._seconds() - before) / (perf_counter() - began))

    def _seconds(self) -> float:
        everyone, me = psutil.cpu_times(), psutil.Process().cpu_times()
        return everyone.user + everyone.nice + everyone.system - me.user - me.system


def disturbed(name: str, cores: float) -> list[str]:
    """What to say of so many busy cores: a line, or nothing."""
    if cores <= QUIET:
        return []
    return [f"{name}: other processes kept {cores:.1f} cores busy; distrust the seconds"]


def pools() -> dict[str, int]:
    """Threads of BLAS and OpenMP, which threadpoolctl sees; slender's are its own."""
    return {f"{p['user_api']} ({p['prefix']})": p["num_threads"] for p in threadpool_info()}


def wake() -> None:
    """BLAS's threads awake, the processor out of its idle states."""
    A = np.ones((1024, 1024), np.float32)
    for _ in range(20):
        A @ A


def timed(make: Callable[[], Any], X: Any, y: Any, repeats: int = 1) -> tuple[list[float], Any]:
    """Seconds of each fit, and the last model."""
    found = []
    for _ in range(repeats):
        with Clock() as clock:
            model = make().fit(X, y)
        found.append(clock.seconds)
    return found, model
