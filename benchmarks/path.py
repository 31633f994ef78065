"""python -m benchmarks.path: choosing C, LinearProbe against scikit-learn fits one by one.

Both sides get the same training rows and the same validation rows, a stratified tenth.  slender:
LinearProbe over 45 values of C, once stopping early and once in full, the final fit on all rows
included.  scikit-learn: a single fit at the C that the probe chose, on all rows; and a fit for
each value of C, each from zero, as the usual scripts do, then the final fit.

The latter takes hours, so each fit is kept in a file of its own and found again by the next run.
"""

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.console import Console
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import slender
from slender.lab.datasets import Dataset, planted
from slender.solvers.loop import Clock

from . import command, machine, objective, path_report
from .objective import Linear
from .runner import Say, spread

GRID = np.logspace(-6, 5, 45)  # DINO's evaluation; LinearProbe's default
FEWER = {"planted200k": 9}  # values of C tried by scikit-learn, evenly spread over the grid
HELD_OUT = 0.1
SKLEARN = {"tol": 1e-4, "max_iter": 1000}  # its default tol; the iterations of the usual scripts


class Parts(NamedTuple):
    """A data set, and the same with the validation rows in place of the test rows."""

    whole: Dataset
    held_out: Dataset


def split(dataset: Dataset) -> Parts:
    fit, val = train_test_split(
        np.arange(len(dataset.y_train)),
        test_size=HELD_OUT,
        stratify=dataset.y_train,
        random_state=0,
    )
    X, y = dataset.X_train, dataset.y_train
    return Parts(dataset, Dataset(X[fit], y[fit], X[val], y[val]))


def accuracy(model: Any, dataset: Dataset) -> float:
    return objective.measure(Linear(model.coef_, model.intercept_, model.classes_), dataset)["top1"]


def probe(parts: Parts, full: bool, seed: int) -> dict[str, Any]:
    """LinearProbe over the grid; the clock sees all of fit."""
    X, y, X_val, y_val = parts.held_out
    model = slender.LinearProbe(
        GRID.tolist(), validation=(X_val, y_val), full=full, random_state=seed
    )
    with Clock() as clock:
        model.fit(X, y)
    return {
        "seconds": clock.seconds,
        "C": float(model.C_),
        "top1": accuracy(model, parts.whole),
        "path": [{key: float(value) for key, value in r.items()} for r in model.path_],
    }


def single(dataset: Dataset, C: float) -> dict[str, Any]:
    """One fit of scikit-learn; its accuracy on the rows that the data set calls test."""
    model = LogisticRegression(C=C, **SKLEARN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the record says so
        with machine.Neighbours() as others, Clock() as clock:
            model.fit(dataset.X_train, dataset.y_train)
    return {
        "C": C,
        "seconds": clock.seconds,
        "iterations": int(model.n_iter_[0]),
        "converged": bool(model.n_iter_[0] < SKLEARN["max_iter"]),
        "top1": accuracy(model, dataset),
        "others": others.cores,
    }


def kept(path: Path, dataset: Dataset, C: float) -> dict[str, Any]:
    """`single`, from the file if it was done before with these settings."""
    asked = {"settings": SKLEARN, "shape": list(dataset.X_train.shape), "C": C}
    if path.exists():
        found = json.loads(path.read_text())
        if found["asked"] == asked:
            return found["fit"]
    fit = single(dataset, C)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({"asked": asked, "fit": fit}))
    os.replace(partial, path)  # a file is there whole or not at all
    return fit


def exhaustive(parts: Parts, values: int, cache: Path, say: Say) -> dict[str, Any]:
    """A fit for each C, the best on the validation rows, then a fit to all rows."""
    places = np.unique(np.linspace(0, len(GRID) - 1, values).round().astype(int)).tolist()
    fits = []
    for i in places:
        say(f"scikit-learn, C = {GRID[i]:.2e}")
        fits.append(kept(cache / f"{i:02d}.json", parts.held_out, float(GRID[i])))
    best = max(range(len(fits)), key=lambda i: fits[i]["top1"])  # of equals the smallest C
    refit = kept(cache / f"final-{places[best]:02d}.json", parts.whole, fits[best]["C"])
    return {
        "C": fits[best]["C"],
        "validation_top1": fits[best]["top1"],
        "top1": refit["top1"],
        "seconds": sum(fit["seconds"] for fit in fits) + refit["seconds"],
        "fits": fits,
        "refit": refit,
    }


def compare(parts: Parts, repeats: int, say: Say) -> dict[str, Any]:
    """The probe, both ways, and one fit of scikit-learn at the C it chose, taking turns."""
    early, whole, one = [], [], []
    probe(split(planted(600, 16, 6, n_test=200, separation=1.5)), True, 0)  # compiles the kernels
    for seed in range(1, repeats + 1):
        say(f"repeat {seed} of {repeats}: LinearProbe")
        early.append(probe(parts, False, seed))
        say(f"repeat {seed} of {repeats}: LinearProbe(full=True)")
        whole.append(probe(parts, True, seed))
        say(f"repeat {seed} of {repeats}: scikit-learn, C = {early[-1]['C']:.2e}")
        one.append(single(parts.whole, early[-1]["C"]))
    return {"early": early, "full": whole, "single": one}


def figures(result: dict[str, Any]) -> dict[str, Any]:
    """Ratios of seconds, repeat by repeat, and how far apart the choices are."""
    one = [fit["seconds"] for fit in result["single"]]
    of_all = result["exhaustive"]
    found = {}
    for which in ("early", "full"):
        ours = result[which]
        middle = sorted(ours, key=lambda r: r["seconds"])[len(ours) // 2]
        found[which] = {
            "C": middle["C"],
            "top1": middle["top1"],
            "values": len(middle["path"]),
            "seconds": spread([r["seconds"] for r in ours]),
            "of_single": spread([r["seconds"] / s for r, s in zip(ours, one, strict=True)]),
        }
        if of_all:
            found[which] |= {
                "sooner": spread([of_all["seconds"] / r["seconds"] for r in ours]),
                "steps_apart": max(steps_apart(r["C"], of_all["C"]) for r in ours),
                "points_more": 100 * (middle["top1"] - of_all["top1"]),
            }
    return found


def steps_apart(C: float, other: float) -> int:
    """Places between two values of C in the grid."""
    place, there = (int(np.abs(np.log(GRID / value)).argmin()) for value in (C, other))
    return abs(place - there)


def main(
    datasets: Annotated[
        str, typer.Option(help="Names, separated by commas.")
    ] = "cifar100,caltech101,mnist,planted200k",
    repeats: Annotated[int, typer.Option(min=1, help="Runs of the probe and the single fit.")] = 5,
    values: Annotated[
        int | None,
        typer.Option(min=2, max=len(GRID), help="Values of C for scikit-learn, spread evenly."),
    ] = None,
    alone: Annotated[
        bool, typer.Option("--alone", help="Only the single fit, not one for each C.")
    ] = False,
    cache: Annotated[
        Path, typer.Option(help="Folder of scikit-learn's fits, found again by the next run.")
    ] = Path("benchmarks/results/path"),
    json_file: command.Json = None,
    quick: command.Quick = False,
) -> None:
    """LinearProbe against scikit-learn: a single fit, and a fit for each C."""
    console = Console(width=command.WIDTH)
    results: dict[str, Any] = {"machine": machine.describe(), "quick": quick, "datasets": {}}
    for name, dataset in command.load(datasets, quick, console):

        def say(line: str, name: str = name) -> None:
            print(f"{name}: {line}", file=sys.stderr, flush=True)

        parts = split(dataset)
        with machine.Neighbours() as others:
            result = compare(parts, 1 if quick else repeats, say)
        machine.warn(name, others, console)
        result["others"] = others.cores
        tried = values or FEWER.get(name, len(GRID))
        home = cache / (f"{name}-quick" if quick else name)
        result["exhaustive"] = None if alone else exhaustive(parts, tried, home, say)
        result["figures"] = figures(result)
        results["datasets"][name] = result
        console.print(path_report.table(name, result))
        for sentence in path_report.sentences(name, result, len(GRID)):
            console.print(sentence, highlight=False)
        if json_file:  # after each data set: the whole takes hours
            json_file.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    typer.run(main)
