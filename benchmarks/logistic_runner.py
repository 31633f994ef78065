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
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from slender.solvers.loop import Clock

from . import objective
from .logistic_figures import figures, first_at
from .objective import Linear, Task
from .runner import WARM_UP_ROWS, Say, Trial, first_rows, modules, options
from .solvers import multinomial
from .solvers.multinomial import MULTINOMIAL

SOLVERS = modules(multinomial)
HERO = "logistic"
RIVALS = [name for name, solver in SOLVERS.items() if solver.rival]
THIN = 1.05
TIGHT = {"tol": 1e-7}  # the fit that gives the best objective known


class Budget(NamedTuple):
    """Seconds a rival may take for a fit: `factor` times slender's, within these bounds."""

    factor: float = 60.0
    least: float = 5.0
    most: float = 600.0

    def seconds(self, ours: float) -> float:
        return min(self.most, max(self.least, self.factor * ours))


class Recorder:
    """Measures the points that a solver shows, and says when to stop.

    Measuring costs more than most solvers' steps, so a point is passed over unless it comes THIN
    times later than the last one measured.  Those passed over are kept until the next is measured:
    if that one is at the target, they are looked through for the first that is.
    """

    def __init__(self, task: Task, budget: float, target: float | None = None) -> None:
        self.task, self.budget, self.target = task, budget, target
        self.curve: list[dict[str, float]] = []
        self.passed_over: list[tuple[float, Linear]] = []
        self.stopped = "by itself"

    def __call__(self, seconds: float, model: Linear) -> bool:
        if self.curve and seconds < min(THIN * self.curve[-1]["seconds"], self.budget):
            self.passed_over.append((seconds, Linear(*map(np.copy, model))))
            return False
        self._measure(seconds, model)
        return self.stopped != "by itself"

    def finish(self) -> None:
        """The last point, where it was passed over."""
        if self.stopped == "by itself" and self.passed_over:
            self._measure(*self.passed_over.pop())

    def _measure(self, seconds: float, model: Linear) -> None:
        point = self._point(seconds, model)
        if self.target is not None and point["objective"] <= self.target:
            self.stopped = "target"
            earlier = (self._point(*entry) for entry in self.passed_over)
            point = next((e for e in earlier if e["objective"] <= self.target), point)
        elif seconds >= self.budget:
            self.stopped = "budget"
        self.curve.append(point)
        self.passed_over.clear()

    def _point(self, seconds: float, model: Linear) -> dict[str, float]:
        value = objective.multinomial(model, self.task)
        accuracy = objective.measure(model, self.task.dataset)
        return {"seconds": seconds, "objective": value, **accuracy}


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
    recorder = Recorder(task, budget, target)
    with Clock() as wall:
        SOLVERS[name].curve(task, setting, seed, recorder)
        recorder.finish()
    return {
        "solver": name,
        "setting": setting,
        "seed": seed,
        "curve": recorder.curve,
        "stopped": recorder.stopped,
        "wall": wall.seconds,
    }


def plain_fit(task: Task, setting: dict[str, Any], seed: int) -> dict[str, float]:
    """The whole wall clock of slender's fit, no callbacks; what it reached, off the clock."""
    with Clock() as clock:
        model = SOLVERS[HERO].fit(task, setting, seed)
    fitted = Linear(model.coef_, model.intercept_, model.classes_)
    return {
        "seconds": clock.seconds,
        "objective": objective.multinomial(fitted, task),
        **objective.measure(fitted, task.dataset),
    }


def warm_up(task: Task, names: Sequence[str]) -> None:
    few = task._replace(dataset=first_rows(task.dataset, WARM_UP_ROWS))
    SOLVERS[HERO].fit(few, SOLVERS[HERO].grid[0], 0)
    for name in (HERO, *names):
        budget = np.inf if name == HERO else 0.0  # a rival: up to its first point
        SOLVERS[name].curve(few, SOLVERS[name].grid[0], 0, Recorder(few, budget))
    A = np.ones((1024, 1024), np.float32)
    for _ in range(20):  # BLAS's threads awake, the processor out of its idle states
        A @ A


def quality(of: Trial, target: float) -> tuple[float, float]:
    """What the best setting of a rival is the smallest of."""
    if SOLVERS[of["solver"]].problem != MULTINOMIAL:
        return -max(point["top1"] for point in of["curve"]), 0.0
    reached = first_at(of["curve"], target)
    seconds = np.inf if reached is None else of["curve"][reached]["seconds"]
    return seconds, min(point["objective"] for point in of["curve"])


def repeated_setting(best: Trial, target: float) -> dict[str, Any]:
    focus = getattr(SOLVERS[best["solver"]], "focus", None)
    if focus is None:
        return best["setting"]
    return focus(best["setting"], best["curve"], first_at(best["curve"], target))


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
    grid, chosen, hopeful = [trial(task, HERO, ours, 0, np.inf)], {}, set()
    for name in rivals:
        tried = []
        for setting in SOLVERS[name].grid:
            say(f"first run: {SOLVERS[name].name}{options(setting)}")
            tried.append(trial(task, name, setting, 0, allowed))
        grid += tried
        best = min(tried, key=lambda t: quality(t, first["objective"]))
        chosen[name] = repeated_setting(best, first["objective"])
        if first_at(best["curve"], first["objective"]) is not None:
            hopeful.add(name)
    plain, repeated = [], []
    for seed in range(1, repeats + 1):
        say(f"repeat {seed} of {repeats}: slender")
        plain.append(plain_fit(task, ours, seed))
        for name, setting in chosen.items():
            if SOLVERS[name].problem != MULTINOMIAL:
                continue  # nothing to time it by: its first runs say what it reaches
            if seed > 1 and name not in hopeful:
                continue
            say(f"repeat {seed} of {repeats}: {SOLVERS[name].name}{options(setting)}")
            repeated.append(trial(task, name, setting, seed, allowed, plain[-1]["objective"]))
    result = {
        "shape": [*task.dataset.X_train.shape, len(np.unique(task.dataset.y_train))],
        "C": task.C,
        "budget": allowed,
        "skipped": skipped,
        "tight": tight,
        "plain": [first, *plain],  # the first is of the first runs
        "grid": grid,
        "chosen": chosen,
        "repeats": repeated,
    }
    problems = {name: SOLVERS[name].problem for name in rivals}
    return {**result, **figures(result, problems)}
