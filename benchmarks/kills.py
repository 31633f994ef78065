"""python -m benchmarks.kills: does a job that is killed and resumed end as if nobody had killed it?

A job is killed (SIGKILL) up to three times, then it may finish.  Reported for each command: kills,
jobs, jobs lost (the command did not finish with exit code 0), files under their final names that
cannot be read after a kill, and jobs whose result is not, bit for bit, that of a run that nobody
killed; seconds are not compared.  Every run is a forked process: what is compiled and imported is
there already, so that most kills hit the work and not the start.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slender.cli import main as slender
from slender.compress import CompressedMatrix
from slender.datasets import planted
from slender.model import load_model
from slender.rows import base

from .command import Benchmark, plain, table

MOST_KILLS = 3  # of one job
BLOCK_BYTES = 2**17  # so that small files have many blocks
ARRAYS = ("coef_", "intercept_")
FIGURES = ("gap_", "objective_", "n_iter_", "trace_", "path_", "C_")


class Job(NamedTuple):
    """A command, and what it leads to."""

    words: str  # {} is the folder of the job, {X} and {y} are the data
    out: str
    result: Callable[[Path], Any]


def without_seconds(found: Any) -> Any:
    if isinstance(found, dict):
        return {k: without_seconds(v) for k, v in found.items() if not _timed(k)}
    return [without_seconds(part) for part in found] if isinstance(found, list) else found


def _timed(name: str) -> bool:
    return "seconds" in name or name in ("bytes_read", "checksum")


def of_model(path: Path) -> Any:
    model = load_model(path)
    figures = {name: getattr(model, name) for name in FIGURES if hasattr(model, name)}
    arrays = [getattr(model, name).tobytes() for name in ARRAYS]
    return arrays, repr(without_seconds(figures))


def of_codes(path: Path) -> Any:
    CompressedMatrix.load(path)  # checks that it is whole
    return path.read_bytes()


def of_comparison(path: Path) -> Any:
    found = json.loads(path.read_text())
    return [without_seconds(fit) for fit in found["fits"]], without_seconds(found["choices"])


JOBS = {
    "fit": Job("{X} {y} --method gd --passes 150 --out {}/model", "model", of_model),
    "path": Job("{X} {y} --cs 12 --full --tol 1e-5 --out {}/probe", "probe", of_model),
    "compress": Job("{X} --dsq 2 --training-rows 2000 --out {}/X.pq", "X.pq", of_codes),
    "compare": Job(
        "--dataset digits --opt sgd,bcfw,gd --obj svm,logistic --passes 8 --seeds 2 "
        "--json {}/c.json",
        "c.json",
        of_comparison,
    ),
}
COMMON = "--checkpoint {}/kept --resume --quiet --threads 1"
OPENMP = ("compress",)  # whose threads do not survive a fork
AT_ONCE = "--checkpoint-every 0"  # for those that have it


def words_of(command: str, folder: Path) -> list[str]:
    text = f"{command} {JOBS[command].words} {COMMON} {'' if command == 'compare' else AT_ONCE}"
    names = {"{X}": folder.parent / "X.npy", "{y}": folder.parent / "y.npy", "{}": folder}
    for name, path in names.items():
        text = text.replace(name, str(path))
    return text.split()


def begin(command: str, folder: Path) -> int:
    """Start the command in another process; its id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            sys.stderr = (folder / "said.txt").open("a")
            slender(words_of(command, folder))
        except SystemExit as stop:
            code = int(stop.code or 0)
        finally:
            sys.stderr.flush()
            os._exit(code)
    return child


def killed_after(child: int, seconds: float) -> bool:
    """Kill a process unless it ends before; an error if it fails."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.002)
    else:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            return True
    if os.WIFSIGNALED(status) or os.WEXITSTATUS(status):
        raise ChildProcessError
    return False


class Tally:
    """Counts of one command."""

    def __init__(self) -> None:
        self.kills = self.jobs = self.lost = self.half_written = self.different = 0


def battery(command: str, count: int, folder: Path, rng: random.Random) -> Tally:
    """`count` kills; `folder` has the data."""
    job, tally, place = JOBS[command], Tally(), folder / "job"
    if command not in OPENMP:  # here, so that what is imported and compiled need not be again
        place.mkdir()
        with contextlib.suppress(SystemExit):
            slender(words_of(command, place))
        shutil.rmtree(place)
    place.mkdir()
    begun = time.monotonic()
    killed_after(begin(command, place), float("inf"))
    whole = time.monotonic() - begun
    wanted = job.result(place / job.out)
    while tally.kills < count:
        shutil.rmtree(place)
        place.mkdir()
        tally.jobs += 1
        try:
            for left in range(min(MOST_KILLS, count - tally.kills), -1, -1):
                seconds = rng.uniform(0.0, whole) if left else float("inf")
                if not killed_after(begin(command, place), seconds):
                    break
                tally.kills += 1
                tally.half_written += not readable(job, place)
            tally.different += job.result(place / job.out) != wanted
        except ChildProcessError:
            tally.lost += 1
            sys.stderr.write((place / "said.txt").read_text())
    shutil.rmtree(place)
    return tally


def readable(job: Job, place: Path) -> bool:
    """The output is not there, or whole."""
    try:
        return not (place / job.out).exists() or job.result(place / job.out) is not None
    except ValueError:
        return False


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--only", default=",".join(JOBS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="Write the counts to this file.")
    asked = parser.parse_args(arguments)
    base.BLOCK_BYTES = BLOCK_BYTES
    rng, tallies = random.Random(asked.seed), {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = planted(6000, 64, 20, separation=0.4)
        np.save(folder / "X.npy", data.X_train)
        np.save(folder / "y.npy", data.y_train)
        for command in asked.only.split(","):
            tally = tallies[command] = battery(command, asked.count, folder, rng)
            counts = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in vars(tally).items())
            sys.stdout.write(f"{command}: {counts}\n")
            sys.stdout.flush()
    save(tallies, asked.json)


def save(tallies: dict[str, Tally], path: Path | None) -> None:
    """The counts as a results file."""
    heads = ("command", *(name.replace("_", " ") for name in vars(Tally())))
    lines = [(name, *map(str, vars(tally).values())) for name, tally in tallies.items()]
    document = Benchmark("kills", path)
    document.report[""] = [plain(table("Jobs killed (SIGKILL) and resumed", heads, lines))]
    document.save({"counts": {name: vars(tally) for name, tally in tallies.items()}})


if __name__ == "__main__":
    main()
