"""python -m benchmarks.steps: the automatic step against the best of twenty tried by hand.

The hand is allowed to look at the test set, so that it can only win by choosing from noise.
"""

import warnings
from typing import Any

import numpy as np
import typer
from sklearn.exceptions import ConvergenceWarning

from slender import SGDClassifier, SLNDClassifier
from slender.datasets import Dataset

from . import command, objective

N_STEPS, DECADES = 20, 6
ESTIMATORS = (SLNDClassifier, SGDClassifier)


def compare(estimator: Any, dataset: Dataset) -> dict[str, Any]:
    """Test accuracy with the automatic step and with each step of a grid around it."""
    auto_top1, auto_step = _accuracy(estimator, "auto", dataset)
    half = DECADES / 2
    steps = auto_step * np.logspace(-half, half, N_STEPS)
    tried = [{"step": s, "top1": _accuracy(estimator, s, dataset)[0]} for s in steps.tolist()]
    best = max(tried, key=lambda point: point["top1"])
    return {
        "estimator": estimator.__name__,
        "auto_step": auto_step,
        "auto_top1": auto_top1,
        "best_step": best["step"],
        "best_top1": best["top1"],
        "points_lost": 100 * (best["top1"] - auto_top1),
        "tried": tried,
    }


def _accuracy(estimator: Any, step: float | str, dataset: Dataset) -> tuple[float, float]:
    model = estimator(step=step, random_state=0)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the largest steps diverge, of course
        model.fit(dataset.X_train, dataset.y_train)
        top1 = objective.measure(objective.linear(model), dataset)["top1"]
    return top1, model.step_


def main(
    datasets: command.Sets = "cifar100,caltech101,mnist,digits",
    json_file: command.Json = None,
    resume: command.Resume = False,
) -> None:
    """Accuracy with step="auto" against the best of 20 steps over 6 decades around it."""

    def work(name: str, dataset: Dataset, say: Any) -> dict[str, Any]:
        return {"estimators": [compare(estimator, dataset) for estimator in ESTIMATORS]}

    benchmark = command.Benchmark("steps", json_file, resume=resume)
    benchmark.over(datasets, {}, work, summary=summary)


def summary(results: dict[str, dict[str, Any]]) -> list[Any]:
    rows = [
        (
            name,
            row["estimator"],
            f"{100 * row['auto_top1']:.2f}",
            f"{100 * row['best_top1']:.2f}",
            f"{row['auto_step']:.2g}",
            f"{row['best_step']:.2g}",
            f"{row['points_lost']:.2f}",
        )
        for name, result in results.items()
        for row in result["estimators"]
    ]
    columns = ("data set", "estimator", "auto", "best", "auto step", "best step", "points lost")
    title = f"step='auto' against the best of {N_STEPS} steps, test top-1 %"
    return [command.table(title, columns, rows, left=2)]


if __name__ == "__main__":
    typer.run(main)
