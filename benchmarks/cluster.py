"""python -m benchmarks.cluster: what Dask costs, and how far a fit scales.

Overhead: LinearProbe on rows in a file, here and on workers of this machine with as many threads.
Scaling: seconds of a pass on 1 to 64 workers, computed from terms that are measured here: the
arithmetic of a row, that of the solver, a message without content, the addition of two gradients.
The bandwidth of the network is given.
"""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil, log
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from distributed import Client, LocalCluster

from slender import LinearProbe, LogisticClassifier, on_workers, set_num_threads
from slender.data import Examples, examples_of
from slender.data.fleet import FAN
from slender.datasets import planted
from slender.passes import SoftmaxPass
from slender.rows import as_rows

ROWS, FEATURES, CLASSES = 100_000_000, 1024, 10_000  # of the table
WORKERS = (1, 2, 4, 8, 16, 32, 64)
SAMPLED = 4096  # rows on which the arithmetic is measured
REPEATS = 3


@contextmanager
def cluster(workers: int, threads: int) -> Iterator[Client]:
    """Processes of this machine."""
    local = LocalCluster(workers, threads_per_worker=threads, dashboard_address=":0")
    with local, Client(local) as client:
        yield client


# -- overhead --------------------------------------------------------------------------------------


def fit_seconds(X: Any, y: Any, values: int) -> tuple[float, int]:
    """Seconds of a LinearProbe from call to return, and the readings of its path."""
    started = perf_counter()
    probe = LinearProbe(values, random_state=0).fit(X, y)
    seconds = perf_counter() - started
    return seconds, round(sum(record["passes"] for record in probe.path_)) + probe.n_iter_


def overhead(n: int, d: int, C: int, values: int, repeats: int) -> None:
    """Print the seconds here and on workers, for one worker and for two of one thread."""
    data = planted(n, d, C, separation=0.4)
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", data.X_train)
        X, y = np.load(Path(folder) / "X.npy", mmap_mode="r"), data.y_train
        del data
        print(f"LinearProbe({values}) on {n:,} x {d:,}, {C} classes, in a file")
        for workers, threads in ((1, 2), (2, 1)):
            set_num_threads(workers * threads)
            fit_seconds(X[: min(n, 4000)], y[: min(n, 4000)], 3)  # compiles
            here = [fit_seconds(X, y, values) for _ in range(repeats)]
            with cluster(workers, threads) as client:
                fit_seconds(on_workers(X, client), y, 3)  # loads what is compiled
                there = [fit_seconds(on_workers(X, client), y, values) for _ in range(repeats)]
            local, remote = (median(seconds for seconds, _ in runs) for runs in (here, there))
            print(
                f"{workers} worker(s) of {threads} thread(s): {remote:.2f} s in {there[0][1]} "
                f"passes; here {local:.2f} s in {here[0][1]}; ratio {remote / local:.3f}"
            )
    set_num_threads(None)


# -- scaling ---------------------------------------------------------------------------------------


class Terms(NamedTuple):
    """Seconds, of this machine."""

    row: float  # of a pass, for one row and one thread
    solver: float  # between two passes, with all threads here
    latency: float  # of a pass without arithmetic
    addition: float  # of two gradients


def measured_terms(d: int, C: int, rows: int = SAMPLED) -> Terms:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, d), dtype=np.float32)
    y = np.arange(rows, dtype=np.int32) % C
    asked = SoftmaxPass(np.zeros((d, C), np.float32), np.zeros(C, np.float32))
    examples = Examples(as_rows(X), y, np.full(rows, 1 / rows))
    set_num_threads(1)
    examples.reduce(asked)
    row = _seconds(lambda: examples.reduce(asked)) / rows
    set_num_threads(None)
    G = np.zeros((C, d), np.float32)
    addition = _seconds(lambda: np.add(G, G))
    return Terms(row, _solver_seconds(X, np.arange(rows) % min(C, rows)), _latency(), addition)


def _solver_seconds(X: Any, y: Any) -> float:
    """Seconds of a step outside its pass."""
    inside, reduce = [0.0], Examples.reduce

    def timed(self: Any, p: Any) -> Any:
        started = perf_counter()
        sums = reduce(self, p)
        inside[0] += perf_counter() - started
        return sums

    LogisticClassifier(1e-3, tol=0.05).fit(X, y)  # compiles
    Examples.reduce = timed  # type: ignore[method-assign]
    try:
        started = perf_counter()
        model = LogisticClassifier(1e-3, tol=0.05).fit(X, y)
        return (perf_counter() - started - inside[0]) / len(model.trace_)
    finally:
        Examples.reduce = reduce  # type: ignore[method-assign]


def _latency() -> float:
    """Seconds of a pass over a few rows on two workers."""
    from dask.array import from_array

    X = np.zeros((8, 4), np.float32)
    asked = SoftmaxPass(np.zeros((4, 2), np.float32), np.zeros(2, np.float32))
    with cluster(2, 1) as client:
        rows = on_workers(from_array(X, chunks=(2, 4)), client)
        examples = examples_of(rows, np.zeros(8, np.int32), np.ones(8))
        for _ in range(5):
            examples.reduce(asked)
        return _seconds(lambda: examples.reduce(asked), 20)


def _seconds(work: Any, repeats: int = REPEATS) -> float:
    times = []
    for _ in range(repeats):
        started = perf_counter()
        work()
        times.append(perf_counter() - started)
    return median(times)


class Pass(NamedTuple):
    """Seconds of one pass of the fit, term by term."""

    arithmetic: float
    broadcast: float
    reduction: float
    fixed: float  # solver and latency

    @property
    def seconds(self) -> float:
        return sum(self)


def predicted(terms: Terms, workers: int, threads: int, bandwidth: float, size: Any) -> Pass:
    """A pass on so many workers.

    W goes down a binary tree, one gradient's bytes a level.  Sums come up a tree in which a worker
    receives FAN - 1 of them and adds them; then the total comes to the solver.
    """
    n, d, C = size
    message = 4 * C * d / bandwidth
    down = message * (1 + ceil(log(workers, 2)))
    levels = ceil(log(workers, FAN)) if workers > 1 else 0
    up = levels * (min(workers, FAN) - 1) * (message + terms.addition) + message
    fixed = terms.solver + terms.latency * (1 + levels) / 2
    return Pass(terms.row * n / (workers * threads), down, up, fixed)


def table(terms: Terms, threads: int, bandwidth: float, size: Any) -> None:
    """Print the predicted passes."""
    n, d, C = size
    print(f"\n{n:,} x {d:,}, {C:,} classes; {threads} threads a worker, {bandwidth / 1e9:.3g} GB/s")
    named = zip(Terms._fields, terms, strict=True)
    print("measured, in seconds:", ", ".join(f"{name} {value:.2e}" for name, value in named))
    heads = ("workers", *Pass._fields, "a pass", "speedup", "efficiency")
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    one = predicted(terms, 1, threads, bandwidth, size).seconds
    for workers in WORKERS:
        each = predicted(terms, workers, threads, bandwidth, size)
        cells = " | ".join(f"{value:.3g} s" for value in (*each, each.seconds))
        speedup = one / each.seconds
        print(f"| {workers} | {cells} | {speedup:.1f} | {speedup / workers:.0%} |")
    half = next(
        (
            w
            for w in range(1, 10**6)
            if one / predicted(terms, w, threads, bandwidth, size).seconds < w / 2
        ),
        None,
    )
    print(f"half of each worker is lost from {half} workers on")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, nargs=3, default=(200_000, 1024, 200))
    parser.add_argument("--values", type=int, default=45, help="of C in the path")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--table", type=int, nargs=3, default=(ROWS, FEATURES, CLASSES))
    parser.add_argument("--threads", type=int, default=16, help="of a worker in the table")
    parser.add_argument("--bandwidth", type=float, default=1.25e9, help="bytes a second")
    parser.add_argument("--only", choices=["overhead", "table"])
    options = parser.parse_args()
    if options.only != "table":
        overhead(*options.size, options.values, options.repeats)
    if options.only != "overhead":
        terms = measured_terms(*options.table[1:])
        table(terms, options.threads, options.bandwidth, tuple(options.table))


if __name__ == "__main__":
    main()
