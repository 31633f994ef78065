"""Batch gradient descent on the multinomial objective (AIMS, §4.1.1).

    W <- W - eta (G + lam W)        b <- b - eta g        G, g as in problem/multinomial.py

A step costs one pass, which gives objective and gradient.  The step length is constant; eta = 1/L
is the largest that the bound below allows, L being the Lipschitz constant of the gradient
(krylov.py bounds lambda_max):

    ∇²P = Σ w_i (diag p_i - p_i p_iᵀ) ⊗ x̃_i x̃_iᵀ + penalty  <=  ½ lambda_max(M) + lam =: L
    M = Σ w_i x̃_i x̃_iᵀ,   x̃ = [x, 1] with an intercept

Then P decreases at every step, and P(t) - P* <= L ‖theta_0 - theta*‖² / (2 t).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..data.examples import Readings
from ..krylov import largest_eigenvalue
from ..losses import CrossEntropy
from ..passes import GramPass
from ..problem import Multinomial, Point
from ..problem.certificate import certify, hopeful
from ..problem.intercepts import newton_step
from ..problem.linear import Linear, one_row
from ..problem.multinomial import TRACE_ROUNDING
from .loop import Record, Solver

HEADROOM = 8.0  # factor between the largest score and the largest number of the dtype


@dataclass
class GDState:
    """The last point evaluated, and the bounds proved so far."""

    theta: NDArray[Any]  # (C, d + 1), in the coordinates of Multinomial
    first: float  # number of passes before this fit
    read: Readings  # number of passes so far; the problem's own
    gradient: NDArray[Any] | None = None  # (C, d + 1) at theta; None: not evaluated yet
    objective: float = np.inf
    dual: float = 0.0  # the best lower bound on the optimum
    hopeful: float = np.inf  # the bound on the gap if the intercepts were optimal
    tried: float = np.inf  # the same at the last _look_aside
    lost: float = 0.0  # bound on the rounding error of the objective
    proved: float = np.inf  # the bound on the gap found at theta itself

    @property
    def gap(self) -> float:
        """The objective is at most this far above the optimum."""
        return max(0.0, min(self.objective + self.lost - self.dual, self.proved))


@dataclass(frozen=True)
class GradientDescent(Solver[GDState]):
    """Stops at a proved gap of `tol` times the objective; None: never."""

    problem: Multinomial
    eta: float
    lam: float
    tol: float | None = None

    made_of: ClassVar[tuple[type, ...]] = (GDState, Readings)

    def init(self, rng: np.random.Generator) -> GDState:
        """W = 0 with the best intercepts, not evaluated yet."""
        read = self.problem.examples.read
        return GDState(self.problem.start(), read.passes, read)

    def step(self, state: GDState) -> Record:
        """Evaluate the start; from the second call on, make a step and evaluate it."""
        self.look(state, state.theta if state.gradient is None else self.moved(state))
        passes = float(self.problem.passes - state.first)
        return {"passes": passes, "objective": state.objective, "gap": state.gap}

    def finished(self, state: GDState) -> bool:
        return state.gradient is not None and (self.proved(state) or self.overflows(state))

    def solution(self, state: GDState) -> Linear:
        return one_row(*self.problem.model(state.theta))

    def proved(self, state: GDState) -> bool:
        return self.tol is not None and state.gap <= self.tol * state.objective

    def moved(self, state: GDState) -> NDArray[Any]:
        """theta after a step.

        The stored gradient is that of centred rows: G + lam W - g x̄ᵀ and g.  The step is made in
        raw rows, so g x̄ᵀ is added again, and b' = b + W x̄ changes with both W and b.
        """
        problem, gradient = self.problem, state.gradient
        assert gradient is not None
        with np.errstate(over="ignore", invalid="ignore"):  # see `overflows`
            eta = state.theta.dtype.type(self.eta)
            mean, g = problem.mean, gradient[:, -1]
            theta = state.theta.copy()
            change = -eta * (gradient[:, :-1] + np.outer(g, mean))
            theta[:, :-1] += change
            theta[:, -1] += change @ mean - eta * g
            return theta

    def overflows(self, state: GDState) -> bool:
        """Is the step so large that the next scores might be infinite?"""
        theta = self.moved(state).astype(np.float64)
        longest = self.problem.longest + 1.0  # >= ‖[x_i, 1]‖
        with np.errstate(over="ignore", invalid="ignore"):
            largest = HEADROOM * np.linalg.norm(theta) * longest
        return not largest < np.finfo(state.theta.dtype).max

    def look(self, state: GDState, theta: NDArray[Any]) -> None:
        """One pass: objective and gradient at theta, and a bound on the gap if possible."""
        # A is worth its cost only if the bound on the gap may be below the objective.
        second = self.problem.intercept and state.hopeful < state.objective
        point = self.problem.at(theta, self.lam, second=second)
        state.theta, state.gradient = theta, point.gradient
        state.objective, state.hopeful = point.objective, hopeful(point)
        state.proved = np.inf
        self._raise(state, point)
        if self.tol is not None and not self.proved(state) and point.A is not None:
            goal = self.tol * point.objective
            if state.hopeful <= min(goal, state.tried / 2):
                self._look_aside(state, point)

    def _raise(self, state: GDState, point: Point) -> None:
        """Raise the lower bound on the optimum to what this point proves."""
        if point.A is not None or not self.problem.intercept:
            gap, _, lost = certify(self.problem, point)
            if np.isfinite(gap):
                state.lost = max(lost, state.lost)
                state.dual = max(state.dual, point.objective - lost - gap)
                if point.theta is state.theta:  # not in _look_aside
                    state.proved = gap

    def _look_aside(self, state: GDState, point: Point) -> None:
        """Look for a proof after a Newton step of the intercepts, which alone prevent it: one pass.

        A bound on the optimum holds wherever it was found; the descent continues from theta.
        """
        assert point.A is not None
        state.tried = state.hopeful
        aside = point.theta.copy()
        aside[:, -1] -= newton_step(point.A, point.g).astype(aside.dtype)
        self._raise(state, self.problem.at(aside, self.lam, second=True))


def lipschitz(problem: Multinomial, lam: float, rng: np.random.Generator) -> float:
    """A close upper bound on L, which holds for all but a share FAILURE of the seeds."""
    size = problem.rows.shape[1] + problem.intercept

    def product(Q: NDArray[np.float64]) -> NDArray[np.float64]:
        return problem.examples.reduce(GramPass(Q))

    rounding = 1.0 + TRACE_ROUNDING * float(np.finfo(problem.rows.dtype).eps)
    trace = rounding * (problem.squares + problem.intercept * problem.total)
    return CrossEntropy().smoothness() * largest_eigenvalue(product, size, trace, rng) + lam
