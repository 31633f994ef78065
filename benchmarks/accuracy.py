"""Runs every solver on a data set, and works out who reaches what accuracy when.

1. Warm-up: every solver on a few hundred rows, so that kernels are compiled and pools started.
2. The rivals' grids, each setting once.  A rival's best setting is the one that reaches the best
   test accuracy: it is tuned on the test set, which can only flatter it.
3. Repeats, interleaved so that a slow minute of the machine hits everyone: slender's settings as
   they come, the rivals' best ones.
"""

from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Any

from slender.datasets import Dataset, first_rows
from slender.lab.curves import best, seconds_to
from slender.lab.repeats import Say, by_turns, spread, try_each
from slender.solvers.loop import Clock

from . import command, machine, objective, solvers
from .solvers import modules, options

WARM_UP_ROWS = 512
HERO = ("slnd", {})  # whose time the key figure reports: the default SLNDClassifier()

Trial = dict[str, Any]  # solver, setting, seed, curve: list of {seconds, top1, top5}, wall


SOLVERS = modules(solvers)


def label(solver: str, setting: dict[str, Any]) -> str:
    """slender SLND (negatives=1)"""
    return SOLVERS[solver].name + options(setting)


def warm_up(dataset: Dataset, names: Sequence[str]) -> None:
    few = first_rows(dataset, WARM_UP_ROWS)
    for name in names:
        for setting in SOLVERS[name].grid:
            SOLVERS[name].fit(few, setting, 0)
            if not SOLVERS[name].rival:  # callbacks and other kernels; a rival's grid has neither
                list(SOLVERS[name].curve(few, setting, 0))
    machine.wake()


def trial(dataset: Dataset, name: str, setting: dict[str, Any], seed: int) -> Trial:
    """One curve; a solver's clock stands still while the model is measured."""
    with Clock() as wall:
        curve = [
            {"seconds": seconds, **objective.measure(model, dataset)}
            for seconds, model in SOLVERS[name].curve(dataset, setting, seed)
        ]
    return {"solver": name, "setting": setting, "seed": seed, "curve": curve, "wall": wall.seconds}


def whole_fit(dataset: Dataset, name: str, setting: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a fit without curve or callbacks, to hold the curves' clocks against."""
    seconds, trace_seconds = [], []
    while not seconds or (sum(seconds) < 1.0 and len(seconds) < 5):  # short fits are noisy
        with Clock() as clock:
            model = SOLVERS[name].fit(dataset, setting, 0)
        seconds.append(clock.seconds)
        if hasattr(model, "trace_"):
            trace_seconds.append(model.trace_[-1]["seconds"])
    return {
        "solver": name,
        "setting": setting,
        "seconds": median(seconds),
        "trace_seconds": median(trace_seconds) if trace_seconds else None,
    }


def race(dataset: Dataset, names: Sequence[str], repeats: int, say: Say) -> dict[str, Any]:
    """Every solver on one data set."""
    warm_up(dataset, names)
    grid, chosen = [], []
    for name in names:
        settings = SOLVERS[name].grid
        if not SOLVERS[name].rival:
            chosen += [(name, setting) for setting in settings]
            continue

        def first_run(setting: dict[str, Any], name: str = name) -> Trial:
            say(f"grid: {label(name, setting)}")
            return trial(dataset, name, setting, seed=0)

        tried, at = try_each(settings, first_run, lambda t: -best_top1(t))
        grid += tried
        chosen.append((name, settings[at]))
    sides = {label(*one): partial(trial, dataset, *one) for one in chosen}
    runs = by_turns(sides, range(1, repeats + 1), say)
    repeated = sorted((t for of in runs.values() for t in of), key=lambda t: t["seed"])
    fits = []
    for name, setting in chosen:
        say(f"whole fit: {label(name, setting)}")
        fits.append(whole_fit(dataset, name, setting))
    return {
        "shape": command.shape_of(dataset),
        "grid": grid,
        "repeats": repeated,
        "fits": fits,
        "figures": figures(grid, repeated, fits),
    }


def best_top1(of: Trial) -> float:
    return best(of["curve"], "top1", rising=True)


def time_to(of: Trial, top1: float) -> float | None:
    """Seconds until the curve first reaches this accuracy; None: it does not."""
    return seconds_to(of["curve"], "top1", top1, rising=True)


def figures(
    grid: list[Trial], repeated: list[Trial], fits: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """How much sooner than each rival the default SLNDClassifier() is at the rival's best accuracy.

    Two targets: the best that the rival reaches in the same repeat, which is what one run of it
    gives; and the best of all its runs, grid included, which no single one of them gives.  The
    rival's time is when it reaches its best of that repeat, in both; a repeat in which we do not
    reach the target counts as a ratio of 0.  Where its whole fit is faster than its curve (calling
    partial_fit has a price on small data), its times are scaled down.
    """
    heroes = [t for t in repeated if (t["solver"], t["setting"]) == HERO]
    if not heroes:
        return []
    result = []
    for name in dict.fromkeys(t["solver"] for t in grid):
        theirs = [t for t in repeated if t["solver"] == name]
        of_each = [best_top1(t) for t in theirs]
        of_all = max(best_top1(t) for t in [*grid, *theirs] if t["solver"] == name)
        whole = next(fit["seconds"] for fit in fits if fit["solver"] == name)
        scale = min(1.0, whole / median(t["curve"][-1]["seconds"] for t in theirs))
        rivals = [scale * time_to(t, top1) for t, top1 in zip(theirs, of_each, strict=True)]
        targets = {"of the same repeat": of_each, "of all its runs": [of_all] * len(theirs)}
        for which, target in targets.items():
            ours = [time_to(t, top1) for t, top1 in zip(heroes, target, strict=True)]
            reached = [seconds for seconds in ours if seconds is not None]
            ratios = [r / o if o else 0.0 for r, o in zip(rivals, ours, strict=True)]
            result.append(
                {
                    "rival": name,
                    "setting": theirs[0]["setting"],
                    "which": which,
                    "target": spread(target),
                    "reached": len(reached),
                    "repeats": len(heroes),
                    "ours_best": max(best_top1(t) for t in heroes),
                    "ours_seconds": spread(reached) if reached else None,
                    "rival_seconds": spread(rivals),
                    "rival_scale": scale,
                    "ratio": spread(ratios),
                }
            )
    return result
