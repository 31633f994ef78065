"""python -m benchmarks.tracenorm: the trace norm, slender's rank-one descent against FISTA.

Multinomial loss + lambda1 ‖W‖_* + lambda2 ‖W‖² without intercept.  The target is a thousandth above
the best objective known, that of a fit at tol=1e-5.  FISTA (fista.py) is timed to its first step at
or below it, and is not charged for finding out.  slender is timed twice: a plain
TraceNormClassifier(lambda1, lambda2) from the call of fit until it returns, its proof included; and
until its first step at or below the target, as FISTA.

--path: a path of 10 x 10 pairs of penalties, each judged on held-out rows, against the most
expensive of three fits from zero at the path's smallest lambda1.
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
from sklearn.exceptions import ConvergenceWarning

import slender
from slender.estimators.splits import stratified
from slender.lab.datasets import Dataset
from slender.solvers.loop import Clock
from slender.solvers.path import LOOSER

from . import command, machine, objective
from .fista import fista
from .objective import Linear, Task
from .runner import Say, first_rows, spread

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
GRID = 10  # values of each penalty on the path
HELD_OUT = 0.1
WARM_UP_ROWS = 2000


def codes_of(dataset: Dataset) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """The classes, and the number of each row's."""
    classes, codes = np.unique(dataset.y_train, return_inverse=True)
    return classes, codes.astype(np.int32)


def lambda1_max(dataset: Dataset) -> float:
    """The least lambda1 at which W = 0 is the optimum: the gradient's spectral norm there."""
    X, (classes, codes) = dataset.X_train, codes_of(dataset)
    P = np.full((len(X), len(classes)), 1 / len(classes), np.float32)
    P[np.arange(len(X)), codes] -= 1
    return float(np.linalg.norm((P.T @ X).astype(np.float64), 2) / len(X))


class Problem:
    """A data set and its penalties, with an objective that belongs to neither side."""

    def __init__(self, dataset: Dataset, lambda1: float, lambda2: float) -> None:
        self.dataset, self.lambda1, self.lambda2 = dataset, lambda1, lambda2
        self.classes, self.codes = codes_of(dataset)

    def linear(self, W: NDArray[Any]) -> Linear:
        return Linear(W, np.zeros(len(W)), self.classes)

    def objective(self, W: NDArray[Any]) -> float:
        """In float64."""
        same = Task(self.dataset, 1 / (2 * len(self.codes) * self.lambda2))  # lam/2 = lambda2
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


def ours(problem: Problem, target: float, seed: int) -> dict[str, Any]:
    """A plain fit; `to_target` is None where no step of it gets there."""
    with Clock() as clock:
        model = problem.slender(seed)
    unseen = clock.seconds - model.trace_[-1]["seconds"]  # reading, checking, keeping: counted
    there = [r["seconds"] for r in model.trace_ if r["objective"] <= target]
    theta = model.theta_
    return {
        "seconds": clock.seconds,
        "to_target": there[0] + unseen if there else None,
        "gap": model.gap_ / model.objective_,
        "rank": int((theta > WEIGHTLESS * theta.max(initial=0.0)).sum()),
        "kept": model.rank_,
        "passes": model.n_iter_,
        **problem.measured(model.coef_),
        "curve": [[r["seconds"], r["objective"]] for r in model.trace_],
    }


def theirs(problem: Problem, target: float, budget: float) -> dict[str, Any]:
    """FISTA until it is at the target or out of time."""
    steps = fista(
        problem.dataset.X_train,
        problem.codes,
        len(problem.classes),
        problem.lambda1,
        problem.lambda2,
    )
    curve = []
    for step in steps:
        curve.append([step.seconds, step.objective])
        reached = step.objective <= target
        if reached or step.seconds > budget:
            break
    return {
        "seconds": step.seconds,
        "reached": reached,
        "steps": len(curve),
        "rank": step.rank,
        **problem.measured(step.W),
        "curve": curve,
    }


def race(
    dataset: Dataset,
    share: float,
    lambda2: float,
    repeats: int,
    budget: tuple[float, float],
    say: Say,
) -> dict[str, Any]:
    """Both sides by turns; FISTA's budget is (times slender's seconds, seconds at most)."""
    problem = Problem(dataset, share * lambda1_max(dataset), lambda2)
    warm_up(problem)
    say("the best objective")
    tight = problem.slender(0, tol=TIGHT)
    best = problem.objective(tight.coef_)
    target = (1 + NEAR) * best
    runs: dict[str, list[dict[str, Any]]] = {"slender": [], "fista": []}
    factor, most = budget
    for seed in range(1, repeats + 1):
        say(f"repeat {seed} of {repeats}: slender")
        runs["slender"].append(ours(problem, target, seed))
        say(f"repeat {seed} of {repeats}: FISTA")
        allowed = min(most, max(5.0, factor * runs["slender"][-1]["seconds"]))
        runs["fista"].append(theirs(problem, target, allowed))
    return {
        "shape": [*dataset.X_train.shape, len(problem.classes)],
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
    next(iter(fista(few.dataset.X_train, few.codes, len(few.classes), few.lambda1, few.lambda2)))


def figures(runs: dict[str, list[dict[str, Any]]], best: float) -> dict[str, Any]:
    """Seconds, and FISTA's over slender's, repeat by repeat.

    A repeat in which slender's fit is not at the target counts as 0; one in which FISTA runs out of
    time, with what it spent.
    """
    us, them = runs["slender"], runs["fista"]
    spent = [run["seconds"] for run in them]
    there = [run["to_target"] for run in us]

    def ratios(seconds: list[Any]) -> dict[str, float]:
        of = zip(spent, seconds, there, strict=True)
        return spread([s / own if at else 0.0 for s, own, at in of])

    return {
        "fit": spread([run["seconds"] for run in us]),
        "to_target": None if None in there else spread(there),
        "fista": spread(spent),
        "fista_reached": sum(run["reached"] for run in them),
        "of_fit": ratios([run["seconds"] for run in us]),
        "of_target": ratios(there),
        "above": {
            name: max(run["objective"] / best - 1 for run in of) for name, of in runs.items()
        },
    }


# -- the path --------------------------------------------------------------------------------------


def split(dataset: Dataset) -> Dataset:
    """The held-out rows in place of the test rows."""
    part = stratified(codes_of(dataset)[1], HELD_OUT, np.random.default_rng(0))
    X, y = dataset.X_train, dataset.y_train
    return Dataset(X[part.train], y[part.train], X[part.held_out], y[part.held_out])


def walk(dataset: Dataset, values: int, repeats: int, say: Say) -> dict[str, Any]:
    """The path, and fits from zero at its smallest lambda1: first, middle and last lambda2."""
    part = split(dataset)
    warm_up(Problem(part, SHARES["tiny"] * lambda1_max(part), LAMBDA2))
    runs = []
    lambda1s = lambda1_max(part) * np.geomspace(1.0, 0.01, values)  # no further, as the fits below
    for seed in range(1, repeats + 1):
        say(f"repeat {seed} of {repeats}: {values} x {values} pairs")
        probe = slender.TraceNormProbe(
            lambda1s=lambda1s,
            n_lambda2=values,
            validation=(part.X_test, part.y_test),
            refit=False,
            random_state=seed,
        )
        with Clock() as clock, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # `missed` says so
            warnings.filterwarnings("ignore", ".* may do better")  # the path is what counts
            probe.fit(part.X_train, part.y_train)
        last = probe.path_[-1]["lambda1"]
        lambda2s = sorted({record["lambda2"] for record in probe.path_}, reverse=True)
        cold = []
        for lambda2 in (lambda2s[0], lambda2s[len(lambda2s) // 2], lambda2s[-1]):
            say(f"repeat {seed} of {repeats}: from zero, lambda2 = {lambda2:.1e}")
            with Clock() as alone:
                model = Problem(part, last, lambda2).slender(seed)
            share = model.gap_ / model.objective_
            cold.append({"lambda2": lambda2, "seconds": alone.seconds, "gap": share})
        path = [{key: float(value) for key, value in r.items()} for r in probe.path_]
        runs.append(
            {
                "seconds": clock.seconds,
                "missed": sum(r["gap"] > LOOSER * probe.tol * r["objective"] for r in path),
                "chosen": [probe.lambda1_, probe.lambda2_],
                "top1": max(r["top1"] for r in path),
                "cold": cold,
                "path": path,
            }
        )
    dearest = [max(fit["seconds"] for fit in run["cold"]) for run in runs]
    return {
        "shape": [*part.X_train.shape, len(np.unique(part.y_train))],
        "values": values,
        "runs": runs,
        "figures": {
            "path": spread([run["seconds"] for run in runs]),
            "cold": spread(dearest),
            "fits": spread([run["seconds"] / s for run, s in zip(runs, dearest, strict=True)]),
        },
    }


# -- the command -----------------------------------------------------------------------------------


def shown(figure: dict[str, float] | None, digits: int = 2) -> str:
    """median (min-max)"""
    if figure is None:
        return "never"
    middle, low, high = (f"{figure[key]:.{digits}f}" for key in ("median", "min", "max"))
    return f"{middle} ({low}-{high})"


def table(name: str, result: dict[str, Any]) -> Table:
    n, d, C = result["shape"]
    found, runs = result["figures"], result["runs"]
    made = Table(
        title=f"{name}: {n:,} x {d:,}, {C} classes, lambda1 = {result['share']:g} lambda1_max, "
        f"lambda2 = {result['lambda2']:g}"
    )
    for column in ("", "seconds", "FISTA's seconds / these", "above the best", "rank", "top-1"):
        made.add_column(column, justify="left" if column == "" else "right")
    late = "" if found["fista_reached"] == len(runs["fista"]) else "> "
    rows = (
        ("fit, with its proof", "slender", "fit", late + shown(found["of_fit"], 1)),
        ("until FISTA's target", "slender", "to_target", late + shown(found["of_target"], 1)),
        ("FISTA", "fista", "fista", ""),
    )
    for label, side, key, ratio in rows:
        last = runs[side][-1]
        made.add_row(
            label,
            (late if side == "fista" else "") + shown(found[key]),
            ratio,
            f"{found['above'][side]:.1e}",
            f"{last['rank']}",
            f"{100 * last['top1']:.1f} %",
        )
    return made


def sentence(name: str, result: dict[str, Any]) -> str:
    found, runs, values = result["figures"], result["runs"], result["values"]
    missed = max(run["missed"] for run in runs)
    return (
        f"{name}: {values} x {values} pairs with validation take {shown(found['path'])} s, as long "
        f"as {shown(found['fits'], 1)} fits from zero at the smallest lambda1 "
        f"({shown(found['cold'])} s)"
        + (f"; {missed} pairs without a proof" if missed else "")
        + f"; best validation top-1 {100 * runs[-1]['top1']:.1f} %"
    )


def main(
    datasets: Annotated[
        str, typer.Option(help="Names, separated by commas.")
    ] = "cifar100,planted_lowrank",
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 5,
    share: Annotated[
        float | None, typer.Option(help="Another lambda1 / lambda1_max for all.")
    ] = None,
    lambda2: Annotated[float, typer.Option(help="Not for the path.")] = LAMBDA2,
    path: Annotated[
        bool, typer.Option("--path", help="The path against fits from zero, in place of FISTA.")
    ] = False,
    values: Annotated[int, typer.Option(min=2, help="Of each penalty on the path.")] = GRID,
    factor: Annotated[
        float, typer.Option(help="FISTA may take this many times slender's seconds.")
    ] = 60.0,
    max_seconds: Annotated[float, typer.Option(help="But no run of it more than this.")] = 600.0,
    json_file: command.Json = None,
    quick: command.Quick = False,
) -> None:
    """Seconds to the same trace-norm objective: rank-one descent against FISTA; the path."""
    console = Console(width=command.WIDTH)
    results: dict[str, Any] = {"machine": machine.describe(), "quick": quick, "datasets": {}}
    repeats = 1 if quick else repeats
    for name, dataset in command.load(datasets, quick, console):

        def say(line: str, name: str = name) -> None:
            print(f"{name}: {line}", file=sys.stderr, flush=True)

        with machine.Neighbours() as others:
            if path:
                result = walk(dataset, values, repeats, say)
            else:
                budget = factor, max_seconds
                result = race(dataset, share or SHARES[name], lambda2, repeats, budget, say)
        results["datasets"][name] = {**result, "others": others.cores}
        console.print(
            sentence(name, result) if path else table(name, result), highlight=False, soft_wrap=path
        )
        machine.warn(name, others, console)
        if json_file:  # after each data set: the whole takes a while
            json_file.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    typer.run(main)
