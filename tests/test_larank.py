"""LaRankClassifier and its solver: the naive twin, the duality gap, the bound on moves."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import naive_svm as naive
from slender import BCFWClassifier, LaRankClassifier
from slender.datasets import digits
from slender.losses import CrammerSinger
from slender.problem import multiclass
from slender.rows import as_rows
from slender.solvers.duality import SVMProblem
from slender.solvers.larank_sweep import DRAWS, MOVES, Rules
from slender.solvers.patterns import empty, largest, primal_weights, spread
from slender.solvers.svm_forms import Binary, Multiclass


@parametrize_with_checks(
    [LaRankClassifier()],
    expected_failed_checks=lambda _: {
        # see test_bcfw.test_a_weight_of_two_is_two_rows
        "check_sample_weight_equivalence_on_dense_data": "equal to the gap, not to rounding",
        "check_sample_weight_equivalence_on_sparse_data": "equal to the gap, not to rounding",
    },
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learns_contract(estimator, check):
    check(estimator)


def problem(seed=0, n=40, d=6, C=7):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(C), rng.integers(0, C, n - C)])
    return rng.normal(size=(n, d)) + 1.5 * rng.normal(size=(C, d))[y], y.astype(np.int32)


def solve(solver, form, X, U, n_rows, passes=1, seed=0, n_fresh=None):
    rows = as_rows(X)
    problem = SVMProblem(form, rows, U, rows.sqnorms().astype(float), 0.0, n_rows)
    kernel_rows, _ = rows.take(np.arange(X.shape[0]))
    state = solver.init(empty(X.shape[0], n_rows), np.zeros((n_rows, X.shape[1])), np.zeros(n_rows))
    rng = np.random.default_rng(seed)
    for _ in range(passes):
        order = rng.permutation(X.shape[0])[:n_fresh]
        state = solver.sweep_over(problem, state, kernel_rows, order, rng)
    return state


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("inner", [1, 8])
@pytest.mark.parametrize("skip_bound", [True, False])
def test_one_pass_equals_the_naive_twin(kind, adaptive, inner, skip_bound):
    X, y = problem()
    U = np.random.default_rng(5).uniform(0.2, 1.0, len(y))
    solver = Rules(1e-4, 1e-6, inner, adaptive, skip_bound)
    # few enough that rounding, which settles a tie now and then, has not yet parted the two
    state = solve(solver, Multiclass(y), kind(X), U, 7, n_fresh=20)
    twin = naive.LaRank(X, y, 7, U, 1e-4, 1e-6, inner, skip_bound)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))[:20]
    twin.sweep(order, rng.random(DRAWS), adaptive)
    beta = np.zeros((len(y), 7))
    spread(state.patterns, 0, beta)
    np.testing.assert_allclose(beta, twin.beta, atol=1e-9)
    np.testing.assert_allclose(state.W, twin.W, atol=1e-9)
    assert state.counters[MOVES] == twin.moves


def test_many_classes_equal_the_naive_twin():
    """More than MANY: a move looks at the few classes that can move only."""
    X, y = problem(9, n=120, C=40)
    U = np.random.default_rng(5).uniform(0.2, 1.0, len(y))
    state = solve(Rules(inner=3), Multiclass(y), X, U, 40, n_fresh=60)
    twin = naive.LaRank(X, y, 40, U, 1e-4, 1e-6, 3, True)
    rng = np.random.default_rng(0)
    twin.sweep(rng.permutation(len(y))[:60], rng.random(DRAWS), True)
    beta = np.zeros((len(y), 40))
    spread(state.patterns, 0, beta)
    np.testing.assert_allclose(beta, twin.beta, atol=1e-9)
    assert state.counters[MOVES] == twin.moves


def test_binary_process_is_the_slides_step():
    X, y = problem(1, C=2)
    sign = np.where(y == 1, 1, -1).astype(np.int8)
    U = np.full(len(y), 0.3)
    solver = Rules(tau=1e-12, kappa=1e-12)
    rows = as_rows(X)
    state = solver.init(empty(len(y), 1), np.zeros((1, X.shape[1])), np.zeros(1))
    # a fresh list of draws of 0 always answers "process": plain clipped coordinate ascent
    order = np.random.default_rng(2).permutation(len(y))

    class Zeros:
        def random(self, size):
            return np.zeros(size)

    state = solver.sweep_over(
        SVMProblem(Binary(sign), rows, U, rows.sqnorms(), 0.0, 1),
        state,
        rows.take(np.arange(len(y)))[0],
        order,
        Zeros(),
    )
    alpha, w = naive.binary_coordinate(X, sign, U, order)
    np.testing.assert_allclose(sign * state.patterns.beta, alpha, atol=1e-12)
    np.testing.assert_allclose(state.W[0], w, atol=1e-12)


def test_without_reprocess_fresh_examples_are_all_that_is_visited():
    """Then each is one coordinate step of the slides, in the given order."""
    X, y = problem(3, C=2)
    sign = np.where(y == 1, 1, -1).astype(np.int8)
    U = np.full(len(y), 0.5)
    solver = Rules(1e-12, 1e-12, reprocess=False)
    state = solve(solver, Binary(sign), X, U, 1)
    order = np.random.default_rng(0).permutation(len(y))
    _, w = naive.binary_coordinate(X, sign, U, order)
    np.testing.assert_allclose(state.W[0], w, atol=1e-9)
    for name in ("adaptive", "skip_bound"):
        with pytest.raises(ValueError, match=f"{name}=False changes how support patterns"):
            LaRankClassifier(reprocess=False, **{name: False}).fit(X, y)


@pytest.fixture(scope="module")
def data():
    return digits()


def test_digits_reach_the_reference_optimum(data):
    """C = 1, no bias: dual optimum 346.34 (sum scale), test error 3.62 %."""
    X, y, X_test, y_test = data
    model = LaRankClassifier(C=1.0, tol=1e-4, passes=1000, fit_intercept=False, random_state=0).fit(
        X, y
    )
    dual, gap = (model.trace_[-1][name] * len(y) for name in ("dual", "gap"))
    assert dual >= 346.3
    assert gap <= 0.1
    assert abs(100 * (1 - model.score(X_test, y_test)) - 3.6) <= 0.4


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_the_gap_holds(data, classes, C):
    X, y, *_ = data
    X, y = X[y < classes], y[y < classes]
    n = len(y)
    svm = LinearSVC(
        C=C,
        loss="hinge",
        multi_class="crammer_singer" if classes > 2 else "ovr",
        fit_intercept=False,
        tol=1e-8,
        max_iter=100_000,
    ).fit(X, y)
    if classes > 2:
        best = multiclass(
            CrammerSinger(), as_rows(X), y.astype(np.int32), svm.coef_, np.zeros(10), np.ones(n),
            1 / (n * C),
        )  # fmt: skip
    else:
        margin = np.where(y == 1, 1, -1) * (X @ svm.coef_[0])
        best = np.maximum(0, 1 - margin).mean() + svm.coef_[0] @ svm.coef_[0] / (2 * n * C)
    model = LaRankClassifier(C, tol=1e-3, fit_intercept=False, random_state=1).fit(X, y)
    assert model.gap_ <= 1e-3 * model.objective_
    for record in model.trace_:
        assert record["dual"] <= best * (1 + 1e-5)
        assert record["gap"] >= record["objective"] - best * (1 + 1e-5)


@pytest.mark.parametrize("form", ["binary", "multiclass"])
def test_moves_stay_below_the_slides_bound(form):
    """At most max{2ν²nU/τ², 2nU/(κτ)} moves count: ν the norm of a direction in feature space."""
    X, y = problem(3, C=2 if form == "binary" else 7)
    U = np.full(len(y), 0.5)
    tau, kappa = 0.2, 0.05
    solver = Rules(tau=tau, kappa=kappa)
    if form == "binary":
        made, rows, nu2 = Binary(np.where(y == 1, 1, -1).astype(np.int8)), 1, 1.0
    else:
        made, rows, nu2 = Multiclass(y), 7, 2.0
    nu2 *= (X**2).sum(axis=1).max()
    state = solve(solver, made, X, U, rows, passes=60)
    total = U.sum()
    bound = max(2 * nu2 * total / tau**2, 2 * total / (kappa * U[0] * tau))
    before = state.counters[MOVES]
    assert 0 < before <= bound
    # and it has come to rest: no direction is left whose gradient exceeds τ with room for κ
    more = solve(solver, made, X, U, rows, passes=61)
    assert more.counters[MOVES] == before


@pytest.mark.parametrize(
    "options",
    [
        {"reprocess": False},
        {"adaptive": False},
        {"skip_bound": False},
        {"active": False},
        {"inner": 1},
    ],
    ids=str,
)
def test_every_refinement_reaches_the_gap(data, options):
    model = LaRankClassifier(
        passes=500, tol=1e-2, fit_intercept=False, random_state=0, **options
    ).fit(*data[:2])
    assert model.gap_ <= 1e-2 * model.objective_


def test_a_fit_ends_when_rounding_is_all_that_moves(data):
    """Without tol: down to the last digits, and then not through what is left of the passes."""
    model = LaRankClassifier(1e-6, passes=200, tol=None, random_state=0).fit(*data[:2])
    assert model.gap_ <= 1e-12 * model.objective_
    assert model.n_iter_ < 100


def test_a_seed_reproduces_a_run(data):
    a, b = (
        LaRankClassifier(passes=3, tol=None, fit_intercept=False, random_state=7).fit(*data[:2])
        for _ in range(2)
    )
    np.testing.assert_array_equal(a.coef_, b.coef_)
    assert a.trace_[-1]["moves"] == b.trace_[-1]["moves"]


def test_a_second_pass_reuses_the_coefficients_of_the_first(data):
    """One coefficient an example and class, however often it is visited: β stays feasible."""
    X, y, *_ = data
    n = 200
    X, y = X[:n].astype(float), y[:n].astype(np.int32)
    state = solve(Rules(), Multiclass(y), X, np.ones(n), 10, passes=5)
    beta = np.zeros((n, 10))
    spread(state.patterns, 0, beta)
    own = np.eye(10)[y]
    np.testing.assert_allclose(beta.sum(axis=1), 0.0, atol=1e-12)
    assert (beta <= own + 1e-15).all()
    np.testing.assert_allclose(
        state.W, primal_weights(as_rows(X), state.patterns, 10, 0.0)[0], atol=1e-9
    )
    assert largest(state.patterns).sum() == pytest.approx((beta * own).sum())


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    C=st.integers(2, 6),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    zeros=st.booleans(),
)
def test_dual_rises_and_the_gap_is_never_negative(seed, C, scale, zeros):
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(30, 4))
    if zeros:
        X[::7] = 0.0
    y = np.concatenate([np.arange(C), rng.integers(0, C, 30 - C)])
    model = LaRankClassifier(0.5, passes=4, tol=None, fit_intercept=False, random_state=seed).fit(
        X, y
    )
    duals = [record["dual"] for record in model.trace_]
    assert all(b >= a - 1e-9 * max(1.0, abs(a)) for a, b in zip([0.0, *duals], duals, strict=False))
    assert all(r["objective"] >= r["dual"] - 1e-9 for r in model.trace_)


def test_a_stream(data):
    """Batch after batch: close to a fit of all rows, and the gap says what is not known."""
    X, y, X_test, y_test = data
    model = LaRankClassifier(fit_intercept=False, random_state=0)
    for lo in range(0, 1300, 100):
        part = slice(lo, lo + 100)
        model.partial_fit(X[part], y[part], classes=np.arange(10))
        assert np.isfinite(model.gap_) == (lo == 0)
    assert model.score(X_test, y_test) > 0.93
    whole = LaRankClassifier(fit_intercept=False, random_state=0).fit(X, y)
    optimum = whole.objective_ - whole.gap_
    reached = multiclass(
        CrammerSinger(), as_rows(X), y.astype(np.int32), model.coef_, np.zeros(10), np.ones(1300),
        1 / 1300,
    )  # fmt: skip
    assert reached < 1.5 * optimum


def test_a_stream_of_sparse_rows(data):
    X, y, X_test, y_test = data
    model = LaRankClassifier(fit_intercept=False, random_state=0)
    for lo in range(0, 1300, 100):
        part = slice(lo, lo + 100)
        model.partial_fit(sparse.csr_array(X[part]), y[part], classes=np.arange(10))
    assert model.score(sparse.csr_array(X_test), y_test) > 0.93


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_stream_survives_pickle(data, form, tmp_path):
    """The copy goes on exactly as the model would have, and holds no rows but the support."""
    X, y, *_ = data
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = LaRankClassifier(random_state=0)
    model.partial_fit(mapped[:400] if form is np.asarray else form(X[:400]), y[:400])
    content = pickle.dumps(model)
    copy = pickle.loads(pickle.dumps(pickle.loads(content)))
    kept = copy._stream[0].rows.shape[0]
    assert kept == model.trace_[-1]["support"] < 400
    for each in (model, copy):
        each.partial_fit(form(X[400:600]), y[400:600])
    np.testing.assert_array_equal(copy.coef_, model.coef_)
    assert copy.n_iter_ == model.n_iter_ == 2


def test_partial_fit_goes_on_after_fit_but_not_after_a_pickle(data):
    X, y, *_ = data
    model = LaRankClassifier(passes=1, tol=None, random_state=0).fit(X[:900], y[:900])
    copy = pickle.loads(pickle.dumps(model))
    model.partial_fit(X[900:], y[900:])
    assert len(model.trace_) == 2
    with pytest.raises(ValueError, match="no support patterns"):
        copy.partial_fit(X[900:], y[900:])


@pytest.mark.parametrize("estimator", [LaRankClassifier, BCFWClassifier])
@pytest.mark.parametrize("classes", [2, 10])
def test_the_intercept_is_a_constant_column(data, estimator, classes):
    X, y, *_ = data
    X, y = X[y < classes] + 0.5, y[y < classes]  # off centre: an intercept is needed
    column = np.full((len(X), 1), np.sqrt((X**2).sum(axis=1).mean()), X.dtype)
    settings = {"tol": 5e-3, "passes": 500, "random_state": 0}
    inside = estimator(**settings).fit(X, y)
    beside = estimator(fit_intercept=False, **settings).fit(np.hstack([X, column]), y)
    assert abs(inside.objective_ - beside.objective_) <= inside.gap_ + beside.gap_ + 1e-6
    assert np.abs(inside.intercept_).max() > 0
    assert (beside.intercept_ == 0).all()


def test_a_gap_not_reached_warns(data):
    with pytest.warns(ConvergenceWarning, match="raise passes=1"):
        LaRankClassifier(passes=1, tol=1e-6, fit_intercept=False, random_state=0).fit(*data[:2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"C": 0}, "C=0"), ({"tau": 0}, "tau=0"), ({"inner": 0}, "inner=0")],
)
def test_bad_settings(data, settings, message):
    with pytest.raises(ValueError, match=message):
        LaRankClassifier(**settings).fit(*data[:2])


def test_ctrl_c_in_a_stream_is_said(data):
    X, y, *_ = data
    model = LaRankClassifier(random_state=0).partial_fit(X[:300], y[:300])

    def press(record, linear):
        raise KeyboardInterrupt

    model.set_params(callbacks=press)
    with pytest.warns(ConvergenceWarning, match="interrupted: after 2 passes"):
        model.partial_fit(X[300:600], y[300:600])
    assert model.score(X, y) > 0.7
