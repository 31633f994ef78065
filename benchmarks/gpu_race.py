"""slender's LogisticClassifier on a device against rivals that minimise the same objective there.

`fits`: the plain fit gives the target, its objective.  A rival's setting is the one of its grid
that reaches the target soonest; then all take turns: slender on rows of the device and on rows of
the host, the rival until its own tolerance stops it, and the rival until its first point at or
below slender's objective of the same turn.

`curves`: one run of every solver at every setting of its grid, until it stops or its budget is
spent.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import torch

import slender
from slender.lab.curves import best, seconds_to
from slender.lab.recorder import Budget, Recorder
from slender.lab.repeats import Say, by_turns, try_each

from .gpu_clock import DeviceWatch, named
from .gpu_data import Planted, Weights, reached, weights
from .solvers import gpu, modules, options

SOLVERS = modules(gpu)
HERO = "logistic"
RIVALS = [name for name, solver in SOLVERS.items() if solver.rival]
BUDGET = Budget(factor=60.0, least=20.0, most=60.0)
WARM_UP_ROWS = 4096
TIGHT = 1e-6  # tol of the fit that gives the best objective known
TOL = 1e-3


def recorder(problem: Planted, budget: float, target: float | None = None) -> Recorder:
    return Recorder(lambda model: reached(model, problem), Weights.copy, budget, target)


def runnable(names: Sequence[str], problem: Planted, say: Say) -> tuple[list[str], list[str]]:
    """The rivals that can run here, and a line about each that cannot."""
    able, lines = [], []
    for name in names:
        solver = SOLVERS[name]
        reason = getattr(solver, "refuses", lambda problem: None)(problem)
        if reason is None and solver.package is not None:
            try:
                import_module(solver.package[0])
            except ImportError as error:
                reason = f"{error}; pip install {solver.package[1]}"
        if reason is None:
            able.append(name)
        else:
            lines.append(f"{solver.name} is skipped: {reason}")
            say(lines[-1])
    return able, lines


def trial(
    problem: Planted,
    name: str,
    setting: dict[str, Any],
    seed: int,
    budget: float = np.inf,
    target: float | None = None,
) -> dict[str, Any]:
    """One run of a solver, and what it reached when."""
    seen = recorder(problem, budget, target)
    SOLVERS[name].curve(problem, setting, seed, seen)
    seen.finish()
    about = {"solver": name, "setting": setting, "seed": seed}
    return {**about, "curve": seen.curve, "stopped": seen.stopped}


def plain(problem: Planted, seed: int, host: bool = False, tol: float = TOL) -> dict[str, float]:
    """slender's fit, timed from the call to the return; what it reached, off the clock.

    The rows are on the device, or (`host`) a NumPy array that the fit sends there.
    """
    X, y = problem.host if host else (problem.X, problem.y)
    device = named(problem.device) if host else None
    with DeviceWatch(problem.device) as watch:
        model = slender.LogisticClassifier(
            C=problem.C, tol=tol, device=device, random_state=seed
        ).fit(X, y)
    return {
        "seconds": watch.seconds,
        "passes": model.n_iter_,
        "claimed": float(model.objective_),
        "gap": float(model.gap_ / model.objective_),
        **reached(weights(model, problem), problem),
    }


def own_tolerance(problem: Planted, name: str, setting: dict[str, Any]) -> dict[str, float]:
    """A rival's fit until it stops by itself."""
    problem.wide  # noqa: B018  (made before the clock starts)
    with DeviceWatch(problem.device) as watch:
        found, figures = SOLVERS[name].fit(problem, setting)
    return {"seconds": watch.seconds, **figures, **reached(found, problem)}


def warm_up(problem: Planted, name: str) -> None:
    """A rival up to its first point on a few rows: libraries loaded, kernels there."""
    trial(problem.few(WARM_UP_ROWS), name, SOLVERS[name].grid[0], 0, budget=0.0)


def failed(name: str, error: Exception, say: Say) -> str:
    """A rival that fails is left out, and told: slender's own figures are not lost with it."""
    first = (str(error).splitlines() or [""])[0]
    line = f"{SOLVERS[name].name} is left out, it failed: {type(error).__name__}: {first}"
    say(line)
    return line


def quality(of: dict[str, Any], target: float) -> tuple[float, float]:
    """What a rival's best setting is the smallest of: seconds to the target, then objective."""
    seconds = seconds_to(of["curve"], "objective", target)
    return np.inf if seconds is None else seconds, best(of["curve"], "objective")


def fits(problem: Planted, repeats: int, say: Say, budget: Budget = BUDGET) -> dict[str, Any]:
    """slender and the rivals that stop by themselves, in turns."""
    names = [name for name in RIVALS if hasattr(SOLVERS[name], "fit")]
    names, skipped = runnable(names, problem, say)
    say("first fits")
    first = plain(problem, 0)  # compiles the kernels
    once_more = plain(problem, 0)
    tight = plain(problem, 0, tol=TIGHT)
    plain(problem, 0, host=True)  # pinned memory is there
    target, allowed = once_more["objective"], budget.seconds(once_more["seconds"])
    chosen = {}
    for name in names:

        def first_run(setting: dict[str, Any], name: str = name) -> dict[str, Any]:
            say(f"first run: {SOLVERS[name].name}{options(setting)}")
            return trial(problem, name, setting, 0, allowed, target)

        try:
            warm_up(problem, name)
            tried, at = try_each(SOLVERS[name].grid, first_run, lambda t: quality(t, target))
            own_tolerance(problem, name, tried[at]["setting"])
        except Exception as error:
            skipped.append(failed(name, error, say))
        else:
            chosen[name] = tried[at]["setting"]
    ours: list[dict[str, float]] = []

    def mine(seed: int) -> dict[str, float]:
        ours.append(plain(problem, seed))
        return ours[-1]

    sides: dict[Any, Any] = {HERO: mine, "host": lambda seed: plain(problem, seed, host=True)}
    for name, setting in chosen.items():
        sides[name, "own"] = lambda _, name=name, s=setting: own_tolerance(problem, name, s)
        sides[name, "target"] = lambda seed, name=name, s=setting: trial(
            problem, name, s, seed, allowed, ours[-1]["objective"]
        )
    runs = by_turns(sides, range(1, repeats + 1), say)
    rivals = {
        name: {"setting": setting, "own": runs[name, "own"], "target": runs[name, "target"]}
        for name, setting in chosen.items()
    }
    return {
        "first": first,
        "tight": tight,
        "ours": runs[HERO],
        "host": runs["host"],
        "rivals": rivals,
        "copies": copies(problem, repeats),
        "skipped": skipped,
        "budget": allowed,
    }


def copies(problem: Planted, repeats: int) -> list[float]:
    """Seconds to copy the rivals' float32 rows from the host once."""
    X, found = torch.from_numpy(problem.wide_host), []
    for _ in range(repeats):
        with DeviceWatch(problem.device) as watch:
            X.to(problem.device, copy=True)
        found.append(watch.seconds)
    return found


def curves(
    problem: Planted, say: Say, most: int | None = None, budget: Budget = BUDGET
) -> dict[str, Any]:
    """One run of every solver at every setting of its grid (`most`: at its last few)."""
    names, skipped = runnable(RIVALS, problem, say)
    plain(problem, 0)
    first, tight = plain(problem, 0), plain(problem, 0, tol=TIGHT)
    allowed = budget.seconds(first["seconds"])
    runs = [trial(problem, HERO, SOLVERS[HERO].grid[0], 0)]
    for name in names:
        try:
            warm_up(problem, name)
            for setting in SOLVERS[name].grid[-most:] if most else SOLVERS[name].grid:
                say(f"{SOLVERS[name].name}{options(setting)}")
                runs.append(trial(problem, name, setting, 0, allowed))
        except Exception as error:
            skipped.append(failed(name, error, say))
    lowest = min(tight["objective"], *(best(run["curve"], "objective") for run in runs))
    return {
        "plain": first,
        "tight": tight,
        "best": lowest,
        "runs": runs,
        "skipped": skipped,
        "budget": allowed,
    }
