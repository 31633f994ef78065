"""python -m benchmarks.scaling: how time and memory of SLNDClassifier grow.

The rank and the rows the curvature looks at are fixed, so that every point runs the same
algorithm.  (The default rank grows with the data until 99.9 % of the variance is held.)
"""

import json
from statistics import median
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from slender import SLNDClassifier
from slender.solvers.loop import Clock

from . import command, machine
from .memory import in_fresh_process

FACTORS = (1, 2, 4, 8, 16)
REPEATS = 3
# For each axis, where it starts, and sizes of the others such that this axis is what costs.
AXES: dict[str, dict[str, int]] = {
    "rows": {"n": 32_000, "d": 128, "C": 50, "rank": 64, "passes": 5},
    "dimensions": {"n": 20_000, "d": 1024, "C": 5, "rank": 256, "passes": 1},
    "classes": {"n": 16_000, "d": 128, "C": 100, "rank": 64, "passes": 5},
}
GROWS = {"rows": "n", "dimensions": "d", "classes": "C"}
HESSIAN_SAMPLES = 512  # fewer than the dimensions that grow: one eigenproblem for all of them

MEMORY_SHAPE, MEMORY_RANK = (200_000, 1024), 256
MEMORY_ALLOWED = 300 * 10**6  # bytes beyond Z: a few blocks of rows, the curvature's sample


def fit_seconds(n: int, d: int, C: int, rank: int, passes: int) -> float:
    """Median seconds of a fit to noise: the cost does not depend on the numbers."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    y = rng.integers(0, C, n)
    seconds = []
    for seed in range(REPEATS):
        model = SLNDClassifier(
            rank=rank, passes=passes, hessian_samples=HESSIAN_SAMPLES, random_state=seed
        )
        with Clock() as clock:
            model.fit(X, y)
        seconds.append(clock.seconds)
    return median(seconds)


def slope(sizes: list[int], seconds: list[float]) -> float:
    """The exponent p of seconds ~ size^p."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def grow(axis: str, factors: tuple[int, ...] = FACTORS) -> dict[str, Any]:
    base, size = AXES[axis], GROWS[axis]
    fit_seconds(**{**base, "n": 2000})  # compiles the kernels
    sizes = [base[size] * factor for factor in factors]
    seconds = [fit_seconds(**{**base, size: value}) for value in sizes]
    return {"fixed": base, "sizes": sizes, "seconds": seconds, "slope": slope(sizes, seconds)}


def memory(shape: tuple[int, int] = MEMORY_SHAPE, rank: int = MEMORY_RANK) -> dict[str, Any]:
    """Peak memory of a fit to a float16 memory map, measured in a process of its own."""
    return in_fresh_process("benchmarks.memory", shape, "float16", str(rank))


def main(
    json_file: command.Json = None,
) -> None:
    """Exponents of the seconds in rows, dimensions and classes; peak memory."""
    console = Console(width=110)
    results: dict[str, Any] = {"machine": machine.describe(), "axes": {}}
    table = Table(title="Seconds of a fit; slope 1 is linear")
    for column in ("grows", "sizes", "seconds", "slope"):
        table.add_column(column, justify="left" if column == "grows" else "right")
    with machine.Neighbours() as others:
        for axis in AXES:
            result = results["axes"][axis] = grow(axis)
            sizes = " ".join(f"{size:,}" for size in result["sizes"])
            seconds = " ".join(f"{s:.3f}" for s in result["seconds"])
            table.add_row(axis, sizes, seconds, f"{result['slope']:.2f}")
    results["others"] = others.cores
    console.print(table)
    if others.cores > machine.QUIET:
        console.print(f"other processes kept {others.cores:.1f} cores busy; distrust the seconds")
    peak = results["memory"] = memory()
    allowed = peak["Z_bytes"] + MEMORY_ALLOWED
    for kind in ("allocated", "resident"):
        used = peak[f"{kind}_bytes"]
        verdict = "within" if used <= allowed else "MORE than"
        console.print(
            f"peak {kind} memory of a fit to {peak['shape'][0]:,} × {peak['shape'][1]:,} "
            f"{peak['dtype']}, rank {peak['rank']}: {used / 1e6:,.0f} MB, {verdict} "
            f"Z ({peak['Z_bytes'] / 1e6:,.0f} MB) + {MEMORY_ALLOWED / 1e6:,.0f} MB"
        )
    if json_file:
        json_file.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    typer.run(main)
