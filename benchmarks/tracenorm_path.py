"""python -m benchmarks.tracenorm --path: a path of 10 x 10 pairs of penalties.

Each pair is judged on held-out rows, and the whole is held against the most expensive of three fits
from zero at the path's smallest lambda1.
"""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import slender
from slender.datasets import Dataset
from slender.estimators.splits import stratified
from slender.lab.repeats import Say, by_turns, ranged, ratios, spread_of
from slender.solvers.loop import Clock
from slender.solvers.path import LOOSER

from . import command
from .tracenorm import LAMBDA2, SHARES, Problem, labels_of, lambda1_max, warm_up

HELD_OUT = 0.1


def split(dataset: Dataset) -> Dataset:
    """The held-out rows in place of the test rows."""
    part = stratified(labels_of(dataset)[1], HELD_OUT, np.random.default_rng(0))
    X, y = dataset.X_train, dataset.y_train
    return Dataset(X[part.train], y[part.train], X[part.held_out], y[part.held_out])


def walk(dataset: Dataset, values: int, repeats: int, say: Say) -> dict[str, Any]:
    """The path, and fits from zero at its smallest lambda1: first, middle and last lambda2."""
    part = split(dataset)
    warm_up(Problem(part, SHARES["tiny"] * lambda1_max(part), LAMBDA2))
    lambda1s = lambda1_max(part) * np.geomspace(1.0, 0.01, values)  # no further, as the fits below

    def run(seed: int) -> dict[str, Any]:
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
            say(f"from zero, lambda2 = {lambda2:.1e}")
            with Clock() as alone:
                model = Problem(part, last, lambda2).slender(seed)
            share = model.gap_ / model.objective_
            cold.append({"lambda2": lambda2, "seconds": alone.seconds, "gap": share})
        path = [{key: float(value) for key, value in r.items()} for r in probe.path_]
        return {
            "seconds": clock.seconds,
            "missed": sum(r["gap"] > LOOSER * probe.tol * r["objective"] for r in path),
            "chosen": [probe.lambda1_, probe.lambda2_],
            "top1": max(r["top1"] for r in path),
            "cold": cold,
            "path": path,
        }

    pairs = f"{values} x {values} pairs"
    runs = by_turns({pairs: run}, range(1, repeats + 1), say)[pairs]
    dearest = [max(run["cold"], key=lambda fit: fit["seconds"]) for run in runs]
    return {
        "shape": command.shape_of(part),
        "values": values,
        "runs": runs,
        "figures": {
            "path": spread_of(runs, "seconds"),
            "cold": spread_of(dearest, "seconds"),
            "fits": ratios(runs, dearest),
        },
    }


def sentence(name: str, result: dict[str, Any]) -> str:
    found, runs, values = result["figures"], result["runs"], result["values"]
    missed = max(run["missed"] for run in runs)
    return (
        f"{name}: {values} x {values} pairs with validation take {ranged(found['path'])} s, as "
        f"long as {ranged(found['fits'], 1)} fits from zero at the smallest lambda1 "
        f"({ranged(found['cold'])} s)"
        + (f"; {missed} pairs without a proof" if missed else "")
        + f"; best validation top-1 {100 * runs[-1]['top1']:.1f} %"
    )
