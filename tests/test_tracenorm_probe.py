"""TraceNormProbe: the path and the choice; and what users do with both trace-norm estimators."""

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score, get_scorer, log_loss, top_k_accuracy_score
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

import naive_trace
from naive_trace import blobs
from slender import TraceNormClassifier, TraceNormProbe, load_model, save_model
from slender.datasets import planted
from slender.estimators import splits
from slender.estimators.choice import best_of
from slender.export import to_sklearn
from slender.rows import one_blas_thread
from slender.solvers.path import LOOSER

# Small grids are quick, and their best value is often the last.

FIELDS = {
    "lambda1", "lambda2", "objective", "gap", "rank", "trace_norm", "top1", "top1_error", "top5",
    "mean_per_class", "log_loss", "log_loss_error", "passes", "seconds",
}  # fmt: skip
MEAN = "the mean is over rows, so weights change the balance of loss and penalty; repetition not"
SPLIT = "rows are split, not weights"
THROUGH_ZERO = "without an intercept no weight of a class makes it win on both sides of the origin"


def justified(estimator):
    kinds = ("dense_data", "sparse_data")
    why = SPLIT if isinstance(estimator, TraceNormProbe) else MEAN
    failures = {f"check_sample_weight_equivalence_on_{kind}": why for kind in kinds}
    if not estimator.fit_intercept:
        failures["check_class_weight_classifiers"] = THROUGH_ZERO
    return failures


@parametrize_with_checks(
    [
        TraceNormClassifier(),
        TraceNormClassifier(fit_intercept=True),
        TraceNormProbe(3, 2, validation=0.4, random_state=0),
        TraceNormProbe(3, 2, validation=0.4, fit_intercept=True, random_state=0),
    ],
    expected_failed_checks=justified,
    xfail_strict=True,
)
def test_sklearn_contract(estimator, check):
    check(estimator)


@pytest.fixture(autouse=True)
def _one_thread():
    """Products this small lose more than they gain by threads."""
    with one_blas_thread():
        yield


@pytest.fixture(scope="module")
def data():
    return planted(600, 20, 6, n_test=300, separation=0.5)


@pytest.fixture(scope="module")
def probe(data):
    return TraceNormProbe(4, 3, fit_intercept=True, random_state=0).fit(data.X_train, data.y_train)


def test_a_path_has_a_record_for_each_pair(probe):
    assert all(set(record) == FIELDS for record in probe.path_)
    pairs = [(record["lambda1"], record["lambda2"]) for record in probe.path_]
    assert len(pairs) == len(set(pairs)) >= 12
    lambda1s, lambda2s = (np.unique(column)[::-1] for column in zip(*pairs, strict=True))
    np.testing.assert_allclose(lambda1s[:4], probe.lambda1_max_ * np.geomspace(1, 0.01, 4))
    np.testing.assert_allclose(lambda2s, np.geomspace(1e-2, 1e-6, 3))
    assert pairs[0] == (lambda1s[0], lambda2s[0])  # from strong to weak, neighbours in turn
    assert all((a[0] == b[0]) != (a[1] == b[1]) for a, b in pairwise(pairs))
    assert [record["rank"] for record in probe.path_[:3]] == [0.0] * 3  # at lambda1_max
    assert all(record["gap"] <= LOOSER * probe.tol * record["objective"] for record in probe.path_)


def test_the_path_walks_on_until_validation_turns():
    """Rows that can be told apart want a weak penalty, far below a hundredth of the largest."""
    data = planted(900, 40, 6, n_test=300, separation=2.0)
    probe = TraceNormProbe(3, lambda2s=[0.01], random_state=0).fit(data.X_train, data.y_train)
    assert probe.lambda1_ < 0.01 * probe.lambda1_max_
    lambda1s = [record["lambda1"] for record in probe.path_]
    np.testing.assert_allclose(np.divide(lambda1s[1:], lambda1s[:-1]), 0.1)
    assert 2 * lambda1s[-1] < probe.lambda1_  # the best lies behind


def test_grids_of_one_s_own(data):
    lambda1s, lambda2s = [0.001, 0.01, 0.1], [1e-4, 1e-3]
    probe = TraceNormProbe(lambda1s=lambda1s, lambda2s=lambda2s, random_state=0)
    probe.fit(data.X_train, data.y_train)
    pairs = [(record["lambda1"], record["lambda2"]) for record in probe.path_]
    assert pairs == [(0.1, 1e-3), (0.1, 1e-4), (0.01, 1e-4), (0.01, 1e-3), (0.001, 1e-3),
                     (0.001, 1e-4)]  # fmt: skip


@pytest.mark.parametrize(
    ("grids", "words"),
    [
        (([0.05, 0.1], [1e-5, 1e-4, 1e-3]), "lambda1=0.05 is the smallest .*lambda1s=np.geomsp"),
        (([1e-7, 1e-6], [1e-5, 1e-1]), "lambda1=1e-06 is the largest .*a larger one may do better"),
        (([1e-4, 1e-3, 1e-2], [1.0, 10.0]), "lambda2=1 is the smallest .*lambda2s=np.geomspace"),
    ],
)
@pytest.mark.filterwarnings("ignore:lambda.* is the:UserWarning")
def test_a_choice_at_the_edge_of_its_grids_says_what_to_give(data, grids, words):
    probe = TraceNormProbe(lambda1s=grids[0], lambda2s=grids[1], random_state=0)
    with pytest.warns(UserWarning, match=words) as said:
        probe.fit(data.X_train, data.y_train)
    assert {warning.filename for warning in said} == {__file__}


@pytest.mark.parametrize("grids", [{}, {"alpha": 0.1}])
def test_nothing_is_advised_beyond_the_penalty_of_no_model(data, grids):
    """Labels that are noise: W = 0 is best, at lambda1_max_ as at any larger one."""
    y = np.random.default_rng(5).permutation(data.y_train)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        probe = TraceNormProbe(3, 2, select="log_loss", random_state=0, **grids)
        probe.fit(data.X_train, y)
    assert probe.lambda1_ == probe.lambda1_max_
    assert not [each for each in said if "may do better" in str(each.message)]


def test_alpha_is_the_ratio_of_one_value_to_the_next(data):
    probe = TraceNormProbe(3, 2, alpha=0.5, random_state=0).fit(data.X_train, data.y_train)
    lambda1s = probe.lambda1_max_ * np.array([1, 1, 0.5, 0.5, 0.25, 0.25])
    np.testing.assert_allclose([record["lambda1"] for record in probe.path_], lambda1s)
    lambda2s = [0.01, 0.005, 0.005, 0.01, 0.01, 0.005]
    np.testing.assert_allclose([record["lambda2"] for record in probe.path_], lambda2s)


def test_the_first_of_the_best_is_chosen_and_fitted_to_all_rows(data, probe):
    first = probe.path_[best_of(probe.path_)]
    assert (probe.lambda1_, probe.lambda2_) == (first["lambda1"], first["lambda2"])
    assert probe.gap_ <= probe.tol * probe.objective_
    penalties = probe.lambda1_, probe.lambda2_
    exact = TraceNormClassifier(*penalties, fit_intercept=True, tol=1e-5, random_state=0)
    exact.fit(np.float64(data.X_train), data.y_train)
    assert probe.objective_ == pytest.approx(exact.objective_, rel=probe.tol)
    assert exact.objective_ >= probe.objective_ - probe.gap_
    last = probe.trace_[-1]
    assert (last["objective"], last["gap"]) == (probe.objective_, probe.gap_)
    scores = [model.score(data.X_test, data.y_test) for model in (probe, exact)]
    assert scores[0] == pytest.approx(scores[1], abs=0.02)


@pytest.mark.filterwarnings("ignore:lambda1=:sklearn.exceptions.ConvergenceWarning")
def test_the_path_is_that_of_cold_fits_in_fewer_passes(data):
    """Its models and figures too; validation rows of their own leave all of X to fit on."""
    X, y, X_val, y_val = data.X_train, data.y_train, data.X_test, data.y_test
    options = {"fit_intercept": True, "random_state": 0}
    probe = TraceNormProbe(4, 4, validation=(X_val, y_val), **options).fit(X, y)
    cold_passes = 0
    for record, at in zip(probe.path_, probe.models_, strict=True):
        penalties = record["lambda1"], record["lambda2"]
        cold = TraceNormClassifier(*penalties, **options).fit(X, y)
        cold_passes += cold.n_iter_
        assert record["objective"] == pytest.approx(cold.objective_, rel=LOOSER * probe.tol)
        assert record["rank"] == len(at.theta)
        assert record["trace_norm"] == pytest.approx(at.theta.sum())
        assert at.U.shape == (20, len(at.theta))
        b = at.b - at.W @ X.mean(axis=0, dtype=np.float64)
        P = naive_trace.softmax(X_val @ np.float64(at.W).T + b)
        guess = P.argmax(axis=1)
        assert record["top1"] == pytest.approx(np.mean(guess == y_val), abs=0.005)
        assert record["top5"] == pytest.approx(top_k_accuracy_score(y_val, P, k=5), abs=0.005)
        balanced = balanced_accuracy_score(y_val, guess)
        assert record["mean_per_class"] == pytest.approx(balanced, abs=0.005)
        assert record["log_loss"] == pytest.approx(log_loss(y_val, P), rel=1e-4)
    assert probe.lambda1_max_ == pytest.approx(cold.lambda1_max_)
    assert sum(record["passes"] for record in probe.path_) < 0.6 * cold_passes


@pytest.mark.parametrize("name", ["f1_macro", "roc_auc_ovr"])
def test_a_scorer_of_sklearn_chooses(data, name):
    held_out = data.X_test, data.y_test
    probe = TraceNormProbe(3, 2, select=name, validation=held_out, fit_intercept=True)
    probe.set_params(random_state=0).fit(data.X_train, data.y_train)
    best = max(probe.path_, key=lambda record: record[name])
    assert (probe.lambda1_, probe.lambda2_) == (best["lambda1"], best["lambda2"])
    assert best[name] == pytest.approx(get_scorer(name)(probe, *held_out), abs=0.01)
    with pytest.raises(ValueError, match="select='f1' cannot score"):
        TraceNormProbe(3, 2, select="f1").fit(data.X_train, data.y_train)


def without_seconds(path):
    return [{name: record[name] for name in FIELDS - {"seconds"}} for record in path]


def test_held_out_rows_judge_and_do_nothing_else(data):
    """Other rows in their place change the accuracies, and no model."""
    X, y = data.X_train, data.y_train
    held_out = splits.stratified(y.astype(np.int32), 0.1, np.random.default_rng(0)).held_out
    other = X.copy()
    other[held_out] = np.random.default_rng(1).standard_normal((len(held_out), 20))
    a, b = (TraceNormProbe(3, 2, alpha=0.1, random_state=0).fit(rows, y) for rows in (X, other))
    for one, two in zip(a.models_, b.models_, strict=True):
        np.testing.assert_array_equal(one.W, two.W)
    assert [r["objective"] for r in a.path_] == [r["objective"] for r in b.path_]
    assert max(r["top1"] for r in a.path_) > 0.2 + max(r["top1"] for r in b.path_)


def same_optimum(a, b):
    """Whether both certificates (objective, gap) leave room for it, whatever steps led there."""
    return max(a[0] - a[1], b[0] - b[1]) <= min(a[0], b[0])


def certificate(model):
    return model.objective_, model.gap_


@pytest.mark.parametrize("nudge", range(4))
def test_without_refit_the_model_of_the_training_part_is_kept(data, nudge):
    """Rows that differ by rounding, as on another machine, may need a step more after the path."""
    X, y = data.X_train, data.y_train
    noise = np.random.default_rng(nudge).standard_normal(X.shape)
    X = (X * (1 + 1e-7 * noise)).astype(X.dtype) if nudge else X
    part = splits.stratified(y.astype(np.int32), 0.1, np.random.default_rng(0)).train
    probe = TraceNormProbe(3, 2, refit=False, random_state=0).fit(X, y)
    chosen = probe.path_[best_of(probe.path_)]
    assert same_optimum(certificate(probe), (chosen["objective"], chosen["gap"]))
    penalties = probe.lambda1_, probe.lambda2_
    on_part = TraceNormClassifier(*penalties, random_state=0).fit(X[part], y[part])
    assert same_optimum(certificate(probe), certificate(on_part))
    whole = TraceNormProbe(3, 2, random_state=0).fit(X, y)
    assert (whole.lambda1_, whole.lambda2_) == penalties
    assert not same_optimum(certificate(probe), certificate(whole))


def test_a_splitter_s_parts_are_averaged(data):
    X, y = data.X_train, data.y_train
    splitter = StratifiedKFold(3, shuffle=True, random_state=0)
    probe = TraceNormProbe(2, 1, validation=splitter, random_state=0).fit(X, y)
    cold = [
        TraceNormClassifier(probe.lambda1_, probe.lambda2_, random_state=0).fit(X[train], y[train])
        for train, _ in splitter.split(X, y)
    ]
    assert probe.lambda1_max_ == pytest.approx(max(model.lambda1_max_ for model in cold))
    objectives = [model.objective_ for model in cold]
    assert probe.path_[1]["objective"] == pytest.approx(np.mean(objectives), rel=LOOSER * probe.tol)
    for name in ("lambda1", "objective", "gap", "rank", "top1"):
        mean = np.mean([fold[1][name] for fold in probe.folds_])
        assert probe.path_[1][name] == pytest.approx(mean)
    tests = (test for _, test in splitter.split(X, y))
    scores = [model.score(X[test], y[test]) for model, test in zip(cold, tests, strict=True)]
    assert probe.path_[1]["top1"] == pytest.approx(np.mean(scores), abs=0.01)
    assert probe.gap_ <= probe.tol * probe.objective_


def test_one_value_of_each_stands_in_the_middle(data):
    probe = TraceNormProbe(1, 1, random_state=0).fit(data.X_train, data.y_train)
    assert probe.lambda1_ == pytest.approx(0.1 * probe.lambda1_max_)
    assert probe.lambda2_ == pytest.approx(1e-4)


def test_groups_are_passed_to_the_splitter(data):
    groups = np.arange(len(data.y_train)) // 10
    probe = TraceNormProbe(2, 1, alpha=0.1, validation=GroupKFold(3), random_state=0)
    assert len(probe.fit(data.X_train, data.y_train, groups=groups).folds_) == 3


def test_few_shots(data):
    X, y = data.X_train, data.y_train
    probe, same, other = (
        TraceNormProbe(3, 2, shots=4, random_state=seed).fit(X, y) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(probe.coef_, same.coef_)
    assert not np.array_equal(probe.coef_, other.coef_)
    whole = TraceNormProbe(3, 2, random_state=0).fit(X, y)
    assert probe.score(data.X_test, data.y_test) < whole.score(data.X_test, data.y_test)


def test_rows_without_weight_are_absent(data):
    X, y = data.X_train, data.y_train
    half = np.arange(len(y)) % 2 == 0
    options = {"validation": (data.X_test, data.y_test), "random_state": 0}
    weighted = TraceNormProbe(3, 2, **options).fit(X, y, sample_weight=half.astype(float))
    absent = TraceNormProbe(3, 2, **options).fit(X[half], y[half])
    for one, two in zip(weighted.path_, absent.path_, strict=True):
        assert one["objective"] == pytest.approx(two["objective"], rel=LOOSER * weighted.tol)
    np.testing.assert_allclose(weighted.lambda1_max_, absent.lambda1_max_, rtol=1e-5)


def test_the_path_of_a_classifier(data):
    settings = {"tol": 1e-4, "fit_intercept": True, "pairs": 3, "random_state": 0}
    own = TraceNormClassifier(0.5, **settings).path(data.X_train, data.y_train, 2, 2, alpha=0.1)
    probe = TraceNormProbe(2, 2, alpha=0.1, **settings).fit(data.X_train, data.y_train)
    assert isinstance(own, TraceNormProbe)
    assert own.get_params() == probe.get_params()
    assert without_seconds(own.path_) == without_seconds(probe.path_)
    np.testing.assert_array_equal(own.coef_, probe.coef_)
    model = TraceNormClassifier(callbacks=[lambda *_: True], random_state=0)
    assert len(model.path(data.X_train, data.y_train, 2, 2).path_) == 1
    with pytest.raises(ValueError, match="the fits of a path stop by tol"):
        TraceNormClassifier(epsilon=0.01).path(data.X_train, data.y_train)


@pytest.mark.parametrize("C", [2, 5])
@pytest.mark.parametrize("cls", [TraceNormClassifier, TraceNormProbe])
def test_copies_predict_the_same(tmp_path, cls, C):
    X, y = blobs(C=C)
    X, names = X.astype(np.float32), np.array(list("abcde"))[y]
    penalties = (0.02,) if cls is TraceNormClassifier else (3, 2)
    model = cls(*penalties, fit_intercept=True, random_state=0).fit(X, names)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert not hasattr(loaded, "models_")
    again = clone(model).fit(X, names)  # the same seed, the same model
    for other in (loaded, pickle.loads(pickle.dumps(model)), again):
        for field in ("U_", "theta_", "V_", "coef_", "intercept_", "classes_"):
            np.testing.assert_array_equal(getattr(other, field), getattr(model, field))
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
        assert other.get_params() == model.get_params()
        for field in ("gap_", "objective_", "rank_", "lambda1_", "lambda1_max_", "n_iter_"):
            assert getattr(other, field) == getattr(model, field)
    if cls is TraceNormProbe:
        assert (loaded.path_, loaded.lambda2_) == (model.path_, model.lambda2_)
    theirs = to_sklearn(model)
    np.testing.assert_array_equal(theirs.predict(X), model.predict(X))
    np.testing.assert_allclose(theirs.predict_proba(X), model.predict_proba(X), atol=1e-5)


def test_two_classes_have_one_row():
    X, y = blobs(C=2)
    for model in (TraceNormClassifier(fit_intercept=True), TraceNormProbe(3, 2, random_state=0)):
        model.fit(X, y)
        assert model.V_.shape == (2, model.rank_) == (2, 1)
        W = (model.U_ * model.theta_) @ model.V_.T
        w = (W[:, 1] - W[:, 0])[None]
        np.testing.assert_allclose(model.coef_, w, atol=1e-12)
        scores = X @ w[0] + model.intercept_
        np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-12)
        np.testing.assert_array_equal(model.predict(X), (scores > 0).astype(int))
        P = naive_trace.softmax(X @ W + np.append(0.0, model.intercept_))
        np.testing.assert_allclose(model.predict_proba(X), P, atol=1e-12)
    assert "top5" not in model.path_[0]


def test_callbacks_see_every_pair_and_may_end_the_path(data):
    seen = []

    def watch(record, weights):
        seen.append(record["lambda1"])
        assert [part.shape for part in weights()] == [(6, 20), (6,)]
        return len(seen) == 5

    probe = TraceNormProbe(4, 2, callbacks=[watch], random_state=0)
    probe.fit(data.X_train, data.y_train)
    assert seen == [record["lambda1"] for record in probe.path_]
    assert len(seen) == len(probe.models_) == 5
    assert probe.gap_ <= probe.tol * probe.objective_


def test_ctrl_c_keeps_the_best_so_far(data):
    def press(record, weights):
        if record["top1"] > 0.4:
            raise KeyboardInterrupt

    probe = TraceNormProbe(6, 2, callbacks=[press], random_state=0)
    with pytest.warns(ConvergenceWarning, match="interrupted: the objective at lambda1="):
        probe.fit(data.X_train, data.y_train)
    assert len(probe.path_) < 12
    assert probe.lambda1_ == probe.path_[best_of(probe.path_)]["lambda1"]
    assert probe.score(data.X_test, data.y_test) > 0.3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_lambda1": 0}, "n_lambda1=0 must be"),
        ({"n_lambda2": 1.5}, "n_lambda2=1.5 must be"),
        ({"alpha": 0.0}, "alpha=0.0 must lie"),
        ({"alpha": 1.0}, "alpha=1.0 must lie"),
        ({"alpha": np.nan}, "alpha=nan must lie"),
        ({"tol": 0.0}, "tol=0.0 must be"),
        ({"pairs": 0}, "pairs=0 must be"),
        ({"passes": 0}, "passes=0 must be"),
        ({"shots": 0}, "shots=0 must be"),
        ({"validation": 0.0}, "validation=0.0 must lie"),
        ({"validation": 1.5}, "validation=1.5 must lie"),
        ({"validation": (1, 2, 3)}, "a share, a number of folds, a pair"),
        ({"validation": KFold(3), "refit": False}, "refit=False needs one set"),
        ({"lambda1s": []}, "lambda1s=.. must be a list"),
        ({"lambda2s": [1e-3, -1.0]}, "lambda2s=.* must hold numbers > 0"),
        ({"alpha": 0.5, "lambda1s": [0.1], "lambda2s": [0.1]}, "alpha=0.5 has no effect"),
    ],
)
def test_bad_settings_of_a_probe_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        TraceNormProbe(**{"n_lambda1": 2, "n_lambda2": 2, **options}).fit(*blobs())


def test_bad_rows_of_a_probe_are_named():
    X, y = blobs()
    bad = X.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN at row 3, column 1"):
        TraceNormProbe(2, 2).fit(bad, y)
    with pytest.raises(ValueError, match="NaN at row 3, column 1"):
        TraceNormProbe(2, 2, validation=(bad, y)).fit(X, y)
    with pytest.raises(ValueError, match="validation holds class 77"):
        TraceNormProbe(2, 2, validation=(X, np.full(90, 77))).fit(X, y)
    with pytest.raises(ValueError, match="class 0 has no row in the training part of split 0"):
        TraceNormProbe(2, 2, validation=KFold(4)).fit(X, np.sort(y))


WRONG = {
    "lambda1": [-0.1, np.nan, np.inf, "auto"],
    "lambda2": [-1.0, np.nan, np.inf, None],
    "tol": [0.0, -1.0, np.nan],
    "epsilon": [0.0, -1.0, np.inf],
    "pairs": [0, 1.5],
    "passes": [0, 1.5],
}


@pytest.mark.parametrize(("name", "value"), [(name, v) for name in WRONG for v in WRONG[name]])
def test_bad_settings_of_a_classifier_are_named(name, value):
    with pytest.raises(ValueError, match=f"{name}={value!r} must be"):
        TraceNormClassifier(**{name: value}).fit(*blobs())


def test_no_trace_norm_is_another_estimator():
    with pytest.raises(ValueError, match="use LogisticClassifier"):
        TraceNormClassifier(0.0).fit(*blobs())


def test_bad_rows_of_a_classifier_are_named():
    X, y = blobs()
    bad = X.copy()
    bad[7, 2] = np.nan
    with pytest.raises(ValueError, match="NaN at row 7, column 2"):
        TraceNormClassifier().fit(bad, y)
    with pytest.raises(ValueError, match="gives each row one class"):
        TraceNormClassifier().fit(X, np.eye(4, dtype=int)[y])
    with pytest.raises(ValueError, match="class 2 has no training row of positive weight"):
        TraceNormClassifier().fit(X, y, sample_weight=(y != 2).astype(float))


def test_too_few_steps_warn_with_the_gap():
    with pytest.warns(ConvergenceWarning, match="raise passes=3, or tol=") as caught:
        model = TraceNormClassifier(1e-3, 0.0, passes=3, tol=1e-6).fit(*blobs())
    assert f"{model.gap_:.2g}" in str(caught[0].message)
    assert len(model.trace_) == 2


def test_a_tolerance_below_rounding_warns_and_stops():
    X, y = blobs()
    with pytest.warns(ConvergenceWarning, match="float32 allows no further step"):
        model = TraceNormClassifier(0.05, tol=1e-12).fit(X.astype(np.float32), y)
    assert len(model.trace_) < 100


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("intercept", [False, True])
def test_features_that_tell_nothing_apart(intercept):
    """lambda1_max_ is 0 where X is constant: any grid will do, and W = 0."""
    probe = TraceNormProbe(3, 2, fit_intercept=intercept, random_state=0)
    probe.fit(np.full((60, 4), 3.0), np.arange(60) % 3)
    assert probe.rank_ == 0
