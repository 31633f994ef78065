"""Problems that break float32 arithmetic, drawn from a seed; and those that did, by name.

Each is legal: finite rows, every class with a row of positive weight, squares far below overflow.
`what` names the nastiness that was drawn, for whoever reads a list of failures.
"""

from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits, make_blobs

DECADES = 6.0  # of columns, and of weights, to either side of 1
MOST_OFFSET = 1e4  # in units of the column's own spread
MOST_ROWS, RAREST = 20_000, 1e-4
TINY = (-44.0, -30.0)  # log10 of weights that float32 holds badly or not at all


class Problem(NamedTuple):
    X: Any  # (n, d) float32
    y: Any  # (n,) int, each of 0, 1, ... at least once
    sample_weight: Any  # (n,) float64, or None
    C: float  # scikit-learn's
    fit_intercept: bool
    what: list[str]


def problem(seed: int) -> Problem:
    """The problem of a seed."""
    rng = np.random.default_rng([seed, 20240])
    what: list[str] = []

    def drawn(name: str, chance: float) -> bool:
        if rng.random() >= chance:
            return False
        what.append(name)
        return True

    n, d, k = shape(rng, what)
    X = features(rng, n, d, drawn)
    y = labels(rng, X, k, what)
    if drawn("one-row class", 0.15):
        y[y == k - 1] = 0
        y[rng.integers(n)] = k - 1
    if drawn("conflicting rows", 0.15):
        twins = rng.choice(n, size=(2, max(1, n // 8)))
        X[twins[0]] = X[twins[1]]
    X = columns(rng, X, drawn)
    y[rng.permutation(n)[:k]] = np.arange(k)  # every class has a row
    weight = weights(rng, y, drawn)
    C = float(10 ** rng.uniform(-6, 8))
    fit_intercept = not drawn("no intercept", 0.25)
    what.append(f"C={C:.0e}")
    return Problem(X.astype(np.float32), y, weight, C, fit_intercept, what)


def shape(rng, what) -> tuple[int, int, int]:
    """Rows, columns and classes; the reference needs less than a second for any of these."""
    kind = rng.choice(["tall", "wide", "imbalanced"], p=[0.5, 0.3, 0.2])
    what.append(str(kind))
    if kind == "wide":
        n = int(rng.integers(20, 101))
        return n, int(np.exp(rng.uniform(np.log(n), np.log(2000)))), int(rng.integers(2, 7))
    if kind == "imbalanced":
        n = int(np.exp(rng.uniform(np.log(500), np.log(MOST_ROWS))))
        return n, int(rng.integers(1, 9)), int(rng.integers(2, 5))
    n = int(rng.integers(30, 400))
    return n, int(rng.integers(1, 31)), int(rng.integers(2, 13))


def features(rng, n: int, d: int, drawn) -> Any:
    X = rng.standard_normal((n, d))
    if drawn("low rank", 0.1):
        X = X[:, : max(1, d // 4)] @ rng.standard_normal((max(1, d // 4), d))
    if drawn("sparse rows", 0.15):
        X *= rng.random((n, d)) < 0.1
    if drawn("pixels", 0.12):
        X = np.rint(255 * np.clip(0.5 + 0.3 * X, 0, 1))
    elif drawn("unit rows", 0.12):
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    return X


def labels(rng, X, k: int, what) -> Any:
    """By a linear teacher, perhaps not always, or by chance; some classes rare."""
    n = len(X)
    kind = rng.choice(["separable", "noisy", "random"])
    rare = "imbalanced" in what
    what.append(f"{kind}, {k} classes")
    spread = X - X.mean(axis=0)
    S = spread @ rng.standard_normal((X.shape[1], k))
    S /= S.std() or 1.0
    if kind == "noisy":
        S += 0.5 * rng.gumbel(size=S.shape)
    elif kind == "random":
        S = rng.gumbel(size=S.shape)
    if rare:  # the last class's rows are those that like it most, as few as were drawn
        share = np.exp(rng.uniform(np.log(RAREST), np.log(0.05)))
        best = np.argsort(-S[:, -1])[: max(1, int(share * n))]
        S[:, -1] = -np.inf
        S[best, -1] = np.inf
    return S.argmax(axis=1)


def columns(rng, X, drawn) -> Any:
    """Scales, offsets, columns that say nothing or say it twice."""
    d = X.shape[1]
    scale = np.ones(d)
    if drawn("column scales", 0.35):
        scale = 10 ** rng.uniform(-DECADES, DECADES, d)
    if drawn("offsets", 0.35):
        size = MOST_OFFSET ** rng.uniform(0, 1, d)
        X = X + rng.choice([-1, 1], d) * size
    elif drawn("one large offset", 0.1):
        X = X + MOST_OFFSET
    X = X * scale
    if d > 1 and drawn("duplicate columns", 0.2):
        X[:, rng.permutation(d)[: d // 2]] = X[:, rng.permutation(d)[: d // 2]]
    if drawn("constant columns", 0.15):
        X[:, rng.permutation(d)[: max(1, d // 3)]] = 10 ** rng.uniform(-3, 4)
    if drawn("all of X constant", 0.02):
        X[:] = X[0]
    return X


def weights(rng, y, drawn) -> Any:
    """None, or weights of which each class has a positive one."""
    weight = np.ones(len(y))
    if drawn("weights over 12 decades", 0.2):
        weight = 10 ** rng.uniform(-DECADES, DECADES, len(y))
    elif drawn("tiny weights", 0.04):
        weight = 10 ** rng.uniform(*TINY, len(y))
    elif drawn("some tiny weights", 0.04):
        some = rng.random(len(y)) < 0.3
        weight[some] = 10 ** rng.uniform(*TINY, some.sum())
    if drawn("zero weights", 0.15):
        safe = np.unique(y, return_index=True)[1]
        zero = rng.random(len(y)) < rng.choice([0.1, 0.9])
        zero[safe] = False
        weight[zero] = 0.0
    return None if (weight == 1.0).all() else weight


# -- by name ---------------------------------------------------------------------------------------


def light_class() -> Problem:
    """Once 0.002839 was reported as proved to 5.5e-10; it is 0.003172, and the minimum 0.003121."""
    X = np.array([[0], [1], [2], [3], [0.5], [2.5]], np.float32)
    y, weight = np.array([0, 0, 0, 0, 0, 1]), np.array([1e4] * 5 + [1e-3])
    return Problem(X, y, weight, 1e-3, True, ["light class"])


def digits() -> Problem:
    X, y = load_digits(return_X_y=True)
    return Problem(X.astype(np.float32), y, None, 1e4, True, ["digits", "C=1e4"])


def very_wide() -> Problem:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 100_000), np.float32)
    return Problem(X, rng.integers(0, 4, 200), None, 1.0, True, ["d=100,000"])


def blobs() -> Problem:
    X, y = make_blobs(300, 10, centers=4, cluster_std=3.0, random_state=0)
    return Problem((255 * X).astype(np.float32), y, None, 1.0, True, ["blobs x 255"])


FIXED = {"light_class": light_class, "digits": digits, "very_wide": very_wide, "blobs": blobs}
