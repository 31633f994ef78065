"""python -m benchmarks.logistic: multinomial logistic regression, seconds to the same objective."""

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console

from . import command, logistic_report, machine
from .logistic_runner import RIVALS, SOLVERS, Budget, race
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
    datasets: Annotated[
        str, typer.Option(help="Names, separated by commas.")
    ] = "cifar100,caltech101,mnist,planted200k",
    solvers: Annotated[str, typer.Option(help="Rivals, separated by commas.")] = ",".join(RIVALS),
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each chosen setting.")] = 5,
    json_file: command.Json = None,
    c: Annotated[str, typer.Option("--c", help="Other values of C: mnist=0.1,digits=1")] = "",
    factor: Annotated[
        float, typer.Option(help="A rival may take this many times slender's seconds.")
    ] = Budget().factor,
    max_seconds: Annotated[
        float, typer.Option(help="But no fit of a rival more than this.")
    ] = Budget().most,
    quick: command.Quick = False,
) -> None:
    """Seconds until every rival is at the objective of slender's LogisticClassifier(tol=1e-3)."""
    console = Console(width=command.WIDTH)
    rivals = command.names(solvers, {name: SOLVERS[name] for name in RIVALS}, "rival")
    values = with_changes(c)
    packages = dict.fromkeys(SOLVERS[name].package[1] for name in rivals if SOLVERS[name].package)
    results: dict[str, Any] = {
        "machine": machine.describe(*packages),
        "quick": quick,
        "datasets": {},
    }
    budget = Budget(factor, min(Budget().least, max_seconds), max_seconds)
    for name, dataset in command.load(datasets, quick, console):

        def say(line: str, name: str = name) -> None:
            # plain lines on stderr: the thread of a live display would compete with what is timed
            print(f"{name}: {line}", file=sys.stderr, flush=True)

        with machine.Neighbours() as others:
            result = race(Task(dataset, values[name]), rivals, 1 if quick else repeats, budget, say)
        results["datasets"][name] = {**result, "others": others.cores}
        console.print(logistic_report.table(name, result))
        for sentence in logistic_report.sentences(name, result):
            console.print(sentence, highlight=False)
        for rival, reason in result["skipped"].items():
            console.print(f"{name}: {SOLVERS[rival].name} is skipped: {reason}", highlight=False)
        machine.warn(name, others, console)
        if json_file:  # after each data set: the whole takes hours
            json_file.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    typer.run(main)
