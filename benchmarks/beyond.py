"""python -m benchmarks.beyond: a pass over features in cold files, against reading and computing.

Three sides take turns: reading the files once, with the system's cache emptied of them; one pass
of the multinomial objective and gradient over the same rows in memory; and the same pass over the
files, the cache emptied again.  Reading ahead is perfect if the last takes no longer than the
slower of the first two.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from slender import open_rows
from slender.data import Examples
from slender.datasets import planted
from slender.lab.repeats import by_turns, ranged, spread, spread_of
from slender.problem import Multinomial
from slender.rows import Rows, as_rows
from slender.solvers.loop import Clock

from . import command, machine
from .memory import Peak

LAM = 1e-4
READ_BYTES = 32 * 2**20
SEPARATION = 0.4
QUICK = (20_000, 64, 20, 4)


def write_shards(folder: Path, n: int, d: int, C: int, shards: int) -> np.ndarray:
    """float16 rows of planted classes in .npy files; returns their classes."""
    classes = []
    for k, count in enumerate(np.diff(np.linspace(0, n, shards + 1).astype(int))):
        data = planted(int(count), d, C, n_test=1, separation=SEPARATION, seed=k)
        np.save(folder / f"part-{k}.npy", data.X_train.astype(np.float16))
        classes.append(data.y_train)
    os.sync()
    return np.concatenate(classes)


def forget(files: list[Path]) -> None:
    """Take the files out of the system's cache."""
    for path in files:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_once(files: list[Path]) -> None:
    buffer = bytearray(READ_BYTES)
    for path in files:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def a_pass(rows: Rows, y: np.ndarray, C: int) -> Callable[[], object]:
    """One evaluation of the objective and its gradient, at weights that are not zero."""
    problem = Multinomial(Examples(rows, y.astype(np.int32), np.full(len(y), 1 / len(y))), C)
    theta = problem.start()
    theta += np.random.default_rng(0).normal(0, 0.01, theta.shape).astype(theta.dtype)
    return lambda: problem.at(theta, LAM)


def measure(n: int, d: int, C: int, shards: int, repeats: int, folder: Path) -> dict[str, Any]:
    y = write_shards(folder, n, d, C, shards)
    files = sorted(folder.glob("part-*.npy"), key=lambda path: int(path.stem[5:]))
    with Peak() as first:  # before anything else has allocated what it could use again
        there = a_pass(as_rows(open_rows(f"{folder}/part-*.npy")), y, C)
        there()
    memory = np.concatenate([np.load(path) for path in files])
    here = a_pass(as_rows(memory), y, C)

    def timed(work: Callable[[], object], cold: bool) -> Callable[[int], dict[str, Any]]:
        def run(_: int) -> dict[str, Any]:
            if cold:
                forget(files)
            with Clock() as clock:
                work()
            return {"seconds": clock.seconds}

        return run

    here()
    sides = {
        "read": timed(lambda: read_once(files), cold=True),
        "memory": timed(here, cold=False),
        "files": timed(there, cold=True),
    }
    with machine.Neighbours() as others:
        runs = by_turns(sides, range(repeats), command.say)
    slower = zip(runs["read"], runs["memory"], runs["files"], strict=True)
    return {
        "shape": (n, d, C),
        "shards": shards,
        "runs": runs,
        **first.above,
        "others": others.cores,
        "ratio": spread([f["seconds"] / max(r["seconds"], m["seconds"]) for r, m, f in slower]),
    }


def main(
    rows: int = 2_000_000,
    dimensions: int = 1024,
    classes: int = 1000,
    shards: int = 16,
    repeats: command.Repeats = 5,
    folder: Annotated[
        Path | None, typer.Option(help="Where the files are written; default: a temporary folder.")
    ] = None,
    quick: command.QuickMatrix = False,
    json_file: command.Json = None,
) -> None:
    """A pass over float16 shards that are not in the system's cache."""
    n, d, C, shards = QUICK if quick else (rows, dimensions, classes, shards)
    with tempfile.TemporaryDirectory(dir=folder) as made:
        found = measure(n, d, C, shards, 1 if quick else repeats, Path(made))
    runs = found["runs"]
    lines = [
        (what, ranged(spread_of(runs[side], "seconds")))
        for side, what in (
            ("read", "reading the files once"),
            ("memory", "a pass over the same rows in memory"),
            ("files", "a pass over the files"),
        )
    ]
    title = f"{n:,} × {d:,} float16, {C:,} classes, {shards} files, not in the system's cache"
    benchmark = command.Benchmark("beyond", json_file, quick)
    benchmark.tell(
        command.table(title, ("work", "seconds"), lines, left=1),
        f"the pass over the files takes {ranged(found['ratio'])} times the slower of the two, and "
        f"{found['allocated_bytes'] / 1e6:,.0f} MB beside the system's cache",
        *machine.disturbed("beyond", found["others"]),
    )
    benchmark.save(found)


if __name__ == "__main__":
    typer.run(main)
