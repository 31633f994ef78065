"""python -m benchmarks.logistic: multinomial logistic regression, seconds to the same objective."""

from typing import Annotated, Any

import typer

from slender.lab.recorder import Budget

from . import command, logistic_report
from .logistic_race import RIVALS, SOLVERS, race
from .objective import Task

# scikit-learn's C of each data set, near the one that python -m benchmarks.path chooses
CHOSEN_C = {
    "cifar100": 0.01,
    "caltech101": 0.316,
    "mnist": 0.178,
    "planted": 5.62,
    "planted200k": 5.62,
    "planted_lowrank": 1.0,
    "digits": 10.0,
    "tiny": 1.0,
}


BUDGET = Budget()


def with_changes(changes: str) -> dict[str, float]:
    """CHOSEN_C with some values replaced: "mnist=0.1,digits=1"."""
    result = dict(CHOSEN_C)
    for change in filter(None, changes.split(",")):
        name, _, value = change.partition("=")
        if name.strip() not in CHOSEN_C:
            raise typer.BadParameter(f"there is no data set {name.strip()!r}")
        try:
            result[name.strip()] = float(value)
        except ValueError:
            raise typer.BadParameter(f"{change!r} is not of the form name=number") from None
    return result


def main(
    datasets: command.Sets = "cifar100,caltech101,mnist,planted200k",
    solvers: Annotated[str, typer.Option(help="Rivals, separated by commas.")] = ",".join(RIVALS),
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each chosen setting.")] = 5,
    json_file: command.Json = None,
    resume: command.Resume = False,
    c: Annotated[str, typer.Option("--c", help="Other values of C: mnist=0.1,digits=1")] = "",
    factor: command.Factor = BUDGET.factor,
    max_seconds: command.MostSeconds = BUDGET.most,
    quick: command.Quick = False,
) -> None:
    """Seconds until every rival is at the objective of slender's LogisticClassifier(tol=1e-3)."""
    rivals = command.names(solvers, RIVALS, "rival")
    values = with_changes(c)
    packages = dict.fromkeys(SOLVERS[name].package[1] for name in rivals if SOLVERS[name].package)
    budget = Budget(factor, min(BUDGET.least, max_seconds), max_seconds)
    repeats = 1 if quick else repeats

    def work(name: str, dataset: Any, say: Any) -> dict[str, Any]:
        return race(Task(dataset, values[name]), rivals, repeats, budget, say)

    options = {"rivals": rivals, "repeats": repeats, "budget": budget, "C": values}
    benchmark = command.Benchmark("logistic", json_file, quick, resume, tuple(packages))
    benchmark.over(datasets, options, work, logistic_report.report)


if __name__ == "__main__":
    typer.run(main)
