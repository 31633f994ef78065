"""python -m benchmarks.products: products with coded rows against BLAS on the decoded ones.

M @ B and M.T @ G of a CompressedMatrix, and the same of the dense float32 matrix it stands for, by
numpy.  Both sides have all cores: slender's threads, and BLAS's own.  A GFLOP is counted as the
dense product would need it, on both sides.
"""

from collections.abc import Callable
from functools import partial
from time import sleep
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from slender import CompressedMatrix
from slender.lab.repeats import Say, by_turns, ranged, ratios, spread, spread_of
from slender.rows.lookup import CENTROIDS
from slender.solvers.loop import Clock

from . import command, machine

N, D, D_SQ, M = 50_000, 4096, 16, 128
REST = 0.05  # seconds before each product: BLAS's threads spin for a while after theirs
QUICK = 4000, 256  # rows and columns
PRODUCTS = {"M @ B": "X B, scores from weights", "M.T @ G": "Xᵀ G, a gradient"}


def random_codes(n: int, d: int, d_sq: int) -> CompressedMatrix:
    """The cost of a product does not depend on the numbers, and hardly on the codes."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, CENTROIDS, (n, d // d_sq), dtype=np.uint8)
    codebooks = rng.standard_normal((d // d_sq, CENTROIDS, d_sq), dtype=np.float32)
    return CompressedMatrix(codes, codebooks)


def timed(product: Callable[[], Any], turn: int) -> dict[str, float]:
    """One in a row of products, as a fit makes them, after the other side's threads have slept."""
    sleep(REST)
    product()
    with Clock() as clock:
        product()
    return {"seconds": clock.seconds}


def race(n: int, d: int, d_sq: int, m: int, repeats: int, say: Say) -> dict[str, Any]:
    """Both products on both sides, by turns."""
    coded = random_codes(n, d, d_sq)
    dense = coded.toarray()
    rng = np.random.default_rng(1)
    B = rng.standard_normal((d, m), dtype=np.float32)
    G = rng.standard_normal((n, m), dtype=np.float32)
    sides = {
        "M @ B": (lambda: coded @ B, lambda: dense @ B),
        "M.T @ G": (lambda: coded.T @ G, lambda: dense.T @ G),
    }
    found = {}
    for name, (ours, theirs) in sides.items():
        say(name)
        apart = ours() - (expected := theirs())  # also compiles, and wakes BLAS's threads
        turns = {"codes": partial(timed, ours), "dense": partial(timed, theirs)}
        runs = by_turns(turns, range(repeats))
        found[name] = {
            "apart": float(np.linalg.norm(apart) / np.linalg.norm(expected)),
            "sooner": ratios(runs["dense"], runs["codes"]),
        }
        flop = 2.0 * n * d * m
        for side, of in runs.items():
            found[name][side] = spread_of(of, "seconds")
            found[name][f"{side}_gflops"] = spread([flop / run["seconds"] / 1e9 for run in of])
    return {"n": n, "d": d, "d_sq": d_sq, "m": m, "products": found}


def table(result: dict[str, Any]) -> Table:
    rows = [
        (
            f"{name}: {PRODUCTS[name]}",
            ranged(found["codes"], 3),
            ranged(found["dense"], 3),
            f"{found['codes_gflops']['median']:,.0f}",
            f"{found['dense_gflops']['median']:,.0f}",
            ranged(found["sooner"], 1),
        )
        for name, found in result["products"].items()
    ]
    columns = ("", "codes, s", "sgemm, s", "codes", "sgemm", "sgemm's seconds / these")
    title = (
        f"{result['n']:,} × {result['d']:,}, d_sq = {result['d_sq']}, "
        f"{result['m']} columns; seconds and GFLOP/s of the dense product"
    )
    return command.table(title, columns, rows)


def main(
    n: Annotated[int, typer.Option("--n", min=1, help="Rows.")] = N,
    d: Annotated[int, typer.Option("--d", min=1, help="Columns.")] = D,
    d_sq: Annotated[int, typer.Option(min=1, help="Columns a byte stands for.")] = D_SQ,
    m: Annotated[int, typer.Option("--m", min=1, help="Columns of the other factor.")] = M,
    repeats: command.Repeats = 5,
    json_file: command.Json = None,
    quick: command.QuickMatrix = False,
) -> None:
    """Products with product-quantised rows against sgemm on the rows they stand for."""
    if d % d_sq:
        raise typer.BadParameter(f"--d-sq {d_sq} does not divide --d {d}")
    if quick:
        (n, d), repeats = QUICK, 1

    with machine.Neighbours() as others:
        result = race(n, d, d_sq, m, repeats, lambda line: command.say(line, "products"))
    benchmark = command.Benchmark("products", json_file, quick)
    benchmark.tell(table(result), *machine.disturbed("products", others.cores))
    benchmark.save({"others": others.cores, **result})


if __name__ == "__main__":
    typer.run(main)
