"""python -m benchmarks: test accuracy over seconds, slender against scikit-learn."""

from typing import Annotated, Any

import typer

from . import accuracy, accuracy_report, command

ON_DEMAND = ("tiny", "planted200k")  # for the tests; for the multinomial race
USUAL = ",".join(name for name in command.DATASETS if name not in ON_DEMAND)
EVERYONE = ",".join(accuracy.SOLVERS)


def main(
    datasets: command.Sets = USUAL,
    solvers: command.Sets = EVERYONE,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each chosen setting.")] = 5,
    json_file: command.Json = None,
    resume: command.Resume = False,
    quick: command.Quick = False,
) -> None:
    """Test accuracy over seconds of work: slender's one-vs-rest solvers against scikit-learn's."""
    chosen = command.names(solvers, accuracy.SOLVERS, "solver")
    repeats = 1 if quick else repeats

    def work(name: str, dataset: Any, say: Any) -> dict[str, Any]:
        return accuracy.race(dataset, chosen, repeats, say)

    options = {"solvers": chosen, "repeats": repeats}
    benchmark = command.Benchmark("accuracy", json_file, quick, resume)
    benchmark.over(datasets, options, work, accuracy_report.report)


if __name__ == "__main__":
    typer.run(main)
