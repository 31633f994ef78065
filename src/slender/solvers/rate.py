"""Initial rates, found by trial as in Bottou's code: one pass over a small sample per candidate.

SGD starts from a guess and doubles or halves its eta0 as long as the objective on the sample
decreases; SGD-QN uses the best power of ten as t0.
"""

from collections.abc import Callable

import numpy as np

from ..problem import Weights
from ..rows import as_rows
from .stochastic import StochasticData

TRIAL_ROWS = 1000
MOST_TRIALS = 30  # a factor of a billion each way
T0_ROWS = 2000  # a tenth of the data, but no more than this and no fewer than TRIAL_ROWS
T0_POWERS = range(11)  # 10^0 ... 10^10, and higher as long as that is better
DENSE_PERIOD = 16  # visits between two updates of D, if no feature of a row is zero
REFRESHES = 16  # updates of D per pass, at least: with very sparse rows there would be almost none


def find_eta0(objective: Callable[[float], float], guess: float) -> float:
    """The best guess * 2^j: j changes in one direction until the objective stops decreasing."""
    best, value = guess, objective(guess)
    doubled = objective(2 * guess)
    factor = 2.0 if _less(doubled, value) else 0.5
    trial = doubled if factor == 2.0 else objective(guess / 2)
    for _ in range(MOST_TRIALS):
        if not _less(trial, value):
            break
        best, value = best * factor, trial
        trial = objective(best * factor)
    return best


def find_t0(objective: Callable[[float], float], least: float = 1.0) -> float:
    """The best of 10^0 ... 10^10, without those below `least`.

    Rows in large units, or a tiny penalty, may need more: the search continues upwards as long as
    the last one tried is the best.
    """
    powers = [10.0**j for j in T0_POWERS if 10.0**j >= least] or [float(least)]
    best, value = powers[0], objective(powers[0])
    for t0 in powers[1:]:
        trial = objective(t0)
        if _less(trial, value):
            best, value = t0, trial
    for _ in range(MOST_TRIALS):
        t0 = 10.0 * best
        if best < powers[-1] or not _less(trial := objective(t0), value):
            break
        best, value = t0, trial
    return best


def t0_rows(n: int) -> int:
    """Number of rows, out of n, that a trial of t0 uses."""
    return min(n, int(np.clip(n // 10, TRIAL_ROWS, T0_ROWS)))


def find_period(data: StochasticData) -> int:
    """T of SGD-QN, so that work of size d every T visits is a small part of the whole."""
    n, d = len(data.active), data.rows.shape[1]
    block = data.rows.gather(data.active[:: max(1, n // TRIAL_ROWS)])
    period = DENSE_PERIOD * d / max(block.nnz / block.shape[0], 1.0)
    return round(min(period, max(DENSE_PERIOD, n / REFRESHES)))


def subsample(data: StochasticData, size: int, rng: np.random.Generator) -> StochasticData:
    """`size` random examples among the active ones, or all if there are fewer, in memory."""
    size = min(size, len(data.active))
    index = np.sort(rng.choice(data.active, size, replace=False))
    labels = data.y._replace(**{data.y._fields[0]: data.y[0][index]})
    weights = Weights(data.weights.example[index], *data.weights[1:])
    rows = as_rows(data.rows.gather(index).matrix())
    return data._replace(
        rows=rows,
        y=labels,
        active=np.arange(size),
        sqnorms=data.sqnorms[index],
        weights=weights,
    )


def _less(a: float, b: float) -> bool:
    """a < b, where every finite number is less than infinity and NaN."""
    return bool(np.isfinite(a)) and (not np.isfinite(b) or a < b)
