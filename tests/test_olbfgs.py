"""oLBFGS: the published recursion, steps that never overshoot, weights that are always finite."""

import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import naive_secant
from slender import OLBFGSClassifier, load_model, save_model
from slender.curvature import LBFGS
from slender.datasets import digits, planted
from slender.labels import ClassIndex
from slender.losses import MARGIN_LOSSES
from slender.problem import Weights
from slender.rows import as_rows
from slender.solvers.stochastic import Stochastic
from slender.solvers.sweep import sweep
from test_estimators import EXPECTED_FAILURES
from test_sgdqn import minimum_of
from test_stochastic import in_python, run_kernel, unit_weights

LOSSES = ["logistic", "calibrated_hinge", "squared", "hinge"]
N, C, LAM, MEMORY, DAMPING, STEP, T0 = 40, 3, 0.02, 4, 0.3, 0.2, 25.0
FORMS = {"dense": np.asarray, "csr": sparse.csr_array}


@pytest.fixture
def uncompiled(monkeypatch):
    monkeypatch.setattr("slender.solvers.sweep.sweep", in_python)


@parametrize_with_checks(
    [OLBFGSClassifier(memory=2)],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
    xfail_strict=True,
)
def test_scikit_learns_contract(estimator, check, uncompiled):
    check(estimator)


# -- the recursion ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, 6)) * np.array([1, 1, 3, 0.3, 1, 1]) / 2
    X[rng.random(X.shape) < 0.3] = 0
    X[7] = 0
    codes = rng.integers(0, C, N).astype(np.int32)
    weights = Weights(rng.uniform(0.5, 2, N), np.array([1.0, 2.0, 0.5]), np.array([1.0, 0.7, 1.0]))
    return X, codes, weights, rng.permutation(N)


def descent_of(name, beta=0.0, step=STEP, memory=MEMORY, lam=LAM, damping=DAMPING):
    return partial(
        Stochastic,
        loss=MARGIN_LOSSES[name],
        eta=step,
        decay=1 / T0,
        lam=lam,
        beta=beta,
        average=False,
        metric=LBFGS(memory, damping),
    )


def check_twins(problem, name, form, beta, go, memory=MEMORY):
    X, codes, weights, order = problem
    loss, descent = MARGIN_LOSSES[name], descent_of(name, beta, memory=memory)
    rows = as_rows(FORMS[form](X))
    state, (V, b) = run_kernel(descent, rows, ClassIndex(codes, 0), order, weights, C, go=go)
    for c in range(C):
        y = np.where(codes == c, 1.0, -1.0)
        weight = weights.example * np.where(y > 0, weights.positive[c], weights.negative[c])
        w, pairs = naive_secant.olbfgs(
            loss, X, y, order, weight, LAM, memory, DAMPING, STEP, T0, beta
        )
        np.testing.assert_allclose(V[c], w[:6], rtol=1e-7, atol=1e-8 * np.abs(w).max())
        if beta:
            np.testing.assert_allclose(b[c], beta * w[6], rtol=1e-7)
        assert state.metric.held[c] == len(pairs)


@pytest.mark.parametrize("beta", [0.0, 0.6])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", LOSSES)
def test_the_loop_is_the_published_recursion(problem, name, form, beta):
    check_twins(problem, name, form, beta, go=in_python)


@pytest.mark.parametrize("memory", [1, 2, 100])
def test_any_memory(problem, memory):
    check_twins(problem, "logistic", "dense", 0.6, in_python, memory)


def test_compiled_it_is_the_same(problem):
    check_twins(problem, "logistic", "dense", 0.6, go=sweep)


@settings(max_examples=30)
@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 2**31))
def test_two_loops_are_the_bfgs_matrix(dim, n_pairs, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((dim, dim))
    H = A @ A.T + np.eye(dim)  # a Hessian: the pairs of a quadratic
    pairs = [(s, H @ s) for s in rng.standard_normal((n_pairs, dim))]
    g = rng.standard_normal(dim)
    wanted = naive_secant.inverse_hessian(pairs, dim) @ g
    np.testing.assert_allclose(naive_secant.two_loops(pairs, g), wanted, rtol=1e-6, atol=1e-8)


def test_the_first_direction_is_the_gradient(problem):
    X, codes, _, order = problem
    i = order[0]
    state, _ = run_kernel(
        descent_of("logistic", step=1e-3),
        as_rows(X), ClassIndex(codes, 0), order[:1], unit_weights(N, C), C, go=in_python,
    )  # fmt: skip
    for c in range(C):
        y = 1.0 if codes[i] == c else -1.0
        np.testing.assert_allclose(state.iterate.V[c], 1e-3 * y * 0.5 * X[i], rtol=1e-12)


@settings(max_examples=40)
@given(
    st.sampled_from(LOSSES),
    st.floats(1e-3, 1e3),
    st.sampled_from([0.0, 1e-6, 0.1]),
    st.sampled_from([0.0, 1e-3, 1.0]),
    st.integers(0, 2**31),
)
def test_no_step_overshoots_on_its_own_example(name, step, lam, damping, seed):
    """Visit by visit: the example's own objective falls, as the parabola above it says it must.

    The hinge is not below that parabola: its margin moves by 1 at most, but for the penalty's pull.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((25, 4)) * 10.0 ** rng.uniform(-2, 2)
    codes = rng.integers(0, 2, 25).astype(np.int32)
    loss = MARGIN_LOSSES[name]
    descent = descent_of(name, 0.5, step, 3, lam, damping)

    def score(i, n):
        """Of example i after n visits."""
        state, _ = run_kernel(
            descent, as_rows(X), ClassIndex(codes, 1), np.arange(n), unit_weights(25, 1), 1,
            go=in_python,
        )  # fmt: skip
        w, b = state.iterate.V[0], state.iterate.b[0]
        return w @ X[i] + b, lam / 2 * w @ w

    for i in range(25):
        y = 1 if codes[i] else -1
        (before, penalty), (after, penalty_after) = score(i, i), score(i, i + 1)
        if name == "hinge":
            assert lam or abs(after - before) <= 1 + 1e-9
        else:
            old, new = loss.value(y * before) + penalty, loss.value(y * after) + penalty_after
            assert new <= old + 1e-9 * (1 + abs(old))


# -- finite, whatever comes ------------------------------------------------------------------------


@st.composite
def ugly(draw, most=40):
    """Rows of any units, some zero, doubled, one-hot, with constant and unused columns."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    n, d = draw(st.integers(4, most)), draw(st.integers(1, 8))
    kind = draw(st.sampled_from(["normal", "onehot", "columns", "same"]))
    if kind == "onehot":
        X = np.eye(d)[rng.integers(0, d, n)]
    elif kind == "same":
        X = np.tile(rng.standard_normal(d), (n, 1))
    else:
        X = rng.standard_normal((n, d))
    if kind == "columns":
        X *= 10.0 ** rng.uniform(-6, 6, d)
    X *= 10.0 ** draw(st.integers(-6, 6))
    if draw(st.booleans()):
        X[rng.random(n) < 0.3] = 0
    if draw(st.booleans()):
        X[:, 0] = 10.0 ** draw(st.integers(-3, 3))
    if draw(st.booleans()):
        X[n // 2 :] = X[: n - n // 2]
    y = rng.integers(0, draw(st.integers(2, 3)), n)
    y[:2] = 0, 1
    return X.astype(draw(st.sampled_from([np.float32, np.float64]))), y


SETTINGS = {
    "lam": st.sampled_from([0.0, 1e-12, 1e-4, 10.0]),
    "step": st.sampled_from(["auto", 1e-8, 1.0, 1e12]),
    "damping": st.sampled_from(["auto", 0.0, 1e-8]),
    "memory": st.sampled_from([1, 10]),
}


def check_finite(data, options):
    X, y = data
    model = OLBFGSClassifier(**options, passes=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()
    assert np.isfinite(model.decision_function(X)).all()


@settings(max_examples=150)
@given(ugly(), st.fixed_dictionaries(SETTINGS))
def test_weights_are_always_finite(data, options):
    check_finite(data, options)


@settings(max_examples=40)
@given(ugly(15), st.fixed_dictionaries({"loss": st.sampled_from(LOSSES), **SETTINGS}))
def test_weights_are_always_finite_with_every_loss(data, options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slender.solvers.sweep.sweep", in_python)
        check_finite(data, options)


def test_easy_data_and_one_pair_without_damping():
    """What a public version with memory 1 and no damping turns into NaN."""
    rng = np.random.default_rng(0)
    X = np.r_[rng.standard_normal((100, 5)) + 3, rng.standard_normal((100, 5)) - 3]
    y = np.repeat([0, 1], 100)
    for step in (0.1, 1.0, 100.0):
        model = OLBFGSClassifier(memory=1, damping=0.0, step=step, random_state=0).fit(X, y)
        assert model.score(X, y) == 1.0


# -- the estimator ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    data = digits()
    return data._replace(X_train=data.X_train.astype(float), X_test=data.X_test.astype(float))


def test_fitted_attributes(data):
    model = OLBFGSClassifier(random_state=0).fit(data.X_train, data.y_train)
    assert model.score(data.X_test, data.y_test) > 0.9
    assert model.coef_.shape == (10, 64)
    assert model.t0_ == 130  # a tenth of a pass
    assert model.n_iter_ == 5
    given = OLBFGSClassifier(
        step=model.step_, t0=10.0, damping=0.5, passes=1, memory=2, random_state=0
    ).fit(data.X_train, data.y_train)
    assert (given.step_, given.t0_, given.damping_) == (model.step_, 10.0, 0.5)


def test_float32_stays_float32(data):
    X, y = data.X_train.astype(np.float32), data.y_train
    model = OLBFGSClassifier(random_state=0).fit(X, y)
    assert model.coef_.dtype == np.float32
    assert model.score(data.X_test, data.y_test) > 0.9


def test_it_gets_to_the_minimum():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 6)) * np.array([3, 1, 1, 1, 1, 0.3])
    y, lam = X @ rng.standard_normal(6) + 0.1 * rng.standard_normal(600) > 0, 0.01
    model = OLBFGSClassifier(
        lam=lam, fit_intercept=False, passes=30, objective="exact", random_state=0
    ).fit(X, y)
    minimum = minimum_of(X, y, lam)
    assert minimum <= model.trace_[-1]["objective"] < 1.01 * minimum


@pytest.mark.parametrize("loss", LOSSES)
def test_it_learns_with_every_loss(loss, uncompiled):
    data = planted(200, 10, 3, n_test=800, separation=1.0, seed=1)
    model = OLBFGSClassifier(loss, step=0.5, passes=2, random_state=0)
    model.fit(data.X_train.astype(float), data.y_train)
    assert model.score(data.X_test, data.y_test) > 0.85


def test_the_pairs_go_on_from_call_to_call(data):
    """Two calls of partial_fit are two passes of fit: the pairs are part of the state."""
    X, y = data.X_train[:400], data.y_train[:400]
    a = OLBFGSClassifier(passes=2, random_state=0).fit(X, y)
    b = OLBFGSClassifier(random_state=0).partial_fit(X, y).partial_fit(X, y)
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_several_labels_a_row(uncompiled):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 5)), rng.integers(0, 3, 40)
    Y = (y[:, None] == np.arange(3)).astype(int)
    a, b = (OLBFGSClassifier(step=0.5, passes=1, random_state=0).fit(X, t) for t in (y, Y))
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_saved_and_loaded(tmp_path, data):
    model = OLBFGSClassifier(passes=1, random_state=0).fit(data.X_train[:300], data.y_train[:300])
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(data.X_test), model.predict(data.X_test))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lam": -1}, "lam=-1 must be"),
        ({"loss": "exponential"}, "loss='exponential' must be one of"),
        ({"memory": 0}, "memory=0 must be an integer > 0"),
        ({"memory": 2.5}, "memory=2.5 must be an integer > 0"),
        ({"damping": -1.0}, "damping=-1.0 must be"),
        ({"step": 0.0}, "step=0.0 must be"),
        ({"step": "fast"}, "step='fast' must be"),
        ({"t0": -2}, "t0=-2 must be"),
        ({"passes": 0}, "passes=0"),
    ],
)
def test_bad_settings_are_named(options, words):
    X, y = np.random.default_rng(0).standard_normal((30, 4)), np.arange(30) % 3
    with pytest.raises(ValueError, match=words):
        OLBFGSClassifier(**options).fit(X, y)
