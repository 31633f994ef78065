"""On what, with what and when a figure was measured."""

import platform
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

import joblib
import psutil
from rich.console import Console
from threadpoolctl import threadpool_info

from slender import num_threads
from slender.solvers.loop import Clock

QUIET = 0.1
STACK = ("slender", "numpy", "scipy", "scikit-learn", "numba")


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


def warn(name: str, others: Neighbours, console: Console) -> None:
    if others.cores > QUIET:
        console.print(
            f"{name}: other processes kept {others.cores:.1f} cores busy; distrust the seconds"
        )


def describe(*rivals: str) -> dict[str, Any]:
    """The machine, and the versions of slender, what it stands on and these rivals' packages."""
    # slender's threads are its own; threadpoolctl sees BLAS and OpenMP.
    pools = {f"{p['user_api']} ({p['prefix']})": p["num_threads"] for p in threadpool_info()}
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _processor(),
        "cores": joblib.cpu_count(),
        "python": platform.python_version(),
        "versions": {package: _version(package) for package in (*STACK, *rivals)},
        "threads": {"slender": num_threads(), **pools},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def timed(make: Callable[[], Any], X: Any, y: Any, repeats: int = 1) -> tuple[list[float], Any]:
    """Seconds of each fit, and the last model."""
    found = []
    for _ in range(repeats):
        with Clock() as clock:
            model = make().fit(X, y)
        found.append(clock.seconds)
    return found, model
