"""python -m benchmarks.svm: the multi-class SVM, slender's dual solvers against LIBLINEAR.

Crammer and Singer's SVM without bias, the same C for all.  slender's clock runs from the call of
fit until it returns, which it does once its own duality gap is at most 1e-2 of the objective.
LIBLINEAR (solver 4) shows neither gap nor progress, so it is fitted with smaller and smaller
tolerances; its time is that of the first fit whose objective lies within 1e-2 of the *best dual
value known*: the gap it would have if it knew the optimum.  The conversion to its sparse format is
off its clock.
"""

import json
import sys
import warnings
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import slender
from slender.lab.datasets import Dataset
from slender.losses import CrammerSinger
from slender.problem import multiclass
from slender.rows import as_rows
from slender.solvers.loop import Clock

from . import command, machine
from .runner import Say, first_rows, spread

TOL = 1e-2
TIGHT = 3e-4  # of the fit that gives the best dual value
# near the C of best test accuracy
CHOSEN_C = {"mnist": 0.03, "cifar100": 0.003, "caltech101": 0.03, "digits": 1.0, "planted": 0.1}
# LIBLINEAR's eps: its default for this solver is 0.1
LADDER = (3.0, 2.0, 1.0, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.003, 0.001)


def objective(dataset: Dataset, W: NDArray[Any], C: float) -> float:
    """1/n Σ loss + ‖W‖²/(2nC), in float64."""
    n = len(dataset.y_train)
    rows = as_rows(dataset.X_train.astype(np.float64))
    codes = np.unique(dataset.y_train, return_inverse=True)[1].astype(np.int32)
    W = W.astype(np.float64)
    return multiclass(CrammerSinger(), rows, codes, W, np.zeros(len(W)), np.ones(n), 1 / (n * C))


def accuracy(dataset: Dataset, W: NDArray[Any]) -> float:
    classes = np.unique(dataset.y_train)
    return float((classes[(dataset.X_test @ W.T).argmax(axis=1)] == dataset.y_test).mean())


def larank(dataset: Dataset, C: float, seed: int, tol: float = TOL) -> Any:
    model = slender.LaRankClassifier(C, tol=tol, fit_intercept=False, random_state=seed)
    return model.fit(dataset.X_train, dataset.y_train)


def bcfw(dataset: Dataset, C: float, seed: int, tol: float = TOL) -> Any:
    lam = 1 / (len(dataset.y_train) * C)
    settings = {"passes": 1000, "fit_intercept": False, "random_state": seed}
    return slender.BCFWClassifier(lam, tol=tol, **settings).fit(dataset.X_train, dataset.y_train)


OURS = {"larank": larank, "bcfw": bcfw}


def timed(fit: Any, dataset: Dataset, C: float, seed: int) -> dict[str, Any]:
    with Clock() as clock:
        model = fit(dataset, C, seed)
    return {
        "seconds": clock.seconds,
        "passes": model.n_iter_,
        "gap": model.gap_ / model.objective_,
        "objective": objective(dataset, _rows_of(model), C),
        "top1": accuracy(dataset, _rows_of(model)),
    }


def _rows_of(model: Any) -> NDArray[Any]:
    return np.asarray(model.coef_)


class Liblinear:
    """LIBLINEAR on one data set."""

    def __init__(self, dataset: Dataset, C: float) -> None:
        from liblinear.liblinearutil import problem

        self.dataset, self.C = dataset, C
        self.classes = np.unique(dataset.y_train)
        codes = np.searchsorted(self.classes, dataset.y_train)
        X = sparse.csr_matrix(dataset.X_train.astype(np.float64))  # what its wrapper reads
        self.problem = problem(codes.astype(np.float64), X)

    def fit(self, eps: float) -> dict[str, Any]:
        from liblinear.liblinearutil import train

        with Clock() as clock:
            model = train(self.problem, f"-s 4 -c {self.C} -e {eps} -q")
        d, C = model.get_nr_feature(), model.get_nr_class()
        W = np.ctypeslib.as_array(model.w, (d * C,)).reshape(d, C).T
        order = np.argsort(model.get_labels())  # it numbers classes as they appear
        W = np.ascontiguousarray(W[order])
        return {
            "eps": eps,
            "seconds": clock.seconds,
            "objective": objective(self.dataset, W, self.C),
            "top1": accuracy(self.dataset, W),
        }


def race(
    dataset: Dataset, C: float, solvers: dict[str, Any], repeats: int, say: Say
) -> dict[str, Any]:
    few = first_rows(dataset, 512)
    for fit in solvers.values():  # compiles the kernels
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit(few, C, 0)
    say("the best dual value")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the best that was reached will do
        tight = larank(dataset, C, 0, TIGHT)
    best = tight.trace_[-1]["dual"]
    rival = Liblinear(dataset, C)
    ladder = []
    for eps in LADDER:
        ladder.append(rival.fit(eps))
        say(f"LIBLINEAR -e {eps}: {ladder[-1]['seconds']:.2f} s")
        if ladder[-1]["objective"] - best <= TOL * ladder[-1]["objective"]:
            break
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in (*solvers, "LIBLINEAR")}
    for seed in range(1, repeats + 1):
        say(f"repeat {seed} of {repeats}")
        for name, fit in solvers.items():
            runs[name].append(timed(fit, dataset, C, seed))
        runs["LIBLINEAR"].append(rival.fit(ladder[-1]["eps"]))
    theirs = [run["seconds"] for run in runs["LIBLINEAR"]]
    return {
        "shape": [*dataset.X_train.shape, len(rival.classes)],
        "C": C,
        "best_dual": best,
        "tight_gap": tight.gap_ / tight.objective_,
        "ladder": ladder,
        "runs": runs,
        "figures": {
            name: {
                "seconds": spread([run["seconds"] for run in runs[name]]),
                "sooner": spread(
                    [t / run["seconds"] for t, run in zip(theirs, runs[name], strict=True)]
                ),
                "top1": float(np.median([run["top1"] for run in runs[name]])),
                "above": max(1 - best / run["objective"] for run in runs[name]),
            }
            for name in runs
        },
    }


def table(name: str, result: dict[str, Any]) -> Table:
    n, d, C = result["shape"]
    made = Table(title=f"{name}: {n:,} x {d:,}, {C} classes, C = {result['C']:g}")
    for column in ("", "seconds", "LIBLINEAR's seconds / these", "above the best dual", "top-1"):
        made.add_column(column, justify="left" if column == "" else "right")
    for solver, figures in result["figures"].items():
        low, middle, high = (figures["seconds"][key] for key in ("min", "median", "max"))
        ratio = figures["sooner"]
        made.add_row(
            solver,
            f"{middle:.2f} ({low:.2f}-{high:.2f})",
            f"{ratio['median']:.2f} ({ratio['min']:.2f}-{ratio['max']:.2f})",
            f"{figures['above']:.1e}",
            f"{100 * figures['top1']:.2f} %",
        )
    return made


def main(
    datasets: Annotated[
        str, typer.Option(help="Names, separated by commas.")
    ] = "mnist,cifar100,caltech101",
    solvers: Annotated[
        str, typer.Option(help="larank, bcfw (which closes a gap slowly), or both.")
    ] = "larank",
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 5,
    c: Annotated[float | None, typer.Option("--c", help="Another C for all.")] = None,
    json_file: command.Json = None,
    quick: command.Quick = False,
) -> None:
    """Seconds to a relative duality gap of 1e-2: LaRank and BCFW against LIBLINEAR."""
    console = Console(width=command.WIDTH)
    ours = {name: OURS[name] for name in command.names(solvers, OURS, "solver")}
    results: dict[str, Any] = {
        "machine": machine.describe("liblinear-official"),
        "quick": quick,
        "datasets": {},
    }
    for name, dataset in command.load(datasets, quick, console):

        def say(line: str, name: str = name) -> None:
            print(f"{name}: {line}", file=sys.stderr, flush=True)

        with machine.Neighbours() as others:
            result = race(dataset, c or CHOSEN_C[name], ours, 1 if quick else repeats, say)
        results["datasets"][name] = {**result, "others": others.cores}
        console.print(table(name, result))
        machine.warn(name, others, console)
        if json_file:
            json_file.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    typer.run(main)
