"""TraceNormClassifier: at the minimum that slow oracles find, and never further than it proves."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import naive_trace
from naive_trace import PROBLEMS, blobs, stated
from slender import LinearProbe, TraceNormClassifier, krylov
from slender.data import Examples
from slender.datasets import planted
from slender.problem import Multinomial
from slender.problem.tracenorm import Costs, Factors, costs, duality_gap, risk_gradient
from slender.rows import DenseRows, one_blas_thread


@pytest.fixture(autouse=True)
def _one_thread():
    """Products this small lose more than they gain by threads."""
    with one_blas_thread():
        yield


def fitted(problem, X=None, weight=None, **options):
    own = {"fit_intercept": problem.intercept, "random_state": 0, **options}
    model = TraceNormClassifier(problem.lambda1, problem.lambda2, **own)
    return model.fit(problem.X if X is None else X, problem.y, sample_weight=weight)


def weights(model):
    """W (d, k) and b (k,) of the softmax in float64, for two classes too."""
    W = (np.float64(model.U_) * model.theta_) @ np.float64(model.V_).T
    b = np.float64(model.intercept_)
    return W, np.append(0.0, b) if len(b) == 1 else b


def at_the_minimum(model, problem):
    """The objective is what FISTA reaches, and the gradient that of a minimum."""
    best, *_ = naive_trace.fista(problem)
    W, b = weights(model)
    assert model.objective_ == pytest.approx(problem.objective(W, b), rel=1e-10)
    assert model.objective_ == pytest.approx(best, rel=model.tol)
    assert model.gap_ <= model.tol * model.objective_
    downhill = problem.gradient(W, b)
    size = naive_trace.trace_norm(W)
    assert np.linalg.norm(downhill, 2) <= problem.lambda1 * (1 + 2e-3)
    assert (downhill * W).sum() == pytest.approx(-problem.lambda1 * size, rel=2e-3)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_minimum_is_that_of_proximal_gradient(name, intercept):
    problem = stated(*PROBLEMS[name], intercept)
    at_the_minimum(fitted(problem, tol=1e-6), problem)


@pytest.mark.parametrize("intercept", [False, True])
def test_weights_of_rows_and_classes(intercept):
    X, y = blobs()
    y = np.where(np.arange(90) < 30, 0, y)  # classes of unequal size
    weight = np.random.default_rng(1).integers(0, 4, 90).astype(float)
    problem = stated(X, y, 0.1, intercept=intercept, weight=weight)
    at_the_minimum(fitted(problem, weight=weight, tol=1e-6), problem)
    balanced = (90 / 4 / np.bincount(y))[y]
    problem = stated(X, y, 0.1, intercept=intercept, weight=balanced)
    at_the_minimum(fitted(problem, class_weight="balanced", tol=1e-6), problem)


def test_a_step_that_gains_little_is_not_undone():
    """Far from the origin the first atom is the mean, of little use, and on the way to the rest."""
    rng = np.random.RandomState(0)
    X, y = rng.normal(100.0, 1.0, (100, 2)), rng.randint(0, 2, 100)
    model = TraceNormClassifier(random_state=0).fit(X, y)
    assert model.gap_ <= 1e-3 * model.objective_


def test_weights_of_mean_one_are_repetitions():
    X, y = blobs()
    counts = np.random.default_rng(0).integers(0, 4, len(y))
    repeated = stated(np.repeat(X, counts, axis=0), np.repeat(y, counts), 0.1)
    weight = counts * np.count_nonzero(counts) / counts.sum()
    model = fitted(repeated._replace(y=y), X, weight, tol=1e-8)
    assert repeated.objective(*weights(model)) == pytest.approx(model.objective_, rel=1e-12)
    assert fitted(repeated, tol=1e-8).objective_ == pytest.approx(model.objective_, rel=1e-8)


def beyond_the_gap(problem, X, **options):
    """How much further above the minimum than its gap an objective of the trace is, if positive."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = fitted(problem, X, **options)
    reached = problem.objective(*weights(model))
    best = min(naive_trace.fista(problem, steps=3000)[0], reached)
    beyond = [record["objective"] - best - record["gap"] for record in model.trace_]
    return max(*beyond, reached - best - model.gap_) / best


# beyond the gap: nothing, rounding included
NOT_COUNTED = {np.float32: 0.0, np.float64: 0.0}


@settings(max_examples=30)
@pytest.mark.parametrize("dtype", NOT_COUNTED)
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(np.log(0.003), np.log(0.9)).map(np.exp),
    lambda2=st.sampled_from([0.0, 1e-6, 1e-3, 0.1]),
    tol=st.sampled_from([1e-2, 1e-3, 1e-5]),
    intercept=st.booleans(),
)
def test_the_certificate_is_the_truth(dtype, seed, share, lambda2, tol, intercept):
    """objective - minimum <= gap at every step."""
    rng = np.random.default_rng(seed)
    C, d = rng.integers(2, 7), rng.integers(1, 13)
    X, y = blobs(rng.integers(C, 50), d, C, seed)
    X = (X * rng.choice([0.1, 1.0, 10.0]) + rng.choice([0.0, 1.0])).astype(dtype)
    problem = stated(X, y, share, lambda2, intercept)
    assert beyond_the_gap(problem, X, tol=tol, passes=60) <= NOT_COUNTED[dtype]


@pytest.mark.filterwarnings("ignore:lambda1=:sklearn.exceptions.ConvergenceWarning")
def test_no_rounding_is_left_out_of_the_certificate():
    """W = 0 is the optimum, ln 5; float32 makes 1.5e-7 more of it and proves 2e-12."""
    X, y = blobs(C=5)
    model = TraceNormClassifier(10.0, 1e-3).fit(X.astype(np.float32), y)
    assert model.objective_ - np.log(5) <= model.gap_


def test_the_default_penalty_serves():
    """Many classes, of which a tenth of lambda1_max_ learns a few."""
    data = planted(1000, 32, 40, n_test=1000, separation=0.8)
    best = LinearProbe(12, random_state=0).fit(data.X_train, data.y_train)
    model = TraceNormClassifier(random_state=0).fit(data.X_train, data.y_train)
    scores = [each.score(data.X_test, data.y_test) for each in (model, best)]
    assert scores[0] > scores[1] - 0.02


@pytest.mark.parametrize("intercept", [False, True])
def test_from_lambda1_max_on_nothing_is_left(intercept):
    X, y = blobs(C=3)
    y[:40] = 2
    problem = stated(X, y, 1.0, intercept=intercept)
    default = fitted(problem._replace(lambda1=None))
    largest = default.lambda1_max_
    assert default.lambda1_ == pytest.approx(0.003 * largest)
    assert largest == pytest.approx(problem.lambda1_max(), rel=1e-12)
    for lambda1 in (largest, 3 * largest):
        with pytest.warns(ConvergenceWarning, match="is not below lambda1_max_"):
            model = fitted(problem._replace(lambda1=lambda1))
        assert (model.rank_, model.U_.shape, model.V_.shape) == (0, (6, 0), (3, 0))
        assert not model.coef_.any()
        assert len(np.unique(model.predict(X))) == 1
        assert model.objective_ == pytest.approx(problem.risk(np.zeros((6, 3)), problem.constant()))
        if intercept:
            assert model.predict(X)[0] == 2
            np.testing.assert_allclose(model.predict_proba(X)[0], np.bincount(y) / 90)
    model = fitted(problem._replace(lambda1=0.99 * largest), tol=1e-8)
    assert model.rank_ >= 1


def test_the_trace_norm_falls_with_its_penalty():
    sizes = [
        fitted(stated(*blobs(), share), tol=1e-7).theta_.sum()
        for share in np.geomspace(0.9, 0.01, 7)
    ]
    for stronger, weaker in pairwise(sizes):
        assert stronger < weaker


@given(seed=st.integers(0, 10**6), d=st.integers(1, 8), k=st.integers(1, 8), s=st.integers(1, 9))
def test_proposition_1(seed, d, k, s):
    """The trace norm is the least l1 norm of an atomic decomposition, and the SVD's."""
    rng = np.random.default_rng(seed)
    theta, U, V = rng.standard_normal(s), rng.standard_normal((d, s)), rng.standard_normal((k, s))
    U, V = U / np.linalg.norm(U, axis=0), V / np.linalg.norm(V, axis=0)
    W = (U * theta) @ V.T
    assert naive_trace.trace_norm(W) <= np.abs(theta).sum() * (1 + 1e-12)
    u, sigma, vt = np.linalg.svd(W, full_matrices=False)
    factors = Factors(u, sigma, vt.T, np.zeros(k))
    np.testing.assert_allclose(factors.W, W.T, atol=1e-12)
    assert factors.theta.sum() == pytest.approx(naive_trace.trace_norm(W))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "share", "factored"),
    [("more columns than rows", 0.3, True), ("more classes than columns", 0.02, False)],
)
def test_the_model_is_its_factors(name, share, factored, dtype):
    """Scores through the factors where that costs less, through coef_ where not: the same."""
    X, y = PROBLEMS[name][0].astype(dtype), PROBLEMS[name][1]
    problem = stated(X, y, share, intercept=True)
    model = fitted(problem, X)
    C, d, r = problem.k, X.shape[1], model.rank_
    assert (r * (d + C) < d * C) == factored
    assert model.U_.dtype == model.V_.dtype == model.coef_.dtype == dtype
    near = 1e-6 if dtype == np.float32 else 1e-14
    np.testing.assert_allclose(model.U_.T @ model.U_, np.eye(r), atol=10 * near)
    np.testing.assert_allclose(model.V_.T @ model.V_, np.eye(r), atol=10 * near)
    assert (model.theta_ > 0).all()
    assert (np.diff(model.theta_) <= 0).all()
    np.testing.assert_allclose(model.coef_, weights(model)[0].T, atol=10 * near)
    dense = X @ model.coef_.T + model.intercept_
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, dense, atol=100 * near)
    np.testing.assert_array_equal(model.predict(X), dense.argmax(axis=1))
    np.testing.assert_array_equal(model.predict_top_k(X, 2)[:, 0], model.predict(X))
    np.testing.assert_allclose(model.predict_proba(X), naive_trace.softmax(dense), atol=100 * near)
    in_sparse = fitted(problem, sparse.csr_array(X))
    assert in_sparse.objective_ == pytest.approx(model.objective_, rel=1e-5)
    np.testing.assert_allclose(model.decision_function(sparse.csr_array(X)), scores, atol=1e-4)


def with_singular_values(sigma, C, d, seed=0):
    rng = np.random.default_rng(seed)
    V, U = (np.linalg.qr(rng.standard_normal((m, len(sigma))))[0] for m in (C, d))
    return (V * sigma) @ U.T


MATRICES = {
    "tall": np.random.default_rng(0).standard_normal((60, 7)),
    "wide": np.random.default_rng(0).standard_normal((7, 60)),
    "square": np.random.default_rng(0).standard_normal((30, 30)),
    "low rank": with_singular_values([3.0, 2.0, 1.0], 50, 40),
    "equal values": with_singular_values([2.0] * 6 + [1.0] * 6, 50, 40),
    "rank one": with_singular_values([5.0], 20, 9),
    "one class": np.random.default_rng(0).standard_normal((1, 9)),
    "a small gap": with_singular_values(np.linspace(1, 0.99, 40), 80, 90),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("name", MATRICES)
def test_the_leading_pairs_are_lapack_s(name, k, dtype):
    N = MATRICES[name].astype(dtype)
    sigma = np.linalg.svd(np.float64(N), compute_uv=False)
    found = krylov.top_singular_vectors(N, k, None, 1e-4 * sigma[0], np.random.default_rng(1))
    r = np.sum(found.sigma > 1e-3 * sigma[0])  # below, float32 has noise from a Gram matrix
    assert r == min(k, np.sum(sigma > 1e-3 * sigma[0]))
    V, U, near = found.V[:, :r], found.U[:, :r], 300 * np.finfo(dtype).eps
    assert found.sigma[0] == pytest.approx(sigma[0], rel=1e-3)
    np.testing.assert_allclose(found.sigma[:r], sigma[:r], rtol=2e-2)  # only the first is promised
    assert (found.sigma[:r] <= sigma[:r] * (1 + near)).all()  # never above
    np.testing.assert_allclose(V.T @ V, np.eye(r), atol=near)
    np.testing.assert_allclose(U.T @ U, np.eye(r), atol=near)
    np.testing.assert_allclose(np.diag(V.T @ N @ U), found.sigma[:r], rtol=near)


def test_vectors_of_the_step_before_save_products(monkeypatch):
    N = with_singular_values(np.geomspace(1, 0.1, 60), 90, 70)
    V, sigma, _ = np.linalg.svd(N, full_matrices=False)
    rng = np.random.default_rng(0)
    near = V[:, :2] + 1e-4 * rng.standard_normal((90, 2))
    monkeypatch.setattr(krylov, "STEPS", 1)
    cold = krylov.top_singular_vectors(N, 2, None, 1e-3, rng)
    warm = krylov.top_singular_vectors(N, 2, near, 1e-3, rng)
    assert cold.sigma[0] < 0.9 * sigma[0]
    assert warm.sigma[0] == pytest.approx(sigma[0], rel=1e-5)


def test_a_gradient_of_zeros_has_no_pairs():
    found = krylov.top_singular_vectors(np.zeros((5, 4)), 3, None, 1e-3, np.random.default_rng(0))
    assert len(found.sigma) == found.U.shape[1] == found.V.shape[1] == 0


@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([0.0, 0.1, 1.0]),
    lambda2=st.sampled_from([0.0, 1e-3, 1.0]),
)
def test_the_duality_gap_is_the_formula_s(seed, size, lambda2):
    rng = np.random.default_rng(seed)
    problem = stated(*blobs(n=30, seed=seed), rng.uniform(0.01, 1.2), lambda2)
    W = size * rng.standard_normal((6, 4))
    G = problem.X.T @ problem.errors(W)
    u, theta, vt = np.linalg.svd(W, full_matrices=False)
    sigma = np.linalg.svd(G, compute_uv=False)
    penalties = problem.lambda1, problem.lambda2

    def bound(beta, e):
        at = Factors(u, theta, vt.T, np.zeros(4))
        return duality_gap(
            problem.risk(W), at, (G * W).sum(), sigma, *penalties, Costs(beta, e, 0.0, 0.0)
        )

    ours = bound(0.0, 0.0)
    assert ours <= naive_trace.gap(problem, W) * (1 + 1e-12) + 1e-13  # and the rounding it counts
    if lambda2 == 0.0:
        assert ours == pytest.approx(naive_trace.gap(problem, W), rel=1e-9, abs=1e-13)
    else:  # the best point between q = e_y and q = p

        def dual(a):
            beyond = np.maximum(np.outer(a, sigma) - problem.lambda1, 0) ** 2
            return a * problem.entropy(W) - beyond.sum(axis=1) / (4 * lambda2)

        coarse = np.linspace(0, 1, 2001)
        near = coarse[np.argmax(dual(coarse))]
        best = dual(np.linspace(max(near - 5e-4, 0), min(near + 5e-4, 1), 2001)).max()
        assert ours == pytest.approx(problem.objective(W) - best, rel=1e-4)
    assert ours <= bound(1e-3, 0.0) <= bound(1e-3, 1e-2)  # what is not known costs


def test_a_start_that_proves_nothing():
    none = Factors(np.zeros((2, 0)), np.zeros(0), np.zeros((2, 0)), np.zeros(2))
    assert duality_gap(0.7, none, 0.0, np.ones(2), 0.1, 0.1, Costs(np.inf, np.inf, 0.0, 0.0)) == 0.7


@given(
    seed=st.integers(0, 10**6),
    share=st.sampled_from([0.02, 0.3]),
    lambda2=st.sampled_from([0.0, 1e-3]),
    shift=st.sampled_from([0.0, 0.01, 0.1, 0.3, 3.0]),
)
def test_intercepts_that_are_not_at_their_best_cost_the_proof(seed, share, lambda2, shift):
    """At the best W and some b: the gap of p is a gap only with what makes p feasible."""
    X, y = blobs(n=30, d=4, C=3, seed=seed)
    problem = stated(X + 2.0, y, share, lambda2, intercept=True)
    best, W, b = naive_trace.fista(problem, steps=1000)
    b = b + shift * np.random.default_rng(seed).standard_normal(3)
    U, theta, Vt = np.linalg.svd(W, full_matrices=False)
    U, theta, V = U[:, theta > 1e-9], theta[theta > 1e-9], Vt[theta > 1e-9].T
    whole, inner = (
        Multinomial(Examples(DenseRows(rows), np.int32(y), problem.w), 3)
        for rows in (problem.X, problem.X @ U)
    )
    at = Factors(U, theta, V, b + problem.X.mean(axis=0) @ W)
    point = inner.at(np.column_stack([at.A, at.b]), 0.0, second=True)
    G, _, _ = risk_gradient(whole, problem.X @ U, at)
    along, sigma = (G * W.T).sum(), np.linalg.svd(G, compute_uv=False)
    penalties = problem.lambda1, problem.lambda2
    found, _ = costs(whole, problem.X @ U, at, point, sigma)
    g, P = problem.errors(W, b).sum(axis=0), naive_trace.softmax(problem.X @ W + b)
    centred = problem.X - problem.X.mean(axis=0)
    np.testing.assert_allclose(G, problem.errors(W, b).T @ centred, atol=1e-12)
    tau = -np.linalg.pinv(np.diag(problem.w @ P) - (P.T * problem.w) @ P, rcond=1e-10) @ g
    if np.ptp(tau) <= 1.0:  # (2) of certificate.py; else (3), with nothing but the mixture
        assert found.beta == pytest.approx(-tau @ g, abs=1e-11)
        assert found.e + 1e-9 >= np.sqrt((centred**2).sum() / 30 * -(tau @ g) / 2)
    gap = duality_gap(point.objective, at, along, sigma, *penalties, found)
    assert point.objective == pytest.approx(problem.risk(W, b))
    assert problem.objective(W, b) - best <= gap


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_callbacks_see_each_step_and_may_end_it():
    seen = []

    def watch(record, weights):
        seen.append((record["objective"], [w.shape for w in weights()]))
        return len(seen) == 3

    model = fitted(stated(*blobs(), 0.01, 0.0), tol=1e-9, callbacks=[watch])
    assert [shapes for _, shapes in seen] == [[(4, 6), (4,)]] * 3
    assert [record["objective"] for record in model.trace_] == [value for value, _ in seen]
    objectives = [record["objective"] for record in model.trace_]
    assert objectives == sorted(objectives, reverse=True)
    last = model.trace_[-1]
    assert (last["objective"], last["gap"]) == (model.objective_, model.gap_)
    assert (last["passes"], last["rank"]) == (model.n_iter_, model.rank_)
    assert set(last) == {"seconds", "passes", "objective", "gap", "rank"}


def test_ctrl_c_keeps_what_was_reached():
    def press(record, weights):
        if record["rank"] > 0:
            raise KeyboardInterrupt

    problem = stated(*blobs(), 0.01, 0.0)
    with pytest.warns(ConvergenceWarning, match="interrupted: after reading X"):
        model = fitted(problem, tol=1e-9, callbacks=[press])
    assert model.rank_ > 0
    assert model.objective_ == pytest.approx(problem.objective(*weights(model)))
