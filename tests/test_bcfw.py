"""BCFWClassifier and its solver: the practical's five algorithms, and the gap."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import naive_svm as naive
from slender import BCFWClassifier, LaRankClassifier, load_model, save_model
from slender.datasets import digits
from slender.losses import CrammerSinger
from slender.problem import multiclass
from slender.rows import as_rows
from slender.solvers.bcfw import FrankWolfe, restarted, widened
from slender.solvers.duality import SVMProblem
from slender.solvers.patterns import empty, largest, primal_weights
from slender.solvers.svm_forms import Multiclass

MU = 0.05


@parametrize_with_checks(
    [BCFWClassifier(), BCFWClassifier(batch_size=2)],
    expected_failed_checks=lambda _: {
        # see test_a_weight_of_two_is_two_rows
        "check_sample_weight_equivalence_on_dense_data": "equal to the gap, not to rounding",
        "check_sample_weight_equivalence_on_sparse_data": "equal to the gap, not to rounding",
    },
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learns_contract(estimator, check):
    check(estimator)


def problem(seed=0, n=12, d=5, C=4):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(C), rng.integers(0, C, n - C)])
    return rng.normal(size=(n, d)) + np.eye(C, d)[y], y.astype(np.int32)


def solve(X, y, C, batch_size, passes, which, averaging=False, weight=None, lam=MU):
    """The solver's (W, Σ β^y), block after block in this order, `passes` times."""
    n = X.shape[0]
    weight = np.ones(n) if weight is None else weight
    rows = as_rows(X)
    problem = SVMProblem(Multiclass(y), rows, weight / (n * lam), rows.sqnorms(), 0.0, C)
    solver = FrankWolfe(problem, batch_size, averaging)
    iterate = solver.at(empty(n, C), np.zeros((C, X.shape[1])))
    for _ in range(passes):
        iterate = solver.sweep(iterate, np.arange(n), which)
    rebuilt, _ = primal_weights(rows, iterate.patterns, C, 0.0)
    np.testing.assert_allclose(rebuilt, iterate.W, atol=1e-10)  # β and W never part
    return solver.averaged(iterate)[0], largest(iterate.patterns).sum()


def blocks_of(n, b, which, passes):
    return [tuple(range(j * b, min((j + 1) * b, n))) for _ in range(passes) for j in which]


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("b", [1, 2, 5, 12])
@pytest.mark.parametrize("averaging", [False, True])
def test_algorithm_5(kind, b, averaging):
    X, y = problem()
    which = np.random.default_rng(1).permutation(-(-len(y) // b))
    W, _ = solve(kind(X), y, 4, b, 6, which, averaging)
    expected, _ = naive.primal_dual(X, y, 4, MU, blocks_of(len(y), b, which, 6), averaging)
    np.testing.assert_allclose(W, expected, atol=1e-10)


def test_algorithm_1_is_algorithm_5_with_one_block():
    X, y = problem(1)
    expected, length = naive.conditional_gradient(X, y, 4, MU, 15)
    W, linear = solve(X, y, 4, len(y), 15, np.array([0]))
    np.testing.assert_allclose(W, expected, atol=1e-10)
    assert MU * linear == pytest.approx(length)


@pytest.mark.parametrize(
    "algorithm", [naive.block_conditional_gradient, naive.block_conditional_gradient_svm]
)
def test_algorithms_2_3_and_4_are_algorithm_5_with_blocks_of_one(algorithm):
    X, y = problem(2)
    which = np.random.default_rng(3).permutation(len(y))
    expected, length = algorithm(X, y, 4, MU, np.tile(which, 4))
    W, linear = solve(X, y, 4, 1, 4, which)
    np.testing.assert_allclose(W, expected, atol=1e-6)  # γ of Algorithm 2 is from differences of f
    assert MU * linear == pytest.approx(length, abs=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("b", [1, 5])
def test_float32_rows_go_on_with_weights_of_float64(kind, b):
    X, y = problem(8)
    rows = as_rows(kind(X.astype(np.float32)))
    U, sq = np.full(12, 1 / (12 * MU)), rows.sqnorms().astype(float)
    solver = FrankWolfe(SVMProblem(Multiclass(y), rows, U, sq, 0.0, 4), b, average=True)
    state = solver.at(empty(12, 4), np.zeros((4, 5), np.float32))
    for _ in range(2):
        state = solver.sweep(state, np.arange(12), np.arange(-(-12 // b)))
        V, v = primal_weights(rows, state.patterns, 4, 0.0)
        np.testing.assert_allclose(state.W, V, atol=1e-5)
        state = widened(restarted(state, V, v), V)
    state = solver.sweep(state, np.arange(12), np.arange(-(-12 // b)))
    np.testing.assert_allclose(state.W, primal_weights(rows, state.patterns, 4, 0.0)[0], atol=1e-12)


def test_weights_scale_the_losses():
    X, y = problem(4)
    weight = np.random.default_rng(5).uniform(0.5, 2.0, len(y))
    which = np.arange(4)
    W, _ = solve(X, y, 4, 3, 3, which, weight=weight)
    blocks = blocks_of(len(y), 3, which, 3)
    np.testing.assert_allclose(W, naive.primal_dual(X, y, 4, MU, blocks, weight=weight)[0])


@pytest.fixture(scope="module")
def data():
    return digits()


@pytest.mark.parametrize("batch_size", [None, 1, 16, 1300])
def test_the_gap_holds(data, batch_size):
    """dual <= optimum <= primal, the optimum by LIBLINEAR."""
    X, y, *_ = data
    mu = 1e-2
    C = 1 / (len(y) * mu)
    svm = LinearSVC(
        C=C, multi_class="crammer_singer", fit_intercept=False, tol=1e-8, max_iter=100_000
    ).fit(X, y)
    best = multiclass(
        CrammerSinger(),
        as_rows(X),
        y.astype(np.int32),
        svm.coef_,
        np.zeros(10),
        np.ones(len(y)),
        mu,
    )
    with pytest.warns(ConvergenceWarning, match="raise passes=8"):
        model = BCFWClassifier(
            mu, batch_size=batch_size, passes=8, tol=1e-9, fit_intercept=False, random_state=0
        ).fit(X, y)
    for record in model.trace_:
        assert record["dual"] <= best + 1e-6
        assert record["objective"] >= best - 1e-6
        assert record["gap"] >= record["objective"] - best - 1e-6
    W = model.coef_
    at = multiclass(
        CrammerSinger(), as_rows(X), y.astype(np.int32), W, np.zeros(10), np.ones(len(y)), mu
    )
    assert model.objective_ == pytest.approx(at, rel=1e-6)


def test_reference_run_of_digits(data):
    """lam = 1/n, ten passes: the public reference code has 0.2709 where the optimum is 0.26642."""
    X, y, *_ = data
    model = BCFWClassifier(
        1 / len(y), passes=10, tol=None, fit_intercept=False, random_state=0
    ).fit(X, y)
    assert 0.26642 - 1e-4 <= model.objective_ < 0.2709


def test_tol_stops_the_fit(data):
    model = BCFWClassifier(0.01, tol=0.05, passes=100, fit_intercept=False, random_state=0).fit(
        *data[:2]
    )
    assert model.gap_ <= 0.05 * model.objective_
    assert model.n_iter_ < 100


def test_two_classes_have_one_row(data):
    X, y, X_test, y_test = data
    two = y < 2
    model = BCFWClassifier(fit_intercept=False, random_state=0).fit(X[two], y[two])
    assert model.coef_.shape == (1, X.shape[1])
    assert model.score(X_test[y_test < 2], y_test[y_test < 2]) > 0.95


def test_estimate_is_the_mean_of_blocks_objectives_before_their_steps():
    X, y = problem(6)
    model = BCFWClassifier(
        MU, batch_size=4, passes=1, tol=None, average=False, fit_intercept=False, random_state=0
    )
    model.fit(X, y)
    which = np.random.default_rng(0).permutation(3)
    visited = blocks_of(len(y), 4, which, 1)
    values = []
    for t in range(3):
        W, _ = naive.primal_dual(X, y, 4, MU, visited[:t])
        block = list(visited[t])
        values.append(
            multiclass(
                CrammerSinger(),
                as_rows(X[block]),
                y[block],
                W,
                np.zeros(4),
                np.ones(len(block)),
                MU,
            )
        )
    assert model.trace_[0]["estimate"] == pytest.approx(np.mean(values))


def test_rows_of_zeros_leave_no_gap():
    X, y = problem(7)
    X[3:5] = 0.0
    model = BCFWClassifier(MU, tol=2e-3, passes=2000, fit_intercept=False, random_state=0).fit(X, y)
    assert model.gap_ <= 2e-3 * model.objective_


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(4, 30),
    C=st.integers(2, 6),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    batch_size=st.sampled_from([None, 1, 3]),
)
def test_dual_rises_and_the_gap_is_never_negative(seed, n, C, scale, batch_size):
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(n + C, 4))
    y = np.concatenate([np.arange(C), rng.integers(0, C, n)])
    model = BCFWClassifier(
        0.1, batch_size=batch_size, passes=5, tol=None, fit_intercept=False, random_state=seed
    )
    duals = [record["dual"] for record in model.fit(X, y).trace_]
    assert all(b >= a - 1e-9 * max(1.0, abs(a)) for a, b in zip([0.0, *duals], duals, strict=False))
    assert all(r["objective"] >= r["dual"] - 1e-9 for r in model.trace_)


@pytest.mark.parametrize("estimator", [BCFWClassifier, LaRankClassifier])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_weight_zero_is_absence(data, estimator, class_weight):
    X, y, *_ = data
    X = X.astype(float)
    X[::3] *= 100.0  # the rows that are not there would be felt
    weight = np.ones(len(y))
    weight[::3] = 0.0
    weight[y == 3] = 0.0
    weight[np.flatnonzero((y == 3) & (np.arange(len(y)) % 3 > 0))[0]] = 1.0
    keep = weight > 0
    settings = {"class_weight": class_weight, "random_state": 0, "passes": 300, "tol": 1e-2}
    a = estimator(**settings).fit(X, y, weight)
    b = estimator(**settings).fit(X[keep], y[keep])
    assert abs(a.objective_ - b.objective_) <= max(a.gap_, b.gap_) + 1e-9
    wide = estimator(**{**settings, "tol": None, "passes": 1})  # the constant column is the same
    assert wide.fit(X, y, weight).objective_ < 2 * wide.fit(X[keep], y[keep]).objective_


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("estimator", [BCFWClassifier, LaRankClassifier])
@pytest.mark.parametrize("C", [2, 4])
def test_a_weight_of_two_is_two_rows(estimator, fit_intercept, C):
    """Whole weights: the same objective as that of repeated rows, to within both certificates."""
    X, y = problem(n=60, C=C)
    X *= np.random.default_rng(1).uniform(0.5, 3.0, (60, 1))  # the constant column would differ
    weight = np.random.default_rng(2).integers(0, 4, 60)
    weight[:C] = 3
    penalty = {"lam": MU} if estimator is BCFWClassifier else {"C": 1 / (MU * weight.sum())}
    settings = {"tol": 3e-3, "passes": 2000, "fit_intercept": fit_intercept, "random_state": 0}
    a = estimator(**penalty, **settings).fit(X, y, weight)
    twice = np.repeat(np.arange(60), weight)
    b = estimator(**penalty, **settings).fit(X[twice], y[twice])
    assert abs(a.objective_ - b.objective_) <= a.gap_ + b.gap_
    # strong convexity: so near must the weights be, the constant column's among them
    far = np.sqrt(2 * a.gap_ / MU) + np.sqrt(2 * b.gap_ / MU)
    rows = 2.0 if C == 2 else 1.0  # of two rows, of which the difference is kept
    assert np.linalg.norm(a.coef_ - b.coef_) <= rows * far


def test_saves_and_loads(data, tmp_path):
    X, y, X_test, _ = data
    model = BCFWClassifier(passes=1, tol=None, fit_intercept=False, random_state=0).fit(X, y)
    save_model(model, tmp_path / "m")
    np.testing.assert_array_equal(load_model(tmp_path / "m").predict(X_test), model.predict(X_test))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lam": 0}, "lam=0"),
        ({"lam": -1.0}, "lam=-1.0"),
        ({"batch_size": 10**6}, "batch_size=1000000 is more than the 1300 training rows"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"passes": 0}, "passes=0"),
        ({"tol": -1}, "tol=-1"),
    ],
)
def test_bad_settings(data, settings, message):
    with pytest.raises(ValueError, match=message):
        BCFWClassifier(**settings).fit(*data[:2])
