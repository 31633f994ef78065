"""python -m benchmarks.cluster: what Dask costs, and how far a fit scales.

Overhead: LinearProbe on rows in a file, here and on workers of this machine with as many threads.
Sums of shards are rounded in another way, so that a long path may take other steps: the last column
compares seconds per pass.
Scaling: seconds of a pass on 1 to 64 workers, computed from terms that are measured here: the
arithmetic of a row, that of the solver, a message without content, the addition of two gradients.
The bandwidth of the network is given.
"""

import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil, log
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from distributed import Client, LocalCluster

from slender import LinearProbe, LogisticClassifier, on_workers, set_num_threads
from slender.data import Examples, examples_of
from slender.data.fleet import FAN
from slender.datasets import planted
from slender.lab.repeats import ranged, spread
from slender.passes import SoftmaxPass
from slender.rows import as_rows

from . import command, machine

SIZE, TABLE, BOTH = "200000x1024x200", "100000000x1024x10000", "overhead,table"
WORKERS = (1, 2, 4, 8, 16, 32, 64)
SAMPLED = 4096  # rows on which the arithmetic is measured
REPEATS = 3
LOOK = 2.0  # seconds in which the machine must be quiet
FEW = 4000  # rows of the fits that warm up
STEPS = 3  # of the solver, in which its own work is measured


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


def overhead(n: int, d: int, C: int, values: int, repeats: int) -> dict[str, Any]:
    """Seconds here and on workers, for one worker of two threads and for two of one thread."""
    data = planted(n, d, C, separation=0.4)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", data.X_train)
        np.save(Path(folder) / "few.npy", data.X_train[:FEW])
        X, y = np.load(Path(folder) / "X.npy", mmap_mode="r"), data.y_train
        del data
        for workers, threads in ((1, 2), (2, 1)):
            set_num_threads(workers * threads)
            fit_seconds(X[:FEW], y[:FEW], 3)  # compiles
            with cluster(workers, threads) as client:
                few = on_workers(np.load(Path(folder) / "few.npy", mmap_mode="r"), client)
                fit_seconds(few, y[:FEW], 3)  # loads what is compiled
                sides = {
                    "here": lambda: fit_seconds(X, y, values),
                    "there": lambda client=client: fit_seconds(on_workers(X, client), y, values),
                }
                name = f"{workers} of {threads} thread{'s' if threads > 1 else ''}"
                runs: dict[str, list[Any]] = {side: [] for side in sides}
                for repeat in range(repeats):
                    for side, fit in sides.items():
                        command.say(f"repeat {repeat + 1} of {repeats}: {side}", name)
                        runs[side].append(fit())
                found[name] = runs
    set_num_threads(None)
    return {"size": (n, d, C), "values": values, "workers": found}


def overhead_table(found: dict[str, Any]) -> Iterator[Any]:
    """What the workers cost."""
    n, d, C = found["size"]
    lines = []
    for name, runs in found["workers"].items():
        here, there = (spread([seconds for seconds, _ in runs[side]]) for side in ("here", "there"))
        pairs = list(zip(runs["there"], runs["here"], strict=True))
        ratio = spread([one[0] / other[0] for one, other in pairs])
        of_pass = spread([one[0] / one[1] / (other[0] / other[1]) for one, other in pairs])
        readings = {"here": runs["here"][0][1], "there": runs["there"][0][1]}
        lines.append(
            (name, ranged(there), f"{readings['there']}", ranged(here), f"{readings['here']}",
             ranged(ratio), ranged(of_pass))
        )  # fmt: skip
    heads = ("workers", "seconds", "passes", "seconds here", "passes here", "ratio", "of a pass")
    title = f"LinearProbe({found['values']}) on {n:,} × {d:,} rows in a file, {C} classes"
    yield command.table(title, heads, lines)


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
    return Terms(row, _solver_seconds(d, C), _latency(), addition)


def _solver_seconds(d: int, C: int) -> float:
    """Seconds of a step outside its pass, with all classes: its arrays have C × d numbers.

    Every class needs a row, so that for 10,000 classes a pass takes longer than what is measured.
    """
    n = max(SAMPLED, C)
    X = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    y = np.arange(n) % C
    model = LogisticClassifier(1e-3, tol=1e-9, max_iter=STEPS)
    inside, reduce = [0.0], Examples.reduce

    def timed(self: Any, p: Any) -> Any:
        started = perf_counter()
        sums = reduce(self, p)
        inside[0] += perf_counter() - started
        return sums

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few steps, and few rows of a class
        model.fit(X[:SAMPLED], y[:SAMPLED] % 100)  # compiles
        Examples.reduce = timed  # type: ignore[method-assign]
        try:
            started = perf_counter()
            model.fit(X, y)
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


def scaling_table(terms: Terms, threads: int, bandwidth: float, size: Any) -> Iterator[Any]:
    """The predicted passes, and where they stop to be worth it."""
    n, d, C = size
    title = (
        f"A pass over {n:,} × {d:,}, {C:,} classes, predicted: {threads} threads a worker, "
        f"{bandwidth / 1e9:.3g} GB/s"
    )
    one = predicted(terms, 1, threads, bandwidth, size).seconds
    lines = []
    for workers in WORKERS:
        each = predicted(terms, workers, threads, bandwidth, size)
        speedup = one / each.seconds
        cells = [f"{value:,.4g} s" for value in (*each, each.seconds)]
        lines.append((f"{workers}", *cells, f"{speedup:.1f}", f"{speedup / workers:.0%}"))
    heads = ("workers", *Pass._fields, "a pass", "speedup", "efficiency")
    yield command.table(title, heads, lines)
    named = zip(Terms._fields, terms, strict=True)
    yield "measured here, in seconds: " + ", ".join(f"{name} {value:.3g}" for name, value in named)
    half = next(
        (
            w
            for w in range(1, 10**6)
            if one / predicted(terms, w, threads, bandwidth, size).seconds < w / 2
        ),
        None,
    )
    yield f"from {half} workers on, more than half of each is lost to messages and to the solver"


def main(
    size: Annotated[str, typer.Option(help="Rows, features and classes of the overhead.")] = SIZE,
    values: Annotated[int, typer.Option(help="Values of C in the path.")] = 45,
    table: Annotated[str, typer.Option(help="Rows, features and classes of the table.")] = TABLE,
    threads: Annotated[int, typer.Option(help="Threads of a worker in the table.")] = 16,
    bandwidth: Annotated[float, typer.Option(help="Bytes a second, in the table.")] = 1.25e9,
    only: Annotated[str, typer.Option(help="overhead, table, or both with a comma.")] = BOTH,
    repeats: command.Repeats = 3,
    quick: command.QuickMatrix = False,
    json_file: command.Json = None,
) -> None:
    """What Dask costs, and how far a fit scales."""
    parts = command.names(only, BOTH.split(","), "part")
    benchmark = command.Benchmark("cluster", json_file, quick, packages=("dask", "distributed"))
    with machine.Neighbours() as others:  # later the workers would be counted among them
        time.sleep(LOOK)
    found: dict[str, Any] = {"others": others.cores}
    if "overhead" in parts:
        n, d, C = (2000, 32, 5) if quick else numbers(size)
        found["overhead"] = overhead(n, d, C, 3 if quick else values, 1 if quick else repeats)
        benchmark.tell(*overhead_table(found["overhead"]))
    if "table" in parts:
        shape = (10**6, 32, 50) if quick else numbers(table)
        terms = measured_terms(*shape[1:])
        found["terms"] = terms._asdict()
        benchmark.tell(*scaling_table(terms, threads, bandwidth, shape))
    benchmark.tell(*machine.disturbed("before", found["others"]))
    benchmark.save(found)


def numbers(text: str) -> tuple[int, ...]:
    """Three of them, with x between."""
    try:
        n, d, C = (int(word) for word in text.split("x"))
    except ValueError:
        raise typer.BadParameter(f"{text!r}: give rows, features and classes as {SIZE}") from None
    return n, d, C


if __name__ == "__main__":
    typer.run(main)
