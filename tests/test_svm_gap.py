"""The SVM's solvers: a gap that is a bound whatever float32 does, no idle pass, bounded memory."""

import tracemalloc
import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import slender
from nasty_svm import best_known, doubled, liblinear, nasty, objective, single
from slender import BCFWClassifier, LaRankClassifier
from slender.datasets import digits
from slender.rows import as_rows
from slender.solvers import larank
from slender.solvers.duality import best_factor, mend_all, row_squares
from slender.solvers.patterns import empty, largest, primal_weights, scratch, spread, write
from slender.solvers.svm_forms import Multiclass

SEEDS = 120


class Witness:
    """A callback that keeps what was claimed of which weights."""

    def __init__(self):
        self.claims = []

    def __call__(self, record, weights):
        self.claims.append((record["objective"], record["gap"], *weights()))


def claims(estimator, problem, X=None, **settings):
    """(objective, gap, W, b) of every pass, and of the model."""
    witness = Witness()
    C = (
        {"C": problem.C}
        if estimator is LaRankClassifier
        else {"lam": 1 / (problem.total * problem.C)}
    )
    model = estimator(
        **C, fit_intercept=problem.intercept, callbacks=[witness], random_state=0, **settings
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(problem.X if X is None else X, problem.y, problem.weight)
    made = [*witness.claims, (model.objective_, model.gap_, model.coef_, model.intercept_)]
    if estimator is BCFWClassifier:
        made = [(claimed, gap, *doubled(W, b)) for claimed, gap, W, b in made]
    return made


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


def idle_passes(model):
    moves = [record["moves"] for record in model.trace_]
    return sum(a == b for a, b in pairwise(moves))


def test_thresholds_follow_the_gap():
    """C = 1e5: what tau and kappa hold back is more than all of the objective."""
    X, y, *_ = digits()
    two = y < 2
    model = LaRankClassifier(1e5, passes=300, random_state=0).fit(X[two], y[two])
    assert model.gap_ <= 1e-2 * model.objective_
    assert idle_passes(model) < 5


def test_separable_rows_with_a_large_C():
    """C n times the rounding of a float32 margin is a tenth of the objective, or all of it."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 1000)
    X = (rng.normal(size=(1000, 256)) + 0.5 * rng.normal(size=(10, 256))[y]).astype(np.float32)
    for C in (1e2, 1e5):
        model = LaRankClassifier(C, tol=1e-3, passes=100, random_state=0).fit(X, y)
        assert model.gap_ <= 1e-3 * model.objective_
        assert idle_passes(model) < 5


@pytest.mark.parametrize("classes", [2, 3])
def test_what_rounding_does_not_allow_is_said(classes):
    rng = np.random.default_rng(1)
    X, y = rng.normal(1.0, 1.0, size=(60, 6)).astype(np.float32), np.arange(60) % classes
    model = LaRankClassifier(0.1, tol=1e-12, passes=5000, random_state=0)
    with pytest.warns(ConvergenceWarning, match="rounding prevents.*give X as float64"):
        model.fit(X, y)
    assert model.n_iter_ < 1000
    assert idle_passes(model) < 10
    assert model.gap_ <= 1e-6 * model.objective_
    wide = LaRankClassifier(0.1, tol=1e-10, passes=5000, random_state=0).fit(X.astype(float), y)
    assert wide.gap_ <= 1e-10 * wide.objective_


def test_the_best_length_is_the_grids():
    rng = np.random.default_rng(0)
    for _ in range(20):
        margins, U = rng.normal(1.0, 1.0, 12), rng.uniform(0, 1, 12)
        square = 10 ** rng.uniform(-3, 1)

        def value(t, margins=margins, U=U, square=square):
            return 0.5 * t**2 * square + U @ np.maximum(0, 1 - t * margins)

        t = best_factor(margins, U, square)
        around = t * np.linspace(0.5, 2, 3001)
        assert value(t) <= min(map(value, around)) + 1e-12


def test_squares_are_those_of_float64():
    X = np.array([[1e25, 1.0], [3.0, 4.0], [1e-30, 0.0]], np.float32)
    exact = (X.astype(float) ** 2).sum(axis=1)
    for rows in (X, sparse.csr_array(X)):
        np.testing.assert_allclose(row_squares(as_rows(rows)), exact, rtol=1e-15)


def filled(n, C, coefficients):
    """Patterns of one example after another, from dense rows."""
    patterns = empty(n, C)
    for i, row in enumerate(coefficients):
        pattern = scratch(C)
        pattern.classes[:], pattern.beta[:] = np.arange(C), row
        write(patterns, i, pattern, C)
    return patterns


def test_coefficients_are_made_feasible():
    y, U = np.array([0, 1, 2], np.int32), np.array([1.0, 1.0, 0.5])
    beta = [[0.7, -0.5, -0.1], [-1.0, 1.0 + 1e-9, 1e-12], [-0.4, -0.2, 0.6]]
    patterns = filled(3, 3, beta)
    mend_all(Multiclass(y), U, patterns)
    made = np.zeros((3, 3))
    spread(patterns, 0, made)
    np.testing.assert_allclose(made.sum(axis=1), 0.0, atol=1e-16)
    assert (made <= U[:, None] * np.eye(3)[y]).all()
    np.testing.assert_allclose(made[:2], [[0.6, -0.5, -0.1], [-1.0, 1.0, 0.0]], atol=1e-12)
    np.testing.assert_allclose(largest(patterns), made[np.arange(3), y])


def test_weights_are_added_up_in_float64():
    """n coefficients that cancel to the seventh digit."""
    rng = np.random.default_rng(0)
    X = (1e4 + rng.normal(size=(200, 3))).astype(np.float32)
    beta = rng.normal(size=(200, 2)).round(3)
    beta -= beta.mean(axis=0)
    W, b = primal_weights(as_rows(X), filled(200, 2, beta), 2, 3.0)
    np.testing.assert_allclose(W, beta.T @ X.astype(float), atol=1e-8)
    np.testing.assert_allclose(b, 3.0 * beta.sum(axis=0), atol=1e-12)


def peak_of(fit):
    """Bytes at most while this runs on one thread, beside what there was: each has blocks."""
    slender.set_num_threads(1)
    tracemalloc.start()
    try:
        fit()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        slender.set_num_threads(None)


@pytest.mark.parametrize("estimator", [LaRankClassifier, BCFWClassifier])
def test_thousands_of_classes_need_no_square_of_them(estimator):
    """Neither (C, C) nor (n, C) is held."""
    C, rng = 3000, np.random.default_rng(0)
    y = np.repeat(np.arange(C), 2)
    X = (rng.normal(size=(C, 8))[y] + 0.3 * rng.normal(size=(2 * C, 8))).astype(np.float32)
    model = estimator(passes=4, tol=None, random_state=0)
    assert peak_of(lambda: model.fit(X, y)) < 0.4 * C * C * 4
    assert 0.0 < model.gap_ < model.objective_


def test_rows_in_doubt_among_many_classes_cost_only_themselves():
    """Five of 6,000 rows have coefficients for two hundred classes, the others for five."""
    C, rng = 300, np.random.default_rng(0)
    y = np.repeat(np.arange(C), 20)
    X = (rng.normal(size=(C, 16))[y] + 0.3 * rng.normal(size=(len(y), 16))).astype(np.float32)
    X[:5] = X.mean(axis=0) + 1e-3 * rng.normal(size=(5, 16))
    model = LaRankClassifier(100.0, passes=20, tol=None, random_state=0)
    assert peak_of(lambda: model.fit(X, y)) < 2000 * len(y)


def test_rows_that_are_widened_are_widened_in_portions(monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 4000)
    X = (rng.normal(size=(4000, 300)) + 0.2 * rng.normal(size=(5, 300))[y]).astype(np.float16)
    settings = {"C": 0.01, "random_state": 0}
    LaRankClassifier(**settings).fit(X[:100], y[:100])  # what compiling takes does not count
    monkeypatch.setattr(larank, "PORTION_BYTES", X.nbytes // 10)
    model = LaRankClassifier(**settings)
    assert peak_of(lambda: model.fit(X, y)) < X.nbytes + 3 * 2**20  # and not 3 X, as float32
    whole = LaRankClassifier(**settings).fit(X.astype(np.float32), y)
    assert model.gap_ <= 1e-2 * model.objective_
    assert abs(model.objective_ - whole.objective_) <= model.gap_ + whole.gap_
