"""python -m benchmarks.svm: the multi-class SVM, slender's dual solvers against LIBLINEAR.

Crammer and Singer's SVM without bias, the same C for all.  slender's clock runs from the call of
fit until it returns, which it does once its own duality gap is at most 1e-2 of the objective.
LIBLINEAR (solver 4) shows neither gap nor progress, so it is fitted with smaller and smaller
tolerances; its time is that of the first fit whose objective lies within 1e-2 of the *best dual
value known*: the gap it would have if it knew the optimum.  The conversion to its sparse format is
off its clock.
"""

import warnings
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

import slender
from slender.datasets import Dataset, first_rows
from slender.lab.repeats import Say, by_turns, ranged, ratios, spread_of
from slender.losses import CrammerSinger
from slender.problem import multiclass
from slender.rows import as_rows
from slender.solvers.loop import Clock

from . import command
from .objective import Linear, linear, measure
from .solvers.svm.liblinear import Liblinear

TOL = 1e-2
TIGHT = 3e-4  # of the fit that gives the best dual value
# near the C of best test accuracy
CHOSEN_C = {"mnist": 0.03, "cifar100": 0.003, "caltech101": 0.03, "digits": 1.0, "planted": 0.1}
# LIBLINEAR's eps: its default for this solver is 0.1
LADDER = (3.0, 2.0, 1.0, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.003, 0.001)


def objective(dataset: Dataset, model: Linear, C: float) -> float:
    """1/n Σ loss + ‖W‖²/(2nC), in float64."""
    n = len(dataset.y_train)
    rows = as_rows(dataset.X_train.astype(np.float64))
    class_index = np.searchsorted(model.classes, dataset.y_train).astype(np.int32)
    W, b = model.coef.astype(np.float64), np.zeros(len(model.classes))
    return multiclass(CrammerSinger(), rows, class_index, W, b, np.ones(n), 1 / (n * C))


def reached(dataset: Dataset, model: Linear, C: float) -> dict[str, float]:
    return {
        "objective": objective(dataset, model, C),
        "top1": measure(model, dataset)["top1"],
    }


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
        **reached(dataset, linear(model), C),
    }


def theirs(rival: Liblinear, dataset: Dataset, C: float, eps: float) -> dict[str, Any]:
    """LIBLINEAR's solver of Crammer and Singer's SVM with this tolerance."""
    seconds, model = rival.fit(f"-s 4 -c {C} -e {eps}")
    return {"eps": eps, "seconds": seconds, **reached(dataset, model, C)}


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
    rival = Liblinear(dataset.X_train, dataset.y_train)
    ladder = []
    for eps in LADDER:
        ladder.append(theirs(rival, dataset, C, eps))
        say(f"LIBLINEAR -e {eps}: {ladder[-1]['seconds']:.2f} s")
        if ladder[-1]["objective"] - best <= TOL * ladder[-1]["objective"]:
            break
    eps = ladder[-1]["eps"]
    sides: dict[str, Any] = {name: partial(timed, fit, dataset, C) for name, fit in solvers.items()}
    sides["LIBLINEAR"] = lambda seed: theirs(rival, dataset, C, eps)
    runs = by_turns(sides, range(1, repeats + 1), say)
    return {
        "shape": command.shape_of(dataset),
        "C": C,
        "best_dual": best,
        "tight_gap": tight.gap_ / tight.objective_,
        "ladder": ladder,
        "runs": runs,
        "figures": {
            name: {
                "seconds": spread_of(of, "seconds"),
                "sooner": ratios(runs["LIBLINEAR"], of),
                "top1": spread_of(of, "top1")["median"],
                "above": max(1 - best / run["objective"] for run in of),
            }
            for name, of in runs.items()
        },
    }


def table(name: str, result: dict[str, Any]) -> Table:
    rows = [
        (
            solver,
            ranged(figures["seconds"]),
            ranged(figures["sooner"]),
            f"{figures['above']:.1e}",
            f"{100 * figures['top1']:.2f} %",
        )
        for solver, figures in result["figures"].items()
    ]
    columns = ("", "seconds", "LIBLINEAR's seconds / these", "above the best dual", "top-1")
    title = f"{command.sized(name, result['shape'])}, C = {result['C']:g}"
    return command.table(title, columns, rows)


def main(
    datasets: command.Sets = "mnist,cifar100,caltech101",
    solvers: Annotated[
        str, typer.Option(help="larank, bcfw (which closes a gap slowly), or both.")
    ] = "larank",
    repeats: command.Repeats = 5,
    c: Annotated[float | None, typer.Option("--c", help="Another C for all.")] = None,
    json_file: command.Json = None,
    resume: command.Resume = False,
    quick: command.Quick = False,
) -> None:
    """Seconds to a relative duality gap of 1e-2: LaRank and BCFW against LIBLINEAR."""
    ours = {name: OURS[name] for name in command.names(solvers, OURS, "solver")}
    repeats = 1 if quick else repeats

    def work(name: str, dataset: Dataset, say: Say) -> dict[str, Any]:
        return race(dataset, c or CHOSEN_C[name], ours, repeats, say)

    options = {"solvers": list(ours), "repeats": repeats, "C": c}
    benchmark = command.Benchmark("svm", json_file, quick, resume, ("liblinear-official",))
    benchmark.over(datasets, options, work, lambda *of: [table(*of)])


if __name__ == "__main__":
    typer.run(main)
