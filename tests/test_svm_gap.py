"""The gap of the SVM's solvers is a bound whatever float32 does, and no pass is idle."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from nasty_svm import best_known, doubled, liblinear, nasty, objective, single
from slender import BCFWClassifier, LaRankClassifier

SEEDS = 120


class Witness:
    """A callback that keeps what was claimed of which weights."""

    def __init__(self):
        self.claims = []

    def __call__(self, record, weights):
        W, b = weights()
        self.claims.append((record["objective"], record["gap"], W.copy(), b.copy()))


def claims(estimator, problem, X=None, **settings):
    """(objective, gap, W, b) of every pass, and of the model."""
    witness = Witness()
    C = {"C": problem.C} if estimator is LaRankClassifier else {"mu": 1 / (problem.n * problem.C)}
    model = estimator(
        **C, fit_intercept=problem.intercept, callbacks=[witness], random_state=0, **settings
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(problem.X if X is None else X, problem.y, problem.weight)
    W, b = model.coef_, model.intercept_
    if estimator is BCFWClassifier:
        W, b = doubled(W, b)
    return [*witness.claims, (model.objective_, model.gap_, W, b)]


def check(problem, made, best):
    for claimed, gap, W, b in made:
        true = float(objective(problem, W, b))
        assert gap >= 0.0
        assert true - gap <= best
        assert claimed == pytest.approx(true, abs=1e-9 * true + 1e-3 * gap)


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_gaps_of_nasty_problems_are_bounds(first):
    """Violated if the objective, less the gap, is above one that some model reaches.

    Any model will do, since the judge computes what it reaches: those of both solvers, LaRank's of
    the rows in float64 and, where it does not take seconds, LIBLINEAR's.
    """
    for seed in range(first, first + 20):
        problem = nasty(seed)
        settings = {"passes": (3, 40, 200)[seed % 3], "tol": (1e-2, None, 1e-6)[seed // 3 % 3]}
        larank = claims(LaRankClassifier, problem, **settings)
        bcfw = claims(BCFWClassifier, problem, **settings)
        wide = claims(LaRankClassifier, problem, problem.X.astype(float), passes=200, tol=1e-7)
        found = [made[-1][2:] for made in (larank, bcfw, wide)]
        if seed % 20 == 0:
            found.append(liblinear(problem))
        check(problem, bcfw[-5:], best_known(problem, [doubled(*model) for model in found]))
        if len(larank[-1][2]) == 1:  # LaRank's binary SVM has half the penalty
            found = [single(*model) for model in found]
        check(problem, larank[-5:], best_known(problem, found))


@pytest.mark.parametrize("kind", [sparse.csr_array, np.asfortranarray, lambda X: X.astype(np.half)])
@pytest.mark.parametrize("estimator", [LaRankClassifier, BCFWClassifier])
def test_the_bound_of_other_rows(estimator, kind):
    """Rows that a kernel reads in another way; float16 holds what a nasty problem does not."""
    rng = np.random.default_rng(0)
    X = rng.integers(-8, 9, (40, 7)).astype(np.float32) / 8
    problem = nasty(3)._replace(
        X=X, y=np.arange(40) % 4, weight=np.ones(40), C=30.0, intercept=True
    )
    made = claims(estimator, problem, kind(X), passes=30, tol=None)
    check(problem, made, best_known(problem, [liblinear(problem)]))
