"""The two dual kernels of the SVM beside their C++ loops, for benchmarks/native.py."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from slender.rows import as_rows
from slender.solvers import bcfw
from slender.solvers.duality import SVMProblem
from slender.solvers.larank_sweep import Rules
from slender.solvers.patterns import Patterns, empty, with_slots
from slender.solvers.svm_forms import Multiclass

CLASSES = 10
FEW = 50
BOUND = 1.0  # U, the same for every example

Run = Callable[[], np.ndarray]  # one pass from the start; the weights


def many_classes(X: np.ndarray) -> np.ndarray:
    """Labels of ten planted classes with some noise."""
    rng = np.random.default_rng(1)
    S = X @ rng.standard_normal((X.shape[1], CLASSES))
    return (S + 0.5 * rng.standard_normal(S.shape)).argmax(axis=1).astype(np.int32)


def roomy(n: int) -> Patterns:
    """A slot for every class, so that a pass is one call."""
    return with_slots(empty(n, CLASSES), CLASSES)


def pointers(*arrays: np.ndarray) -> tuple[ctypes.c_void_p, ...]:
    return tuple(ctypes.c_void_p(array.ctypes.data) for array in arrays)


def shape(X: np.ndarray) -> tuple[ctypes.c_int64, ...]:
    return tuple(map(ctypes.c_int64, (*X.shape, CLASSES)))


def bcfw_passes(library: ctypes.CDLL, problem: Any) -> tuple[Run, Run]:
    X, y, order = problem.X, many_classes(problem.X), problem.order
    n, d = X.shape
    rows, U = as_rows(X), np.full(n, BOUND)
    sq = rows.sqnorms().astype(np.float64)
    solver = bcfw.FrankWolfe(SVMProblem(Multiclass(y), rows, U, sq, 0.0, CLASSES), average=True)

    def slender() -> np.ndarray:
        iterate = solver.at(roomy(n), np.zeros((CLASSES, d), X.dtype))
        return solver.sweep(iterate, np.arange(n), order).W

    def native() -> np.ndarray:
        W, late = (np.zeros((CLASSES, d), X.dtype) for _ in range(2))
        beta = np.zeros((n, CLASSES))
        library.run(*pointers(X), *shape(X), *pointers(order, y, U, sq, W, late, beta))
        return W

    return slender, native


def larank_passes(library: ctypes.CDLL, given: Any) -> tuple[Run, Run]:
    X, y, order = given.X, many_classes(given.X), given.order
    if X.dtype == np.float64:  # to compare weights: before rounding settles a tie either way
        X, y, order = X[:FEW], y[:FEW], order[order < FEW]
    n, d = X.shape
    rows, U = as_rows(X), np.full(n, BOUND)
    sq = rows.sqnorms().astype(np.float64)
    problem, rules = SVMProblem(Multiclass(y), rows, U, sq, 0.0, CLASSES), Rules()
    kernel_rows, _ = rows.take(np.arange(n))
    draws = np.random.default_rng(0).random(50 * n)

    class Drawn:
        """Hands out the same numbers in every pass."""

        def random(self, size: int) -> np.ndarray:
            return draws

    def slender() -> np.ndarray:
        state = rules.init(roomy(n), np.zeros((CLASSES, d), X.dtype), np.zeros(CLASSES))
        return rules.sweep_over(problem, state, kernel_rows, order, Drawn()).W  # type: ignore[arg-type]

    limits = *map(ctypes.c_double, (rules.tau, rules.kappa)), ctypes.c_int64(rules.inner)

    def native() -> np.ndarray:
        W, beta = np.zeros((CLASSES, d), X.dtype), np.zeros((n, CLASSES))
        library.run(*pointers(X), *shape(X), *pointers(order, y, U, sq, W, beta, draws), *limits)
        return W

    return slender, native
