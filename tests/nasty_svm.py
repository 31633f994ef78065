"""Problems on which a float32 certificate of the SVM may lie, and a judge that computes exactly."""

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.svm import LinearSVC


class Nasty(NamedTuple):
    """One problem: ½ ‖[W, b]‖² + C Σ c_i loss_i, divided by C Σ c_i."""

    X: np.ndarray  # (n, d) float32
    y: np.ndarray  # (n,) all classes, the first as 0
    weight: np.ndarray  # (n,)
    C: float
    intercept: bool

    @property
    def total(self):
        return self.weight.sum()

    @property
    def bias(self):
        """The constant column: the root mean square norm of the rows, by their weights."""
        squares = (self.X.astype(float) ** 2).sum(axis=1)
        return (np.sqrt(np.average(squares, weights=self.weight)) or 1.0) if self.intercept else 0.0


def nasty(seed):
    """Scales, offsets, weights and C over many decades; columns and classes that degenerate."""
    rng = np.random.default_rng(seed)

    def chance(p):
        return rng.random() < p

    def decades(low, high, size=None):
        return 10.0 ** rng.uniform(low, high, size)

    C = int(rng.integers(2, 9))
    n, d = int(rng.integers(2 * C, 60)), int(rng.integers(1, 20))
    if chance(0.2):  # many more columns than rows
        n, d = int(rng.integers(C, 20)), int(rng.integers(50, 300))
    y = np.concatenate([np.arange(C), rng.integers(0, C, n - C)])
    if chance(0.2):  # one row a class, but for the first
        y = np.concatenate([np.arange(C), np.zeros(n - C, int)])
    if chance(0.02):  # 1 : 10,000
        n, d = 10_000 + C - 1, min(d, 4)
        y = np.concatenate([np.arange(C), np.zeros(n - C, int)])
    X = rng.normal(size=(n, d)) + decades(-1, 1) * rng.normal(size=(C, d))[y]
    if chance(0.3):
        X[:, rng.integers(d)] = decades(-2, 2)  # a constant column
    if chance(0.5):
        X += decades(0, 4) * rng.choice([-1, 0, 1], d)
    if chance(0.5):
        X *= decades(-6, 6, d)
    elif chance(0.3):
        X *= decades(-6, 6)
    if chance(0.2):
        X = np.hstack([X, X[:, : max(1, d // 2)]])  # the same columns twice
    if chance(0.1):
        X[rng.integers(n)] = 0.0
    weight = np.ones(n)
    if chance(0.4):
        weight = decades(-6, 6, n)
    if chance(0.3):
        weight[rng.random(n) < 0.3] = 0.0
        weight[:C] = np.maximum(weight[:C], 1e-3)
    return Nasty(X.astype(np.float32), y, weight, decades(-6, 8), chance(0.5))


def objective(problem, coef, intercept):
    """The objective at this model, added up in extended precision.

    One row for two classes: the binary SVM.
    """
    X, y, weight, C, _ = problem
    wide = np.longdouble
    coef, intercept = coef.astype(wide), intercept.astype(wide)
    S = X.astype(wide) @ coef.T + intercept
    if len(coef) == 1:
        losses = np.maximum(0, 1 - np.where(y == 1, 1, -1) * S[:, 0])
    else:
        margins = 1 + S - S[np.arange(len(y)), y][:, None]
        margins[np.arange(len(y)), y] = 0
        losses = margins.max(axis=1)
    b = intercept / (problem.bias or 1.0)
    penalty = ((coef**2).sum() + (b**2).sum()) / 2
    return (penalty / wide(C) + (weight * losses).sum()) / problem.total


def doubled(coef, intercept):
    """A binary model as one with two rows."""
    if len(coef) > 1:
        return coef, intercept
    return np.vstack([-coef / 2, coef / 2]), np.concatenate([-intercept / 2, intercept / 2])


def single(coef, intercept):
    """One with two rows as a binary model."""
    return (coef, intercept) if len(coef) == 1 else (coef[1:] - coef[:1], np.diff(intercept))


def liblinear(problem):
    """LIBLINEAR's model of the Crammer-Singer SVM in float64."""
    X, y, weight, C, _ = problem
    wide = np.hstack([X.astype(float), np.full((len(y), 1), problem.bias)])
    svm = LinearSVC(
        C=C, multi_class="crammer_singer", fit_intercept=False, tol=1e-9, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svm.fit(wide[weight > 0], y[weight > 0], weight[weight > 0])
    return svm.coef_[:, :-1], svm.coef_[:, -1] * problem.bias


def best_known(problem, models):
    """The lowest objective of these (coef, intercept), each at its best length."""
    lengths = 1 + np.concatenate([[0.0], -np.logspace(-8, -0.3, 8), np.logspace(-8, 0, 8)])
    return min(objective(problem, t * W, t * b) for W, b in models for t in lengths)
