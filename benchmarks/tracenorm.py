"""python -m benchmarks.tracenorm: the trace norm, slender's rank-one descent against FISTA.

Multinomial loss + lambda1 ‖W‖_* + lambda2 ‖W‖² without intercept.  The target is a thousandth above
the best objective known, that of a fit at tol=1e-5.  FISTA (solvers/tracenorm/fista.py) is timed to
its first step at or below it, and is not charged for finding out.  slender is timed twice: a plain
TraceNormClassifier(lambda1, lambda2) from the call of fit until it returns, its proof included; and
until its first step at or below the target, as FISTA.

--path is tracenorm_path.py.
"""

import warnings
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

import slender
from slender.datasets import Dataset, first_rows
from slender.lab.curves import Curve, seconds_to
from slender.lab.recorder import Budget
from slender.lab.repeats import Say, by_turns, ranged, ratios, spread_of
from slender.solvers.loop import Clock

from . import command, objective
from .objective import Linear, Task, without_intercept
from .solvers.tracenorm.fista import Step, fista

LAMBDA2 = 1e-5
# lambda1 / lambda1_max_: where test accuracy is best while the rank stays at 50 or below
SHARES = {
    "cifar100": 0.07,
    "caltech101": 0.01,
    "mnist": 0.01,
    "planted_lowrank": 0.05,
    "planted": 0.1,
    "planted200k": 0.1,
    "digits": 0.02,
    "tiny": 0.05,
}
TIGHT = 1e-5  # tol of the fit that gives the best objective known
NEAR = 1e-3  # of it: the target
WEIGHTLESS = 1e-3  # of the largest singular value: smaller ones are not counted as rank
WARM_UP_ROWS = 2000
NEVER = {"fit": np.inf, "to_target": np.inf}  # seconds: a ratio of 0


def labels_of(dataset: Dataset) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """The classes, and the number of each row's."""
    classes, class_index = np.unique(dataset.y_train, return_inverse=True)
    return classes, class_index.astype(np.int32)


def lambda1_max(dataset: Dataset) -> float:
    """The least lambda1 at which W = 0 is the optimum: the gradient's spectral norm there."""
    X, (classes, class_index) = dataset.X_train, labels_of(dataset)
    P = np.full((len(X), len(classes)), 1 / len(classes), np.float32)
    P[np.arange(len(X)), class_index] -= 1
    return float(np.linalg.norm((P.T @ X).astype(np.float64), 2) / len(X))


class Problem:
    """A data set and its penalties, with an objective that belongs to neither side."""

    def __init__(self, dataset: Dataset, lambda1: float, lambda2: float) -> None:
        self.dataset, self.lambda1, self.lambda2 = dataset, lambda1, lambda2
        self.classes, self.class_index = labels_of(dataset)

    def linear(self, W: NDArray[Any]) -> Linear:
        return without_intercept(W, self.classes)

    def objective(self, W: NDArray[Any]) -> float:
        """In float64."""
        same = Task(self.dataset, 1 / (2 * len(self.class_index) * self.lambda2))  # lam/2 = lambda2
        nuclear = np.linalg.svd(W.astype(np.float64), compute_uv=False).sum()
        return objective.multinomial(self.linear(W), same) + self.lambda1 * float(nuclear)

    def measured(self, W: NDArray[Any]) -> dict[str, float]:
        top1 = objective.measure(self.linear(W), self.dataset)["top1"]
        return {"objective": self.objective(W), "top1": top1}

    def slender(self, seed: int, **settings: Any) -> Any:
        model = slender.TraceNormClassifier(
            self.lambda1, self.lambda2, random_state=seed, **settings
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the gap is reported
            return model.fit(self.dataset.X_train, self.dataset.y_train)

    def fista(self) -> Any:
        X, lambdas = self.dataset.X_train, (self.lambda1, self.lambda2)
        return fista(X, self.class_index, len(self.classes), *lambdas)


def ours(problem: Problem, target: float, seed: int) -> dict[str, Any]:
    """A plain fit; `to_target` is None where no step of it gets there."""
    with Clock() as clock:
        model = problem.slender(seed)
    unseen = clock.seconds - model.trace_[-1]["seconds"]  # reading, checking, keeping: counted
    there = seconds_to(model.trace_, "objective", target)
    theta = model.theta_
    return {
        "seconds": clock.seconds,
        "to_target": None if there is None else there + unseen,
        "gap": model.gap_ / model.objective_,
        "rank": int((theta > WEIGHTLESS * theta.max(initial=0.0)).sum()),
        "kept": model.rank_,
        "passes": model.n_iter_,
        **problem.measured(model.coef_),
        "curve": pairs(model.trace_),
    }


def pairs(curve: Curve) -> list[list[float]]:
    return [[point["seconds"], point["objective"]] for point in curve]


def theirs(problem: Problem, target: float, budget: float) -> dict[str, Any]:
    """FISTA until it is at the target or out of time."""
    steps: list[Step] = []
    for step in problem.fista():
        steps.append(step._replace(W=None))  # a step's weights are large
        reached = step.objective <= target
        if reached or step.seconds > budget:
            break
    return {
        "seconds": step.seconds,
        "reached": reached,
        "steps": len(steps),
        "rank": step.rank,
        **problem.measured(step.W),
        "curve": pairs([step._asdict() for step in steps]),
    }


def race(
    dataset: Dataset, share: float, lambda2: float, repeats: int, budget: Budget, say: Say
) -> dict[str, Any]:
    """Both sides by turns; FISTA's budget follows slender's seconds of the same repeat."""
    problem = Problem(dataset, share * lambda1_max(dataset), lambda2)
    warm_up(problem)
    say("the best objective")
    tight = problem.slender(0, tol=TIGHT)
    best = problem.objective(tight.coef_)
    target = (1 + NEAR) * best
    latest: dict[str, Any] = {}

    def slender_turn(seed: int) -> dict[str, Any]:
        latest.update(ours(problem, target, seed))
        return dict(latest)

    sides = {
        "slender": slender_turn,
        "fista": lambda seed: theirs(problem, target, budget.seconds(latest["seconds"])),
    }
    runs = by_turns(sides, range(1, repeats + 1), say)
    return {
        "shape": command.shape_of(dataset),
        "share": share,
        "lambda1": problem.lambda1,
        "lambda2": lambda2,
        "best": best,
        "tight_gap": tight.gap_ / tight.objective_,
        "tight_rank": tight.rank_,
        "runs": runs,
        "figures": figures(runs, best),
    }


def warm_up(problem: Problem) -> None:
    """Compiles the kernels of both sides."""
    few = Problem(first_rows(problem.dataset, WARM_UP_ROWS), problem.lambda1, problem.lambda2)
    few.slender(0, passes=6)
    next(iter(few.fista()))


def figures(runs: dict[str, list[dict[str, Any]]], best: float) -> dict[str, Any]:
    """Seconds, and FISTA's over slender's, repeat by repeat.

    A repeat in which slender's fit is not at the target counts as 0; one in which FISTA runs out of
    time, with what it spent.
    """
    us, them = runs["slender"], runs["fista"]
    there = [run["to_target"] is not None for run in us]
    counted = [
        {"fit": run["seconds"], "to_target": run["to_target"]} if at else NEVER
        for run, at in zip(us, there, strict=True)
    ]
    spent = [{"fit": run["seconds"], "to_target": run["seconds"]} for run in them]
    return {
        "fit": spread_of(us, "seconds"),
        "to_target": spread_of(us, "to_target") if all(there) else None,
        "fista": spread_of(them, "seconds"),
        "fista_reached": sum(run["reached"] for run in them),
        "of_fit": ratios(spent, counted, "fit"),
        "of_target": ratios(spent, counted, "to_target"),
        "above": {
            name: max(run["objective"] / best - 1 for run in of) for name, of in runs.items()
        },
    }


def table(name: str, result: dict[str, Any]) -> Table:
    found, runs = result["figures"], result["runs"]
    late = "" if found["fista_reached"] == len(runs["fista"]) else "> "
    kinds = (
        ("fit, with its proof", "slender", "fit", late + ranged(found["of_fit"], 1)),
        ("until FISTA's target", "slender", "to_target", late + ranged(found["of_target"], 1)),
        ("FISTA", "fista", "fista", ""),
    )
    rows = [
        (
            label,
            (late if side == "fista" else "") + ranged(found[key]),
            ratio,
            f"{found['above'][side]:.1e}",
            f"{runs[side][-1]['rank']}",
            f"{100 * runs[side][-1]['top1']:.1f} %",
        )
        for label, side, key, ratio in kinds
    ]
    columns = ("", "seconds", "FISTA's seconds / these", "above the best", "rank", "top-1")
    title = (
        f"{command.sized(name, result['shape'])}, lambda1 = {result['share']:g} lambda1_max, "
        f"lambda2 = {result['lambda2']:g}"
    )
    return command.table(title, columns, rows)


def main(
    datasets: command.Sets = "cifar100,planted_lowrank",
    repeats: command.Repeats = 5,
    share: Annotated[
        float | None, typer.Option(help="Another lambda1 / lambda1_max for all.")
    ] = None,
    lambda2: Annotated[float, typer.Option(help="Not for the path.")] = LAMBDA2,
    path: Annotated[
        bool, typer.Option("--path", help="The path against fits from zero, in place of FISTA.")
    ] = False,
    values: Annotated[int, typer.Option(min=2, help="Of each penalty on the path.")] = 10,
    factor: command.Factor = 60.0,
    max_seconds: command.MostSeconds = 600.0,
    json_file: command.Json = None,
    resume: command.Resume = False,
    quick: command.Quick = False,
) -> None:
    """Seconds to the same trace-norm objective: rank-one descent against FISTA; the path."""
    from . import tracenorm_path

    repeats = 1 if quick else repeats
    budget = Budget(factor, min(Budget().least, max_seconds), max_seconds)

    def raced(name: str, dataset: Dataset, say: Say) -> dict[str, Any]:
        return race(dataset, share or SHARES[name], lambda2, repeats, budget, say)

    def walked(name: str, dataset: Dataset, say: Say) -> dict[str, Any]:
        return tracenorm_path.walk(dataset, values, repeats, say)

    options = {"repeats": repeats}
    if path:
        benchmark = command.Benchmark("tracenorm --path", json_file, quick, resume)
        options |= {"values": values}
        benchmark.over(datasets, options, walked, lambda *of: [tracenorm_path.sentence(*of)])
    else:
        benchmark = command.Benchmark("tracenorm", json_file, quick, resume)
        options |= {"share": share, "lambda2": lambda2, "budget": budget}
        benchmark.over(datasets, options, raced, lambda *of: [table(*of)])


if __name__ == "__main__":
    typer.run(main)
