"""python -m benchmarks.native: the sequential kernels against the same loops in C++.

Each file of benchmarks/native/ is one loop, compiled by g++ with -O3 -march=native and, like the
kernels, with leave to reorder sums, then called in this process.  Both sides make one pass over the
same rows in the same order; float64 weights must agree, float32 is what is timed.
"""

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from slender import set_num_threads
from slender.curvature import LBFGS, Fixed, Metric, Secant
from slender.lab.repeats import by_turns, spread_of
from slender.labels import ClassIndex
from slender.losses import Logistic
from slender.problem import Weights
from slender.rows import as_rows
from slender.solvers.loop import Clock
from slender.solvers.sampling import Visits
from slender.solvers.stochastic import Stochastic, StochasticData
from slender.solvers.sweep import sweep

from . import command, machine
from .native_svm import bcfw_passes, larank_passes

SOURCES = Path(__file__).parent / "native"
# As free with sums as the kernels are (FAST in solvers/stochastic.py), and no freer.
LICENCE = ("-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-fno-trapping-math")
FLAGS = ("-O3", "-march=native", *LICENCE, "-fno-math-errno", "-shared", "-fPIC", "-std=c++17")
AGREE = 1e-6  # of the largest weight, in float64
LAM, BETA = 1e-4, 1.0

Run = Callable[[], np.ndarray]  # one pass from the start; the weights


class Problem(NamedTuple):
    """Planted rows of norm 1 with two classes, and an order."""

    X: np.ndarray  # (n, d)
    codes: np.ndarray  # (n,) int32, 0 or 1
    order: np.ndarray  # (n,)


def planted(n: int, d: int, dtype: Any, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = X @ rng.standard_normal(d) + rng.standard_normal(n) > 0
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return Problem(X.astype(dtype), y.astype(np.int32), rng.permutation(n))


# -- the loops -------------------------------------------------------------------------------------


def stochastic(
    descent: Callable[[StochasticData], Stochastic],
    library: ctypes.CDLL,
    problem: Problem,
    *numbers: Any,
) -> tuple[Run, Run]:
    """(slender, C++) for one metric of the stochastic loop; `numbers` are the C++ loop's own."""
    n, d = problem.X.shape
    rows = as_rows(problem.X)
    weights = Weights(np.ones(n, problem.X.dtype), np.ones(1), np.ones(1))
    labels = ClassIndex(problem.codes, 1)
    coordinates: Any = None  # the rows are taken as they are
    data = StochasticData(rows, labels, np.arange(n), rows.sqnorms(), weights, 1, coordinates)
    solver = descent(data)
    step = solver._lengths
    all_of_them = np.array([[0]]), np.array([[n]]), np.arange(n, dtype=np.int32)
    visits = Visits(problem.order, *all_of_them)
    X, index = rows.take(problem.order)

    def slender() -> np.ndarray:
        state = solver.init(np.random.default_rng(0))
        sweep(solver.loss, X, index, labels, visits, step, weights, state.metric, state.iterate)
        return solver.weights(state)[0][0]

    signs = np.where(problem.codes == 1, 1, -1).astype(np.int8)
    c_problem = CProblem(
        *(array.ctypes.data for array in (problem.X, signs, problem.order, step.cap)),
        n, d, step.report, LAM, BETA,
    )  # fmt: skip

    def native() -> np.ndarray:
        w = np.zeros(d, problem.X.dtype)
        library.run(
            ctypes.byref(c_problem), ctypes.byref(CIterate(w.ctypes.data, 0.0, 0.0)), *numbers
        )
        return w

    native.keep = signs  # type: ignore[attr-defined]  # C++ reads it
    return slender, native


class CProblem(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("X", "y", "order", "cap")),
        *((name, ctypes.c_int64) for name in ("visits", "d", "report")),
        *((name, ctypes.c_double) for name in ("lam", "beta")),
    )


class CIterate(ctypes.Structure):
    _fields_ = (("w", ctypes.c_void_p), ("b", ctypes.c_double), ("total", ctypes.c_double))


def descent(eta: float, decay: float, metric: Metric) -> Callable[[StochasticData], Stochastic]:
    """The solver of some data."""
    steps = {"eta": eta, "decay": decay, "lam": LAM, "beta": BETA, "cap": 2.0}
    return partial(Stochastic, loss=Logistic(), average=False, metric=metric, **steps)  # type: ignore[arg-type]


def sgd(library: ctypes.CDLL, problem: Problem) -> tuple[Run, Run]:
    eta = 4.0
    return stochastic(descent(eta, LAM * eta, Fixed()), library, problem, ctypes.c_double(eta))


def sgdqn(library: ctypes.CDLL, problem: Problem) -> tuple[Run, Run]:
    t0, period = 1e4, 16
    numbers = ctypes.c_double(t0), ctypes.c_int64(period)
    return stochastic(descent(1.0, 0.0, Secant(t0, period)), library, problem, *numbers)


def olbfgs(library: ctypes.CDLL, problem: Problem) -> tuple[Run, Run]:
    step, t0, memory, damping = 0.1, 1e4, 10, 0.5
    numbers = *map(ctypes.c_double, (step, t0)), ctypes.c_int64(memory), ctypes.c_double(damping)
    return stochastic(descent(step, 1 / t0, LBFGS(memory, damping)), library, problem, *numbers)


# A loop is native/<name>.cpp and a line here: (library, problem) -> (slender's pass, C++'s pass).
KERNELS: dict[str, Callable[[ctypes.CDLL, Problem], tuple[Run, Run]]] = {
    "sgd": sgd,
    "sgdqn": sgdqn,
    "olbfgs": olbfgs,
    "bcfw": bcfw_passes,
    "larank": larank_passes,
}


# -- compiling, agreeing, timing -------------------------------------------------------------------


def compiled(name: str, dtype: Any, folder: Path) -> ctypes.CDLL:
    """native/<name>.cpp for this dtype, as a library with one function, `run`."""
    real = {"f": "float", "d": "double"}[np.dtype(dtype).char]
    out = folder / f"{name}_{real}.so"
    command = ["g++", *FLAGS, f"-DREAL={real}", str(SOURCES / f"{name}.cpp"), "-o", str(out)]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(out))
    library.run.restype = None
    return library


def disagreement(name: str, folder: Path) -> float:
    """Of the weights after a pass in float64, in units of the largest."""
    small = planted(2000, 100, np.float64)
    ours, theirs = (run() for run in KERNELS[name](compiled(name, np.float64, folder), small))
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def timed(run: Run, turn: int) -> dict[str, float]:
    with Clock() as clock:
        run()
    return {"seconds": clock.seconds}


def compare(name: str, n: int, d: int, repeats: int, folder: Path) -> dict[str, Any]:
    """Disagreement in float64, seconds of a pass in float32 and the share of C++'s speed."""
    set_num_threads(1)  # a loop has one
    difference = disagreement(name, folder)
    if not difference < AGREE:
        raise RuntimeError(f"{name}: the weights differ by {difference:.1e} of the largest")
    runs = KERNELS[name](compiled(name, np.float32, folder), planted(n, d, np.float32))
    for run in runs:
        run()  # compiles, and fills the caches
    sides = dict(zip(("slender", "native"), (partial(timed, run) for run in runs), strict=True))
    turns = by_turns(sides, range(repeats))
    slender, native = (spread_of(of, "seconds")["median"] for of in turns.values())
    return {
        "kernel": name,
        "difference": difference,
        "slender": slender,
        "native": native,
        "share": native / slender,
    }


def main(
    kernels: Annotated[str, typer.Option(help="Names, separated by commas.")] = ",".join(KERNELS),
    rows: Annotated[int, typer.Option(help="Of the timed problem.")] = 20_000,
    dims: Annotated[int, typer.Option(help="Of the timed problem.")] = 500,
    repeats: Annotated[int, typer.Option(help="Passes timed; the median counts.")] = 7,
    json_file: command.Json = None,
) -> None:
    """One pass of each sequential kernel against the same loop in C++."""
    if shutil.which("g++") is None:
        command.show("there is no g++ here: install a C++ compiler to compare with")
        raise typer.Exit(2)
    with tempfile.TemporaryDirectory() as folder, machine.Neighbours() as others:
        chosen = command.names(kernels, KERNELS, "kernel")
        found = [compare(name, rows, dims, repeats, Path(folder)) for name in chosen]
    lines = [
        (
            of["kernel"],
            f"{1e3 * of['slender']:.1f}",
            f"{1e3 * of['native']:.1f}",
            f"{100 * of['share']:.0f} %",
            f"{of['difference']:.0e}",
        )
        for of in found
    ]
    columns = ("kernel", "slender ms", "C++ ms", "share of C++'s speed", "weights differ by")
    title = f"one pass over {rows:,} × {dims:,} float32, one thread; the SVM's with ten classes"
    benchmark = command.Benchmark("native", json_file)
    benchmark.tell(command.table(title, columns, lines), *machine.disturbed("native", others.cores))
    benchmark.save({"others": others.cores, "kernels": found})


if __name__ == "__main__":
    typer.run(main)
