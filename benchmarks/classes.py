"""python -m benchmarks.classes: thousands of classes, a few rows of each.

Gaussian blobs, unit noise around centres drawn from N(0, I), d = 64.  How the seconds of a fit grow
with the classes, at a fixed number of rows in all and at a fixed number of rows of each class
(where the rows' scores alone, n x C, grow with the square of the classes); scikit-learn's L-BFGS to
the same objective; peak memory of one large fit.
"""

import tracemalloc
from statistics import median
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

import slender
from slender.datasets import Dataset
from slender.lab.measures import exponent
from slender.lab.repeats import ranged, spread
from slender.solvers.loop import Clock

from . import command, machine
from .objective import Task, linear, multinomial

CLASSES = (100, 300, 1000, 3000, 10_000, 20_000)
D = 64
# Of scikit-learn, until it is there: each a fit of its own, the last one's seconds count.
ITERATIONS = (16, 20, 24, 28, 34, 40, 48, 57, 68, 80, 96, 113, 160, 226, 320, 640, 1280, 2560)


def blobs(C: int, rows: int, d: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """`rows` of each class, shuffled."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((C, d), dtype=np.float32)
    y = rng.permutation(np.repeat(np.arange(C), rows))
    return centres[y] + rng.standard_normal((len(y), d), dtype=np.float32), y


def logistic() -> Any:
    return slender.LogisticClassifier(C=1.0, random_state=0)


def growth(rows_of_each: int | None, rows: int, classes: tuple[int, ...]) -> dict[str, Any]:
    """Seconds over classes; `rows_of_each` None: `rows` in all."""
    found = []
    for C in classes:
        X, y = blobs(C, rows_of_each or max(1, rows // C), D)
        taken, model = machine.timed(logistic, X, y, 3 if len(y) * C < 10**8 else 1)
        found.append({"classes": C, "rows": len(y), "seconds": taken, "passes": model.n_iter_})
        command.say(f"{C} classes, {len(y)} rows: {median(taken):.2f} s")
    return {"fits": found, "slope": exponent(classes, [median(one["seconds"]) for one in found])}


def race(C: int, rows: int, repeats: int) -> dict[str, Any]:
    """slender until its proof; scikit-learn with as many iterations as it needs to get as low."""
    X, y = blobs(C, rows, D)
    task = Task(Dataset(X, y, X, y), 1.0)
    taken, model = machine.timed(logistic, X, y, repeats)
    goal = multinomial(linear(model), task)
    for most in ITERATIONS:
        with Clock() as clock:
            rival = LogisticRegression(C=1.0, tol=0.0, max_iter=most).fit(X, y)
        reached = multinomial(linear(rival), task)
        if reached <= goal:
            break
    ratio = clock.seconds / median(taken)
    return {"classes": C, "rows": rows, "slender": taken, "gap": model.gap_ / model.objective_,
            "sklearn": clock.seconds, "iterations": most, "there": reached <= goal,
            "ratio": ratio}  # fmt: skip


def memory(C: int, rows: int, d: int) -> dict[str, Any]:
    """Peak bytes that NumPy holds above X during a fit."""
    X, y = blobs(C, rows, d)
    tracemalloc.start()
    with Clock() as clock:
        model = logistic().fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"shape": (C, rows, d), "seconds": clock.seconds, "bytes": peak,
            "passes": model.n_iter_, "gap": model.gap_ / model.objective_}  # fmt: skip


def main(
    only: Annotated[str, typer.Option(help="growth, race, memory")] = "growth,race,memory",
    most: Annotated[int, typer.Option(help="Classes, at most, in the growth.")] = CLASSES[-1],
    large: Annotated[str, typer.Option(help="Classes x rows x d for the memory.")] = "20000x20x256",
    repeats: Annotated[int, typer.Option(min=1)] = 5,
    json_file: command.Json = None,
) -> None:
    """Thousands of classes: exponents, scikit-learn to the same objective, memory."""
    benchmark = command.Benchmark("classes", json_file)
    results: dict[str, Any] = {}
    parts = command.names(only, ("growth", "race", "memory"), "part")
    machine.timed(logistic, *blobs(300, 3, D))  # compiles the kernels
    classes = tuple(C for C in CLASSES if most >= C)
    if "growth" in parts:
        fixed = results["fixed rows"] = growth(None, 40_000, classes)
        benchmark.tell(f"40,000 rows, {classes} classes: exponent {shown(fixed)}")
        of_each = results["rows of each class"] = growth(5, 0, classes)
        benchmark.tell(f"5 rows of each class, {classes} classes: exponent {shown(of_each)}")
    if "race" in parts:
        for C, rows in ((2000, 10), (4000, 2)):
            one = race(C, rows, repeats)
            results.setdefault("race", []).append(one)
            benchmark.tell(
                f"{C} classes x {rows}: slender {ranged(spread(one['slender']))} s, scikit-learn "
                f"{one['sklearn']:.1f} s, {one['iterations']} iterations"
                f"{'' if one['there'] else ', not there'}: {one['ratio']:.1f}x"
            )
    if "memory" in parts:
        C, rows, d = (int(number) for number in large.split("x"))
        one = results["memory"] = memory(C, rows, d)
        benchmark.tell(
            f"{C} x {rows} x {d}: {one['seconds']:.0f} s, {one['passes']} passes, gap "
            f"{one['gap']:.1e}, {one['bytes'] / 2**30:.2f} GB above X"
        )
    benchmark.save(results)


def shown(growth: dict[str, Any]) -> str:
    return "unknown" if growth["slope"] is None else f"{growth['slope']:.2f}"


if __name__ == "__main__":
    typer.run(main)
