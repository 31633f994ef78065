"""python -m benchmarks.compressed: logistic regression on codes against the same on dense rows.

Planted rows are product-quantised (64 times smaller at d_sq = 16), and LogisticClassifier is fitted
to the codes, and to the dense float32 matrix that they stand for: the same problem, the same
solver, other products.  Each fit runs in a process of its own, which has its rows in memory before
the clock and the watch on its memory start.

--huge: codes of 250,000 rows of 65,536 numbers, which decoded would be 65 GB.  They are drawn, not
encoded: in each part a row has its class's own code with probability OWN, else any code; the parts'
sizes fall as the spectrum of the planted data does.
"""

import json
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

from slender import CompressedMatrix, LogisticClassifier, ProductQuantizer
from slender.datasets import planted
from slender.lab.repeats import Say, by_turns, ranged, ratios, spread_of
from slender.rows.lookup import CENTROIDS
from slender.solvers.loop import Clock

from . import command, machine
from .memory import WARM_UP_ROWS, Peak, in_fresh_process, verdict
from .memory_logistic import allowed

KINDS = ("codes", "dense")
N, D, N_CLASSES, D_SQ = 50_000, 4096, 100, 16
N_TEST = 2000
C = {"planted": 10.0, "huge": 0.01}
PQ_ROWS, PQ_ITERATIONS = 10_000, 10  # of the codebooks: what is fitted matters, not how well
HUGE, HUGE_QUICK = (250_000, 65_536, 100), (4000, 1024, 10)
QUICK = (3000, 256, 10)
OWN = 0.05
BLOCK = 10_000  # rows drawn at a time

Rows = Any  # an array or a CompressedMatrix


def write_planted(folder: Path, n: int, d: int, n_classes: int, d_sq: int) -> None:
    """Codes of planted rows and their labels, as files."""
    data = planted(n, d, n_classes, N_TEST)
    quantizer = ProductQuantizer(
        d_sq=d_sq, training_rows=PQ_ROWS, n_iter=PQ_ITERATIONS, random_state=0
    )
    quantizer.fit(data.X_train)
    for part, X, y in (("train", data.X_train, data.y_train), ("test", data.X_test, data.y_test)):
        quantizer.encode_to(X, folder / f"{part}.pq")
        np.save(folder / f"{part}.npy", y)


def drawn(
    n: int, d: int, n_classes: int, d_sq: int = D_SQ
) -> tuple[CompressedMatrix, NDArray[np.int64]]:
    """Codes that depend on the class, and the classes; nothing is ever decoded."""
    rng = np.random.default_rng(0)
    parts = d // d_sq
    codebooks = rng.standard_normal((parts, CENTROIDS, d_sq), dtype=np.float32)
    codebooks *= np.arange(1, parts + 1, dtype=np.float32)[:, None, None] ** np.float32(-0.5)
    own = rng.integers(0, CENTROIDS, (n_classes, parts), dtype=np.uint8)
    y = rng.integers(0, n_classes, n)
    codes = np.empty((n, parts), np.uint8)
    for lo in range(0, n, BLOCK):
        block = codes[lo : lo + BLOCK]
        block[:] = rng.integers(0, CENTROIDS, block.shape, dtype=np.uint8)
        chosen = rng.random(block.shape, dtype=np.float32) < OWN
        block[chosen] = own[y[lo : lo + BLOCK]][chosen]
    return CompressedMatrix(codes, codebooks), y


# -- in a process of its own -----------------------------------------------------------------------


def measure_planted(folder: str, kind: str, seed: int) -> dict[str, Any]:
    parts: list[Any] = []
    for part in ("train", "test"):
        found = CompressedMatrix.load(Path(folder) / f"{part}.pq")
        X = CompressedMatrix(np.array(found.codes), found.codebooks)  # in memory, not mapped
        parts += [X.toarray() if kind == "dense" else X, np.load(Path(folder) / f"{part}.npy")]
    return measure(*parts, C["planted"], seed)


def measure_huge(n: int, d: int, n_classes: int) -> dict[str, Any]:
    X, y = drawn(n + N_TEST, d, n_classes)

    def report(record: dict[str, float], weights: Any) -> None:
        gap = record["gap"] / record["objective"]
        line = f"{record['seconds']:,.0f} s, {record['passes']:.0f} passes, gap {gap:.1e}"
        command.say(line, "huge")

    return measure(X[:n], y[:n], X[n:], y[n:], C["huge"], 0, [report])


def measure(
    X: Rows, y: Any, X_test: Rows, y_test: Any, C: float, seed: int, callbacks: Any = None
) -> dict[str, Any]:
    """Seconds, passes and peak memory of a fit, above what the process had before."""
    with warnings.catch_warnings():  # compiles the kernels; each class has some rows
        warnings.simplefilter("ignore", ConvergenceWarning)
        LogisticClassifier(C, max_iter=5).fit(X[:WARM_UP_ROWS], y[:WARM_UP_ROWS] % 5)
    model = LogisticClassifier(C, callbacks=callbacks, random_state=seed)
    with machine.Neighbours() as others, Peak() as peak, Clock() as clock:
        model.fit(X, y)
    n_classes = len(model.classes_)
    return {
        "shape": [*X.shape, n_classes],
        "seconds": clock.seconds,
        "passes": model.n_iter_,
        "objective": model.objective_,
        "gap": model.gap_ / model.objective_,
        "top1": float(model.score(X_test, y_test)),
        "rows_bytes": X.codes.nbytes if isinstance(X, CompressedMatrix) else X.nbytes,
        **peak.above,
        "allowed_bytes": allowed(X.shape[1], n_classes),
        "others": others.cores,
    }


# -- the command -----------------------------------------------------------------------------------


def compare(
    n: int, d: int, n_classes: int, d_sq: int, repeats: int, say: Say
) -> dict[str, list[dict[str, Any]]]:
    """Fits to codes and to the dense rows, by turns."""
    with tempfile.TemporaryDirectory() as folder:
        say("planting and encoding")
        write_planted(Path(folder), n, d, n_classes, d_sq)
        sides = {kind: partial(in_fresh_process, __spec__.name, kind, folder) for kind in KINDS}
        return by_turns(sides, range(1, repeats + 1), say)


def figures(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    return {
        kind: {
            "seconds": spread_of(of, "seconds"),
            "passes": spread_of(of, "passes"),
            "sooner": ratios(runs["dense"], of),
            "allocated_bytes": max(run["allocated_bytes"] for run in of),
        }
        for kind, of in runs.items()
    }


def table(runs: dict[str, list[dict[str, Any]]], d_sq: int) -> Table:
    rows = []
    for kind, found in figures(runs).items():
        last = runs[kind][-1]
        rows.append(
            (
                kind,
                ranged(found["seconds"]),
                ranged(found["passes"], 0),
                ranged(found["sooner"]),
                f"{last['rows_bytes'] / 1e6:,.0f}",
                f"{found['allocated_bytes'] / 1e6:,.0f}",
                f"{last['objective']:.5f}",
                f"{100 * last['top1']:.1f} %",
            )
        )
    columns = ("", "seconds", "passes", "dense's seconds / these", "MB of rows", "MB above them",
               "objective", "top-1")  # fmt: skip
    sized = command.sized("planted", runs["codes"][0]["shape"])
    return command.table(
        f"LogisticClassifier({C['planted']:g}), {sized}, d_sq = {d_sq}", columns, rows
    )


def memory(name: str, peaks: list[dict[str, Any]]) -> str:
    """One sentence about the most memory of several fits."""
    most = max(peaks, key=lambda peak: peak["allocated_bytes"])
    return (
        f"{command.sized(name, most['shape'])}: above the codes, which are "
        f"{most['rows_bytes'] / 1e6:,.0f} MB, "
        f"{verdict(most['allocated_bytes'], most['allowed_bytes'])}"
    )


def main(
    n: Annotated[int, typer.Option("--n", min=1, help="Rows.")] = N,
    d: Annotated[int, typer.Option("--d", min=1, help="Columns.")] = D,
    classes: Annotated[int, typer.Option(min=3)] = N_CLASSES,
    d_sq: Annotated[int, typer.Option(min=1, help="Columns a byte stands for.")] = D_SQ,
    huge: Annotated[
        bool, typer.Option("--huge", help="One fit to 250,000 x 65,536 codes, in place of both.")
    ] = False,
    repeats: command.Repeats = 5,
    json_file: command.Json = None,
    quick: command.QuickMatrix = False,
) -> None:
    """LogisticClassifier on codes: seconds and memory, against the dense rows; a huge matrix."""
    benchmark = command.Benchmark("compressed", json_file, quick, packages=("faiss-cpu",))
    results: dict[str, Any] = {}
    if huge:
        sizes = HUGE_QUICK if quick else HUGE
        peak = results["huge"] = in_fresh_process(__spec__.name, "huge", *sizes)
        benchmark.tell(
            f"{memory('huge', [peak])}; {peak['seconds']:,.0f} s, {peak['passes']} passes, "
            f"gap {peak['gap']:.1e}, top-1 {100 * peak['top1']:.1f} %",
            *machine.disturbed("huge", peak["others"]),
        )
    else:
        if quick:
            (n, d, classes), repeats = QUICK, 1
        runs = results["runs"] = compare(n, d, classes, d_sq, repeats, command.say)
        results["figures"] = figures(runs)
        busiest = max(run["others"] for of in runs.values() for run in of)
        benchmark.tell(
            table(runs, d_sq),
            memory("codes", runs["codes"]),
            *machine.disturbed("compressed", busiest),
        )
    benchmark.save(results)


if __name__ == "__main__":
    kind = sys.argv[1] if len(sys.argv) > 1 else ""  # as in_fresh_process calls it
    if kind in KINDS:
        print(json.dumps(measure_planted(sys.argv[2], kind, int(sys.argv[3]))))
    elif kind == "huge":
        print(json.dumps(measure_huge(*map(int, sys.argv[2:5]))))
    else:
        typer.run(main)
