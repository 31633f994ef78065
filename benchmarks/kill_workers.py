"""python -m benchmarks.kill_workers: does a fit survive the loss of one of three workers?

One of them is killed at a random time of each fit, which must end with its proof.
"""

import argparse
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client

from slender import LogisticClassifier
from slender.datasets import planted

from .command import Benchmark
from .watched import watched

WORKERS, TOL, MINUTE = 3, 1e-5, 60


def fit_disturbed(victim: int, X: Any, y: Any, seconds: float, how: int) -> dict[str, Any]:
    """One fit; a worker is sent a signal after so many seconds."""

    def disturb() -> None:
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
    with watched(WORKERS) as processes, Client(processes.address, timeout=MINUTE) as client:
        processes.wait_for_workers(client)
        LogisticClassifier(10.0, tol=TOL, random_state=0).fit(X, y)  # compiles
        started = time.perf_counter()
        expected = LogisticClassifier(10.0, tol=TOL, random_state=0).fit(X, y).coef_
        usual = time.perf_counter() - started
        while len(results) < count:
            processes.wait_for_workers(client)  # the one that was killed is started again
            victim = processes.workers[rng.integers(WORKERS)]
            found = fit_disturbed(victim, X, y, rng.uniform(0.0, 0.9 * usual), how)
            if found["after"] > found["taken"]:  # the fit had ended before: that tests nothing
                usual = min(usual, found["taken"])
                continue
            found["same"] = np.array_equal(found.pop("coef"), expected)
            results.append(found)
            print(
                f"killed after {found['after']:.2f} s, fitted in {found['taken']:.2f} s, "
                f"proved: {found['proved']}, the same bits: {found['same']}",
                flush=True,
            )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--signal", default="SIGKILL", help="or SIGSTOP: the worker hangs")
    parser.add_argument("--json", type=Path, help="Write the results to this file.")
    options = parser.parse_args()
    how = signal.Signals[options.signal]
    results = disturbed_fits(options.count, options.rows, options.seed, how)
    proved, same = (sum(found[name] for found in results) for name in ("proved", "same"))
    told = f"{len(results)} fits completed, {proved} with their certificate, {same} the same bits"
    document = Benchmark("kill_workers", options.json, packages=("dask", "distributed"))
    document.tell(f"{options.signal} to one of {WORKERS} workers during each fit: {told}")
    document.save({"fits": results})


if __name__ == "__main__":
    main()
