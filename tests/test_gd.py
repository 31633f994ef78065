"""GDClassifier: the step is safe, the descent keeps what theory promises, the gap is a proof."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import naive
import naive_batch
from slender import GDClassifier, LogisticClassifier, krylov, load_model, save_model
from slender.data import Examples
from slender.datasets import digits, planted
from slender.krylov import largest_eigenvalue
from slender.problem import Multinomial
from slender.problem.linear import two_rows
from slender.rows import as_rows, threads
from slender.solvers.gradient import GradientDescent, lipschitz

# lam is the penalty beside a *mean* over the rows of positive weight: doubling every weight doubles
# the loss and not the penalty, repeating every row leaves both.  (Weight 0 *is* absence.)
MEAN = "the mean is over rows, so weights change the balance of loss and penalty; repetition not"
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": MEAN,
    "check_sample_weight_equivalence_on_sparse_data": MEAN,
}


@parametrize_with_checks(
    [GDClassifier()], expected_failed_checks=lambda _: EXPECTED_FAILURES, xfail_strict=True
)
def test_scikit_learns_contract(estimator, check):
    check(estimator)


def blobs(n=120, d=6, C=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % C)
    return rng.standard_normal((C, d))[y] + rng.standard_normal((n, d)) + 0.5, y


# -- the step --------------------------------------------------------------------------------------

SPECTRA = {
    "flat": lambda d: np.ones(d),
    "spike": lambda d: np.r_[10.0, np.ones(d - 1)],
    "small spike": lambda d: np.r_[1.5, np.ones(d - 1)],
    "power law": lambda d: 1.0 / np.arange(1, d + 1),
    "rank 3": lambda d: np.r_[3.0, 2.0, 1.0, np.zeros(d - 3)],
    "zero": lambda d: np.zeros(d),
    "clustered": lambda d: np.linspace(0.9, 1.0, d),
}


@settings(max_examples=60)
@given(st.sampled_from(list(SPECTRA)), st.integers(4, 300), st.integers(0, 10**6))
def test_the_bound_is_never_below_the_largest_eigenvalue(name, d, seed):
    rng = np.random.default_rng(seed)
    values = SPECTRA[name](d) * 10.0 ** rng.uniform(-6, 6)
    # a diagonal M will do: the start's distribution knows no directions
    bound = largest_eigenvalue(lambda Q: values[:, None] * Q, d, values.sum(), rng)
    assert values.max() * (1 - 1e-9) <= bound <= 1.2 * values.max()


@pytest.mark.parametrize("form", [np.asarray, np.float32, sparse.csr_array])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_constant_of_a_problem(monkeypatch, form, intercept):
    monkeypatch.setattr(threads, "CACHE_BYTES", 2000)  # several blocks
    rng = np.random.default_rng(0)
    X = form(rng.standard_normal((300, 90)) @ np.diag(1.1 ** -np.arange(90)) + 0.2)
    w = rng.random(300) / 300
    w[::7] = 0.0
    y = np.arange(300, dtype=np.int32) % 3
    problem = Multinomial(Examples(as_rows(X), y, w.astype(X.dtype)), 3, intercept)
    Z = X.toarray() if sparse.issparse(X) else X.astype(float)
    Z = np.column_stack([Z, np.ones(300)]) if intercept else Z
    truth = np.linalg.eigvalsh((Z * w[:, None]).T @ Z)[-1] / 2 + 0.01
    L = lipschitz(problem, 0.01, rng)
    assert truth * (1 - 1e-6) <= L <= 1.05 * truth


def test_very_wide_rows_keep_few_vectors(monkeypatch):
    monkeypatch.setattr(krylov, "KEPT_BYTES", 1)
    values = np.r_[5.0, np.ones(99)]
    bound = largest_eigenvalue(
        lambda Q: values[:, None] * Q, 100, values.sum(), np.random.default_rng(0)
    )
    assert 5.0 <= bound <= values.sum()


# -- the descent -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("intercept", [True, False])
def test_passes_are_the_practicals_gradient_descent(form, intercept):
    X, y = blobs(n=50)
    rng = np.random.default_rng(1)
    weight = rng.uniform(0.5, 2.0, 50) * (rng.random(50) > 0.2)
    eta, lam, steps = 0.3, 0.05, 6
    seen = []
    model = GDClassifier(
        lam=lam, step=eta, passes=steps + 1, fit_intercept=intercept,
        callbacks=[lambda record, weights: seen.append((*weights(), record["objective"]))],
    ).fit(form(X), y, sample_weight=weight)  # fmt: skip
    w = weight / np.count_nonzero(weight)
    want = naive_batch.gradient_descent(X, y, w, 4, eta, lam, steps, intercept)
    assert len(seen) == len(want) == model.n_iter_
    for ours, theirs in zip(seen, want, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.coef_, seen[-1][0])


PROBLEMS = {
    "blobs": lambda: blobs(),
    "two classes": lambda: blobs(C=2),
    "far from zero": lambda: (blobs()[0] + 30.0, blobs()[1]),
    "badly scaled": lambda: (blobs()[0] * 10.0 ** np.arange(-3, 3), blobs()[1]),
    "digits": lambda: (digits().X_train[:400].astype(float), digits().y_train[:400]),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("weighted", [False, True])
def test_what_theory_promises(name, weighted):
    """With eta = 1/L: P falls at every step, and P(t) - P* <= L ‖theta_0 - theta*‖² / (2t)."""
    X, y = PROBLEMS[name]()
    lam, classes = 1e-3, len(np.unique(y))
    weight = np.random.default_rng(0).uniform(0.1, 5, len(y)) if weighted else None
    model = GDClassifier(lam=lam, passes=200, random_state=0).fit(X, y, sample_weight=weight)
    objective = np.array([record["objective"] for record in model.trace_])
    assert (np.diff(objective) <= 1e-14).all()
    C = (2.0 if classes == 2 else 1.0) / (lam * len(y))
    best = LogisticClassifier(C, tol=1e-8).fit(X, y, sample_weight=weight)
    W, b = two_rows(best.coef_, best.intercept_)
    L = 1.0 / model.step_
    t = np.arange(1, 200)
    start = np.log(np.bincount(np.unique(y, return_inverse=True)[1], weight))
    shift = (b - b.mean()) - (start - start.mean())  # a common shift of intercepts is no distance
    distance = (W**2).sum() + (shift**2).sum()
    assert (objective[1:] - best.objective_ <= L * distance / (2 * t)).all()
    assert objective[-1] >= best.objective_ - best.gap_
    gaps = np.array([record["gap"] for record in model.trace_])
    assert (gaps >= objective - best.objective_ - 1e-12).all()
    assert model.gap_ == gaps[-1]
    assert model.objective_ == objective[-1]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tol_stops_at_a_proved_gap(intercept, dtype):
    X, y = blobs()
    model = GDClassifier(lam=0.05, passes=5000, tol=1e-2, fit_intercept=intercept, random_state=0)
    model.fit(X.astype(dtype), y)
    assert model.gap_ <= 1e-2 * model.objective_
    assert model.n_iter_ < 1000
    w = np.full(len(y), 1 / len(y))
    optimum, *_ = naive.multinomial_optimum(X.astype(dtype).astype(float), y, w, 0.05, intercept)
    assert model.objective_ - optimum <= model.gap_ + 1e-6 * optimum
    assert [r["passes"] for r in model.trace_][-1] == model.n_iter_


def test_too_few_passes_warn_with_the_gap():
    with pytest.warns(ConvergenceWarning, match="raise passes=5, or tol=0.001") as caught:
        model = GDClassifier(passes=5, tol=1e-3).fit(*blobs())
    assert f"{model.gap_:.2g}" in str(caught[0].message)


@pytest.mark.parametrize("step", [50.0, 1e20, 1e38, 1e300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_diverging_step_warns_and_stays_finite(step, dtype):
    X, y = blobs()
    with pytest.warns(ConvergenceWarning, match="the fit diverged"):
        model = GDClassifier(step=step, lam=0.1, passes=40).fit(X.astype(dtype), y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite([record["objective"] for record in model.trace_]).all()


def test_the_trace_and_callbacks():
    X, y = blobs()
    model = GDClassifier(passes=30, callbacks=[lambda record, _: record["passes"] == 4]).fit(X, y)
    assert [record["passes"] for record in model.trace_] == [1, 2, 3, 4]
    assert model.trace_[0]["objective"] == pytest.approx(np.log(4))
    seconds = [record["seconds"] for record in model.trace_]
    assert seconds == sorted(seconds)


def test_shapes_probabilities_and_files(tmp_path):
    X, y = blobs(C=2)
    model = GDClassifier(random_state=0).fit(X, y)
    assert model.coef_.shape == (1, 6)
    assert model.intercept_.shape == (1,)
    scores = model.decision_function(X)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-scores)))
    model.set_params(tol=1e-3)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert (loaded.gap_, loaded.tol) == (model.gap_, 1e-3)


def test_rows_that_are_all_zero():
    y = np.arange(30) % 3
    model = GDClassifier(passes=10, lam=0.0, fit_intercept=False).fit(np.zeros((30, 4)), y)
    np.testing.assert_array_equal(model.coef_, 0)
    assert model.objective_ == pytest.approx(np.log(3))


def test_zero_weight_is_absence_and_class_weights_are_rows():
    X, y = blobs()
    keep = np.random.default_rng(0).random(len(y)) < 0.6
    a = GDClassifier(random_state=0).fit(X, y, sample_weight=keep * 1.0)
    b = GDClassifier(random_state=0).fit(X[keep], y[keep])
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-6, atol=1e-9)
    heavy = {0: 5.0, 1: 1.0, 2: 1.0, 3: 1.0}
    c = GDClassifier(class_weight=heavy, random_state=0).fit(X, y)
    d = GDClassifier(random_state=0).fit(X, y, sample_weight=np.where(y == 0, 5.0, 1.0))
    np.testing.assert_allclose(c.coef_, d.coef_, rtol=1e-9)


def test_float32_half_and_sparse_rows_agree():
    data = planted(600, 12, 4, n_test=10, separation=0.7)
    X = data.X_train.astype(np.float16)
    forms = [X.astype(np.float64), X.astype(np.float32), X, sparse.csr_array(X.astype(np.float32))]
    models = [GDClassifier(passes=20, random_state=0).fit(F, data.y_train) for F in forms]
    for model in models[1:]:
        np.testing.assert_allclose(model.coef_, models[0].coef_, rtol=1e-3, atol=1e-4)
        assert model.coef_.dtype == np.float32


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": "crammer_singer"}, r"use loss='cross_entropy', or SGDClassifier\(loss="),
        ({"loss": "hinge"}, "loss='hinge' must be one of"),
        ({"lam": -1.0}, "lam=-1.0 must be"),
        ({"step": 0.0}, "step=0.0 must be"),
        ({"step": "auto"}, "step='auto' must be one of"),
        ({"passes": 0}, "passes=0 must be"),
        ({"tol": 0.0}, "tol=0.0 must be"),
        ({"tol": 1e-3, "lam": 0.0}, "use lam > 0, or tol=None"),
    ],
)
def test_bad_settings_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        GDClassifier(**options).fit(*blobs())


def test_bad_data_is_named():
    X, y = blobs()
    bad = X.copy()
    bad[7, 2] = np.nan
    with pytest.raises(ValueError, match="NaN at row 7, column 2"):
        GDClassifier().fit(bad, y)
    with pytest.raises(ValueError, match="gives each row one class"):
        GDClassifier().fit(X, np.eye(4, dtype=int)[y])


def test_settings_and_state_are_apart():
    X, y = blobs()
    problem = Multinomial(Examples(as_rows(X), y.astype(np.int32), np.full(120, 1 / 120)), 4)
    descent = GradientDescent(problem, eta=0.1, lam=0.01)
    a, b = (descent.init(np.random.default_rng(0)) for _ in range(2))
    for _ in range(5):
        descent.step(a)
    np.testing.assert_array_equal(b.theta, 0)
    assert a.objective < np.log(4)
