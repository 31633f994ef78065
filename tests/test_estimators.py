"""SLNDClassifier and SGDClassifier as users use them."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import slender
from slender import LaRankClassifier, SGDClassifier, SLNDClassifier, registry
from slender.datasets import digits, planted
from slender.estimators.scores import top_k
from slender.losses import MARGIN_LOSSES, fit_for, peaked_at_zero

# A stochastic method visits examples one at a time in a random order: one visit with weight 2 is
# not two visits with weight 1, so fits agree only in the limit of many passes.  (Weight 0 *is*
# absence, exactly: see test_zero_weight_is_absence.)
STOCHASTIC = "a weight scales a step; it does not repeat it"
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": STOCHASTIC,
    "check_sample_weight_equivalence_on_sparse_data": STOCHASTIC,
}
# scikit-learn skips one more by itself: its check of other array libraries runs only where the
# environment sets SCIPY_ARRAY_API, and slender takes NumPy and SciPy arrays.
ESTIMATORS = [SLNDClassifier, SGDClassifier]
CALIBRATED = fit_for(peaked_at_zero, MARGIN_LOSSES)


@parametrize_with_checks(
    [SLNDClassifier(), SGDClassifier()],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
    xfail_strict=True,
)
def test_scikit_learns_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return digits()


@pytest.fixture(scope="module")
def blobs():
    return planted(1500, 20, 5, n_test=800, separation=0.7, seed=1)


@pytest.mark.parametrize("loss", CALIBRATED)
@pytest.mark.parametrize("curvature", ["lowrank", "diagonal", "identity"])
def test_slnd_learns_with_every_loss_and_curvature(blobs, loss, curvature):
    model = SLNDClassifier(loss, curvature=curvature, random_state=0).fit(
        blobs.X_train, blobs.y_train
    )
    best = bayes_like(blobs)
    assert model.score(blobs.X_test, blobs.y_test) > best - 0.04


@pytest.mark.parametrize("loss", [*CALIBRATED, "hinge"])
@pytest.mark.parametrize("average", [True, False])
def test_sgd_learns_with_every_loss(blobs, loss, average):
    model = SGDClassifier(loss, average=average, passes=10, random_state=0)
    model.fit(blobs.X_train, blobs.y_train)
    assert model.score(blobs.X_test, blobs.y_test) > bayes_like(blobs) - 0.06


def bayes_like(blobs):
    """What a generous multinomial fit reaches."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    lda = LinearDiscriminantAnalysis().fit(blobs.X_train.astype(float), blobs.y_train)
    return lda.score(blobs.X_test.astype(float), blobs.y_test)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_fitted_attributes_and_trace(data, cls):
    model = cls(passes=3, random_state=0).fit(data.X_train, data.y_train)
    assert model.coef_.shape == (10, 64)
    assert model.coef_.dtype == model.intercept_.dtype == np.float32
    assert model.intercept_.shape == (10,)
    assert model.n_features_in_ == 64
    assert model.n_iter_ == 3
    assert [r["passes"] for r in model.trace_] == [1, 2, 3]
    seconds = [r["seconds"] for r in model.trace_]
    assert seconds == sorted(seconds)
    assert model.trace_[-1]["objective"] < model.trace_[0]["objective"]
    top = model.predict_top_k(data.X_test, 3)
    np.testing.assert_array_equal(top[:, 0], model.predict(data.X_test))
    proba = model.predict_proba(data.X_test)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], top[:, 0])
    scores = model.decision_function(data.X_test)
    np.testing.assert_array_equal(np.argsort(-scores, axis=1)[:, :3], top)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_same_seed_same_model_another_seed_another(data, cls):
    a, b, c = (cls(passes=1, random_state=s).fit(data.X_train, data.y_train) for s in (7, 7, 8))
    np.testing.assert_array_equal(a.coef_, b.coef_)
    assert not np.array_equal(a.coef_, c.coef_)


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("negatives", ["all", 2])
def test_dense_sparse_half_and_memory_mapped_rows_give_the_same_model(tmp_path, cls, negatives):
    rng = np.random.default_rng(0)
    X = rng.integers(-4, 5, (300, 12)).astype(np.float16) / 4
    y = (X.astype(float) @ rng.standard_normal((12, 4))).argmax(axis=1)
    np.save(tmp_path / "X.npy", X)
    forms = [
        X.astype(np.float32),
        X,
        np.load(tmp_path / "X.npy", mmap_mode="r"),
        sparse.csr_array(X.astype(np.float32)),
    ]
    models = [cls(negatives=negatives, passes=2, random_state=0).fit(F, y) for F in forms]
    for model in models[1:]:
        np.testing.assert_allclose(model.coef_, models[0].coef_, rtol=1e-3, atol=1e-4)
    scores = [m.decision_function(F) for m, F in zip(models, forms, strict=True)]
    np.testing.assert_allclose(scores[3], scores[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_binary_keeps_scikit_learns_shapes(data, cls):
    keep = data.y_train < 2
    names = np.array(["no", "yes"])
    model = cls(random_state=0).fit(data.X_train[keep], names[data.y_train[keep]])
    assert model.coef_.shape == (1, 64)
    X = data.X_test[data.y_test < 2]
    scores = model.decision_function(X)
    assert scores.ndim == 1
    np.testing.assert_array_equal(model.predict(X), names[(scores > 0).astype(int)])
    proba = model.predict_proba(X)
    assert proba.shape == (len(X), 2)
    np.testing.assert_array_equal(proba[:, 1] > 0.5, scores > 0)
    np.testing.assert_array_equal(model.predict_top_k(X, 2)[:, 0], model.predict(X))


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_multilabel_indicator(data, cls):
    Y = np.column_stack([data.y_train % 2 == 0, data.y_train >= 5, data.y_train == 3]).astype(int)
    Y_test = np.column_stack([data.y_test % 2 == 0, data.y_test >= 5, data.y_test == 3])
    model = cls(passes=8, random_state=0).fit(data.X_train, Y)
    predicted = model.predict(data.X_test)
    assert predicted.shape == Y_test.shape
    assert set(np.unique(predicted)) == {0, 1}
    assert (predicted == Y_test).mean() > 0.9
    assert model.score(data.X_test, Y_test) > 0.75  # exact match of all three
    with pytest.raises(ValueError, match="a matrix of -1 and 1"):
        model.score(data.X_test, 2 * Y_test.astype(int) - 1)
    proba = model.predict_proba(data.X_test)
    np.testing.assert_array_equal(proba > 0.5, predicted)
    again = cls(passes=8, random_state=0).fit(data.X_train, sparse.csr_array(Y))
    np.testing.assert_array_equal(again.coef_, model.coef_)


def test_one_label_a_row_is_the_indicator_of_it(data):
    Y = (data.y_train[:, None] == np.arange(10)).astype(int)
    a = SLNDClassifier(negatives=1, random_state=0).fit(data.X_train, data.y_train)
    b = SLNDClassifier(negatives=1, random_state=0).fit(data.X_train, Y)
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_zero_weight_is_absence(data):
    keep = np.random.default_rng(0).random(len(data.y_train)) < 0.6
    for cls in ESTIMATORS:
        weighted = cls(random_state=0).fit(data.X_train, data.y_train, sample_weight=keep * 1.0)
        subset = cls(random_state=0).fit(data.X_train[keep], data.y_train[keep])
        np.testing.assert_allclose(weighted.coef_, subset.coef_, rtol=1e-4, atol=1e-5)


def test_weights_pull(blobs):
    X, y = blobs.X_train, blobs.y_train
    heavy = np.where(y == 0, 20.0, 1.0)
    for cls in ESTIMATORS:
        plain = cls(random_state=0).fit(X, y)
        for pulled in (
            cls(random_state=0).fit(X, y, sample_weight=heavy),
            cls(random_state=0, class_weight={0: 20.0, 1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0}).fit(X, y),
        ):
            more = (pulled.predict(blobs.X_test) == 0).mean()
            assert more > (plain.predict(blobs.X_test) == 0).mean()


@pytest.mark.parametrize("loss", CALIBRATED)
def test_balanced_draws_are_undone_in_the_scores(loss):
    """A toy with known posterior: three points, frequencies known, far from uniform."""
    rng = np.random.default_rng(0)
    p = np.array([[0.80, 0.15, 0.05], [0.30, 0.60, 0.10], [0.25, 0.35, 0.40]])  # P(y | x)
    x = rng.integers(0, 3, 30_000)
    y = (rng.random(30_000)[:, None] > np.cumsum(p[x], axis=1)).sum(axis=1)
    X = np.eye(3)[x]
    options = {
        "negatives": 1,
        "damping": 0.0,
        "fit_intercept": False,
        "passes": 20,
        "step": 0.01,  # small: a constant step leaves a bias of its own size
        "random_state": 0,
    }
    model = SLNDClassifier(loss, **options).fit(X, y)
    # one-vs-rest posteriors of saturated features are exact; they are normalised over classes
    np.testing.assert_allclose(model.predict_proba(np.eye(3)), p, atol=0.04)
    np.testing.assert_array_equal(model.predict(np.eye(3)), [0, 1, 2])
    uniform = SLNDClassifier(loss, prior="uniform", **options).fit(X, y)
    with pytest.raises(ValueError, match="negatives='all' draws none"):
        SLNDClassifier(loss, prior="uniform").fit(X, y)
    np.testing.assert_array_equal(uniform.prior_shift_, 0)
    shifted = model.decision_function(np.eye(3)) - uniform.decision_function(np.eye(3))
    np.testing.assert_allclose(shifted, np.tile(model.prior_shift_, (3, 1)), atol=1e-9)


def test_partial_fit_continues(blobs):
    X, y = blobs.X_train, blobs.y_train
    for cls in ESTIMATORS:
        model = cls(random_state=0)
        for lo in range(0, len(y), 500):
            model.partial_fit(X[lo : lo + 500], y[lo : lo + 500], classes=np.arange(5))
        assert model.n_iter_ == 3
        assert len(model.trace_) == 3
        assert model.score(blobs.X_test, blobs.y_test) > bayes_like(blobs) - 0.07
        with pytest.raises(ValueError, match="not among the classes"):
            model.partial_fit(X[:5], np.array([0, 1, 2, 3, 9]))
        before = model.coef_.copy()
        assert not np.array_equal(model.fit(X, y).coef_, before), "fit starts anew"


def test_slnd_says_what_its_curvature_kept(blobs):
    X = blobs.X_train[:400].astype(float)
    options = {"hessian_samples": 400, "fit_intercept": False, "random_state": 0}
    model = SLNDClassifier(rank=3, **options).fit(X, blobs.y_train[:400])
    want = np.linalg.eigvalsh(X.T @ X / 400)[::-1][:3]
    assert model.rank_ == 3
    np.testing.assert_allclose(model.eigenvalues_, want, rtol=1e-6)
    model.set_params(rank=None, hessian_samples=None, curvature="identity")
    model.fit(X, blobs.y_train[:400])
    assert (model.rank_, model.eigenvalues_.shape) == (20, (0,))


@pytest.mark.parametrize("cls", [*ESTIMATORS, LaRankClassifier])
def test_partial_fit_refuses_other_classes_later(cls, blobs):
    X, y = blobs.X_train[:50], blobs.y_train[:50]
    model = cls(random_state=0).partial_fit(X, y, classes=np.arange(5))
    model.partial_fit(X, y, classes=np.arange(5)[::-1]).partial_fit(X, y)
    with pytest.raises(ValueError, match="are not those of earlier calls"):
        model.partial_fit(X, y, classes=np.arange(6))


def test_one_partial_fit_is_one_pass_of_fit(blobs):
    for cls in ESTIMATORS:
        a = cls(passes=1, random_state=0).fit(blobs.X_train, blobs.y_train)
        b = cls(random_state=0).partial_fit(blobs.X_train, blobs.y_train)
        np.testing.assert_array_equal(a.coef_, b.coef_)


def test_callbacks_see_every_pass_and_may_stop(blobs):
    seen = []

    def watch(record, weights):
        W, b = weights()
        seen.append((record["passes"], W.shape, b.shape))
        return record["passes"] == 2

    model = SLNDClassifier(passes=9, callbacks=[watch], random_state=0)
    model.fit(blobs.X_train, blobs.y_train)
    assert seen == [(1, (5, 20), (5,)), (2, (5, 20), (5,))]
    assert model.n_iter_ == 2


@pytest.mark.parametrize("name", registry.ESTIMATORS)
def test_one_callback_needs_no_list(blobs, name):
    seen = []

    def watch(record, weights):
        seen.append(record["passes"])
        return True

    model = getattr(slender, name)(callbacks=watch)
    model.set_params(random_state=0).fit(blobs.X_train[:200], blobs.y_train[:200])
    assert len(seen) == 1


def test_the_clock_does_not_see_callbacks(blobs):
    from time import perf_counter, sleep

    SLNDClassifier(passes=1, random_state=0).fit(blobs.X_train, blobs.y_train)  # compile
    pause = 0.1
    model = SLNDClassifier(passes=3, callbacks=[lambda *_: sleep(pause) or False], random_state=0)
    began = perf_counter()
    model.fit(blobs.X_train, blobs.y_train)
    assert model.trace_[-1]["seconds"] < perf_counter() - began - 3 * pause


def test_exact_objective_is_that_of_the_model(blobs):
    from slender.labels import ClassIndex
    from slender.problem import Weights, one_vs_rest
    from slender.rows import as_rows

    X, y = blobs.X_train.astype(float), blobs.y_train
    for model in (SLNDClassifier(objective="exact"), SGDClassifier(lam=0.01, objective="exact")):
        model.fit(X, y)
        weights = Weights(np.ones(len(y)), np.ones(5), np.ones(5))
        want = one_vs_rest(
            model._loss(), as_rows(X), ClassIndex(y.astype(np.int32), 0), model.coef_,
            model.intercept_, weights, getattr(model, "lam", 0.0),
        )  # fmt: skip
        assert model.trace_[-1]["objective"] == pytest.approx(want, rel=1e-9)


def test_pipelines_clones_and_grids(blobs):
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), SLNDClassifier(passes=1, random_state=0)),
        {"slndclassifier__rank": [2, 10]},
        cv=2,
    ).fit(blobs.X_train, blobs.y_train)
    assert grid.best_params_ == {"slndclassifier__rank": 10}
    model = SLNDClassifier("squared", rank=3, damping=0.5)
    assert clone(model).get_params() == model.get_params()


def test_classes_of_one_example_duplicates_and_constant_columns_work():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6))
    X[:, 2] = 3.0
    X[10] = X[11]
    y = np.r_[np.zeros(20), np.ones(19), 2].astype(int)
    for cls in ESTIMATORS:
        for negatives in ("all", 1):
            model = cls(negatives=negatives, random_state=0).fit(X, y)
            assert np.isfinite(model.coef_).all()
            assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_bad_input_is_named(cls):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 4)), np.arange(30) % 3
    fit = cls(random_state=0).fit
    bad = X.copy()
    bad[7, 2] = np.nan
    with pytest.raises(ValueError, match="NaN at row 7, column 2"):
        fit(bad, y)
    bad[7, 2] = -np.inf
    with pytest.raises(ValueError, match=r"infinity \(inf\) at row 7, column 2"):
        fit(sparse.csr_array(bad), y)
    with pytest.raises(ValueError, match="30 rows but y has 29"):
        fit(X, y[:29])
    with pytest.raises(ValueError, match="one class only"):
        fit(X, np.ones(30))
    with pytest.raises(ValueError, match="minimum of 1"):
        fit(X[:0], y[:0])
    with pytest.raises(ValueError, match="dtype"):
        fit(np.array([["a", "b"]] * 30), y)
    with pytest.raises(ValueError, match="at least one non-zero"):
        fit(X, y, sample_weight=np.zeros(30))
    with pytest.raises(ValueError, match="negative at row 3"):
        fit(X, y, sample_weight=np.where(np.arange(30) == 3, -1.0, 1.0))
    model = fit(X, y)
    with pytest.raises(ValueError, match="4 features"):
        model.predict(X[:, :3])
    with pytest.raises(ValueError, match="between 1 and 3, the number of classes"):
        model.predict_top_k(X, 4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rank": 6}, "rank=6 is too large"),
        ({"rank": 0}, "rank=0 must be"),
        ({"hessian_samples": 31}, "hessian_samples=31"),
        ({"step": 0.0}, "step=0.0 must be"),
        ({"step": -1}, "step=-1 must be"),
        ({"step": "fast"}, "step='fast'"),
        ({"loss": "hinge"}, "loss='hinge'"),
        ({"negatives": 0}, "negatives=0"),
        ({"passes": 0}, "passes=0"),
        ({"passes": 1.5}, "passes=1.5"),
        ({"curvature": "full"}, "curvature='full'"),
        ({"curvature": "identity", "rank": 3}, "'identity' does not use rank"),
        ({"curvature": "identity", "damping": 1.0}, "'identity' does not use damping"),
        ({"curvature": "diagonal", "rank": 3}, "'diagonal' does not use rank"),
        ({"step": "theory", "average": True}, "step='theory'"),
        ({"damping": -1.0}, "damping=-1.0"),
        ({"prior": "flat"}, "prior='flat'"),
        ({"objective": "none"}, "objective='none'"),
    ],
)
def test_bad_settings_of_slnd_are_named(options, words):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=words):
        SLNDClassifier(**options).fit(rng.standard_normal((30, 4)), np.arange(30) % 3)


def test_bad_settings_of_sgd_are_named():
    X, y = np.random.default_rng(0).standard_normal((30, 4)), np.arange(30) % 3
    with pytest.raises(ValueError, match="lam=-1"):
        SGDClassifier(lam=-1).fit(X, y)
    with pytest.raises(ValueError, match="loss='exponential' must be one of"):
        SGDClassifier("exponential").fit(X, y)
    with pytest.raises(ValueError, match="loss='hinge' cannot undo"):
        SGDClassifier("hinge", negatives=1).fit(X, y)
    with pytest.raises(AttributeError, match="predict_proba"):
        SGDClassifier("hinge").fit(X, y).predict_proba(X)


def test_a_diverging_step_warns(blobs):
    with pytest.warns(ConvergenceWarning, match="the fit diverged"):
        SLNDClassifier(step=1e6, average=False, random_state=0).fit(blobs.X_train, blobs.y_train)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_top_k_breaks_ties_as_argmax_does(k):
    S = np.random.default_rng(0).integers(0, 3, (200, 7)).astype(float)
    top = top_k(S, k)
    np.testing.assert_array_equal(top[:, 0], S.argmax(axis=1))
    np.testing.assert_array_equal(np.take_along_axis(S, top, axis=1), -np.sort(-S, axis=1)[:, :k])
    assert all(len(set(row)) == k for row in top)


def test_very_sparse_and_very_wide_rows():
    """A million columns, one number in ten rows: nothing of size rows x columns may be made."""
    n, d = 2000, 1_000_000
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    rows = np.arange(0, n, 10)
    columns = np.where(y[rows] == 0, 5, 999_999)
    columns[1::2], y[rows[1::2]] = 999_999, 1
    X = sparse.csr_array((rng.uniform(1, 2, len(rows)), (rows, columns)), shape=(n, d))
    for model in (SGDClassifier(), SLNDClassifier(curvature="diagonal")):
        fitted = model.set_params(passes=2, random_state=0).fit(X, y)
        assert (fitted.predict(X[rows]) == y[rows]).all()
    X.data[7] = np.nan
    with pytest.raises(ValueError, match=f"row {rows[7]}, column {columns[7]}"):
        fitted.predict(X)


def test_uint8_pixels_are_not_copied_whole():
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    small = SLNDClassifier(random_state=0).fit(X.astype(np.uint8), y)
    wide = SLNDClassifier(random_state=0).fit(X.astype(np.float32), y)
    np.testing.assert_array_equal(small.coef_, wide.coef_)
