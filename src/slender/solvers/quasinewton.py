"""One step of L-BFGS on a multinomial objective, from classwise curvature (newton.py has the fit).

A direction that leads nowhere is followed by plainer ones: H0 without pairs, then its diagonal.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..curvature.classwise import Blocks, Classwise, Inverse
from ..curvature.doubtful import DoubtfulRows, rows_of, wanted
from ..problem import Multinomial, Point
from ..problem.certificate import hopeful
from .dense import DenseNewton
from .linesearch import LineSample
from .secant_pairs import SecantPairs, dot

REFRESH = 7  # steps with the same blocks; the first doubts are not those that stay
SOONER = 3  # and so many for the first ones of a fit that starts from another's weights
TRIALS = 20  # of one line search
ARMIJO = 1e-4
NEAR = 10.0  # A is computed with every pass once the gradient is this near to its goal
NOISE = {"f": 1e-6, "d": 1e-12}  # of the objective: differences below it say nothing
STILL, STILL_STEPS = 1e-2, 20  # so many steps that together gain less than this of the noise: stop
MANY = 30  # steps after which a small problem is given its whole Hessian
SURE = 0.25  # of the sum of a class's residuals: its curvature is seldom less


@dataclass
class NewtonState:
    """Where a fit is, what it knows of the curvature, and how far it can be from the optimum."""

    rng: np.random.Generator
    theta: NDArray[Any]  # where it begins
    sample: LineSample
    pairs: SecantPairs
    curvature: Classwise
    first: float  # readings of the rows before this fit
    point: Point | None = None  # the last one looked at
    wide: bool = False  # in float64 by now, the rows being float32?
    age: int = 0  # steps since the rows were looked at for the first time
    doubtful: DoubtfulRows | None = None
    blocks: Blocks | None = None
    H0: Inverse | None = None
    dense: DenseNewton | None = None
    steps: int = 0  # at this lam
    lowest: float = np.inf  # objective,
    still: int = 0  # and steps since it was
    stalled: bool = False  # does rounding allow no further step?
    decrease: float = np.inf  # of the last step
    dual: float = 0.0  # the best lower bound on the optimum at this lam
    lost: float = 0.0  # what rounding may have taken from the objective, or added to it
    proved: float = np.inf  # the bound found at this very point

    @property
    def here(self) -> Point:
        """The point, once there is one."""
        assert self.point is not None
        return self.point

    @property
    def lam(self) -> float:
        return self.here.lam

    @property
    def objective(self) -> float:
        return self.here.objective

    @property
    def gap(self) -> float:
        """The objective is at most so far above the optimum."""
        return max(0.0, float(min(self.objective + self.lost - self.dual, self.proved)))


def begin(
    problem: Multinomial, state: NewtonState, theta: NDArray[Any], lam: float, second: bool = False
) -> None:
    """Look at theta: one pass."""
    state.sample.move_to(theta)
    if theta[:, :-1].any():  # it comes from a fit: the doubts of its third step are good ones
        state.age = REFRESH - SOONER
    enter(state, problem.at(theta, lam, second))


def enter(state: NewtonState, point: Point) -> None:
    """Begin at a point, of which nothing is proved yet at its lam."""
    state.point = point
    state.pairs.change_lam(point.lam)
    state.dual, state.lost, state.proved = 0.0, 0.0, np.inf
    state.stalled, state.decrease = False, np.inf
    state.lowest, state.still, state.steps = point.objective, 0, 0
    state.H0 = None


def narrow(problem: Multinomial) -> bool:
    """Is this float32, so that float64 has more digits to offer?"""
    return bool(problem.rows.dtype != np.float64)


def descend(problem: Multinomial, state: NewtonState, tol: float) -> None:
    """One step, unless rounding allows no further one."""
    near = hopeful(state.here) <= NEAR * tol * state.objective
    for D in directions(problem, state):
        if move_along(problem, state, D, near):
            state.stalled = state.still >= STILL_STEPS
            return
        state.pairs.clear()
    state.stalled = True


def directions(problem: Multinomial, state: NewtonState) -> Iterator[NDArray[Any]]:
    """L-BFGS's; and should it lead nowhere, plainer ones."""
    gradient = state.here.gradient
    state.steps += 1
    if not narrow(problem) and state.steps > MANY and DenseNewton.suits(problem):
        state.dense = state.dense or DenseNewton(problem)
        yield state.dense.direction(state.here)
    state.age += 1
    fresh = state.blocks is None
    H0 = inverse(problem, state)
    if state.pairs.kept:
        yield state.pairs.direction(gradient, H0)
        H0 = inverse(problem, state, anew=not fresh)
    yield -(H0 @ gradient)
    yield -(curvature(problem, state).diagonal(H0, state.lam) * gradient)


def curvature(problem: Multinomial, state: NewtonState) -> Classwise:
    """In the dtype of the fit; found anew after it was widened, if it is needed at all."""
    dtype = problem.rows.dtype
    if state.curvature.P.dtype != dtype:
        state.curvature = state.curvature.astype(dtype, state.rng)
    return state.curvature


def inverse(problem: Multinomial, state: NewtonState, anew: bool = False) -> Inverse:
    """H0 for this lam: of the blocks at this point, or of those that still serve."""
    point = state.here
    if state.blocks is None or anew:
        most = residuals_of(point)
        state.blocks = curvature(problem, state).blocks(
            point.theta, SURE * most, most, state.doubtful
        )
        state.H0 = None
    if state.H0 is None:
        state.H0 = state.blocks.inverse(state.lam)
    return state.H0


def move_along(problem: Multinomial, state: NewtonState, D: NDArray[Any], near: bool) -> bool:
    """Go as far as the line search says; False if that is nowhere."""
    point = state.here
    with np.errstate(over="ignore", invalid="ignore"):
        slope = dot(point.gradient, D)
        ridge = state.lam * dot(D[:, :-1], D[:, :-1])
    if not (slope < 0.0 and np.isfinite(slope) and np.isfinite(ridge)):
        return False
    line = state.sample.along(point.theta, D)
    t, trial = line_search(problem, state, D, slope, state.sample.root(line, slope, ridge), near)
    if trial is None:
        return False
    state.sample.move(line, t)
    accept(problem, state, trial)
    return True


def line_search(
    problem: Multinomial, state: NewtonState, D: NDArray[Any], slope: float, t: float, near: bool
) -> tuple[float, Point | None]:
    """The first t, from the sample's guess on, that decreases the objective enough."""
    point = state.here
    noise = NOISE[D.dtype.char] * abs(point.objective)
    due = state.age % REFRESH == 0
    doubts = wanted(problem, inverse(problem, state).A.diagonal) if due else None
    for trials in range(TRIALS):
        if trials and -t * slope < noise:
            break  # what is left to gain cannot be told from rounding
        theta = point.theta + D.dtype.type(t) * D
        trial = problem.at(theta, state.lam, near and problem.intercept, doubts)
        new_slope = dot(trial.gradient, D)
        change = trial.objective - point.objective
        if change <= ARMIJO * t * slope:
            return t, trial
        if change <= noise and abs(new_slope) <= 0.9 * abs(slope):
            return t, trial  # the objective's digits are used up; the slope's are not
        # the slope's own zero, if the objective were a parabola
        t *= np.clip(-slope / (new_slope - slope), 0.1, 0.5) if new_slope > slope else 0.1
    return t, None


def accept(problem: Multinomial, state: NewtonState, trial: Point) -> None:
    before = state.here
    state.decrease = before.objective - trial.objective
    least = STILL * NOISE[trial.theta.dtype.char] * trial.objective
    if trial.objective < state.lowest - least:
        state.lowest, state.still = trial.objective, 0
    else:
        state.still += 1
    state.proved = np.inf
    state.pairs.add(trial.theta - before.theta, trial.gradient - before.gradient, state.lam)
    state.point = trial
    if trial.doubts is not None:  # the pass has found the rows that bend most
        state.doubtful, state.blocks = rows_of(problem, trial.doubts), None


def residuals_of(point: Point) -> NDArray[np.float64]:
    """The sum of a class's residuals' sizes: its Σ w p (1 - p) is at most that."""
    return np.maximum(point.g + 2.0 * point.own, 0.0)
