"""One step of L-BFGS on a multinomial objective, from classwise curvature (newton.py has the fit).

If a direction does not decrease the objective, simpler ones are tried: H0 without pairs, then its
diagonal.  Doubtful rows are defined in curvature/doubtful.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..arrays import Array, dot, dtype_of, namespace
from ..curvature.classwise import Blocks, Classwise, Inverse
from ..curvature.doubtful import DoubtfulRows, rows_of, wanted
from ..data.examples import Readings
from ..passes.doubts import Wanted
from ..passes.residuals import R
from ..problem import Multinomial, Point
from ..problem.certificate import hopeful
from .dense import DenseNewton
from .linesearch import LineSample
from .secant_pairs import SecantPairs, alike

REFRESH = 7  # steps with the same blocks; rows that are doubtful at first do not stay so
# The doubt of a point, Σ w (1 - p_y), says how large its curvature is.  Pairs from points whose
# doubt differs by more than ALIKE mislead.  Blocks are renewed once it has CHANGED since they were
# built, but not while it still falls: they would soon be too small, and steps too long.
ALIKE, CHANGED = 1.25, 2.0
SOONER = 3  # steps with the first blocks of a fit that starts from the weights of another
TRIALS = 20  # of one line search, at most
ARMIJO = 1e-4
NEAR = 10.0  # A is computed in every pass once the bound on the gap is within this factor of tol
NOISE = {"f": 1e-6, "d": 1e-12}  # share of the objective: smaller differences are rounding
STILL, STILL_STEPS = 1e-2, 20  # stop if so many steps together gain less than this times NOISE
MANY = 30  # steps after which a small problem switches to the full Hessian
SURE = 0.25  # share of the sum of the residuals of a class: its curvature is seldom less


@dataclass
class NewtonState:
    """The current point of a fit, its curvature, and a bound on the distance from the optimum."""

    rng: np.random.Generator
    theta: Array  # where the fit starts
    sample: LineSample
    pairs: SecantPairs
    curvature: Classwise
    first: float  # number of passes before this fit
    read: Readings  # number of passes so far; the problem's own
    point: Point | None = None  # the last one evaluated
    wide: int = 0  # how often has the fit switched to a finer arithmetic?
    age: int = 0  # steps counted for REFRESH
    gamma: float | None = None  # the size of H0 by a pair, once there is one
    doubtful: DoubtfulRows | None = None
    blocks: Blocks | None = None
    built: float = 0.0  # the doubt where they were built
    last: float = 0.0  # the doubt at the point before this one
    H0: Inverse | None = None
    dense: DenseNewton | None = None
    steps: int = 0  # number of steps at this lam
    lowest: float = np.inf  # lowest objective so far,
    still: int = 0  # and the number of steps since then
    stalled: bool = False  # does rounding allow no further step?
    decrease: float = np.inf  # of the objective, in the last step
    dual: float = 0.0  # the best lower bound on the optimum at this lam
    lost: float = 0.0  # bound on the rounding error of the objective
    proved: float = np.inf  # the bound on the gap found at the point itself

    @property
    def here(self) -> Point:
        """The current point, which must exist."""
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
        """The objective is at most this far above the optimum."""
        return max(0.0, float(min(self.objective + self.lost - self.dual, self.proved)))


def begin(
    problem: Multinomial, state: NewtonState, theta: Array, lam: float, second: bool = False
) -> None:
    """Evaluate theta and start there: one pass."""
    state.sample.move_to(theta)
    if bool(theta[:, :-1].any()):  # it comes from a fit: doubtful rows found soon will stay so
        point = problem.at(theta, lam, second)
        state.age = REFRESH - SOONER
    else:
        point = problem.at_zero(theta, lam, second)
        curvature(problem, state).means = problem.class_means(point)
    enter(state, point)


def enter(state: NewtonState, point: Point) -> None:
    """Start at a point for which nothing is proved yet at its lam."""
    state.point = point
    state.pairs.change_lam(point.lam)
    state.dual, state.lost, state.proved = 0.0, 0.0, np.inf
    state.stalled, state.decrease = False, np.inf
    state.lowest, state.still, state.steps = point.objective, 0, 0
    state.H0 = None


def narrow(problem: Multinomial) -> bool:
    """Is this float32, so that float64 would be more accurate?"""
    return bool(problem.rows.dtype != np.float64)


def descend(problem: Multinomial, state: NewtonState, tol: float) -> None:
    """Make one step; sets `stalled` if rounding allows no further one."""
    near = hopeful(state.here) <= NEAR * tol * state.objective
    for D in directions(problem, state):
        if move_along(problem, state, D, near):
            state.stalled = state.still >= STILL_STEPS
            return
        state.pairs.clear()
    state.stalled = True


def directions(problem: Multinomial, state: NewtonState) -> Iterator[Array]:
    """Directions to try, one after another: L-BFGS, then simpler ones.

    In a small problem that has taken many steps, the first is that of the full Hessian.
    """
    gradient = state.here.gradient
    state.steps += 1
    if not narrow(problem) and state.steps > MANY and DenseNewton.suits(problem):
        state.dense = state.dense or DenseNewton(problem)
        yield state.dense.direction(state.here)
    state.age += 1
    fresh = state.blocks is None
    # H0 has no name here: while a pass reads the rows, it would outlive its blocks
    state.pairs.forget(doubt(state.here), ALIKE)
    if state.pairs.kept:
        yield state.pairs.direction(gradient, inverse(problem, state), size(problem, state))
        inverse(problem, state, anew=not fresh)
    yield -(inverse(problem, state) @ gradient)
    H0 = inverse(problem, state)
    yield -(curvature(problem, state).diagonal(H0, state.lam) * gradient)


def curvature(problem: Multinomial, state: NewtonState) -> Classwise:
    """The curvature in the dtype of the fit; after widening, computed again when first needed."""
    dtype = problem.rows.dtype
    if dtype_of(state.curvature.P) != dtype:
        state.curvature = state.curvature.astype(dtype, state.rng)
    return state.curvature


def inverse(problem: Multinomial, state: NewtonState, anew: bool = False) -> Inverse:
    """H0 for this lam: from the last blocks or, with `anew` or without any, from new ones here."""
    point = state.here
    if state.blocks is None or anew:
        state.blocks = state.H0 = None  # make room for the new ones
        most = residuals_of(point)
        state.blocks = curvature(problem, state).blocks(
            point.theta, SURE * most, most, state.doubtful
        )
        state.built = doubt(point)
    if state.H0 is None:
        state.H0, state.gamma = state.blocks.inverse(state.lam), None
    return state.H0


def size(problem: Multinomial, state: NewtonState) -> float:
    """gamma, by the last pair when H0 is new; it changes little until the next one."""
    H0 = inverse(problem, state)
    if state.gamma is None:
        state.gamma = state.pairs.scale(H0)
    return state.gamma


def move_along(problem: Multinomial, state: NewtonState, D: Array, near: bool) -> bool:
    """Make the step of the line search along D; False if there is none."""
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
    problem: Multinomial, state: NewtonState, D: Array, slope: float, t: float, near: bool
) -> tuple[float, Point | None]:
    """The first t that decreases the objective enough, starting with the sample's estimate."""
    point = state.here
    noise = NOISE[problem.rows.dtype.char] * abs(point.objective)
    due = state.age % REFRESH == 0 or changed(state)
    doubts: Wanted | None = None
    trial: Point | None = None
    for trials in range(TRIALS):
        if trials and -t * slope < noise:
            break  # the possible gain is smaller than rounding errors
        if due or trials:  # a sample that misleads does not have the rows that matter any more
            doubts = doubts or wanted(problem, inverse(problem, state).A.diagonal)
        trial = None  # make room for the next one
        theta = point.theta + float(t) * D
        trial = problem.at(theta, state.lam, near and problem.intercept, doubts)
        new_slope = dot(trial.gradient, D)
        change = trial.objective - point.objective
        if change <= ARMIJO * t * slope:
            return t, trial
        if change <= noise and abs(new_slope) <= 0.9 * abs(slope):
            return t, trial  # the objective cannot tell the points apart, but the slope can
        # where the slope would be zero if the objective were a parabola
        t *= np.clip(-slope / (new_slope - slope), 0.1, 0.5) if new_slope > slope else 0.1
    return t, None


def accept(problem: Multinomial, state: NewtonState, trial: Point) -> None:
    before = state.here
    state.last = doubt(before)
    state.decrease = before.objective - trial.objective
    least = STILL * NOISE[problem.rows.dtype.char] * trial.objective
    if trial.objective < state.lowest - least:
        state.lowest, state.still = trial.objective, 0
    else:
        state.still += 1
    state.proved = np.inf
    s, y = trial.theta - before.theta, trial.gradient - before.gradient
    state.pairs.add(s, y, state.lam, doubt(trial))
    state.point = trial
    if trial.doubts is not None:  # the pass has found the doubtful rows
        state.doubtful = state.blocks = state.H0 = None  # make room for the new ones
        state.doubtful = rows_of(problem, trial, curvature(problem, state).means)
        state.sample.focus(problem, trial, state.rng)


def doubt(point: Point) -> float:
    """Σ w (1 - p_y)."""
    return float(point.sums[R])


def changed(state: NewtonState) -> bool:
    """Does the doubt differ from where the blocks were built, and not fall any more?"""
    now = doubt(state.here)
    return not alike(state.built, now, CHANGED) and alike(state.last, now, ALIKE)


def residuals_of(point: Point) -> Array:
    """Σ |w (p - e_y)| of each class, an upper bound on its curvature Σ w p (1 - p)."""
    return namespace(point.g).clip(point.g + 2.0 * point.own, 0.0, None)
