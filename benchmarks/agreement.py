"""python -m benchmarks.agreement: is LogisticClassifier(tol=1e-6) at the minimum?

The minimum is scikit-learn's (L-BFGS, float64, tol=1e-10), on rows few enough for it.  Both
objectives are computed in float64 by one function.
"""

import json
import sys
import warnings
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import slender

from . import command, machine, objective
from .objective import Linear, Task
from .runner import first_rows

VALUES = (1e-3, 1e-1, 10.0)  # of C
TOL = 1e-6
TRUTH = {"tol": 1e-10, "max_iter": 100_000}


def reached(model: Any, task: Task) -> float:
    return objective.multinomial(Linear(model.coef_, model.intercept_, model.classes_), task)


def compare(task: Task, dtype: str) -> dict[str, Any]:
    """How far above scikit-learn's minimum slender ends, as a share of it."""
    X, y = task.dataset.X_train, task.dataset.y_train
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # at 1e-10 rounding stops it first
        truth = LogisticRegression(C=task.C, **TRUTH).fit(X.astype(np.float64), y)
    model = slender.LogisticClassifier(C=task.C, tol=TOL, random_state=0).fit(X.astype(dtype), y)
    least, ours = reached(truth, task), reached(model, task)
    return {
        "C": task.C,
        "dtype": dtype,
        "sklearn": least,
        "slender": ours,
        "above": ours / least - 1,
        "within": bool(ours <= least * (1 + TOL)),
    }


def main(
    datasets: Annotated[
        str, typer.Option(help="Names, separated by commas.")
    ] = "tiny,digits,caltech101,cifar100,mnist,planted",
    rows: Annotated[int, typer.Option(min=100, help="The first rows of each data set.")] = 2000,
    json_file: command.Json = None,
) -> None:
    """slender's objective at tol=1e-6 against scikit-learn's at tol=1e-10 in float64."""
    console = Console(width=command.WIDTH)
    results: dict[str, Any] = {"machine": machine.describe(), "rows": rows, "datasets": {}}
    table = Table(title=f"LogisticClassifier(tol={TOL:g}) above scikit-learn's minimum, relative")
    for column in ("data set", "C", "type", "minimum", "above", f"within {TOL:g}"):
        table.add_column(column, justify="left" if column == "data set" else "right")
    for name, dataset in command.load(datasets, False, console):
        few = first_rows(dataset, rows)
        results["datasets"][name] = []
        for C in VALUES:
            for dtype in ("float32", "float64"):
                print(f"{name}: C = {C:g}, {dtype}", file=sys.stderr, flush=True)
                row = compare(Task(few, C), dtype)
                results["datasets"][name].append(row)
                verdict = "yes" if row["within"] else "NO"
                figures = (f"{C:g}", dtype, f"{row['sklearn']:.8f}", f"{row['above']:+.1e}")
                table.add_row(name, *figures, verdict)
    console.print(table)
    if json_file:
        json_file.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    typer.run(main)
