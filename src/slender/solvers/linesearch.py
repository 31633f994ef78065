"""The step length along a direction, estimated from a sample of the rows.

phi(t) = P(theta + t D) has phi'(0) = <∇P, D>, which is known exactly, and

    phi'(t) = phi'(0) + t lam ‖D_W‖² + Σ w_i ( E_{p_i(t)}[D x_i] - E_{p_i(0)}[D x_i] )

where p_i(t) = softmax(s_i + t D x_i) needs only the scores s_i and D x_i of a row, not the row.  A
few thousand rows give the mean to a few per cent.  So the root of phi' on the sample is a step
length that is nearly always accepted at once, and no pass is spent on a trial.

Certain rows.  Once nearly all rows are classified with certainty, few hold what is left of the
sum, and random rows are hardly ever among them.  So a part of the rows is drawn from those of the
doubtful pairs that a pass has found (passes/doubts.py), each with a chance in proportion to its
curvature; the random rows then stand for the others only.  The part is what these pairs have of all
curvature.

Many classes.  The scores of a sample may take too much memory (2,048 rows of 10,000 classes: 82
MB).  Then scores are stored only for the contenders of each row, the classes with its largest
scores.  All others together count as one class, whose D x has mean m and variance v under the
softmax restricted to them:

    ln Σ_rest exp(s + t D x)  =  ln Σ_rest exp s + t m + t² v / 2 + ...
"""

from copy import copy as copy_of
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, astype, bincount, dtype_of, is_numpy, like, namespace, zeros
from ..curvature.doubtful import numbered
from ..device.line import line_moments
from ..kernels import kernel
from ..passes.exponential import exp
from ..passes.residuals import FAST, TINY
from ..problem.multinomial import Multinomial, Point
from ..rows.threads import each_part, matmul

FEWEST, MOST = 1536, 2048  # rows of a sample: an eighth of all, within these limits
BYTES, LEAST = 64 * 2**20, 16  # of the dense rows, and of their scores; but at least so many rows
DOUBTFUL = 0.75  # of its rows, at most: the others stand for all rows that are not doubtful
# With too many classes, the scores of CONTENDERS classes per row are stored, and the sample has at
# least one row in PART.
CONTENDERS, PART = 64, 64
# If every row of the sample is classified with certainty, phi' approaches 0 very slowly, and the
# error of the sample's slope may exceed what is left of it.  So stop short of the root.
SHORT = 0.05
ROOT_STEPS = 12
ROOT_TOL = 0.02  # of t: the sample does not determine the root more accurately
FAR = 2.0  # contenders have the largest scores at t = 0 or at this t


class Line(NamedTuple):
    """Rows along a direction: the scores and D x of some classes, and of all others together."""

    s: Array  # (m, K)
    d: Array  # (m, K)
    rest: Array  # (m, 3) ln Σ exp s, mean and variance of d; (0, 3) if there are no others


def draw(problem: Multinomial, rng: np.random.Generator) -> "LineSample":
    """A sample of the rows of a problem."""
    n, itemsize = problem.examples.n_active, problem.rows.dtype.itemsize
    m = int(np.clip(n // 8, FEWEST, MOST))
    kind: type[LineSample] = LineSample
    if min(m, n) * problem.n_classes * itemsize > BYTES:
        kind, m = ContenderSample, max(m, n // PART)
    m = min(m, n, max(LEAST, BYTES // (problem.rows.shape[1] * itemsize)))
    X, _, w, row = problem.sample(m, rng)
    return kind(X, w, row)


class LineSample:
    """A sample of centred rows with their scores at the current theta."""

    def __init__(self, X: Array, w: Array, row: NDArray[np.intp]) -> None:
        self.X, self.w = X, w  # (m, d), (m,)
        self.row = like(row, X, np.int64)  # the m rows that were drawn first, and their weights
        self.drawn = astype(w, np.float64)

    def astype(self, dtype: Any) -> "LineSample":
        """The same rows in another dtype; their scores must be computed again by `move_to`."""
        other = copy_of(self)
        other.X, other.w = astype(self.X, dtype), astype(self.w, dtype)
        return other

    def focus(self, problem: Multinomial, point: Point, rng: np.random.Generator) -> None:
        """Replace some of the rows that were drawn first by rows that are doubtful at a point."""
        assert point.doubts is not None
        m, doubts, xp = len(self.row), point.doubts, namespace(self.X)
        row, place = numbered(doubts.row)
        h = bincount(place, doubts.h, len(row))
        share = min(float(h.sum()) / max(float(doubts.a.sum()), TINY), DOUBTFUL)
        if m == problem.examples.n_active or share * m < 1.0:
            return  # the sample has all rows, or would have no doubtful one
        chance = chances(h, int(share * m))
        doubtful = systematic(chance, rng)
        others = xp.nonzero(~xp.isin(self.row, row))[0]
        kept = zeros((len(others),), h, np.float64) + (1.0 - len(doubtful) / m)
        others = others[systematic(kept, rng)]
        weight = problem.examples.weights(row)
        left = max(0.0, float(self.drawn.sum() - weight.sum()))
        drawn = self.drawn[others]
        drawn = drawn * (left / max(float(drawn.sum()), TINY))
        chosen = xp.concat([self.row[others], row[doubtful]])
        self.X = problem.rows.dense(chosen) - problem.mean
        weights = xp.concat([drawn, weight[doubtful] / chance[doubtful]])
        self.w = astype(weights, dtype_of(self.X))
        self.move_to(point.theta)

    def move_to(self, theta: Array) -> None:
        """Compute the scores at theta."""
        self.scores = self._products(theta)

    def move(self, line: Line, t: float) -> None:
        """Update the scores to theta + t D."""
        self.scores += float(t) * line.d

    def shift(self, tau: Array) -> None:
        """Update the scores after tau was added to the intercepts."""
        self.scores += tau

    def along(self, theta: Array, D: Array) -> Line:
        """The rows along D, from the current theta."""
        return Line(self.scores, self._products(D), zeros((0, 3), D, dtype_of(D)))

    def _products(self, D: Array, rows: slice = slice(None)) -> Array:
        step = matmul(self.X[rows], D[:, :-1].T)
        step += D[:, -1]
        return step

    def root(self, line: Line, slope: float, ridge: float) -> float:
        """t with phi'(t) = SHORT phi'(0), by Newton's method inside a bracket."""
        slope *= 1.0 - SHORT
        mean0, _ = moments(line, self.w, 0.0)
        lo, hi, t = 0.0, np.inf, 1.0
        for _ in range(ROOT_STEPS):
            mean, variance = moments(line, self.w, t)
            value = slope + t * ridge + (mean - mean0)
            if value > 0:
                hi = t
            else:
                lo = t
            second = variance + ridge
            new = t - value / second if second > 0 else 2.0 * t
            if not lo < new < hi:
                new = 0.5 * (lo + hi) if np.isfinite(hi) else 2.0 * t
            new = min(new, 4.0 * t)
            done = abs(new - t) <= ROOT_TOL * t
            t = new
            if done:
                break
        return float(t)


def chances(h: Array, m: int) -> Array:
    """In proportion to h, up to certainty, with sum m, or as close to it as h allows."""
    xp, free = namespace(h), h >= 0.0
    while True:
        rest = xp.where(free, h, 0.0)
        left = m - (len(h) - int(free.sum()))
        chance = xp.where(free, rest * (left / max(float(rest.sum()), TINY)), 1.0)
        if not bool((chance > 1.0).any()):
            return chance
        free &= chance < 1.0


def systematic(chance: Array, rng: np.random.Generator) -> Array:
    """Places drawn with these chances: where a comb of unit steps meets their running sum."""
    xp = namespace(chance)
    ends = xp.floor(xp.cumulative_sum(chance) + rng.random())
    before = xp.concat([0.0 * ends[:1], ends[:-1]])
    return xp.nonzero(ends > before)[0]


class ContenderSample(LineSample):
    """A sample whose scores are computed for every direction and not stored."""

    def move_to(self, theta: Array) -> None:
        pass

    def move(self, line: Line, t: float) -> None:
        pass

    def shift(self, tau: Array) -> None:
        pass

    def along(self, theta: Array, D: Array) -> Line:
        m, dtype = len(self.X), dtype_of(self.X)
        line = Line(*(zeros((m, columns), D, dtype) for columns in (CONTENDERS, CONTENDERS, 3)))
        step = max(1, BYTES // (2 * len(D) * dtype.itemsize))
        for start in range(0, m, step):
            rows = slice(start, start + step)
            S, T = self._products(theta, rows), self._products(D, rows)
            mine = Line(*(part[rows] for part in line))
            if not is_numpy(S):
                contend_there(S, T, mine)
                continue

            def part(lo: int, hi: int, S: Any = S, T: Any = T, mine: Line = mine) -> None:
                contend(lo, hi, S, T, mine)

            each_part(np.full(len(S), float(len(D))), part)
        return line


@kernel(fastmath=FAST)
def contend(lo, hi, S, T, line):  # type: ignore[no-untyped-def]
    """Fill `line` for rows lo to hi, from their scores S and products T = D x of all classes."""
    C, K = S.shape[1], line.s.shape[1]
    far = S.dtype.type(FAR)
    reach = np.empty(C, S.dtype)
    for i in range(lo, hi):
        s, d = S[i], T[i]
        for c in range(C):
            reach[c] = max(s[c], s[c] + far * d[c])
        least = np.partition(reach, C - K)[C - K]
        k, largest = 0, -np.inf
        for c in range(C):
            if reach[c] >= least and k < K:
                line.s[i, k], line.d[i, k] = s[c], d[c]
                reach[c] = np.inf  # already stored
                k += 1
            else:
                largest = max(largest, s[c])
        mass, first, second = 0.0, 0.0, 0.0
        for c in range(C):
            if reach[c] < np.inf:
                p = np.exp(s[c] - largest)
                mass += p
                first += p * d[c]
                second += p * d[c] * d[c]
        first /= mass
        line.rest[i, 0] = largest + np.log(mass)
        line.rest[i, 1] = first
        line.rest[i, 2] = max(0.0, second / mass - first * first)


def contend_there(S: Array, T: Array, line: Line) -> None:
    """The same for all rows of a block on a device."""
    xp = namespace(S)
    _, best = xp.maximum(S, S + FAR * T).topk(line.s.shape[1], dim=1)
    line.s[:], line.d[:] = S.gather(1, best), T.gather(1, best)
    others = S.scatter(1, best, -np.inf)
    mass = others.logsumexp(1)
    p = (others - mass[:, None]).exp()
    mean = (p * T).sum(1)
    line.rest[:] = xp.stack([mass, mean, (p * T * T).sum(1).sub(mean**2).clamp_min(0.0)], axis=1)


def moments(line: Line, w: Array, t: float) -> tuple[float, float]:
    """Σ w E_p[d] and Σ w Var_p[d] with p = softmax(s + t d), over the rows."""
    if is_numpy(w):
        return moments_here(line, w, t)
    mean, variance = line_moments(*line, w, t).tolist()
    return mean, variance


@kernel(fastmath=FAST)
def moments_here(line, w, t):  # type: ignore[no-untyped-def]
    """On this machine's cores."""
    S, D, rest = line.s, line.d, line.rest
    t = S.dtype.type(t)
    half, zero = S.dtype.type(0.5), S.dtype.type(0)
    total_mean, total_variance = 0.0, 0.0
    p = np.empty(S.shape[1], S.dtype)
    for i in range(S.shape[0]):
        s, D_i = S[i], D[i]
        others, drift, spread = zero, zero, zero
        largest = s[0] + t * D_i[0]
        if len(rest) > 0:
            spread = rest[i, 2]
            drift = rest[i, 1] + t * spread
            others = rest[i, 0] + t * rest[i, 1] + half * t * t * spread
            largest = max(largest, others)
        for c in range(len(s)):
            p[c] = s[c] + t * D_i[c]
            largest = max(largest, p[c])
        others = exp(others - largest) if len(rest) > 0 else zero
        normaliser, first = others, others * drift
        for c in range(len(s)):
            p[c] = exp(p[c] - largest)
            normaliser += p[c]
            first += p[c] * D_i[c]
        first /= normaliser
        second = others * (spread + (drift - first) * (drift - first))
        for c in range(len(s)):
            second += p[c] * (D_i[c] - first) * (D_i[c] - first)
        total_mean += w[i] * first
        total_variance += w[i] * (second / normaliser)
    return total_mean, total_variance
