"""LogisticClassifier: the certificate is the test."""

import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import naive
from slender import LogisticClassifier, load_model, save_model
from slender.data import Examples
from slender.datasets import planted
from slender.problem import Multinomial
from slender.problem.certificate import blurred, hopeful
from slender.problem.linear import two_rows
from slender.rows import as_rows
from slender.solvers import newton
from slender.solvers.newton import Newton
from slender.solvers.quasinewton import begin, descend


@parametrize_with_checks([LogisticClassifier()])
def test_sklearn_contract(estimator, check):
    check(estimator)


def blobs(n=120, d=6, C=4, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((C, d))
    y = rng.permutation(np.arange(n) % C)
    return centres[y] * spread + rng.standard_normal((n, d)), y


def duplicated(X, y):
    return np.column_stack([X, X, X[:, :2]]), y


def wide(X, y):
    return np.random.default_rng(1).standard_normal((len(X), 300)) + 0.0 * X[:, :1], y


def poor_rank(X, y):
    return X @ np.diag([1, 1, 0, 0, 0, 0]) @ np.random.default_rng(2).standard_normal((6, 9)), y


PROBLEMS = {
    "blobs": lambda: blobs(),
    "float32": lambda: (blobs()[0].astype(np.float32), blobs()[1]),
    "csr": lambda: (sparse.csr_array(blobs()[0]), blobs()[1]),
    "binary": lambda: blobs(C=2),
    "separable": lambda: blobs(spread=20.0),
    "zero variance": lambda: (np.column_stack([blobs()[0], np.zeros(120)]), blobs()[1]),
    "constant column": lambda: (np.column_stack([blobs()[0], np.full(120, 1e3)]), blobs()[1]),
    "duplicated columns": lambda: duplicated(*blobs()),
    "rank deficient": lambda: poor_rank(*blobs()),
    "n < d": lambda: wide(*blobs(n=40)),
    "badly scaled": lambda: (blobs()[0] * 10.0 ** np.arange(-3, 3), blobs()[1]),
    "far from zero": lambda: (blobs()[0] + 1e3, blobs()[1]),
    "one row of a class": lambda: (blobs()[0], np.where(np.arange(120) == 7, 9, blobs()[1] % 3)),
    "all rows equal": lambda: (np.ones((30, 3)), np.arange(30) % 3),
}


def dense(X):
    return np.asarray(X.todense() if sparse.issparse(X) else X, np.float64)


@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_gap_is_proved_and_true(name, C):
    """gap_ <= tol objective_, and never below objective - optimum of an independent solver."""
    X, y = PROBLEMS[name]()
    tol = 1e-4 if name != "far from zero" else 1e-3
    model = LogisticClassifier(C, tol=tol, random_state=0).fit(X, y)
    classes, codes = np.unique(y, return_inverse=True)
    n = len(y)
    lam = (2.0 if len(classes) == 2 else 1.0) / (n * C)
    w = np.full(n, 1 / n)
    shape = (len(classes), X.shape[1])
    if np.prod(shape) < 100:
        optimum, *_ = naive.multinomial_optimum(dense(X), codes, w, lam)
    else:
        # sum over classes is 0 at the optimum, so the two-row and one-row forms agree
        rival = LogisticRegression(C=C, tol=1e-12, max_iter=10**5).fit(dense(X), y)
        optimum = naive.multinomial(dense(X), codes, w, rival.coef_, rival.intercept_, lam)
    W, b = two_rows(model.coef_, model.intercept_)
    objective = naive.multinomial(dense(X), codes, w, W.astype(float), b.astype(float), lam)
    noise = 1e-6 if X.dtype == np.float32 else 1e-10
    assert objective == pytest.approx(model.objective_, rel=1e-5 if noise > 1e-8 else 1e-9)
    assert model.gap_ <= tol * model.objective_
    assert objective - optimum <= model.gap_ + noise * objective
    assert objective >= optimum * (1 - noise)


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_the_same_optimum_as_sklearn(C):
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    for labels in (y, y > 4):
        for options in ({}, {"fit_intercept": False}, {"class_weight": "balanced"}):
            ours = LogisticClassifier(C, tol=1e-9, **options).fit(X, labels)
            theirs = LogisticRegression(C=C, tol=1e-10, max_iter=10**5, **options).fit(X, labels)
            assert ours.coef_.shape == theirs.coef_.shape
            np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)  # sqrt(2 gap n C)
            np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
            np.testing.assert_allclose(
                np.exp(ours.predict_log_proba(X[:9])), ours.predict_proba(X[:9])
            )


def test_weights_are_repetitions():
    X, y = blobs()
    counts = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = LogisticClassifier(1.0, tol=1e-8).fit(X, y, sample_weight=counts)
    repeated = LogisticClassifier(1.0, tol=1e-8).fit(np.repeat(X, counts, 0), np.repeat(y, counts))
    sums = weighted.objective_ * np.count_nonzero(counts), repeated.objective_ * counts.sum()
    assert sums[0] == pytest.approx(sums[1], rel=1e-8)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-3)


def test_half_precision_and_float32_agree_with_float64():
    X, y = load_digits(return_X_y=True)
    models = [
        LogisticClassifier(0.01, tol=1e-6).fit(X.astype(kind), y)
        for kind in (np.float64, np.float32, np.float16, np.uint8)
    ]
    for model in models[1:]:
        assert model.coef_.dtype == np.float32
        assert model.objective_ == pytest.approx(models[0].objective_, rel=2e-6)


def test_separable_without_penalty_says_so():
    X, y = blobs(spread=20.0)
    with pytest.warns(ConvergenceWarning, match="optimum lies at infinity"):
        model = LogisticClassifier(np.inf).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert model.score(X, y) == 1.0


def test_without_penalty_but_not_separable():
    X, y = blobs(n=300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LogisticClassifier(np.inf, tol=1e-6).fit(X, y)
    rival = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10**5).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), rival.predict_proba(X), atol=1e-3)
    assert model.gap_ == pytest.approx(model.objective_)  # nothing better can be proved


def test_too_few_passes_warn_with_the_gap():
    X, y = blobs()
    with pytest.warns(ConvergenceWarning, match="raise max_iter=2, or tol=") as caught:
        model = LogisticClassifier(10.0, max_iter=2).fit(X, y)
    assert f"{model.gap_:.2g}" in str(caught[0].message)
    assert model.n_iter_ <= 4


def test_a_tolerance_below_rounding_warns_and_stops():
    X, y = blobs()
    with pytest.warns(ConvergenceWarning, match="float32 allows no further step"):
        LogisticClassifier(1.0, tol=1e-14).fit(X.astype(np.float32), y)


def begun(problem, lam):
    """A solver, and its state after a look at the start."""
    solver = Newton(problem, lam, 1e-3)
    state = solver.init(np.random.default_rng(0))
    begin(problem, state, problem.start(), lam)
    return solver, state


def test_the_last_proof_does_not_hide_that_no_step_was_left():
    X, y = blobs()
    problem = Multinomial(Examples(as_rows(X), y.astype(np.int32), np.full(len(y), 1 / len(y))), 4)
    solver, state = begun(problem, 0.1)
    for _ in range(5):
        descend(problem, state, 1e-3)
    state.stalled = True  # as a line search says that finds no way down
    solver.bound(state)
    assert state.stalled
    assert 0 < state.gap < state.objective


def test_warm_start_saves_passes():
    data = planted(2000, 30, 5, n_test=10, separation=0.5)
    model = LogisticClassifier(1.0, warm_start=True, random_state=0)
    cold = model.fit(data.X_train, data.y_train).n_iter_
    warm = model.set_params(C=1.2).fit(data.X_train, data.y_train).n_iter_
    assert warm < cold
    again = model.fit(data.X_train, data.y_train).n_iter_
    assert again <= 3
    y = np.where(data.y_train == 4, 3, data.y_train)  # other classes: a cold start
    assert len(model.fit(data.X_train, y).coef_) == 4


def test_ctrl_c_keeps_the_best_so_far():
    X, y = blobs()

    def press(record, weights):
        if record["passes"] >= 5:
            raise KeyboardInterrupt

    model = LogisticClassifier(100.0, tol=1e-10, callbacks=[press])
    with pytest.warns(ConvergenceWarning, match="interrupted: after"):
        model.fit(X, y)
    assert model.coef_.shape == (4, 6)
    assert model.trace_[-1]["objective"] == model.objective_


def test_callbacks_see_each_step_and_may_end_it():
    X, y = blobs()
    seen = []

    def watch(record, weights):
        seen.append((record["objective"], weights()[0].shape))
        return len(seen) == 3

    model = LogisticClassifier(100.0, tol=1e-10, callbacks=[watch]).fit(X, y)
    assert [shape for _, shape in seen] == [(4, 6)] * 3
    assert len(model.trace_) == 3
    objectives = [record["objective"] for record in model.trace_]
    assert objectives == sorted(objectives, reverse=True)
    assert all(record["gap"] >= 0 for record in model.trace_)


def test_the_trace_ends_at_the_certificate():
    model = LogisticClassifier(1.0).fit(*blobs())
    last = model.trace_[-1]
    assert (last["objective"], last["gap"]) == (model.objective_, model.gap_)
    assert last["passes"] == model.n_iter_
    seconds = [record["seconds"] for record in model.trace_]
    assert seconds == sorted(seconds)


def test_the_same_seed_gives_the_same_model():
    data = planted(3000, 40, 8, n_test=10)
    a, b = (LogisticClassifier(random_state=3).fit(data.X_train, data.y_train) for _ in range(2))
    np.testing.assert_array_equal(a.coef_, b.coef_)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"C": 0.0}, "C=0.0 must be"),
        ({"C": -1.0}, "C=-1.0 must be"),
        ({"C": np.nan}, "C=nan must be"),
        ({"tol": 0.0}, "tol=0.0 must be"),
        ({"max_iter": 0}, "max_iter=0 must be"),
        ({"max_iter": 1.5}, "max_iter=1.5 must be"),
    ],
)
def test_bad_settings_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        LogisticClassifier(**options).fit(*blobs())


def test_bad_data_is_named():
    X, y = blobs()
    bad = X.copy()
    bad[7, 2] = np.nan
    with pytest.raises(ValueError, match="NaN at row 7, column 2"):
        LogisticClassifier().fit(bad, y)
    with pytest.raises(ValueError, match="gives each row one class"):
        LogisticClassifier().fit(X, np.eye(4, dtype=int)[y])
    with pytest.raises(ValueError, match="class 2 has no training row of positive weight"):
        LogisticClassifier().fit(X, y, sample_weight=(y != 2).astype(float))
    with pytest.raises(ValueError, match="overflow float32"):
        LogisticClassifier().fit(np.float32(X * 1e25), y)


def test_a_saved_model_predicts_the_same(tmp_path):
    X, y = blobs()
    model = LogisticClassifier(0.3).fit(X, y)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert (loaded.gap_, loaded.C) == (model.gap_, 0.3)


@pytest.mark.parametrize("C", [10.0, 1e4])
def test_separable_rows_beyond_the_sample_do_not_mislead_the_line_search(C):
    """A sample whose every row is won knows no root: the step must stay finite and decrease."""
    rng = np.random.default_rng(0)
    y = np.arange(4000) % 50
    X = (3 * rng.standard_normal((50, 60))[y] + rng.standard_normal((4000, 60))).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticClassifier(C, max_iter=30, random_state=0).fit(X, y)
    objectives = [record["objective"] for record in model.trace_]
    assert objectives[1] < 0.2 * objectives[0]
    assert model.score(X, y) == 1.0


def test_very_sparse_and_very_wide_rows():
    """A million columns: nothing of size rows x columns may be made."""
    n, d = 2000, 1_000_000
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    columns = np.where(y == 0, 5, 999_999)
    X = sparse.csr_array((rng.uniform(1, 2, n), (np.arange(n), columns)), shape=(n, d))
    tracemalloc.start()
    model = LogisticClassifier(1.0).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**30  # two hundred bytes a column and class; n x d would be 16 GB
    assert model.gap_ <= 1e-3 * model.objective_
    assert model.score(X, y) == 1.0


def test_intercepts_do_not_drift_together():
    """A common shift changes no probability, but once cost float32 the digits of a proof."""
    data = planted(3000, 128, 60, n_test=10, separation=0.4)
    for seed in range(3):
        model = LogisticClassifier(500.0, random_state=seed).fit(data.X_train, data.y_train)
        assert model.gap_ <= 1e-3 * model.objective_
        at_the_mean = model.intercept_ + model.coef_ @ data.X_train.mean(axis=0)
        assert abs(at_the_mean.mean()) < 1e-3 * abs(at_the_mean).max()


@pytest.mark.parametrize("weight", [1e-44, 1e-30, 1e30])
def test_weights_beyond_float32(weight):
    """The same problem in other units: only lam's share of the objective changes."""
    X, y = blobs(n=90)
    tiny = LogisticClassifier(1.0 / weight, tol=1e-5, random_state=0)
    tiny.fit(X.astype(np.float32), y, sample_weight=np.full(len(y), weight))
    plain = LogisticClassifier(1.0, tol=1e-5, random_state=0).fit(X.astype(np.float32), y)
    assert tiny.objective_ / weight == pytest.approx(plain.objective_, rel=2e-5)
    assert tiny.gap_ <= 1e-5 * tiny.objective_


def test_a_light_class_is_not_forgotten():
    """float32 once took 1 - p of the heavy rows for 0: a proof 9 % below the truth."""
    X = np.array([[0], [1], [2], [3], [0.5], [2.5]], np.float32)
    y, weight = [0, 0, 0, 0, 0, 1], [1e4] * 5 + [1e-3]
    model = LogisticClassifier(1e-3, tol=1e-5).fit(X, y, sample_weight=weight)
    assert model.objective_ == pytest.approx(0.0031212554, rel=1e-5)
    assert model.gap_ <= 1e-5 * model.objective_


def test_float32_does_not_give_up():
    digits = load_digits()
    X = digits.data.astype(np.float32)
    model = LogisticClassifier(1e4, random_state=0).fit(X, digits.target)
    assert model.objective_ == pytest.approx(7.264e-6, rel=2e-3)
    assert model.score(X, digits.target) == 1.0
    assert model.coef_.dtype == np.float32


def test_many_classes_need_no_matrix_of_classes(monkeypatch):
    """The same optimum with and without A, within the two certificates."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((40, 8))
    y = np.arange(400) % 40
    X = centres[y] + 0.5 * rng.standard_normal((400, 8))
    dense = LogisticClassifier(random_state=0, tol=1e-5).fit(X, y)
    for module in ("problem.multinomial", "curvature.classwise", "solvers.newton"):
        monkeypatch.setattr(f"slender.{module}.DENSE", 10)
    thin = LogisticClassifier(random_state=0, tol=1e-5).fit(X, y)
    assert thin.gap_ <= 1e-5 * thin.objective_
    assert abs(thin.objective_ - dense.objective_) <= max(thin.gap_, dense.gap_)
    monkeypatch.setattr("slender.curvature.classwise.CLASS_BYTES", 10_000)  # not even a sample's P
    least = LogisticClassifier(random_state=0, tol=1e-5).fit(X, y)
    assert abs(least.objective_ - dense.objective_) <= max(least.gap_, dense.gap_)


def test_threads_that_share_a_gradient(monkeypatch):
    X, y = blobs(n=300)
    alone = LogisticClassifier(random_state=0, tol=1e-6).fit(X, y)
    monkeypatch.setattr("slender.data.examples.SUMS_BYTES", 0)
    monkeypatch.setattr("slender.data.examples.SHARED_BYTES", 10_000)
    monkeypatch.setattr("slender.rows.threads.WORTH_A_PART", 100)
    shared = LogisticClassifier(random_state=0, tol=1e-6).fit(X, y)
    assert shared.objective_ == pytest.approx(alone.objective_, rel=1e-6)


def test_far_more_columns_than_rows_in_float32():
    """Rows outside the samples had no curvature, and a fit ended at 77 times the optimum."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 20_000)).astype(np.float32)
    y = rng.integers(0, 4, 200)
    model = LogisticClassifier(1.0, random_state=0).fit(X, y)
    exact = LogisticClassifier(1.0, tol=1e-6, random_state=0).fit(X.astype(np.float64), y)
    assert model.gap_ <= 1e-3 * model.objective_
    assert model.objective_ == pytest.approx(exact.objective_, rel=1.1e-3)


def test_rounding_to_the_callers_dtype_is_proved_without_a_pass():
    X, y = blobs()
    X = X.astype(np.float32)
    problem = Multinomial(Examples(as_rows(X), y.astype(np.int32), np.full(len(y), 1 / len(y))), 4)
    solver, state = begun(problem, 0.01)
    while not solver.certified(state, 1e-4):
        descend(problem, state, 1e-4)
    solver.widen(state)
    while not solver.certified(state, 1e-6):
        descend(problem.widened(), state, 1e-6)
    passes = problem.passes
    solver.settle(state)
    assert problem.passes == passes
    W, b = solver.model(state)
    assert W.dtype == b.dtype == np.float32
    W, b = W.astype(np.float64), b.astype(np.float64)
    w = np.full(len(y), 1 / len(y))
    true = naive.multinomial(X.astype(np.float64), y, w, W, b, 0.01)
    assert true <= state.objective <= true * (1 + 1e-7)
    assert state.gap <= 1.1e-6 * true


def test_where_rounding_alone_bars_the_proof_no_pass_is_spent_on_it():
    X, y = blobs()
    X = X.astype(np.float32)
    problem = Multinomial(Examples(as_rows(X), y.astype(np.int32), np.full(len(y), 1 / len(y))), 4)
    solver, state = begun(problem, 1e-3)
    while hopeful(state.point) > 1e-7 * state.objective:  # near, whatever the rounding
        descend(problem, state, 1e-6)
    assert not state.wide
    assert state.point.A is not None
    assert blurred(problem, state.point) > 1e-6 * state.objective
    passes = problem.passes
    assert solver.certified(state, 1e-6)
    assert state.wide
    assert problem.passes - passes <= 2


@pytest.mark.parametrize(("large", "kept"), [(0, newton.FEWER), (10**9, newton.MEMORY)])
def test_fewer_pairs_of_large_weights_are_kept(monkeypatch, large, kept):
    monkeypatch.setattr(newton, "LARGE", large)
    X, y = blobs()
    problem = Multinomial(Examples(as_rows(X), y.astype(np.int32), np.full(len(y), 1 / len(y))), 4)
    solver = Newton(problem, 1e-6, 1e-6)
    state = solver.init(np.random.default_rng(0))
    while not solver.finished(state):
        solver.step(state)
    assert len(state.pairs.kept) <= state.pairs.memory == kept
    assert state.gap <= 1e-6 * state.objective
