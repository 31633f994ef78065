"""SGD's first rate, found by trying (Bottou's way).

One pass over a small sample for each candidate, doubling or halving from a natural guess for as
long as the objective on the sample falls.
"""

from collections.abc import Callable

import numpy as np

TRIAL_ROWS = 1000
MOST_TRIALS = 30  # a factor of a billion each way


def find_eta0(objective: Callable[[float], float], guess: float) -> float:
    """The best of guess * 2^j for the j at which the objective stops falling."""
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


def _less(a: float, b: float) -> bool:
    """a < b, anything finite being less than what is not."""
    return bool(np.isfinite(a)) and (not np.isfinite(b) or a < b)
