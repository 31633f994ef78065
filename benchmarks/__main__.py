"""python -m benchmarks: slender against scikit-learn, test accuracy over seconds."""

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console

from . import command, machine, report, runner

ON_DEMAND = ("tiny", "planted200k")  # for the tests; for the multinomial race


def main(
    datasets: Annotated[str, typer.Option(help="Names, separated by commas.")] = ",".join(
        name for name in runner.DATASETS if name not in ON_DEMAND
    ),
    solvers: Annotated[str, typer.Option(help="Names, separated by commas.")] = ",".join(
        runner.SOLVERS
    ),
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each chosen setting.")] = 5,
    json_file: command.Json = None,
    quick: command.Quick = False,
) -> None:
    """Test accuracy over seconds of work: slender's one-vs-rest solvers against scikit-learn's."""
    console = Console(width=command.WIDTH)
    chosen = command.names(solvers, runner.SOLVERS, "solver")
    results: dict[str, Any] = {"machine": machine.describe(), "quick": quick, "datasets": {}}
    for name, dataset in command.load(datasets, quick, console):
        # plain lines on stderr: the thread of a live display would compete with what is timed
        with machine.Neighbours() as others:
            result = runner.race(
                dataset,
                chosen,
                1 if quick else repeats,
                say=lambda line, name=name: print(f"{name}: {line}", file=sys.stderr, flush=True),
            )
        results["datasets"][name] = {**result, "others": others.cores}
        if result["grid"]:
            console.print(report.grid_table(name, result))
        console.print(report.curves_table(name, result))
        for figure in result["figures"]:
            console.print(report.sentence(name, figure), highlight=False)
        machine.warn(name, others, console)
        if json_file:  # after each data set: the whole takes an hour or more
            json_file.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    typer.run(main)
