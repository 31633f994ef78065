"""Multinomial logistic regression to the optimum: L-BFGS on the shoulders of SLND's curvature.

    H0     = the classes' inverse blocks  renewed every few steps        (curvature/classwise.py)
    D      = -H ∇P                        H: H0 corrected by the last `memory` pairs (two loops)
    t      = root of phi' on a sample     (linesearch.py)
    theta <- theta + t D                  one pass: objective, gradient, and the next pair

A pair is s = step, y = change of the gradient.  Its part from the data, y - lam s, does not depend
on lam, so pairs serve the next value of lam of a path too.

The end.  When the gradient is small enough for the certificate (problem/certificate.py) but for the
intercepts, these take a Newton step of their own, which is one more pass; the certificate found
there is a proof, and the best dual value seen so far is kept.
"""

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs

from ..curvature.classwise import Classwise, Inverse, sample_size
from ..problem import Multinomial, Point
from ..problem.certificate import certify, hopeful, newton_intercepts
from .linesearch import LineSample

MEMORY = 10
REFRESH = 7  # steps with one H0: L-BFGS suffers from one that changes at every step
TRIALS = 20  # of one line search
ARMIJO = 1e-4
NEAR = 30.0  # A is computed with every pass once the gradient is this near to its goal
NOISE = {"f": 1e-6, "d": 1e-12}  # of the objective: differences below it say nothing
STILL, STILL_STEPS = 1e-2, 20  # so many steps that together gain less than this of the noise: stop


class QuasiNewton:
    """The state of a fit: where it is, what it knows of the curvature, and how far it can be."""

    def __init__(
        self,
        problem: Multinomial,
        rng: np.random.Generator,
        memory: int = MEMORY,
        curvature: Classwise | None = None,
    ) -> None:
        self.problem = problem
        self.sample = LineSample.draw(problem, rng)
        self.curvature = curvature or look_at(problem, rng)
        self.pairs = Pairs(memory, problem.rows.dtype)
        self._H0: Inverse
        self.stalled = False
        self.decrease = np.inf  # of the last step
        self.point: Point
        self.dual = 0.0  # the best lower bound on the optimum at this lam

    @property
    def gap(self) -> float:
        """The objective is at most so far above the optimum."""
        return max(0.0, float(self.point.objective - self.dual))

    def begin(self, theta: NDArray[Any], lam: float) -> None:
        """Start at theta: one pass."""
        self.sample.move_to(theta)
        self._start(self.problem.at(theta, lam))

    def change_lam(self, lam: float) -> None:
        """Go on from the same theta under another penalty: no pass."""
        self._start(self.point.at_lam(lam))

    def _start(self, point: Point) -> None:
        self.point = point
        self.pairs.change_lam(point.lam)
        self.dual, self.stalled, self.decrease = 0.0, False, np.inf
        self._lowest, self._still, self._age = self.point.objective, 0, 0

    def _intercept_step(self) -> NDArray[np.float64]:
        """tau by the A of the pass, or else of the sample."""
        A = self.point.A
        if A is None:
            A, _ = self.curvature.classes(self.point.theta)
        return -newton_intercepts(A, self.point.g)

    def certified(self, tol: float) -> bool:
        """Is the optimum proved to within tol times the objective?  May cost a pass or two."""
        for _ in range(3):
            goal = tol * self.point.objective
            if self.gap <= goal:
                return True
            if hopeful(self.point) > goal:
                return False
            if self.point.A is not None or not self.problem.intercept:
                certificate = certify(self.problem, self.point)
                self.dual = max(self.dual, self.point.objective - certificate.gap)
                if self.gap <= goal:
                    return True
            if not self.problem.intercept:
                return False
            self._accept(self._moved_intercepts(self._intercept_step()))
            self.stalled = self._still >= STILL_STEPS  # a line search may find its way from here
        return False

    def bound(self) -> None:
        """Whatever can be proved here, unless it is nothing: at most one pass."""
        if hopeful(self.point) >= self.point.objective:
            return
        if self.problem.intercept:
            self._accept(self._moved_intercepts(self._intercept_step()))
        certificate = certify(self.problem, self.point)
        self.dual = max(self.dual, self.point.objective - certificate.gap)

    def _moved_intercepts(self, tau: NDArray[np.float64]) -> Point:
        theta = self.point.theta.copy()
        theta[:, -1] += tau
        self.sample.move(tau.astype(theta.dtype), 1.0)
        return self.problem.at(theta, self.point.lam, second=True)

    def step(self, tol: float) -> None:
        """One step; `stalled` says that rounding allows no further one."""
        point = self.point
        near = hopeful(point) <= NEAR * tol * point.objective
        if self._age % REFRESH == 0:
            self._H0 = self.curvature.inverse(point.theta, point.lam)
        self._age += 1
        H0 = self._H0
        D = self.pairs.direction(point.gradient, H0)
        slope = dot(point.gradient, D)
        if not slope < 0.0:  # rounding has spoilt the pairs
            self.pairs.clear()
            D = -(H0 @ point.gradient)
            slope = dot(point.gradient, D)
        if not slope < 0.0 or not np.isfinite(slope):
            self.stalled = True
            return
        ridge = point.lam * dot(D[:, :-1], D[:, :-1])
        step = self.sample.along(D)
        t = self.sample.root(step, slope, ridge)
        t, trial = self._line_search(D, slope, t, near)
        if trial is None:
            self.stalled = True
        else:
            self.sample.move(step, t)
            self._accept(trial)
            self.stalled = self._still >= STILL_STEPS

    def _line_search(
        self, D: NDArray[Any], slope: float, t: float, near: bool
    ) -> tuple[float, Point | None]:
        """The first t, from the sample's guess on, that decreases the objective enough."""
        point = self.point
        noise = NOISE[D.dtype.char] * abs(point.objective)
        for _ in range(TRIALS):
            theta = point.theta + D.dtype.type(t) * D
            trial = self.problem.at(theta, point.lam, second=near and self.problem.intercept)
            new_slope = dot(trial.gradient, D)
            change = trial.objective - point.objective
            if change <= ARMIJO * t * slope:
                return t, trial
            if change <= noise and abs(new_slope) <= 0.9 * abs(slope):
                return t, trial  # the objective's digits are used up; the slope's are not
            # the slope's own zero, if the objective were a parabola
            t *= np.clip(-slope / (new_slope - slope), 0.1, 0.5) if new_slope > slope else 0.1
        return t, None

    def _accept(self, trial: Point) -> None:
        self.decrease = self.point.objective - trial.objective
        least = STILL * NOISE[trial.theta.dtype.char] * trial.objective
        if trial.objective < self._lowest - least:
            self._lowest, self._still = trial.objective, 0
        else:
            self._still += 1
        self.pairs.add(
            trial.theta - self.point.theta, trial.gradient - self.point.gradient, trial.lam
        )
        self.point = trial


def look_at(problem: Multinomial, rng: np.random.Generator) -> Classwise:
    active = np.flatnonzero(problem.w)
    m = sample_size(len(active), problem.dense_row_bytes)
    index = np.sort(rng.choice(active, m, replace=False))
    X, w = problem.sample(index)
    return Classwise(X, w, problem.y[index], problem.intercept, rng)


class Pairs:
    """L-BFGS's memory: steps s and changes of the gradient y."""

    def __init__(self, memory: int, dtype: Any) -> None:
        self.kept: deque[tuple[NDArray[Any], NDArray[Any]]] = deque(maxlen=memory)
        self.lam = 0.0
        self._axpy = get_blas_funcs("axpy", dtype=dtype)

    def clear(self) -> None:
        self.kept.clear()

    def change_lam(self, lam: float) -> None:
        """y belongs to the gradient at one lam: y - lam s is the data's part of it."""
        for s, y in self.kept:
            y[:, :-1] += y.dtype.type(lam - self.lam) * s[:, :-1]
        self.lam = lam

    def add(self, s: NDArray[Any], y: NDArray[Any], lam: float) -> None:
        self.lam = lam
        size = np.sqrt(dot(s, s) * dot(y, y))
        if dot(s, y) > np.finfo(s.dtype).eps * size:  # else no curvature can be read from it
            self.kept.append((s, y))

    def direction(self, gradient: NDArray[Any], H0: Any) -> NDArray[Any]:
        """-H ∇P by the two loops."""
        q = -gradient
        flat = q.reshape(-1)
        alphas = []
        for s, y in reversed(self.kept):
            alpha = dot(s, q) / dot(s, y)
            alphas.append(alpha)
            self._axpy(y.reshape(-1), flat, a=-alpha)
        q = H0 @ q
        flat = q.reshape(-1)
        for (s, y), alpha in zip(self.kept, reversed(alphas), strict=True):
            beta = dot(y, q) / dot(s, y)
            self._axpy(s.reshape(-1), flat, a=alpha - beta)
        return q


def dot(A: NDArray[Any], B: NDArray[Any]) -> float:
    """<A, B>."""
    return float(np.vdot(A, B))
