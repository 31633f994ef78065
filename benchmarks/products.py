"""python -m benchmarks.products: products with coded rows against BLAS on the decoded ones.

M @ B and M.T @ G of a CompressedMatrix, and the same of the dense float32 matrix it stands for, by
numpy.  Both sides have all cores: slender's threads, and BLAS's own.  A GFLOP is counted as the
dense product would need it, on both sides.
"""

import json
import sys
from collections.abc import Callable
from time import sleep
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from slender import CompressedMatrix
from slender.rows.lookup import CENTROIDS
from slender.solvers.loop import Clock

from . import command, machine
from .runner import Say, spread
from .tracenorm import shown

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


def timed(product: Callable[[], Any]) -> float:
    """One in a row of products, as a fit makes them, after the other side's threads have slept."""
    sleep(REST)
    product()
    with Clock() as clock:
        product()
    return clock.seconds


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
        runs = [(timed(ours), timed(theirs)) for _ in range(repeats)]
        flop = 2.0 * n * d * m
        found[name] = {
            "apart": float(np.linalg.norm(apart) / np.linalg.norm(expected)),
            "codes": spread([us for us, _ in runs]),
            "dense": spread([them for _, them in runs]),
            "codes_gflops": spread([flop / us / 1e9 for us, _ in runs]),
            "dense_gflops": spread([flop / them / 1e9 for _, them in runs]),
            "sooner": spread([them / us for us, them in runs]),
        }
    return {"n": n, "d": d, "d_sq": d_sq, "m": m, "products": found}


def table(result: dict[str, Any]) -> Table:
    made = Table(
        title=f"{result['n']:,} x {result['d']:,}, d_sq = {result['d_sq']}, "
        f"{result['m']} columns; seconds and GFLOP/s of the dense product"
    )
    for column in ("", "codes, s", "sgemm, s", "codes", "sgemm", "sgemm's seconds / these"):
        made.add_column(column, justify="left" if column == "" else "right")
    for name, found in result["products"].items():
        made.add_row(
            f"{name}: {PRODUCTS[name]}",
            shown(found["codes"], 3),
            shown(found["dense"], 3),
            f"{found['codes_gflops']['median']:,.0f}",
            f"{found['dense_gflops']['median']:,.0f}",
            shown(found["sooner"], 1),
        )
    return made


def main(
    n: Annotated[int, typer.Option("--n", min=1, help="Rows.")] = N,
    d: Annotated[int, typer.Option("--d", min=1, help="Columns.")] = D,
    d_sq: Annotated[int, typer.Option(min=1, help="Columns a byte stands for.")] = D_SQ,
    m: Annotated[int, typer.Option("--m", min=1, help="Columns of the other factor.")] = M,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 5,
    json_file: command.Json = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small matrix, one repeat. Not a figure.")
    ] = False,
) -> None:
    """Products with product-quantised rows against sgemm on the rows they stand for."""
    console = Console(width=command.WIDTH)
    if d % d_sq:
        raise typer.BadParameter(f"--d-sq {d_sq} does not divide --d {d}")
    if quick:
        (n, d), repeats = QUICK, 1

    def say(line: str) -> None:
        print(f"products: {line}", file=sys.stderr, flush=True)

    with machine.Neighbours() as others:
        result = race(n, d, d_sq, m, repeats, say)
    console.print(table(result))
    machine.warn("products", others, console)
    if json_file:
        about = {"machine": machine.describe(), "quick": quick, "others": others.cores}
        json_file.write_text(json.dumps({**about, **result}, indent=1))


if __name__ == "__main__":
    typer.run(main)
