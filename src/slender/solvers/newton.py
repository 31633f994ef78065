"""Multinomial logistic regression to the optimum: L-BFGS preconditioned by SLND's curvature.

    H0     = inverse blocks of the classes, updated every few steps with the doubtful rows that a
                                          pass has found     (curvature/classwise.py, doubtful.py)
    D      = -H ∇P                        H: gamma H0 corrected by the last 8 or 10 pairs of points
                                          with about the same curvature     (secant_pairs.py)
    t      = root of phi' on a sample     (linesearch.py)
    theta <- theta + t D                  one pass: objective, gradient, and the next pair

A pair is s = step, y = change of the gradient.  The data's part of y, y - lam s, does not depend on
lam, so the pairs can also be used at the next lam of a path.

The end.  If the gradient is small enough for the certificate (problem/certificate.py) except for
the intercepts, the intercepts alone make Newton steps: one with the matrix A, which costs a pass,
or, with many classes, a few with its diagonal, which cost half a pass each.  The certificate found
there is a proof, and the best dual value so far is kept.

A small problem that takes many steps switches to the full Hessian (dense.py).

Rounding.  If a direction does not decrease the objective, simpler ones are tried: H0 without pairs,
then the diagonal of H0.  If none does, or if only rounding prevents the proof, the fit continues in
float64, with rows widened block by block; `settle` rounds the final weights to float32.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..arrays import Array, astype, copy, dot, dtype_of, like, to_numpy
from ..curvature.classwise import Blocks, Classwise, Inverse
from ..curvature.doubtful import Correction, DoubtfulRows, Gram
from ..curvature.doubtful_tensors import Batch, BatchedCorrection, BatchedGram
from ..data.examples import Readings
from ..passes.doubts import Doubts
from ..problem import Multinomial, Point
from ..problem.certificate import blurred, certify, hopeful, off_balance
from ..problem.intercepts import (
    DENSE,
    ClassDiagonal,
    ClassMatrix,
    ClassSample,
    newton_step,
)
from ..problem.linear import Linear, one_row
from .dense import DenseNewton
from .linesearch import ContenderSample, LineSample, draw
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
from .secant_pairs import Pair, SecantPairs

# Pairs that are kept.  Each takes twice the memory of the weights, so that there are fewer of LARGE
# weights (bytes).  That costs passes: 59 instead of 53 on CIFAR-100 embeddings at C = 0.1.
MEMORY, FEWER, LARGE = 10, 8, 20 * 2**20
# Steps after which a fit in float32 continues in float64: one that takes so many suffers from
# rounding, for instance with columns whose scales differ by many decades.
PATIENCE = 100
WORSE = 1e-5  # share of the objective that rounding may add after a step of the intercepts
LITTLE = 1e-3  # share of the gap: a change of the weights that costs less needs no pass
# Steps of the intercepts before a proof with many classes: each gains a digit or so, until what is
# left takes this share of the goal.
LEFT, DIAGONAL_STEPS = 0.25, 6
# Without a penalty there is no certificate: stop when a step gains less than this share of tol
# times the objective, or when the objective is less than this share of tol.
UNPENALISED = 1e-3


@dataclass(frozen=True)
class Newton(Solver[NewtonState]):
    """A multinomial problem with penalty lam/2 ‖W‖², solved to a gap of tol times the objective.

    `start` is the initial theta; `curvature` and `pairs` may come from another fit.
    """

    problem: Multinomial
    lam: float
    tol: float
    start: Array | None = None
    curvature: Classwise | None = None
    pairs: SecantPairs | None = None

    made_of: ClassVar[tuple[type, ...]] = (
        NewtonState,
        Readings,
        Point,
        Doubts,
        LineSample,
        ContenderSample,
        SecantPairs,
        Pair,
        Classwise,
        Blocks,
        Inverse,
        DoubtfulRows,
        Gram,
        Correction,
        BatchedGram,
        Batch,
        BatchedCorrection,
        ClassMatrix,
        ClassSample,
        ClassDiagonal,
        DenseNewton,
    )

    # -- the contract ----------------------------------------------------------------------------

    def init(self, rng: np.random.Generator) -> NewtonState:
        problem, dtype = self.problem, self.problem.rows.dtype
        sample, curvature = draw(problem, rng), self.curvature
        if curvature is None or dtype_of(curvature.P) != dtype:
            curvature = Classwise.of_problem(problem, rng)
        pairs = SecantPairs(memory(problem), dtype)
        if self.pairs is not None and self.pairs.dtype == dtype:
            pairs = self.pairs.copy()
        theta = problem.start() if self.start is None else self.start
        read = problem.examples.read
        return NewtonState(rng, theta, sample, pairs, curvature, read.passes, read)

    def step(self, state: NewtonState) -> Record:
        """Evaluate the start, or make one step; then prove the gap if that is in reach."""
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
        """Bound the gap if tol was not reached; round the weights to the caller's dtype."""
        if self.settled(state) and (hurry or self.proved(state)):
            return None
        if not (hurry or self.proved(state)):
            self.bound(state)
        self.settle(state, hurry)
        return self.record(state)

    def solution(self, state: NewtonState) -> Linear:
        W, b = self.model(state)
        return one_row(to_numpy(W), to_numpy(b))

    def record(self, state: NewtonState) -> Record:
        passes = float(self.problem.passes - state.first)
        return {"passes": passes, "objective": state.objective, "gap": state.gap}

    def proved(self, state: NewtonState) -> bool:
        """Is the gap proved to be at most tol times the objective?"""
        return state.gap <= self.tol * state.objective

    # -- float32 or float64 ----------------------------------------------------------------------

    def at_work(self, state: NewtonState) -> Multinomial:
        """The problem in the arithmetic in which the fit currently computes."""
        problem = self.problem
        for _ in range(state.wide):
            problem = problem.widened()
        return problem

    def _patient(self, state: NewtonState) -> bool:
        """Has the fit made too few steps for rounding to be the cause of slow progress?"""
        return state.steps <= (MANY if DenseNewton.suits(self.problem) else PATIENCE)

    def widen(self, state: NewtonState, better: bool = False, goal: float = np.inf) -> None:
        """Continue in a finer arithmetic, from the same theta or with better intercepts: one pass.

        That is float64, except that halves have more pieces first, if their rounding allows a proof
        of `goal`.  A second pass is needed if those intercepts raise the objective.
        """
        before = state.here
        theta = self._newton_intercepts(state) if better else before.theta
        state.wide += 1
        while np.isfinite(goal) and narrow(self.at_work(state)):
            if blurred(self.at_work(state), before) <= goal:
                break
            state.wide += 1
        problem = self.at_work(state)
        dtype = problem.rows.dtype
        if dtype != state.pairs.dtype:
            state.sample = state.sample.astype(dtype)
            state.pairs = SecantPairs(memory(problem), dtype)
            state.doubtful, state.blocks, state.age = None, None, 0
        dual, steps = state.dual, state.steps  # a bound holds in any dtype
        begin(problem, state, astype(theta, dtype), before.lam, before.A is not None)
        if better and state.objective > before.objective * (1.0 + WORSE):
            begin(problem, state, astype(before.theta, dtype), before.lam, second=True)
        state.dual, state.steps = dual, steps

    def settled(self, state: NewtonState) -> bool:
        """Can the caller's dtype represent the weights exactly?"""
        return bool(self.at_work(state).rows.dtype == self.problem.rows.dtype)

    def model(self, state: NewtonState) -> tuple[Array, Array]:
        """(W, b) for raw features, one row per class, in the caller's dtype."""
        W, b = self.at_work(state).model(state.here.theta)
        if not self.settled(state) and len(b) == 2:  # the model keeps their difference: exactly
            half = like([-0.5, 0.5], W, np.float64)
            W, b = half[:, None] * (W[1] - W[0]), half * (b[1] - b[0])
        dtype = self.problem.rows.dtype
        return astype(W, dtype), astype(b, dtype)

    def settle(self, state: NewtonState, hurry: bool = False) -> None:
        """Round weights and intercepts to the caller's dtype, and bound the gap there."""
        if self.settled(state):
            return
        problem, point = self.at_work(state), state.here
        theta = problem.theta(*self.model(state))
        state.sample.move_to(theta)
        rise = self._rise(state, theta - point.theta)
        # the objective beside the gap, which is infinite if nothing is known of the scores
        if hurry or rise <= LITTLE * min(state.gap, state.objective):
            state.point = point._replace(theta=theta, objective=point.objective + rise)
            state.proved += rise
            return
        state.point, state.proved = problem.at(theta, self.lam, second=True), np.inf
        self.prove(state)

    def _rise(self, state: NewtonState, change: Array) -> float:
        """The most that the objective can rise: ‖diag p - p pᵀ‖ <= 1/2 bounds its curvature."""
        L = self.lam + 0.5 * (self.problem.trace + self.problem.total)
        return float(max(0.0, dot(state.here.gradient, change)) + 0.5 * L * dot(change, change))

    # -- the proof -------------------------------------------------------------------------------

    def certified(self, state: NewtonState, tol: float) -> bool:
        """Is the gap proved to be at most tol times the objective?  May cost some passes."""
        for _ in range(3):
            goal = tol * state.objective
            if state.gap <= goal:
                return True
            if hopeful(state.here) > goal:
                return False
            if narrow(self.at_work(state)) and blurred(self.at_work(state), state.here) > goal:
                self.widen(state, better=state.here.A is not None, goal=goal)
            if state.here.A is not None or not self.problem.intercept:
                exact = self.prove(state)
                if state.gap <= goal:
                    return True
                if exact <= goal:  # only rounding prevents the proof
                    if not narrow(self.at_work(state)):
                        return False
                    self.widen(state)
                    continue
            if not (self.problem.intercept and self._better_intercepts(state)):
                return False
            state.stalled = state.still >= STILL_STEPS  # from here a line search may succeed
        return False

    def bound(self, state: NewtonState) -> None:
        """Prove the best bound possible here: at most two passes, and one in float64 if needed."""
        if self.problem.intercept and hopeful(state.here) < state.objective:
            self._better_intercepts(state)
        self.prove(state)

    def prove(self, state: NewtonState) -> float:
        """Raise the lower bound to what this point proves; returns the gap of exact arithmetic."""
        certificate = certify(self.at_work(state), state.here)
        state.lost = certificate.objective
        if not np.isfinite(state.lost) and narrow(self.at_work(state)):
            self.widen(state)  # scores without correct digits: not even the objective is known
            return self.prove(state)
        if np.isfinite(state.lost):
            state.proved = certificate.gap
            state.dual = max(state.dual, state.objective - state.lost - certificate.gap)
        return certificate.exact

    def _better_intercepts(self, state: NewtonState) -> bool:
        """Make Newton steps of the intercepts, unless they raise the objective.

        They may be too long where the curvature vanishes.
        """
        theta = self._newton_intercepts(state)
        moved = self.at_work(state).at(theta, self.lam, second=True)
        if moved.objective <= state.objective * (1.0 + WORSE):
            accept(self.at_work(state), state, moved)
            return True
        state.sample.move_to(state.here.theta)
        return False

    def _newton_intercepts(self, state: NewtonState) -> Array:
        """theta after Newton steps of the intercepts alone."""
        problem, point = self.at_work(state), state.here
        theta, A, g = copy(point.theta), point.A, point.g
        if A is None:
            A, _ = curvature(problem, state).classes(theta, SURE * residuals_of(point))
        last = False
        for again in range(1 if problem.n_classes <= DENSE else DIAGONAL_STEPS):
            if again:
                g, A = problem.classes_at(theta)
                last = off_balance(problem, point, g) <= LEFT * self.tol * point.objective
            tau = -astype(newton_step(A, g), dtype_of(theta))
            theta[:, -1] += tau
            state.sample.shift(tau)
            if last:
                break
        return theta


def memory(problem: Multinomial) -> int:
    """The number of pairs to keep."""
    large = problem.n_classes * problem.rows.shape[1] * problem.rows.dtype.itemsize > LARGE
    return FEWER if large else MEMORY
