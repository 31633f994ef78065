"""Multinomial logistic regression to the optimum: L-BFGS on the shoulders of SLND's curvature.

    H0     = the classes' inverse blocks  renewed every few steps, with the rows that bend most,
                                          which a pass has found         (curvature/classwise.py)
    D      = -H ∇P                        H: H0 corrected by the last `memory` pairs (two loops)
    t      = root of phi' on a sample     (linesearch.py)
    theta <- theta + t D                  one pass: objective, gradient, and the next pair

A pair is s = step, y = change of the gradient.  Its part from the data, y - lam s, does not depend
on lam, so pairs serve the next value of lam of a path too.

The end.  When the gradient is small enough for the certificate (problem/certificate.py) but for
the intercepts, these take Newton steps of their own: one with the matrix A, which costs a pass, or,
with many classes, a few with its diagonal, which cost half a pass each.  The certificate found
there is a proof, and the best dual value seen so far is kept.

A small problem that takes many steps is given its whole Hessian (dense.py).

Rounding.  A direction that leads nowhere is followed by plainer ones: H0 without pairs, then the
diagonal of H0.  Where none decreases the objective, or where the proof fails for nothing but
rounding, the fit goes on in float64, the rows being widened block by block; `settle` brings its
weights back to numbers that float32 holds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..curvature.classwise import Classwise
from ..problem import Multinomial
from ..problem.certificate import blurred, certify, hopeful
from ..problem.intercepts import DENSE, newton_step
from ..problem.linear import Linear, one_row
from .dense import DenseNewton
from .linesearch import draw
from .loop import Record, Solver
from .quasinewton import (
    MANY,
    STILL_STEPS,
    SURE,
    NewtonState,
    accept,
    begin,
    curvature,
    descend,
    narrow,
    residuals_of,
)
from .secant_pairs import SecantPairs, dot

MEMORY = 10
# Steps after which a fit in float32 is given the digits of float64: one that takes so many fights
# with rounding, as with columns whose scales differ by many decades.
PATIENCE = 100
WORSE = 1e-5  # of the objective: what rounding may add to it after a step of the intercepts
LITTLE = 1e-3  # of the gap: a change of the weights that costs less needs no pass of its own
DIAGONAL_STEPS = 2  # of the intercepts before a proof with many classes: each gains a digit or more
# Without a penalty there is no certificate: stop when a step gains less than this share of tol
# times the objective, or when the objective itself is that small.
UNPENALISED = 1e-3


@dataclass(frozen=True)
class Newton(Solver[NewtonState]):
    """A multinomial problem under the penalty lam/2 ‖W‖², to a gap of tol times the objective.

    `start` is the theta to begin with, `curvature` and `pairs` what another fit has learned.
    """

    problem: Multinomial
    lam: float
    tol: float
    start: NDArray[Any] | None = None
    curvature: Classwise | None = None
    pairs: SecantPairs | None = None

    # -- the contract ----------------------------------------------------------------------------

    def init(self, rng: np.random.Generator) -> NewtonState:
        problem, dtype = self.problem, self.problem.rows.dtype
        sample, curvature = draw(problem, rng), self.curvature
        if curvature is None or curvature.P.dtype != dtype:
            curvature = Classwise.of_problem(problem, rng)
        pairs = SecantPairs(MEMORY, dtype)
        if self.pairs is not None and self.pairs.dtype == dtype:
            pairs = self.pairs.copy()
        theta = problem.start() if self.start is None else self.start
        return NewtonState(rng, theta, sample, pairs, curvature, problem.passes)

    def step(self, state: NewtonState) -> Record:
        """A look at the start, or one step; and a proof, where one is in reach."""
        if state.point is None:
            begin(self.problem, state, state.theta, self.lam)
        else:
            descend(self.at_work(state), state, self.tol)
            if narrow(self.at_work(state)) and (state.stalled or not self._patient(state)):
                self.widen(state)
        self.certified(state, self.tol)
        return self.record(state)

    def finished(self, state: NewtonState) -> bool:
        if state.point is None:
            return False
        if state.stalled or self.proved(state):
            return True
        if self.lam > 0.0:
            return False
        enough = UNPENALISED * self.tol
        return state.objective <= enough or state.decrease <= enough * state.objective

    def end(self, state: NewtonState, hurry: bool = False) -> Record | None:
        """Whatever can be proved where tol is not; and weights as the caller's dtype has them."""
        if self.settled(state) and (hurry or self.proved(state)):
            return None
        if not (hurry or self.proved(state)):
            self.bound(state)
        self.settle(state, hurry)
        return self.record(state)

    def solution(self, state: NewtonState) -> Linear:
        return one_row(*self.model(state))

    def record(self, state: NewtonState) -> Record:
        passes = float(self.problem.passes - state.first)
        return {"passes": passes, "objective": state.objective, "gap": state.gap}

    def proved(self, state: NewtonState) -> bool:
        """Is the optimum proved to be within tol?"""
        return state.gap <= self.tol * state.objective

    # -- float32 or float64 ----------------------------------------------------------------------

    def at_work(self, state: NewtonState) -> Multinomial:
        """The problem in the arithmetic of this moment."""
        return self.problem.widened() if state.wide else self.problem

    def _patient(self, state: NewtonState) -> bool:
        """Is it too early to blame rounding for a fit that is slow?"""
        return state.steps <= (MANY if DenseNewton.suits(self.problem) else PATIENCE)

    def widen(self, state: NewtonState, better: bool = False) -> None:
        """Go on in float64, from the same theta or with better intercepts: one pass."""
        before = state.here
        theta = self._newton_intercepts(state) if better else before.theta
        state.wide = True
        state.sample = state.sample.astype(np.float64)
        state.pairs = SecantPairs(MEMORY, np.dtype(np.float64))
        state.doubtful, state.blocks, state.age = None, None, 0
        dual, steps = state.dual, state.steps  # a bound holds in any arithmetic
        begin(
            self.at_work(state), state, theta.astype(np.float64), before.lam, before.A is not None
        )
        if better and state.objective > before.objective * (1.0 + WORSE):
            begin(
                self.at_work(state), state, before.theta.astype(np.float64), before.lam, second=True
            )
        state.dual, state.steps = dual, steps

    def settled(self, state: NewtonState) -> bool:
        """Does the caller's dtype hold the weights exactly?"""
        return not state.wide

    def model(self, state: NewtonState) -> tuple[NDArray[Any], NDArray[Any]]:
        """(W, b) for raw features, a row for each class, in the caller's dtype."""
        W, b = self.at_work(state).model(state.here.theta)
        if state.wide and len(b) == 2:  # the difference is kept: let it be exact
            W, b = (
                np.array([-0.5, 0.5])[:, None] * (W[1] - W[0]),
                np.array([-0.5, 0.5]) * (b[1] - b[0]),
            )
        dtype = self.problem.rows.dtype
        return W.astype(dtype, copy=False), b.astype(dtype, copy=False)

    def settle(self, state: NewtonState, hurry: bool = False) -> None:
        """Weights and intercepts that the caller's dtype holds, and what is proved of those."""
        if self.settled(state):
            return
        problem, point = self.at_work(state), state.here
        theta = problem.theta(*self.model(state))
        state.sample.move_to(theta)
        rise = self._rise(state, theta - point.theta)
        if hurry or rise <= LITTLE * state.gap:
            state.point = point._replace(theta=theta, objective=point.objective + rise)
            state.proved += rise
            return
        state.point, state.proved = problem.at(theta, self.lam, second=True), np.inf
        self.prove(state)

    def _rise(self, state: NewtonState, change: NDArray[Any]) -> float:
        """What the objective gains at most: ‖diag p - p pᵀ‖ <= 1/2 bounds its curvature."""
        L = self.lam + 0.5 * (self.problem.trace + self.problem.total)
        return float(max(0.0, dot(state.here.gradient, change)) + 0.5 * L * dot(change, change))

    # -- the proof -------------------------------------------------------------------------------

    def certified(self, state: NewtonState, tol: float) -> bool:
        """Is the optimum proved to within tol times the objective?  May cost some passes."""
        for _ in range(3):
            goal = tol * state.objective
            if state.gap <= goal:
                return True
            if hopeful(state.here) > goal:
                return False
            if narrow(self.at_work(state)) and blurred(self.at_work(state), state.here) > goal:
                self.widen(state, better=state.here.A is not None)
            if state.here.A is not None or not self.problem.intercept:
                exact = self.prove(state)
                if state.gap <= goal:
                    return True
                if exact <= goal:  # only rounding is in the way
                    if not narrow(self.at_work(state)):
                        return False
                    self.widen(state)
                    continue
            if not (self.problem.intercept and self._better_intercepts(state)):
                return False
            state.stalled = state.still >= STILL_STEPS  # a line search may find its way from here
        return False

    def bound(self, state: NewtonState) -> None:
        """Whatever can be proved here: at most two passes, and one in float64 if need be."""
        if self.problem.intercept and hopeful(state.here) < state.objective:
            self._better_intercepts(state)
        self.prove(state)

    def prove(self, state: NewtonState) -> float:
        """Raise the lower bound by what this point proves; the bound of exact arithmetic."""
        certificate = certify(self.at_work(state), state.here)
        state.lost = certificate.objective
        if not np.isfinite(state.lost) and narrow(self.at_work(state)):
            self.widen(state)  # scores without digits: not even the objective is known
            return self.prove(state)
        if np.isfinite(state.lost):
            state.proved = certificate.gap
            state.dual = max(state.dual, state.objective - state.lost - certificate.gap)
        return certificate.exact

    def _better_intercepts(self, state: NewtonState) -> bool:
        """Move there, unless the step was too long: where curvature vanishes Newton's may be."""
        theta = self._newton_intercepts(state)
        moved = self.at_work(state).at(theta, self.lam, second=True)
        if moved.objective <= state.objective * (1.0 + WORSE):
            accept(self.at_work(state), state, moved)
            return True
        state.sample.move_to(state.here.theta)
        return False

    def _newton_intercepts(self, state: NewtonState) -> NDArray[Any]:
        """theta after the intercepts' own steps."""
        theta, A, g = state.here.theta.copy(), state.here.A, state.here.g
        if A is None:
            A, _ = curvature(self.at_work(state), state).classes(
                theta, SURE * residuals_of(state.here)
            )
        for again in range(1 if self.problem.n_classes <= DENSE else DIAGONAL_STEPS):
            if again:
                g, A = self.at_work(state).classes_at(theta)
            tau = -newton_step(A, g).astype(theta.dtype)
            theta[:, -1] += tau
            state.sample.shift(tau)
        return theta
