"""SGD-QN: both variants equal the published recursions, and the estimator does as users expect."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import naive_secant
from slender import SGDClassifier, SGDQNClassifier, UnitRows, load_model, save_model
from slender.curvature import Secant, Slides
from slender.datasets import digits, planted
from slender.labels import ClassIndex
from slender.losses import MARGIN_LOSSES
from slender.problem import Weights
from slender.rows import as_rows
from slender.solvers.rate import find_period, find_t0
from slender.solvers.stochastic import Stochastic
from slender.solvers.sweep import sweep
from test_estimators import EXPECTED_FAILURES
from test_stochastic import data_of, in_python, run_kernel, unit_weights

LOSSES = ["logistic", "calibrated_hinge", "squared", "hinge"]
N, C, LAM, T0, T = 50, 3, 0.02, 40.0, 3
FORMS = {"dense": np.asarray, "csr": sparse.csr_array}


@pytest.fixture
def uncompiled(monkeypatch):
    monkeypatch.setattr("slender.solvers.sweep.sweep", in_python)


@parametrize_with_checks(
    [SGDQNClassifier()],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
    xfail_strict=True,
)
def test_scikit_learns_contract(estimator, check, uncompiled):
    check(estimator)


# -- the recursion ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def problem():
    """Rows with a third of zeros, one zero row, one feature that no row has."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, 8)) * np.array([1, 1, 3, 0.3, 1, 1, 1, 0]) / 2
    X[rng.random(X.shape) < 0.35] = 0
    X[7] = 0
    codes = rng.integers(0, C, N).astype(np.int32)
    weights = Weights(rng.uniform(0.5, 2, N), np.array([1.0, 2.0, 0.5]), np.array([1.0, 0.7, 1.0]))
    return X, codes, weights, rng.permutation(np.tile(np.arange(N), 2))


def descent_of(variant, loss, t0=T0, period=T, **options):
    metric, eta, decay = (
        (Slides(period, clip=variant == "2008"), 1 / t0, 1 / t0)
        if variant in ("2008", "2008_literal")
        else (Secant(t0, period, gauss_newton=variant == "gauss_newton"), 1.0, 0.0)
    )
    settings = {"decay": decay, "lam": LAM, "average": False, "metric": metric, **options}
    return partial(Stochastic, loss=loss, eta=eta, **settings)


NAIVE = {
    "corrected": naive_secant.sgdqn,
    "gauss_newton": naive_secant.gauss_newton,
    "2008": naive_secant.slides,
    "2008_literal": naive_secant.literal,
}


def check_twins(problem, variant, name, form, beta, cap, go, period=T):
    X, codes, weights, order = problem
    loss = MARGIN_LOSSES[name]
    descent = descent_of(variant, loss, period=period, beta=beta, cap=cap)
    rows = as_rows(FORMS[form](X))
    state, (V, b) = run_kernel(descent, rows, ClassIndex(codes, 0), order, weights, C, go=go)
    reach = loss.curvature(0.0) * ((X**2).sum(axis=1) + beta**2)
    caps = np.divide(cap, reach, out=np.full(N, np.inf), where=reach > 0)
    for c in range(C):
        y = np.where(codes == c, 1.0, -1.0)
        weight = weights.example * np.where(y > 0, weights.positive[c], weights.negative[c])
        w, D = NAIVE[variant](loss, X, y, order, weight, caps, LAM, T0, period, beta)
        scale = np.abs(w).max()
        np.testing.assert_allclose(V[c], w[:8], rtol=1e-8, atol=1e-9 * scale)
        np.testing.assert_allclose(state.metric.D[c], D[:8], rtol=1e-8)
        if beta:
            np.testing.assert_allclose(b[c], beta * w[8], rtol=1e-8)
            np.testing.assert_allclose(state.metric.D_b[c], D[8], rtol=1e-8)
        assert state.metric.top[c] == pytest.approx(D.max())


@pytest.mark.parametrize("beta", [0.0, 0.6])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("variant", NAIVE)
def test_the_loop_is_the_published_recursion(problem, variant, name, form, beta):
    check_twins(problem, variant, name, form, beta, np.inf, go=in_python)


@pytest.mark.parametrize("period", [1, 7, 1000])
@pytest.mark.parametrize("variant", NAIVE)
def test_any_period(problem, variant, period):
    check_twins(problem, variant, "logistic", "dense", 0.6, np.inf, in_python, period)


@pytest.mark.parametrize("variant", NAIVE)
def test_a_cap_holds_the_steps(problem, variant):
    check_twins(problem, variant, "squared", "dense", 0.6, 0.02, go=in_python)


@pytest.mark.parametrize(
    ("variant", "form"),
    [
        ("corrected", "dense"),
        ("corrected", "csr"),
        ("gauss_newton", "dense"),
        ("2008", "dense"),
        ("2008_literal", "dense"),
    ],
)
def test_compiled_it_is_the_same(problem, variant, form):
    check_twins(problem, variant, "logistic", form, 0.6, np.inf, go=sweep)


def test_every_branch_of_the_curvature_is_met():
    """In one refresh: held below, held above, in between, unmoved with and without its feature."""
    X = np.array([[1.0, 2.0, 0.0, 0.0, 0.5, 0.01], [4.0, -1.0, 3.0, 0.0, 0.5, 9.0]])
    lam, loss = 0.1, MARGIN_LOSSES["squared"]
    settings = {"lam": lam, "cap": np.inf, "average": False, "metric": Secant(T0, 1)}
    descent = partial(Stochastic, loss=loss, eta=1.0, **settings)
    state, _ = run_kernel(
        descent, as_rows(X), ClassIndex(np.ones(2, np.int32), 1), np.arange(2), unit_weights(2, 1),
        1, go=in_python,
    )  # fmt: skip
    # one step along row 0: dw = X[0] / (2 lam T0); then at row 1
    dw = 0.5 * X[0] / (lam * T0)
    dg = 0.5 * (X[1] @ dw) * X[1]
    wanted = np.where(dw != 0, lam + dg / np.where(dw == 0, 1, dw), [0, 0, 101 * lam, lam, 0, 0])
    held = np.where(dw != 0, np.clip(wanted, 0.1 * lam, 100 * lam), wanted)
    np.testing.assert_allclose(1 / state.metric.D[0], lam * T0 + 2 * held, rtol=1e-12)
    assert held[1] == 0.1 * lam  # the secant was negative
    assert 0.1 * lam < held[0] < 100 * lam
    assert held[5] == 100 * lam
    np.testing.assert_allclose(held[2:4], [101 * lam, lam])


def test_a_slope_that_does_not_change_teaches_nothing():
    """The hinge far inside its linear part: D waits, and the visits add up for the next refresh."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4)) * 1e-3
    codes = rng.integers(0, 2, 30).astype(np.int32)
    descent = descent_of("corrected", MARGIN_LOSSES["hinge"])
    order = np.arange(30)
    state, _ = run_kernel(
        descent, as_rows(X), ClassIndex(codes, 1), order, unit_weights(30, 1), 1, go=in_python
    )
    np.testing.assert_array_equal(state.metric.D, 1 / (LAM * T0))
    assert state.metric.last[0] == 0


def test_the_decay_never_turns_a_sign(problem):
    """t0 below the period: T lam D = T/t0 > 1."""
    X, codes, weights, order = problem
    descent = descent_of("corrected", MARGIN_LOSSES["logistic"], t0=2.0, period=10)
    y = ClassIndex(codes, 0)
    state, _ = run_kernel(descent, as_rows(X), y, order[:9], weights, C, go=in_python)
    assert state.iterate.V.any()
    # the tenth visit decays to 0 before its own step
    state, _ = run_kernel(descent, as_rows(X), y, order[:10], weights, C, go=in_python)
    i = order[9]
    for c in range(C):
        along = X[i] != 0
        np.testing.assert_array_equal(state.iterate.V[c][~along], 0)


# -- settings that are found -----------------------------------------------------------------------


def data_of_rows(X):
    rows = as_rows(X)
    n = rows.shape[0]
    y = ClassIndex(np.zeros(n, np.int32), 1)
    return data_of(rows, y, unit_weights(n, 1), 1)


@pytest.mark.parametrize(
    ("X", "period"),
    [
        (np.ones((5000, 40)), 16),
        (np.zeros((5000, 40)), 16),  # stored zeros of a dense array cost as much as numbers
        (sparse.eye_array(5000, format="csr"), 312),  # 80,000, but 16 times a pass at least
        (sparse.random_array((50_000, 100), density=0.1, rng=0, format="csr"), 160),
        (sparse.csr_array((20, 1000)), 16),
    ],
)
def test_the_period_follows_the_sparsity(X, period):
    assert find_period(data_of_rows(X)) == pytest.approx(period, rel=0.02)


@given(st.integers(0, 14), st.floats(0.1, 10))
def test_the_best_power_of_ten_is_found(power, slack):
    tried = []

    def objective(t0):
        tried.append(t0)
        return abs(np.log10(t0) - power) * slack

    assert find_t0(objective) == 10.0**power
    assert tried[:11] == [10.0**j for j in range(11)]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=11, max_size=11))
def test_what_is_not_finite_is_never_the_best(values):
    values = [*values[:10], np.nan]
    of = {10.0**j: value for j, value in enumerate(values)}
    found = find_t0(lambda t0: of.get(t0, np.inf))
    finite = [value for value in values if np.isfinite(value)]
    assert of[found] == min(finite) if finite else found == 1.0


def test_no_t0_below_the_least_is_tried():
    tried = []
    find_t0(lambda t0: tried.append(t0) or t0, least=160)
    assert min(tried) == 1000.0


# -- the estimator ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unit_digits():
    data = digits()
    scaler = UnitRows().fit(data.X_train)
    return data._replace(
        X_train=scaler.transform(data.X_train).astype(float),
        X_test=scaler.transform(data.X_test).astype(float),
    )


@pytest.mark.parametrize(
    "variant", sorted(NAIVE.keys() - {"2008_literal"})
)  # which may go anywhere
def test_fitted_attributes(unit_digits, variant):
    data = unit_digits
    model = SGDQNClassifier(variant=variant, random_state=0).fit(data.X_train, data.y_train)
    assert model.score(data.X_test, data.y_test) > 0.9
    assert model.period_ == 16
    assert model.t0_ in [10.0**j for j in range(2, 11)]
    assert model.coef_.shape == (10, 64)
    assert model.n_iter_ == 5
    given = SGDQNClassifier(variant=variant, t0=model.t0_, period=16, passes=1, random_state=0)
    given.fit(data.X_train, data.y_train)
    assert (given.t0_, given.period_) == (model.t0_, 16)


def test_float32_stays_float32(unit_digits):
    X, y = unit_digits.X_train, unit_digits.y_train
    model, wide = (SGDQNClassifier(random_state=0).fit(A, y) for A in (X.astype(np.float32), X))
    assert model.coef_.dtype == np.float32
    assert model.score(X, y) == pytest.approx(wide.score(X, y), abs=0.01)


def minimum_of(X, y, lam):
    """Of the logistic loss without intercept, by Newton's method."""
    Z = X * np.where(y, 1.0, -1.0)[:, None]
    w = np.zeros(X.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(Z @ w))
        H = (Z * (p * (1 - p))[:, None]).T @ Z / len(Z) + lam * np.eye(len(w))
        w -= np.linalg.solve(H, lam * w - Z.T @ p / len(Z))
    return np.log1p(np.exp(-Z @ w)).mean() + lam / 2 * w @ w


@pytest.mark.parametrize("variant", NAIVE)
def test_it_gets_to_the_minimum(variant):
    rng = np.random.default_rng(0)
    X = UnitRows().fit_transform(rng.standard_normal((600, 6)))
    y, lam = X @ rng.standard_normal(6) + 0.1 * rng.standard_normal(600) > 0, 0.01
    model = SGDQNClassifier(
        lam=lam, variant=variant, fit_intercept=False, passes=30, objective="exact", random_state=0
    ).fit(X, y)
    minimum = minimum_of(X, y, lam)
    near = 1.02 if variant == "corrected" else 1.002  # it slows down too soon
    assert minimum <= model.trace_[-1]["objective"] < near * minimum


def test_it_is_ahead_of_sgd_where_features_have_curvatures_of_their_own():
    """Three features of a thousand times the variance of the rest, and no preprocessing."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 20)) * np.r_[np.full(3, 1.0), np.full(17, 0.03)]
    y, lam = (X / X.std(axis=0)) @ rng.standard_normal(20) + rng.standard_normal(3000) > 0, 1e-4
    options = {"lam": lam, "average": False, "passes": 3, "objective": "exact", "random_state": 0}
    plain = SGDClassifier(**options, fit_intercept=False).fit(X, y)
    scaled = SGDQNClassifier(**options, variant="gauss_newton", fit_intercept=False).fit(X, y)
    minimum = minimum_of(X, y, lam)
    for before, now in zip(plain.trace_, scaled.trace_, strict=True):
        assert now["objective"] - minimum < 0.5 * (before["objective"] - minimum)


@pytest.mark.parametrize("loss", LOSSES)
def test_it_learns_with_every_loss(loss, uncompiled):
    data = planted(300, 10, 3, n_test=800, separation=1.0, seed=1)
    scaler = UnitRows().fit(data.X_train)
    model = SGDQNClassifier(loss, t0=100.0, lam=0.01, passes=3, random_state=0)
    model.fit(scaler.transform(data.X_train), data.y_train)
    assert model.score(scaler.transform(data.X_test), data.y_test) > 0.85


def test_the_diagonal_goes_on_from_call_to_call(unit_digits):
    """Two calls of partial_fit are two passes of fit: the metric is part of the state."""
    X, y = unit_digits.X_train, unit_digits.y_train
    a = SGDQNClassifier(passes=2, random_state=0).fit(X, y)
    b = SGDQNClassifier(random_state=0).partial_fit(X, y).partial_fit(X, y)
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_sparse_rows_give_the_model_of_dense_ones():
    rng = np.random.default_rng(0)
    X = rng.integers(-2, 3, (300, 12)).astype(float) / 4
    y = (X @ rng.standard_normal((12, 4))).argmax(axis=1)
    dense = SGDQNClassifier(period=20, random_state=0).fit(X, y)
    csr = SGDQNClassifier(period=20, random_state=0).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(csr.coef_, dense.coef_, rtol=1e-6, atol=1e-9)


def test_several_labels_a_row(uncompiled):
    """Labels that are one a row, as an indicator matrix, give the model of the labels."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 5)), rng.integers(0, 3, 60)
    Y = (y[:, None] == np.arange(3)).astype(int)
    a, b = (SGDQNClassifier(t0=1e4, passes=1, random_state=0).fit(X, t) for t in (y, Y))
    np.testing.assert_array_equal(a.coef_, b.coef_)
    assert b.predict(X).shape == (60, 3)


def test_negatives(unit_digits):
    data = unit_digits
    few = SGDQNClassifier(negatives=2, random_state=0).fit(data.X_train, data.y_train)
    assert (few.prior_shift_ < 0).all()
    assert few.score(data.X_test, data.y_test) > 0.85


@pytest.mark.parametrize("units", [1e-5, 1e5])
def test_rows_in_any_units(unit_digits, units):
    """t0 is looked for beyond 10^10 where the rows ask for it, and steps do not overshoot."""
    model = SGDQNClassifier(random_state=0)
    model.fit(unit_digits.X_train * units, unit_digits.y_train)
    assert np.isfinite(model.coef_).all()
    if units > 1:
        assert model.score(unit_digits.X_test * units, unit_digits.y_test) > 0.8


def test_saved_and_loaded(unit_digits, tmp_path):
    model = SGDQNClassifier(passes=1, random_state=0)
    model.fit(unit_digits.X_train, unit_digits.y_train)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert (loaded.t0_, loaded.period_) == (model.t0_, model.period_)
    np.testing.assert_array_equal(
        loaded.predict(unit_digits.X_test), model.predict(unit_digits.X_test)
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lam": 0}, "lam=0: .* use lam > 0, or SGDClassifier or SLNDClassifier"),
        ({"lam": -1}, "lam=-1 must be"),
        ({"loss": "exponential"}, "loss='exponential' must be one of"),
        ({"variant": "2009"}, "variant='2009' must be one of"),
        ({"t0": 0}, "t0=0 must be a number > 0"),
        ({"t0": "best"}, "t0='best' must be"),
        ({"period": 0}, "period=0 must be an integer > 0"),
        ({"period": 1.5}, "period=1.5 must be an integer > 0"),
        ({"passes": 0}, "passes=0"),
        ({"loss": "hinge", "negatives": 1}, "loss='hinge' cannot undo"),
    ],
)
def test_bad_settings_are_named(options, words):
    X, y = np.random.default_rng(0).standard_normal((30, 4)), np.arange(30) % 3
    with pytest.raises(ValueError, match=words):
        SGDQNClassifier(**options).fit(X, y)


def test_a_t0_that_is_too_small_warns(uncompiled):
    X = 100 * np.random.default_rng(0).standard_normal((50, 4))
    with pytest.warns(ConvergenceWarning, match="the fit diverged"):
        SGDQNClassifier("squared", t0=1.0, random_state=0, passes=1).fit(X, np.arange(50) % 2)
