"""Kills one of three workers at a random time of each fit; every fit must end with its proof.

python -m benchmarks.kill_workers --count 50
"""

import argparse
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from slender import LogisticClassifier
from slender.datasets import planted

WORKERS, TOL = 3, 1e-5


def fit_disturbed(client: Any, X: Any, y: Any, seconds: float, how: int) -> dict[str, Any]:
    """One fit; a worker is sent a signal after so many seconds."""
    processes = list(client.run(os.getpid).values())
    victim = processes[int(seconds * 1e6) % len(processes)]

    def disturb() -> None:
        with suppress(ProcessLookupError):  # the nanny has replaced it
            os.kill(victim, how)

    timer = threading.Timer(seconds, disturb)
    timer.start()
    started = time.perf_counter()
    model = LogisticClassifier(10.0, tol=TOL, random_state=0).fit(X, y)
    taken = time.perf_counter() - started
    timer.join()
    if how == signal.SIGSTOP:
        os.kill(victim, signal.SIGKILL)
    proved = model.gap_ <= TOL * model.objective_
    return {"after": seconds, "taken": taken, "proved": proved, "coef": model.coef_}


def disturbed_fits(count: int, n: int, seed: int, how: int = signal.SIGKILL) -> list[Any]:
    """`count` fits, each with one worker less at some time; the same bits are expected of all."""
    data, rng = planted(n, 64, 20, separation=0.4), np.random.default_rng(seed)
    X, y = da.from_array(data.X_train, chunks=(-(-n // 6), -1)), data.y_train
    results = []
    with workers():
        LogisticClassifier(10.0, tol=TOL, random_state=0).fit(X, y)  # compiles
        started = time.perf_counter()
        expected = LogisticClassifier(10.0, tol=TOL, random_state=0).fit(X, y).coef_
        usual = time.perf_counter() - started
    for _ in range(count):
        with workers() as client:
            found = fit_disturbed(client, X, y, rng.uniform(0.0, 0.9 * usual), how)
        found["same"] = np.array_equal(found.pop("coef"), expected)
        results.append(found)
        print(
            f"killed after {found['after']:.2f} s, fitted in {found['taken']:.2f} s, "
            f"proved: {found['proved']}, the same bits: {found['same']}",
            flush=True,
        )
    return results


@contextmanager
def workers() -> Iterator[Any]:
    """A client of WORKERS processes, new ones for each fit: a killed one may not be replaced."""
    cluster = LocalCluster(WORKERS, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        yield client


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--signal", default="SIGKILL", help="or SIGSTOP: the worker hangs")
    options = parser.parse_args()
    how = signal.Signals[options.signal]
    results = disturbed_fits(options.count, options.rows, options.seed, how)
    proved, same = (sum(found[name] for found in results) for name in ("proved", "same"))
    print(f"{len(results)} fits completed, {proved} with their certificate, {same} the same bits")


if __name__ == "__main__":
    main()
