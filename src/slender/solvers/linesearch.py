"""How far to go along a direction, asked of a sample of the rows.

phi(t) = P(theta + t D) has phi'(0) = <∇P, D>, which is known exactly, and

    phi'(t) = phi'(0) + t lam ‖D_W‖² + Σ w_i ( E_{p_i(t)}[D x_i] - E_{p_i(0)}[D x_i] )

where p_i(t) = softmax(s_i + t D x_i) needs only the scores s_i and D x_i of a row, not the row.  On
a few thousand rows their mean is known to a few per cent, so the root of phi' found there is a step
that nearly always needs no second try, and a whole pass is not spent on a trial.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import kernel
from ..problem.exponential import exp
from ..problem.multinomial import Multinomial
from ..problem.softmax import FAST
from ..rows.threads import matmul

FEWEST, MOST = 1536, 2048  # rows, and an eighth of all in between
BYTES, LEAST = 64 * 2**20, 16  # held dense with their scores; of very wide rows, so few
# Where every row of the sample is already won, phi' only creeps towards 0, and what the sample's
# slope differs from that of all rows may be more than is left of it: stop short of the root.
SHORT = 0.05
ROOT_STEPS = 12
ROOT_TOL = 0.02  # of t: the sample itself knows the root no better


class LineSample:
    """A sample of centred rows with their scores at the current theta."""

    def __init__(self, X: NDArray[Any], w: NDArray[Any], n_classes: int) -> None:
        self.X, self.w = X, w  # (m, d), (m,)
        self.scores = np.zeros((len(X), n_classes), X.dtype)

    @classmethod
    def draw(cls, problem: Multinomial, rng: np.random.Generator) -> "LineSample":
        active = np.flatnonzero(problem.w)
        m = int(np.clip(len(active) // 8, FEWEST, MOST))
        m = min(m, len(active), max(LEAST, BYTES // problem.dense_row_bytes))
        X, w = problem.sample(np.sort(rng.choice(active, m, replace=False)))
        return cls(X, w, problem.n_classes)

    def astype(self, dtype: Any) -> "LineSample":
        """The same rows for arithmetic in another dtype; their scores are to be made again."""
        return LineSample(self.X.astype(dtype), self.w.astype(dtype), self.scores.shape[1])

    def move_to(self, theta: NDArray[Any]) -> None:
        """The scores at theta."""
        self.scores = self.along(theta)

    def move(self, step: NDArray[Any], t: float) -> None:
        """The scores at theta + t D, for step = D x."""
        self.scores += self.scores.dtype.type(t) * step

    def along(self, D: NDArray[Any]) -> NDArray[Any]:
        """D x_i for the sample's rows."""
        step = matmul(self.X, D[:, :-1].T)
        step += D[:, -1]
        return step

    def root(self, step: NDArray[Any], slope: float, ridge: float) -> float:
        """t with phi'(t) = SHORT phi'(0): Newton's method kept inside a bracket."""
        slope *= 1.0 - SHORT
        mean0, _ = _moments(self.scores, step, self.w, 0.0)
        lo, hi, t = 0.0, np.inf, 1.0
        for _ in range(ROOT_STEPS):
            mean, variance = _moments(self.scores, step, self.w, t)
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


@kernel(fastmath=FAST)
def _moments(S, D, w, t):  # type: ignore[no-untyped-def]
    """Σ w E_p[D] and Σ w Var_p[D] with p = softmax(S + t D), over the rows."""
    t = S.dtype.type(t)
    total_mean, total_variance = 0.0, 0.0
    p = np.empty(S.shape[1], S.dtype)
    for i in range(S.shape[0]):
        s, D_i = S[i], D[i]
        largest = s[0] + t * D_i[0]
        for c in range(len(s)):
            p[c] = s[c] + t * D_i[c]
            largest = max(largest, p[c])
        normaliser, first = s.dtype.type(0), s.dtype.type(0)
        for c in range(len(s)):
            p[c] = exp(p[c] - largest)
            normaliser += p[c]
            first += p[c] * D_i[c]
        first /= normaliser
        second = s.dtype.type(0)
        for c in range(len(s)):
            second += p[c] * (D_i[c] - first) * (D_i[c] - first)
        total_mean += w[i] * first
        total_variance += w[i] * (second / normaliser)
    return total_mean, total_variance
