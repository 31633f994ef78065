"""python -m benchmarks.scaling: how time and memory of SLNDClassifier grow.

The rank and the rows the curvature looks at are fixed, so that every point runs the same
algorithm.  (The default rank grows with the data until 99.9 % of the variance is held.)
"""

from statistics import median
from typing import Any

import numpy as np
import typer

from slender import SLNDClassifier
from slender.lab.measures import exponent

from . import command, machine
from .memory import of_noise, verdict

REPEATS = 3
# For each axis, where it starts, and sizes of the others such that this axis is what costs.
AXES: dict[str, dict[str, int]] = {
    "rows": {"n": 32_000, "d": 128, "C": 50, "rank": 64, "passes": 5},
    "dimensions": {"n": 20_000, "d": 1024, "C": 5, "rank": 256, "passes": 1},
    "classes": {"n": 20_000, "d": 128, "C": 100, "rank": 64, "passes": 5},
}
GROWS = {"rows": "n", "dimensions": "d", "classes": "C"}
FACTORS = {  # classes: from 100 to 20,000
    "rows": (1, 2, 4, 8, 16),
    "dimensions": (1, 2, 4, 8, 16),
    "classes": (1, 4, 16, 64, 200),
}
HESSIAN_SAMPLES = 512  # fewer than the dimensions that grow: one eigenproblem for all of them

MEMORY_SHAPE, MEMORY_RANK = (200_000, 1024), 256
MEMORY_ALLOWED = 300 * 10**6  # bytes beyond Z: a few blocks of rows, the curvature's sample


def fit_seconds(n: int, d: int, C: int, rank: int, passes: int) -> float:
    """Median seconds of a fit to noise: the cost does not depend on the numbers."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    y = rng.permutation(n) % C  # every class has rows
    seeds = iter(range(REPEATS))

    def model() -> SLNDClassifier:
        samples = {"hessian_samples": HESSIAN_SAMPLES, "random_state": next(seeds)}
        return SLNDClassifier(rank=rank, passes=passes, **samples)

    return median(machine.timed(model, X, y, REPEATS)[0])


def grow(axis: str) -> dict[str, Any]:
    base, size = AXES[axis], GROWS[axis]
    fit_seconds(**{**base, "n": 2000})  # compiles the kernels
    sizes = [base[size] * factor for factor in FACTORS[axis]]
    seconds = [fit_seconds(**{**base, size: value}) for value in sizes]
    return {"fixed": base, "sizes": sizes, "seconds": seconds, "slope": exponent(sizes, seconds)}


def memory(shape: tuple[int, int] = MEMORY_SHAPE, rank: int = MEMORY_RANK) -> dict[str, Any]:
    """Peak memory of a fit to a float16 memory map, measured in a process of its own."""
    return of_noise("benchmarks.memory", shape, "float16", rank)


def main(json_file: command.Json = None) -> None:
    """Exponents of the seconds in rows, dimensions and classes; peak memory."""
    benchmark = command.Benchmark("scaling", json_file)
    results: dict[str, Any] = {}
    with machine.Neighbours() as others:
        axes = results["axes"] = {axis: grow(axis) for axis in AXES}
    results["others"] = others.cores
    rows = [
        (
            axis,
            " ".join(f"{size:,}" for size in of["sizes"]),
            " ".join(f"{s:.3f}" for s in of["seconds"]),
            f"{of['slope']:.2f}",
        )
        for axis, of in axes.items()
    ]
    columns = ("grows", "sizes", "seconds", "slope")
    benchmark.tell(
        command.table("Seconds of a fit; slope 1 is linear", columns, rows),
        *machine.disturbed("scaling", others.cores),
    )
    peak = results["memory"] = memory()
    n, d = peak["shape"]
    for kind in ("allocated", "resident"):
        benchmark.tell(
            f"peak {kind} memory of a fit to {n:,} × {d:,} {peak['dtype']}, rank {peak['rank']}: "
            f"{verdict(peak[f'{kind}_bytes'], peak['Z_bytes'] + MEMORY_ALLOWED)}, of which Z "
            f"{peak['Z_bytes'] / 1e6:,.0f} MB"
        )
    benchmark.save(results)


if __name__ == "__main__":
    typer.run(main)
