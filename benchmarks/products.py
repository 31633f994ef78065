"""python -m benchmarks.products: products with coded rows against BLAS on the decoded ones.

slender.lab.products measures them; this command chooses sizes and shows a table.
"""

from typing import Annotated, Any

import typer
from rich.table import Table

from slender.lab.products import PRODUCTS, race
from slender.lab.repeats import ranged

from . import command, machine

N, D, D_SQ, M = 50_000, 4096, 16, 128
QUICK = 4000, 256  # rows and columns


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
