"""python -m benchmarks.path: choosing C, LinearProbe against scikit-learn fits one by one.

Both sides get the same training rows and the same validation rows, a stratified tenth.  slender:
LinearProbe over 45 values of C, once stopping early and once in full, the final fit on all rows
included.  scikit-learn: a single fit at the C that the probe chose, on all rows; and a fit for
each value of C, each from zero, as the usual scripts do, then the final fit.

The latter takes hours, so the fits go into a ledger, where the next run finds them again.
"""

import warnings
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import slender
from slender.datasets import Dataset, load
from slender.lab.ledger import Ledger, ledger_file
from slender.lab.repeats import Say, by_turns, ratios, spread, spread_of
from slender.lab.splits import fingerprint
from slender.solvers.loop import Clock

from . import command, machine, objective, path_report

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
    return objective.measure(objective.linear(model), dataset)["top1"]


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


def kept(ledger: Ledger, dataset: Dataset, C: float) -> dict[str, Any]:
    """`single`, from the ledger if it was done before with these settings."""
    asked = {"settings": SKLEARN, "data": fingerprint(dataset), "C": C}
    found = ledger.get(asked)
    if found is None:
        found = {**asked, **single(dataset, C)}
        ledger.add(found)
    return found


def exhaustive(parts: Parts, values: int, cache: Path, say: Say) -> dict[str, Any]:
    """A fit for each C, the best on the validation rows, then a fit to all rows."""
    ledger = ledger_file(cache, ("settings", "data", "C"))
    places = np.unique(np.linspace(0, len(GRID) - 1, values).round().astype(int))
    fits = []
    for C in GRID[places].tolist():
        say(f"scikit-learn, C = {C:.2e}")
        fits.append(kept(ledger, parts.held_out, C))
    best = max(fits, key=lambda fit: fit["top1"])  # of equals the smallest C
    refit = kept(ledger, parts.whole, best["C"])
    return {
        "C": best["C"],
        "validation_top1": best["top1"],
        "top1": refit["top1"],
        "seconds": sum(fit["seconds"] for fit in fits) + refit["seconds"],
        "fits": fits,
        "refit": refit,
    }


def compare(parts: Parts, repeats: int, say: Say) -> dict[str, Any]:
    """The probe, both ways, and one fit of scikit-learn at the C it chose, taking turns."""
    probe(split(load("tiny")), True, 0)  # compiles the kernels
    chosen = {}  # by seed

    def early(seed: int) -> dict[str, Any]:
        found = probe(parts, False, seed)
        chosen[seed] = found["C"]
        return found

    sides = {
        "early": early,
        "full": lambda seed: probe(parts, True, seed),
        "single": lambda seed: single(parts.whole, chosen[seed]),
    }
    return by_turns(sides, range(1, repeats + 1), say)


def figures(result: dict[str, Any]) -> dict[str, Any]:
    """Ratios of seconds, repeat by repeat, and how far apart the choices are."""
    of_all = result["exhaustive"]
    found = {}
    for which in ("early", "full"):
        ours = result[which]
        middle = sorted(ours, key=lambda r: r["seconds"])[len(ours) // 2]
        found[which] = {
            "C": middle["C"],
            "top1": middle["top1"],
            "values": len(middle["path"]),
            "seconds": spread_of(ours, "seconds"),
            "of_single": ratios(ours, result["single"]),
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
    datasets: command.Sets = "cifar100,caltech101,mnist,planted200k",
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
    ] = Path("benchmarks/cache/path"),
    json_file: command.Json = None,
    resume: command.Resume = False,
    quick: command.Quick = False,
) -> None:
    """LinearProbe against scikit-learn: a single fit, and a fit for each C."""
    repeats = 1 if quick else repeats

    def work(name: str, dataset: Dataset, say: Say) -> dict[str, Any]:
        parts = split(dataset)
        with machine.Neighbours() as others:  # scikit-learn's many fits have their own
            result = compare(parts, repeats, say)
        result["others"] = others.cores
        tried = values or FEWER.get(name, len(GRID))
        home = cache / (f"{name}-quick.json" if quick else f"{name}.json")
        result["exhaustive"] = None if alone else exhaustive(parts, tried, home, say)
        return {**result, "figures": figures(result)}

    options = {"repeats": repeats, "values": values, "alone": alone}
    benchmark = command.Benchmark("path", json_file, quick, resume)
    benchmark.over(datasets, options, work, lambda *of: path_report.report(*of, len(GRID)))


if __name__ == "__main__":
    typer.run(main)
