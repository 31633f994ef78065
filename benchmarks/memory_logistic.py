"""python -m benchmarks.memory_logistic: peak memory of multinomial fits, above their data.

Each fit runs in a process of its own, once on a memory map and once on an array in memory, which
is part of what the process had before.
"""

import json
import sys
from typing import Any

import numpy as np
import typer

import slender

from . import command
from .memory import WARM_UP_ROWS, Peak, of_noise, verdict

ESTIMATORS = {"LogisticClassifier": {"C": 0.01}, "LinearProbe": {}}
KINDS = ("mapped", "in memory")
SHAPE, N_CLASSES = (200_000, 1024), 200
ALLOWED, ALLOWED_TIMES = 500 * 10**6, 30  # bytes; float32 arrays of the weights' size


def allowed(d: int, n_classes: int) -> int:
    return ALLOWED + ALLOWED_TIMES * d * n_classes * 4


def measure(path: str, estimator: str, kind: str, n_classes: int) -> dict[str, Any]:
    X = np.load(path, mmap_mode="r" if kind == "mapped" else None)
    y = np.random.default_rng(0).integers(0, n_classes, len(X))
    model = getattr(slender, estimator)(**ESTIMATORS[estimator], random_state=0)
    # compiles the kernels without touching the map; few classes, so that each has some rows
    model.fit(np.array(X[:WARM_UP_ROWS]), y[:WARM_UP_ROWS] % 5)
    with Peak() as peak:
        model.fit(X, y)
    return {
        "estimator": estimator,
        "kind": kind,
        "shape": list(X.shape),
        "dtype": str(X.dtype),
        "classes": n_classes,
        "allowed_bytes": allowed(X.shape[1], n_classes),
        **peak.above,
    }


def peaks(shape: tuple[int, int] = SHAPE, n_classes: int = N_CLASSES) -> list[dict[str, Any]]:
    return [
        of_noise(__spec__.name, shape, "float32", estimator, kind, n_classes)
        for estimator in ESTIMATORS
        for kind in KINDS
    ]


def main(json_file: command.Json = None) -> None:
    """Peak memory of LogisticClassifier and LinearProbe above X."""
    benchmark = command.Benchmark("memory_logistic", json_file)
    results = peaks()
    for peak in results:
        n, d = peak["shape"]
        benchmark.tell(
            f"{peak['estimator']}, {n:,} × {d:,} {peak['dtype']} {peak['kind']}, "
            f"{peak['classes']} classes: above X "
            f"{verdict(peak['allocated_bytes'], peak['allowed_bytes'])}; "
            f"{peak['resident_bytes'] / 1e6:,.0f} MB with mapped pages"
        )
    benchmark.save({"fits": results})


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].endswith(".npy"):  # as in_fresh_process calls it
        print(json.dumps(measure(*sys.argv[1:4], int(sys.argv[4]))))
    else:
        typer.run(main)
