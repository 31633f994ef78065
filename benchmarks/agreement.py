"""python -m benchmarks.agreement: is LogisticClassifier(tol=1e-6) at the minimum?

The minimum is scikit-learn's (L-BFGS, float64, tol=1e-10), on rows few enough for it.  Both
objectives are computed in float64 by one function.
"""

import warnings
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import slender
from slender.datasets import first_rows

from . import command
from .objective import Task, linear, multinomial

VALUES = (1e-3, 1e-1, 10.0)  # of C
TOL = 1e-6
TRUTH = {"tol": 1e-10, "max_iter": 100_000}


def compare(task: Task, dtype: str) -> dict[str, Any]:
    """How far above scikit-learn's minimum slender ends, as a share of it."""
    X, y = task.dataset.X_train, task.dataset.y_train
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # at 1e-10 rounding stops it first
        truth = LogisticRegression(C=task.C, **TRUTH).fit(X.astype(np.float64), y)
    model = slender.LogisticClassifier(C=task.C, tol=TOL, random_state=0).fit(X.astype(dtype), y)
    least, ours = multinomial(linear(truth), task), multinomial(linear(model), task)
    return {
        "C": task.C,
        "dtype": dtype,
        "sklearn": least,
        "slender": ours,
        "above": ours / least - 1,
        "within": bool(ours <= least * (1 + TOL)),
    }


def main(
    datasets: command.Sets = "tiny,digits,caltech101,cifar100,mnist,planted",
    rows: Annotated[int, typer.Option(min=100, help="The first rows of each data set.")] = 2000,
    json_file: command.Json = None,
    resume: command.Resume = False,
) -> None:
    """slender's objective at tol=1e-6 against scikit-learn's at tol=1e-10 in float64."""

    def work(name: str, dataset: Any, say: Any) -> dict[str, Any]:
        few, found = first_rows(dataset, rows), []
        for C in VALUES:
            for dtype in ("float32", "float64"):
                say(f"C = {C:g}, {dtype}")
                found.append(compare(Task(few, C), dtype))
        return {"fits": found}

    benchmark = command.Benchmark("agreement", json_file, resume=resume)
    benchmark.over(datasets, {"rows": rows}, work, summary=summary)


def summary(results: dict[str, dict[str, Any]]) -> list[Any]:
    lines = [
        (
            name,
            f"{fit['C']:g}",
            fit["dtype"],
            f"{fit['sklearn']:.8f}",
            f"{fit['above']:+.1e}",
            "yes" if fit["within"] else "NO",
        )
        for name, result in results.items()
        for fit in result["fits"]
    ]
    columns = ("data set", "C", "type", "minimum", "above", f"within {TOL:g}")
    title = f"LogisticClassifier(tol={TOL:g}) above scikit-learn's minimum, relative"
    return [command.table(title, columns, lines)]


if __name__ == "__main__":
    typer.run(main)
