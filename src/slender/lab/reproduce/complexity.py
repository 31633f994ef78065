"""The AIMS course, questions 3, 8, 12 and 13: time and memory of an iteration, measured.

The rows are noise: the cost does not depend on the numbers.  The course's Frank-Wolfe keeps a copy
of W for every block; slender keeps the coefficients of the examples instead, so its memory stays
far below the formula (docs/svm.md).
"""

import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...estimators.bcfw import BCFWClassifier
from ...estimators.gd import GDClassifier
from ...estimators.sgd import SGDClassifier
from ..measures import exponent
from .base import Claim, Experiment, Material, Row, Tables, grouped
from .drawing import below, lines, named, numbers_on, sheet, style
from .practical import PAPER

D, CLASSES, BATCH = 256, 10, 64
ROWS = 1000, 4000, 16_000, 64_000
PASSES = 4  # the first one is not timed
FLAT, LINEAR = (-0.35, 0.35), (0.65, 1.35)  # exponents in N
SAME = 5.0  # times: "the same time complexity"
WORD = 8  # bytes of a number in the formulas

Multiply = Callable[[int, int], float]


class Method(NamedTuple):
    """An algorithm of the course."""

    make: Callable[[int, int], Any]  # passes, batch -> estimator
    batch: int | None  # None: all rows
    time: str
    memory: str
    work: Multiply  # multiply-adds of an iteration by the formula: of N and of the batch
    store: Multiply  # numbers that it keeps by the formula


def _sgd(passes: int, batch: int) -> Any:
    return SGDClassifier("cross_entropy", step=0.01, schedule="sqrt", average=False, passes=passes,
                         batch_size=batch, fit_intercept=False, random_state=0)  # fmt: skip


def _bcfw(passes: int, batch: int) -> Any:
    return BCFWClassifier(0.01, batch_size=batch, passes=passes, tol=None, fit_intercept=False,
                          random_state=0)  # fmt: skip


def _gd(passes: int, batch: int) -> Any:
    return GDClassifier(lam=0.01, step=0.01, passes=passes, fit_intercept=False, random_state=0)


SIZE = D * CLASSES  # of W, d C
METHODS = {
    "GD": Method(_gd, None, "N d C", "d C", lambda n, b: n * SIZE, lambda n, b: SIZE),
    "SGD": Method(_sgd, 1, "d C", "d C", lambda n, b: SIZE, lambda n, b: SIZE),
    "SGD, mini-batches": Method(
        _sgd, BATCH, "b d C", "d C", lambda n, b: b * SIZE, lambda n, b: SIZE
    ),
    "Frank-Wolfe": Method(
        _bcfw, None, "N d C", "d C", lambda n, b: n * SIZE, lambda n, b: 2 * SIZE
    ),
    "BCFW": Method(_bcfw, 1, "d C", "N d C", lambda n, b: SIZE, lambda n, b: (n + 1) * SIZE),
    "BCFW, mini-batches": Method(
        _bcfw, BATCH, "b d C", "(N/b) d C", lambda n, b: b * SIZE, lambda n, b: (n / b + 1) * SIZE
    ),
}


def measure(material: Material) -> Tables:
    rng, rows = np.random.default_rng(0), []
    scale = material.scale
    most = max(2 * BATCH, int(ROWS[-1] * scale.effort))
    sizes = [n for n in ROWS if n <= most]
    sizes = sizes if len(sizes) > 1 else [most // 2, most]
    for n in sizes:
        X = rng.standard_normal((n, D), dtype=np.float32)
        y = rng.integers(0, CLASSES, n)
        for name, method in METHODS.items():
            material.say(f"{name}: {n:,} rows")
            batch = method.batch or n
            seconds = min(_iteration(method, X, y, batch) for _ in range(scale.seeds))
            rows.append(
                {"method": name, "rows": n, "batch": batch, "time": method.time,
                 "multiply_adds": method.work(n, batch), "seconds": seconds,
                 "memory": method.memory, "bytes_formula": WORD * method.store(n, batch),
                 "bytes": _bytes(method, X, y, batch)}
            )  # fmt: skip
    return {"complexity": rows}


def _iteration(method: Method, X: Any, y: Any, batch: int) -> float:
    """Seconds of a step, by the passes after the first."""
    model = method.make(PASSES, batch).fit(X, y)
    passes = [record["seconds"] for record in model.trace_]
    steps = -(-len(y) // batch)
    return float((passes[-1] - passes[0]) / ((len(passes) - 1) * steps))


def _bytes(method: Method, X: Any, y: Any, batch: int) -> int:
    """The most that a fit holds beside X."""
    tracemalloc.start()
    try:
        method.make(2, batch).fit(X, y)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def judge(tables: Tables) -> list[Claim]:
    its = grouped(tables["complexity"], "method")
    claims = []
    for name, rows in its.items():
        p = exponent([row["rows"] for row in rows], [row["seconds"] for row in rows])
        low, high = LINEAR if METHODS[name].batch is None else FLAT
        grows = "grows with N" if METHODS[name].batch is None else "does not depend on N"
        claims.append(
            Claim(
                f"{name}: the time of an iteration {grows} (formula {METHODS[name].time}; exponent "
                f"{low:g} to {high:g})",
                None, p is not None and low <= p <= high,
                {"seconds ~ N^": p, "µs an iteration": 1e6 * _largest(rows)["seconds"]},
            )
        )  # fmt: skip
    sgd, bcfw = (_largest(its[name]) for name in ("SGD, mini-batches", "BCFW, mini-batches"))
    single = _largest(its["BCFW"])
    times = bcfw["seconds"] / sgd["seconds"]
    return [
        *claims,
        Claim(
            f"BCFW and SGD take the same time for an iteration of equal batches (within {SAME:g} "
            "times)",
            None, 1 / SAME <= times <= SAME, {"BCFW over SGD": times, "rows": sgd["rows"]},
        ),
        Claim(
            "BCFW takes more memory than SGD", None, bcfw["bytes"] > sgd["bytes"],
            {"BCFW, MB": bcfw["bytes"] / 1e6, "SGD, MB": sgd["bytes"] / 1e6},
        ),
        Claim(
            "blocks of one take as much as N copies of W (slender keeps coefficients instead)",
            None, single["bytes"] >= single["bytes_formula"],
            {"formula, MB": single["bytes_formula"] / 1e6, "measured, MB": single["bytes"] / 1e6},
        ),
    ]  # fmt: skip


def _largest(rows: list[Row]) -> Row:
    return max(rows, key=lambda row: row["rows"])


def draw(tables: Tables) -> Any:
    figure, axes = sheet(COMPLEXITY.heading, 2, 1, 3.4)
    left, right = axes[0]
    rows = [
        dict(row, kind=f"{row['method']}: time {row['time']}, memory {row['memory']}")
        for row in tables["complexity"]
    ]
    lines(left, rows, "rows", "seconds", "kind", change=lambda s: 1e3 * s)
    lines(right, rows, "rows", "bytes", "kind", change=lambda b: b / 1e6)
    for place, line in enumerate(right.lines):
        line.set_markersize(7 - 0.7 * place)  # those behind can be seen, too
    for place, of in enumerate(grouped(rows, "kind").values()):
        at, formula = [row["rows"] for row in of], [row["bytes_formula"] / 1e6 for row in of]
        right.plot(at, formula, ls=":", lw=1, color=style(place)["color"])
    for ax in (left, right):
        numbers_on(ax, "x", sorted({row["rows"] for row in rows}))
        ax.set_yscale("log")
    named(left, "rows N", "time of an iteration, ms")
    named(right, "rows N", "memory beside X, MB (dotted: formula)")
    return below(figure, axes, 2)


COMPLEXITY = Experiment(
    "practical-complexity", PAPER, "questions 3, 8, 12, 13",
    "time and memory of an iteration beside the formulas", measure, judge, draw,
)  # fmt: skip
