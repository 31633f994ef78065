"""Races slender's LogisticClassifier against rivals that minimise the same objective.

1. Warm-up: every solver on a few hundred rows, rivals up to their first point.
2. First runs: slender's plain fit gives the target, its objective; every rival, at every setting
   of its grid, runs until it stops by itself or its budget of seconds is spent.  These are the
   curves of the figure.  A rival's best setting is the one that reaches the target soonest; where
   none does, the one with the lowest objective; where it minimises something else, the one with
   the best test accuracy.
3. Repeats, interleaved so that a slow minute of the machine hits everyone: slender's plain fit,
   its objective the target of this repeat; every rival until its first point at or below it.
   A rival that did not get there in its first runs is given one repeat, not all: hours saved.
"""

import warnings
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from slender.datasets import first_rows
from slender.lab.curves import best, first_below, seconds_to
from slender.lab.recorder import Budget
from slender.lab.repeats import Say, by_turns, try_each
from slender.solvers.loop import Clock

from . import command, machine, objective
from .accuracy import WARM_UP_ROWS, Trial
from .logistic_figures import figures
from .objective import Task, linear, recorder
from .solvers import modules, multinomial, options
from .solvers.multinomial import MULTINOMIAL

SOLVERS = modules(multinomial)
HERO = "logistic"
RIVALS = [name for name, solver in SOLVERS.items() if solver.rival]
TIGHT = {"tol": 1e-7}  # the fit that gives the best objective known


def missing(name: str) -> str | None:
    """Why a solver cannot run here: its package is not installed, or does not load."""
    package = SOLVERS[name].package
    if package is None:
        return None
    module, for_pip = package
    try:
        with warnings.catch_warnings():
            # as errors, some would make Snap ML take the processor for an old one
            warnings.simplefilter("ignore")
            import_module(module)
    except ImportError as reason:
        return f"{reason}; pip install {for_pip}, see benchmarks/README.md"
    return None


def runnable(task: Task, names: Sequence[str], say: Say) -> dict[str, str]:
    """The rivals that cannot run, and why; each is told."""
    skipped = {}
    for name in names:
        refuses = getattr(SOLVERS[name], "refuses", lambda task: None)
        reason = missing(name) or refuses(task)
        if reason:
            skipped[name] = reason
            say(f"{SOLVERS[name].name} is skipped: {reason}")
    return skipped


def trial(
    task: Task,
    name: str,
    setting: dict[str, Any],
    seed: int,
    budget: float,
    target: float | None = None,
) -> Trial:
    seen = recorder(task, budget, target)
    with Clock() as wall:
        SOLVERS[name].curve(task, setting, seed, seen)
        seen.finish()
    return {
        "solver": name,
        "setting": setting,
        "seed": seed,
        "curve": seen.curve,
        "stopped": seen.stopped,
        "wall": wall.seconds,
    }


def plain_fit(task: Task, setting: dict[str, Any], seed: int) -> dict[str, float]:
    """The whole wall clock of slender's fit, no callbacks; what it reached, off the clock."""
    with Clock() as clock:
        model = SOLVERS[HERO].fit(task, setting, seed)
    return {"seconds": clock.seconds, **objective.reached(linear(model), task)}


def warm_up(task: Task, names: Sequence[str]) -> None:
    few = task._replace(dataset=first_rows(task.dataset, WARM_UP_ROWS))
    SOLVERS[HERO].fit(few, SOLVERS[HERO].grid[0], 0)
    for name in (HERO, *names):
        budget = np.inf if name == HERO else 0.0  # a rival: up to its first point
        SOLVERS[name].curve(few, SOLVERS[name].grid[0], 0, recorder(few, budget))
    machine.wake()


def quality(of: Trial, target: float) -> tuple[float, float]:
    """What the best setting of a rival is the smallest of."""
    if SOLVERS[of["solver"]].problem != MULTINOMIAL:
        return -best(of["curve"], "top1", rising=True), 0.0
    seconds = seconds_to(of["curve"], "objective", target)
    return np.inf if seconds is None else seconds, best(of["curve"], "objective")


def repeated_setting(first: Trial, target: float) -> dict[str, Any]:
    focus = getattr(SOLVERS[first["solver"]], "focus", None)
    if focus is None:
        return first["setting"]
    return focus(first["setting"], first["curve"], first_below(first["curve"], "objective", target))


def race(
    task: Task, rivals: Sequence[str], repeats: int, budget: Budget, say: Say
) -> dict[str, Any]:
    """slender and these rivals on one task."""
    skipped = runnable(task, rivals, say)
    rivals = [name for name in rivals if name not in skipped]
    say("warm-up")
    warm_up(task, rivals)
    ours = SOLVERS[HERO].grid[0]
    first = plain_fit(task, ours, 0)
    allowed = budget.seconds(first["seconds"])
    say(f"slender's plain fit: {first['seconds']:.3f} s; every rival has {allowed:.0f} s")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # float32 may not show so small a gap
        tight = plain_fit(task, {**ours, **TIGHT}, 0)
    target = first["objective"]
    grid, chosen, hopeful = [trial(task, HERO, ours, 0, np.inf)], {}, set()
    for name in rivals:

        def first_run(setting: dict[str, Any], name: str = name) -> Trial:
            say(f"first run: {SOLVERS[name].name}{options(setting)}")
            return trial(task, name, setting, 0, allowed)

        tried, at = try_each(SOLVERS[name].grid, first_run, lambda t: quality(t, target))
        grid += tried
        chosen[name] = repeated_setting(tried[at], target)
        if seconds_to(tried[at]["curve"], "objective", target) is not None:
            hopeful.add(name)
    plain = [first]  # of the first runs; then one for each repeat, which begins with it

    def our_turn(seed: int) -> None:
        plain.append(plain_fit(task, ours, seed))

    def their_turn(name: str, setting: dict[str, Any], seed: int) -> Trial | None:
        if seed > 1 and name not in hopeful:
            return None
        return trial(task, name, setting, seed, allowed, plain[-1]["objective"])

    sides: dict[str, Any] = {SOLVERS[HERO].name: our_turn}
    for name, setting in chosen.items():
        if SOLVERS[name].problem == MULTINOMIAL:  # else there is nothing to time it by
            side = f"{SOLVERS[name].name}{options(setting)}"
            sides[side] = partial(their_turn, name, setting)
    runs = by_turns(sides, range(1, repeats + 1), say)
    repeated = sorted((t for of in runs.values() for t in of), key=lambda t: t["seed"])
    result = {
        "shape": command.shape_of(task.dataset),
        "C": task.C,
        "budget": allowed,
        "skipped": skipped,
        "tight": tight,
        "plain": plain,
        "grid": grid,
        "chosen": chosen,
        "repeats": repeated,
    }
    problems = {name: SOLVERS[name].problem for name in rivals}
    return {**result, **figures(result, problems)}
