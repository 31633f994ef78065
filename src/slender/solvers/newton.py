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

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..curvature.classwise import Blocks, Classwise, Inverse, sample_size
from ..curvature.doubtful import DoubtfulRows, rows_of, wanted
from ..problem import Multinomial, Point
from ..problem.certificate import blurred, certify, hopeful
from ..problem.intercepts import DENSE, newton_step
from .dense import DenseNewton
from .linesearch import draw
from .pairs import Pairs, dot

MEMORY = 10
REFRESH = 7  # steps with the same blocks; the first doubts are not those that stay
SOONER = 3  # and so many for the first ones of a fit that starts from another's weights
TRIALS = 20  # of one line search
ARMIJO = 1e-4
NEAR = 10.0  # A is computed with every pass once the gradient is this near to its goal
NOISE = {"f": 1e-6, "d": 1e-12}  # of the objective: differences below it say nothing
STILL, STILL_STEPS = 1e-2, 20  # so many steps that together gain less than this of the noise: stop
# Steps after which a fit in float32 is given the digits of float64: one that takes so many fights
# with rounding, as with columns whose scales differ by many decades.
PATIENCE = 100
MANY = 30  # steps after which a small problem is given its whole Hessian
SURE = 0.25  # of the sum of a class's residuals: its curvature is seldom less
WORSE = 1e-5  # of the objective: what rounding may add to it after a step of the intercepts
LITTLE = 1e-3  # of the gap: a change of the weights that costs less needs no pass of its own
DIAGONAL_STEPS = 2  # of the intercepts before a proof with many classes: each gains a digit or more


class QuasiNewton:
    """The state of a fit: where it is, what it knows of the curvature, and how far it can be."""

    def __init__(
        self,
        problem: Multinomial,
        rng: np.random.Generator,
        memory: int = MEMORY,
        curvature: Classwise | None = None,
        pairs: Pairs | None = None,
    ) -> None:
        self.problem, self.rng = problem, rng
        self.sample = draw(problem, rng)
        self._curvature = curvature or look_at(problem, rng)
        if pairs is None or pairs.dtype != problem.rows.dtype:
            pairs = Pairs(memory, problem.rows.dtype)
        self.pairs = pairs
        self._doubtful: DoubtfulRows | None = None
        self._blocks: Blocks | None = None
        self._H0: Inverse | None = None
        self._age = 0  # steps since the rows were looked at for the first time
        self._dense: DenseNewton | None = None
        self.dtype = problem.rows.dtype  # of the weights in the end
        self.stalled = False
        self.decrease = np.inf  # of the last step
        self.point: Point
        self.dual = 0.0  # the best lower bound on the optimum at this lam
        self.lost = 0.0  # what rounding may have taken from the objective, or added to it
        self.proved = np.inf  # the bound found at this very point

    @property
    def gap(self) -> float:
        """The objective is at most so far above the optimum."""
        return max(0.0, float(min(self.point.objective + self.lost - self.dual, self.proved)))

    @property
    def curvature(self) -> Classwise:
        """In the dtype of the fit; found anew after it was widened, if it is needed at all."""
        if self._curvature.P.dtype != self.problem.rows.dtype:
            self._curvature = self._curvature.astype(self.problem.rows.dtype, self.rng)
        return self._curvature

    @property
    def wide(self) -> bool:
        """Is this float64 already?"""
        return bool(self.problem.rows.dtype == np.float64)

    @property
    def patient(self) -> bool:
        """Is it too early to blame rounding for a fit that is slow?"""
        return self._steps <= (MANY if DenseNewton.suits(self.problem) else PATIENCE)

    def begin(self, theta: NDArray[Any], lam: float, second: bool = False) -> None:
        """Start at theta: one pass."""
        self.sample.move_to(theta)
        if theta[:, :-1].any():  # it comes from a fit: the doubts of its third step are good ones
            self._age = REFRESH - SOONER
        self._start(self.problem.at(theta, lam, second))

    def change_lam(self, lam: float) -> None:
        """Go on from the same theta under another penalty: no pass."""
        self._start(self.point.at_lam(lam))

    def _start(self, point: Point) -> None:
        self.point = point
        self.pairs.change_lam(point.lam)
        self.dual, self.lost, self.stalled, self.decrease = 0.0, 0.0, False, np.inf
        self.proved = np.inf
        self._lowest, self._still, self._steps = self.point.objective, 0, 0
        self._H0 = None

    # -- the proof -------------------------------------------------------------------------------

    def certified(self, tol: float) -> bool:
        """Is the optimum proved to within tol times the objective?  May cost some passes."""
        for _ in range(3):
            goal = tol * self.point.objective
            if self.gap <= goal:
                return True
            if hopeful(self.point) > goal:
                return False
            if not self.wide and blurred(self.problem, self.point) > goal:
                self.widen(better=self.point.A is not None)
            if self.point.A is not None or not self.problem.intercept:
                exact = self.prove()
                if self.gap <= goal:
                    return True
                if exact <= goal:  # only rounding is in the way
                    if self.wide:
                        return False
                    self.widen()
                    continue
            if not (self.problem.intercept and self._better_intercepts()):
                return False
            self.stalled = self._still >= STILL_STEPS  # a line search may find its way from here
        return False

    def bound(self) -> None:
        """Whatever can be proved here: at most two passes, and one in float64 if need be."""
        if self.problem.intercept and hopeful(self.point) < self.point.objective:
            self._better_intercepts()
        self.prove()

    def prove(self) -> float:
        """Raise the lower bound by what this point proves; the bound of exact arithmetic."""
        certificate = certify(self.problem, self.point)
        self.lost = certificate.objective
        if not np.isfinite(self.lost) and not self.wide:
            self.widen()  # scores without digits: not even the objective is known
            return self.prove()
        if np.isfinite(self.lost):
            self.proved = certificate.gap
            self.dual = max(self.dual, self.point.objective - self.lost - certificate.gap)
        return certificate.exact

    def _better_intercepts(self) -> bool:
        """Move there, unless the step was too long: where curvature vanishes Newton's may be."""
        moved = self._with_better_intercepts()
        if moved.objective <= self.point.objective * (1.0 + WORSE):
            self._accept(moved)
            return True
        self.sample.move_to(self.point.theta)
        return False

    def _with_better_intercepts(self) -> Point:
        """The point after the intercepts' own Newton steps, with A."""
        return self.problem.at(self._newton_intercepts(), self.point.lam, second=True)

    def _newton_intercepts(self) -> NDArray[Any]:
        """theta after the intercepts' own steps."""
        theta, A, g = self.point.theta.copy(), self.point.A, self.point.g
        if A is None:
            A, _ = self.curvature.classes(theta, SURE * self._most)
        for again in range(1 if self.problem.n_classes <= DENSE else DIAGONAL_STEPS):
            if again:
                g, A = self.problem.classes_at(theta)
            tau = -newton_step(A, g).astype(theta.dtype)
            theta[:, -1] += tau
            self.sample.shift(tau)
        return theta

    # -- float64 where float32 has no digits left ------------------------------------------------

    def widen(self, better: bool = False) -> None:
        """Go on in float64, from the same theta or with better intercepts: one pass."""
        theta = (self._newton_intercepts() if better else self.point.theta).astype(np.float64)
        self.problem, before = self.problem.widened(), self.point
        self.sample = self.sample.astype(theta.dtype)
        self.pairs = Pairs(self.pairs.memory, theta.dtype)
        self._doubtful, self._blocks, self._age = None, None, 0
        dual, steps = self.dual, self._steps  # a bound holds in any arithmetic
        self.begin(theta, before.lam, second=before.A is not None)
        if better and self.point.objective > before.objective * (1.0 + WORSE):
            self.begin(before.theta.astype(np.float64), before.lam, second=True)
        self.dual, self._steps = dual, steps

    @property
    def settled(self) -> bool:
        """Does the caller's dtype hold the weights exactly?"""
        return bool(self.problem.rows.dtype == self.dtype)

    def model(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """(W, b) for raw features, in the caller's dtype."""
        W, b = self.problem.model(self.point.theta)
        if not self.settled and len(b) == 2:  # estimators keep the difference: let it be exact
            W, b = (
                np.array([-0.5, 0.5])[:, None] * (W[1] - W[0]),
                np.array([-0.5, 0.5]) * (b[1] - b[0]),
            )
        return W.astype(self.dtype, copy=False), b.astype(self.dtype, copy=False)

    def settle(self) -> None:
        """Weights and intercepts that the caller's dtype holds, and what is proved of those."""
        if self.settled:
            return
        theta = self.problem.theta(*self.model())
        self.sample.move_to(theta)
        rise = self._rise(theta - self.point.theta)
        if rise <= LITTLE * self.gap:
            self.point = self.point._replace(theta=theta, objective=self.point.objective + rise)
            self.proved += rise
            return
        self.point, self.proved = self.problem.at(theta, self.point.lam, second=True), np.inf
        self.prove()

    def _rise(self, change: NDArray[Any]) -> float:
        """What the objective gains at most: ‖diag p - p pᵀ‖ <= 1/2 bounds its curvature."""
        L = self.point.lam + 0.5 * (self.problem.trace + self.problem.total)
        return max(0.0, dot(self.point.gradient, change)) + 0.5 * L * dot(change, change)

    # -- one step --------------------------------------------------------------------------------

    def step(self, tol: float) -> None:
        """One step; `stalled` says that rounding allows no further one."""
        near = hopeful(self.point) <= NEAR * tol * self.point.objective
        for D in self._directions():
            if self._move_along(D, near):
                self.stalled = self._still >= STILL_STEPS
                return
            self.pairs.clear()
        self.stalled = True

    def _directions(self) -> Iterator[NDArray[Any]]:
        """L-BFGS's; and should it lead nowhere, plainer ones."""
        gradient, lam = self.point.gradient, self.point.lam
        self._steps += 1
        if self.wide and self._steps > MANY and DenseNewton.suits(self.problem):
            self._dense = self._dense or DenseNewton(self.problem)
            yield self._dense.direction(self.point)
        self._age += 1
        fresh = self._blocks is None
        H0 = self._inverse()
        if self.pairs.kept:
            yield self.pairs.direction(gradient, H0)
            H0 = self._inverse(anew=not fresh)
        yield -(H0 @ gradient)
        yield -(self.curvature.diagonal(H0, lam) * gradient)

    @property
    def _most(self) -> NDArray[np.float64]:
        """Of a class's Σ w p (1 - p): the sum of its residuals' sizes."""
        return np.maximum(self.point.g + 2.0 * self.point.own, 0.0)

    def _inverse(self, anew: bool = False) -> Inverse:
        """H0 for this lam: of the blocks at this point, or of those that still serve."""
        point = self.point
        if self._blocks is None or anew:
            self._blocks = self.curvature.blocks(
                point.theta, SURE * self._most, self._most, self._doubtful
            )
            self._H0 = None
        if self._H0 is None:
            self._H0 = self._blocks.inverse(point.lam)
        return self._H0

    def _move_along(self, D: NDArray[Any], near: bool) -> bool:
        """Go as far as the line search says; False if that is nowhere."""
        with np.errstate(over="ignore", invalid="ignore"):
            slope = dot(self.point.gradient, D)
            ridge = self.point.lam * dot(D[:, :-1], D[:, :-1])
        if not (slope < 0.0 and np.isfinite(slope) and np.isfinite(ridge)):
            return False
        line = self.sample.along(self.point.theta, D)
        t, trial = self._line_search(D, slope, self.sample.root(line, slope, ridge), near)
        if trial is None:
            return False
        self.sample.move(line, t)
        self._accept(trial)
        return True

    def _line_search(
        self, D: NDArray[Any], slope: float, t: float, near: bool
    ) -> tuple[float, Point | None]:
        """The first t, from the sample's guess on, that decreases the objective enough."""
        point = self.point
        noise = NOISE[D.dtype.char] * abs(point.objective)
        due = self._age % REFRESH == 0
        doubts = wanted(self.problem, self._inverse().A.diagonal) if due else None
        for trials in range(TRIALS):
            if trials and -t * slope < noise:
                break  # what is left to gain cannot be told from rounding
            theta = point.theta + D.dtype.type(t) * D
            trial = self.problem.at(theta, point.lam, near and self.problem.intercept, doubts)
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
        self.proved = np.inf
        self.pairs.add(
            trial.theta - self.point.theta, trial.gradient - self.point.gradient, trial.lam
        )
        self.point = trial
        self._learn(trial)

    def _learn(self, point: Point) -> None:
        """From the doubts that a pass has found."""
        if point.doubts is not None:
            self._doubtful, self._blocks = rows_of(self.problem, point.doubts), None


def look_at(problem: Multinomial, rng: np.random.Generator) -> Classwise:
    active = np.flatnonzero(problem.w)
    m = sample_size(len(active), problem.rows.shape[1] * problem.rows.dtype.itemsize)
    index = np.sort(rng.choice(active, m, replace=False))
    X, w = problem.sample(index)
    return Classwise(X, w, problem.y[index], problem.intercept, rng, of=len(active))
