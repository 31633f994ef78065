"""python -m benchmarks.shuffle: what a shuffle by chunks and buffers costs, against a full one.

Rows in files are read by chunks in a random order, and shuffled within a buffer of several chunks
(slender/rows/shuffling.py): 64 of them, unless a format has larger ones.  The buffer holds a share
of the rows; 1 is a full shuffle.  Rows in the order of their classes are the worst case: a chunk
then has rows of one or two classes.  SLND with its low-rank curvature keeps its
whitened rows in memory, where they are shuffled as a whole; with a diagonal one it reads the file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np
import typer
from numpy.typing import NDArray

from slender import SGDClassifier, SLNDClassifier
from slender.datasets import Dataset
from slender.rows import ChunkedRows, Rows, shuffling
from slender.stores.base import ArrayRows

from . import command

BUFFERS = ((1, 64), *((share, chunks) for share in (4, 16) for chunks in (64, 8, 1)))
SHOWN = (1, 2, 5, 10)  # passes
ESTIMATORS: dict[str, Any] = {
    "SGD": lambda **how: SGDClassifier(**how),
    "SLND": lambda **how: SLNDClassifier(**how),
    "SLND diagonal": lambda **how: SLNDClassifier(curvature="diagonal", **how),
}


class InFile:
    """Rows as those of a file that can be cut anywhere."""

    def __init__(self, X: NDArray[Any]) -> None:
        self.X, self.shape = X, X.shape

    def as_rows(self) -> Rows:
        return ChunkedRows([ArrayRows("rows", self.X)])


@contextmanager
def buffer_of(share: int, chunks: int, X: NDArray[Any]) -> Iterator[None]:
    """A buffer of 1/share of the rows, in that many chunks."""
    rows = -(-len(X) // share)
    chunk = -(-rows // chunks) * X[:1].nbytes
    with (
        patch.object(shuffling, "CHUNK_BYTES", chunk),
        patch.object(shuffling, "BUFFER_BYTES", rows * X[:1].nbytes),
    ):
        yield


def curve(
    make: Any, X: NDArray[Any], y: NDArray[Any], share: int, chunks: int, seeds: int
) -> list[float]:
    """The exact objective after each pass, a mean over seeds."""
    objectives = []
    for seed in range(seeds):
        with buffer_of(share, chunks, X):
            model = make(passes=max(SHOWN), random_state=seed, objective="exact")
            model.fit(InFile(X), y)
        objectives.append([record["objective"] for record in model.trace_])
    return np.mean(objectives, axis=0).tolist()


def compare(dataset: Dataset, seeds: int, say: Any) -> list[dict[str, Any]]:
    """Every estimator, with every buffer, on rows in two orders."""
    n = len(dataset.y_train)
    orders = {
        "by class": np.argsort(dataset.y_train, kind="stable"),
        "shuffled": np.random.default_rng(0).permutation(n),
    }
    found = []
    for order, index in orders.items():
        X = np.ascontiguousarray(dataset.X_train[index], np.float32)
        y = dataset.y_train[index]
        for name, make in ESTIMATORS.items():
            for share, chunks in BUFFERS:
                objectives = curve(make, X, y, share, chunks, seeds)
                about = {"order": order, "estimator": name, "share": share, "chunks": chunks}
                found.append({**about, "objective": objectives})
                say(f"{name}, rows {order}, 1/{share} in {chunks} chunks: {objectives[-1]:.5g}")
    return found


def main(
    datasets: command.Sets = "digits,mnist,cifar100",
    seeds: Annotated[int, typer.Option(min=1, help="Fits of each.")] = 5,
    json_file: command.Json = None,
    quick: command.Quick = False,
    resume: command.Resume = False,
) -> None:
    """The objective after each pass with a full shuffle, and with buffers of several sizes."""

    def work(name: str, dataset: Dataset, say: Any) -> dict[str, Any]:
        return {"curves": compare(dataset, 1 if quick else seeds, say)}

    made = command.Benchmark("shuffle", json_file, quick=quick, resume=resume)
    made.over(datasets, {"seeds": seeds}, work, summary=summary)


def summary(results: dict[str, dict[str, Any]]) -> list[Any]:
    passes = (f"pass {k}" for k in SHOWN)
    columns = ("data set", "estimator", "rows", "buffer", "chunks in it", *passes, "above")
    rows = [line for name, result in results.items() for line in _lines(name, result["curves"])]
    title = "exact objective, and how far the last one is above that of a full shuffle"
    return [command.table(title, columns, rows, left=4)]


def _lines(name: str, curves: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """With how far the last objective is above that of a full shuffle."""
    full = {(c["estimator"], c["order"]): c["objective"] for c in curves if c["share"] == 1}
    for each in curves:
        whole = full[each["estimator"], each["order"]][-1]
        above = each["objective"][-1] / whole - 1
        yield (
            name,
            each["estimator"],
            each["order"],
            "all" if each["share"] == 1 else f"1/{each['share']}",
            str(each["chunks"]),
            *(f"{each['objective'][k - 1]:.4f}" for k in SHOWN),
            f"{100 * above:+.1f} %",
        )


if __name__ == "__main__":
    typer.run(main)
