"""LinearProbe: the path, the choice, the final certified model."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, get_scorer, log_loss, top_k_accuracy_score
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from slender import LinearProbe, LogisticClassifier, load_model, save_model
from slender.data import Examples
from slender.datasets import planted
from slender.estimators.choice import best_of
from slender.estimators.probe import turned
from slender.estimators.temperature import temperature
from slender.rows import as_rows
from slender.solvers.path import Path

# Small grids are quick, and their best value is often the last.

FIELDS = {
    "C", "objective", "gap", "top1", "top1_error", "top5", "mean_per_class", "log_loss",
    "log_loss_error", "passes", "seconds",
}  # fmt: skip


def a_split_is_of_rows(estimator):
    """A weighted row is held out or not as one; repeated rows are split one by one."""
    why = "rows are split, not weights"
    checks = ("dense_data", "sparse_data")
    return {f"check_sample_weight_equivalence_on_{kind}": why for kind in checks}


@parametrize_with_checks(
    [LinearProbe(5, validation=0.4, random_state=0)], expected_failed_checks=a_split_is_of_rows
)
def test_sklearn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return planted(1500, 40, 8, n_test=500, separation=0.5)


@pytest.fixture(scope="module")
def probe(data):
    return LinearProbe(24, random_state=0).fit(data.X_train, data.y_train)


def test_a_path_walks_up_chooses_and_certifies(data, probe):
    assert all(set(record) == FIELDS for record in probe.path_)
    Cs = [record["C"] for record in probe.path_]
    assert Cs == sorted(Cs)
    assert Cs[0] == pytest.approx(1e-6)
    assert probe.C_ == probe.path_[best_of(probe.path_)]["C"]
    assert probe.gap_ <= probe.tol * probe.objective_
    exact = LogisticClassifier(probe.C_, tol=1e-6).fit(data.X_train, data.y_train)
    assert probe.objective_ == pytest.approx(exact.objective_, rel=1.1e-3)
    assert probe.score(data.X_test, data.y_test) == pytest.approx(
        exact.score(data.X_test, data.y_test), abs=0.01
    )


def test_the_figures_of_the_path_are_sklearn_s(data):
    X_val, y_val = data.X_test, data.y_test
    C = 0.3
    probe = LinearProbe([C], validation=(X_val, y_val), tol=1e-6).fit(data.X_train, data.y_train)
    rival = LogisticRegression(C=C, tol=1e-9, max_iter=10**4).fit(data.X_train, data.y_train)
    P = rival.predict_proba(X_val)
    (record,) = probe.path_
    assert record["top1"] == pytest.approx(rival.score(X_val, y_val), abs=0.003)
    assert record["top5"] == pytest.approx(top_k_accuracy_score(y_val, P, k=5), abs=0.003)
    balanced = balanced_accuracy_score(y_val, rival.predict(X_val))
    assert record["mean_per_class"] == pytest.approx(balanced, abs=0.003)
    assert record["log_loss"] == pytest.approx(log_loss(y_val, P), rel=1e-3)


def test_the_full_path_has_every_c_and_the_same_choice(data, probe):
    full = LinearProbe(24, full=True, random_state=0).fit(data.X_train, data.y_train)
    assert len(full.path_) == 24 > len(probe.path_)
    assert full.C_ == probe.C_
    objectives = [record["objective"] for record in full.path_]
    for stronger, weaker in pairwise(objectives):  # a weaker penalty has a lower optimum
        assert weaker <= stronger * (1 + 1e-3)


def path(*top1, rising=True, passes=2.0):
    """Records of these accuracies on 100 rows, their log loss rising or falling all the way."""
    slope = 1.0 if rising else -1.0
    return [
        {"top1": a, "top1_error": np.sqrt(a * (1 - a) / 100), "log_loss": 99.0 + slope * k,
         "log_loss_error": 0.5, "passes": passes, "C": 2.0**k}
        for k, a in enumerate(top1)
    ]  # fmt: skip


def test_when_a_path_has_turned():
    assert not turned(path(0.5, 0.6, 0.7))
    assert not turned(path(0.5, 0.9, 0.7, 0.6))  # two after the best
    assert turned(path(0.5, 0.9, 0.7, 0.6, 0.5))
    assert not turned(path(0.5, 0.9, 0.7, 0.6, 0.5, rising=False))  # the log loss still falls
    assert not turned(path(0.5, 0.6, 0.7, 0.8, 0.9))  # it rises, and so does the accuracy
    assert not turned(path(0.9, 0.9, 0.9, 0.9, rising=False, passes=1.0))  # a flat start
    still = path(0.5, 0.9, 0.9, 0.9, 0.9, passes=1.0)
    for record in still[1:]:
        record["log_loss"] = 1.0
    assert turned(still)  # nothing moves any more
    still[0]["log_loss"] = 1.0
    assert not turned(still)  # nothing moves yet
    noisy = path(0.05, 0.1, 0.05, 0.05, 0.05, 0.05, rising=False, passes=1.0)
    assert not turned(noisy)  # an early best by chance, while the log loss falls
    fine = path(0.5, 0.9, 0.7, 0.6, 0.5)
    for k, record in enumerate(fine):
        record["C"] = 1.1**k
    assert not turned(fine)  # three values on, but no distance in C


def test_when_a_path_has_turned_by_accuracy():
    def by_accuracy(*top1, rising=True):
        return turned(path(*top1, rising=rising), "accuracy")

    assert not by_accuracy(0.5, 0.6, 0.7)
    assert not by_accuracy(0.5, 0.9, 0.7, 0.6, 0.5)  # three after the best
    assert by_accuracy(0.5, 0.9, 0.7, 0.6, 0.5, 0.5)
    assert by_accuracy(0.5, 0.9, 0.7, 0.6, 0.5, 0.5, rising=False)
    assert not by_accuracy(0.11, 0.09, 0.08, 0.08, 0.07, 0.06, rising=False)  # a flat start
    assert by_accuracy(0.9, 0.8, 0.7, 0.6, 0.5)  # Cs that begin beyond the best
    assert not by_accuracy(0.5, *[0.9] * 7)  # a plateau, and not yet long
    assert by_accuracy(0.5, *[0.9] * 10)
    assert not by_accuracy(0.5, *[0.9] * 10, rising=False)


def test_log_loss_decides_among_accuracies_that_rows_cannot_tell_apart():
    """Half a standard error of 0.9 on 100 rows is 0.015."""
    records = path(0.88, 0.89, 0.90, 0.89, 0.88, 0.7, rising=False)
    assert best_of(records) == 3  # the least log loss of 0.89, 0.90 and 0.89
    assert best_of(records, "accuracy") == 2
    assert best_of(records, "log_loss") == 5
    for record, balanced in zip(records, (0.1, 0.9, 0.2, 0.3, 0.4, 0.5), strict=True):
        record["mean_per_class"] = balanced
    assert best_of(records, "balanced_accuracy") == 1


SCORERS = ("f1_macro", "matthews_corrcoef", "roc_auc_ovr", "top_k_accuracy", "neg_brier_score")


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize("scale", ["none", "l2"])
def test_a_scorer_of_sklearn_chooses(data, name, scale):
    """Its figures are those of the fitted model on the held-out rows."""
    X_val, y_val = data.X_test, data.y_test
    names = np.array(list("abcdefgh"))
    options = {"select": name, "validation": (X_val, names[y_val]), "scale": scale}
    probe = LinearProbe([0.001, 0.1, 10.0], full=True, tol=1e-4, random_state=0, **options)
    probe.fit(data.X_train, names[data.y_train])
    best = max(probe.path_, key=lambda record: record[name])
    assert probe.C_ == best["C"]
    assert best[name] == pytest.approx(get_scorer(name)(probe, X_val, names[y_val]), abs=0.01)


def test_a_scorer_of_two_classes():
    X, y = load_digits(return_X_y=True)
    probe = LinearProbe([1e-5, 1e-3, 1e-1], select="roc_auc", random_state=0)
    probe.fit(X[:600], y[:600] > 4)
    assert 0.8 < max(record["roc_auc"] for record in probe.path_) <= 1.0


def test_neg_log_loss_is_log_loss():
    """Also where the held-out rows lack a class, which scikit-learn's own scorer refuses."""
    records = path(0.88, 0.89, 0.90, rising=False)
    assert best_of(records, "neg_log_loss") == best_of(records, "log_loss") == 2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("likelihood", "must be one of .* or the name of a scikit-learn scorer"),
        (None, "must be one of"),
        (["f1_macro"], "must be one of"),
        ("r2", "is a scorer for regression"),
        ("f1", "cannot score the held-out rows .*multiclass.*f1_macro"),
        ("f1_samples", "cannot score the held-out rows"),
    ],
)
def test_a_scorer_that_cannot_judge_is_refused_before_the_work(data, name, words):
    seen = []
    probe = LinearProbe(3, select=name, callbacks=[lambda r, w: seen.append(r)])
    with pytest.raises(ValueError, match=words):
        probe.fit(data.X_train, data.y_train)
    assert not seen


def edges(said):
    """The warnings that a choice lies at the edge of its grid."""
    return [str(each.message) for each in said if "may do better" in str(each.message)]


@pytest.mark.parametrize(
    ("Cs", "words"),
    [
        ([1e-5, 1e-4], "C=0.0001 is the largest .* give Cs=np.geomspace\\(0.0001, 0.1, 7\\)"),
        ([1e3, 1e4], "C=1e\\+03 is the smallest .* give Cs=np.geomspace\\(1, 1e\\+03, 7\\)"),
    ],
)
def test_a_choice_at_the_edge_of_its_grid_says_what_to_give(data, Cs, words):
    with pytest.warns(UserWarning, match=words) as said:
        LinearProbe(Cs, random_state=0).fit(data.X_train, data.y_train)
    assert {warning.filename for warning in said} == {__file__}


def test_a_choice_inside_its_grid_or_of_one_value_says_nothing(data):
    for Cs in ([1e-5, 0.03, 1e4], [0.03], 5):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            LinearProbe(Cs, full=True, random_state=0).fit(data.X_train, data.y_train)
        assert not edges(said)


def test_a_value_decades_away_is_solved_too(data):
    """However much the log loss changed before it: its figures would be those of its start."""
    held_out = data.X_test[:60], data.y_test[:60]
    path = LinearProbe([1e-5, 0.03, 1e4], validation=held_out, full=True, random_state=0)
    last = path.fit(data.X_train, data.y_train).path_[-1]
    best = LogisticClassifier(C=1e4, random_state=0).fit(data.X_train, data.y_train)
    allowed = max(0.1 * last["objective"], 0.1 * path.path_[-2]["log_loss_error"])
    assert last["objective"] - best.objective_ <= allowed


def test_callbacks_see_every_c_and_a_seed_repeats_the_fit(data):
    seen = []
    probe = LinearProbe(6, random_state=1, callbacks=[lambda r, w: seen.append(r["C"])])
    probe.fit(data.X_train, data.y_train)
    assert seen == [record["C"] for record in probe.path_]
    again = LinearProbe(6, random_state=1).fit(data.X_train, data.y_train)
    np.testing.assert_array_equal(probe.coef_, again.coef_)


def test_cross_validation(data):
    splitter = StratifiedKFold(3, shuffle=True, random_state=0)
    probe = LinearProbe(6, validation=splitter, random_state=0).fit(data.X_train, data.y_train)
    parts = [
        LogisticRegression(C=probe.C_, tol=1e-6, max_iter=10**4)
        .fit(data.X_train[train], data.y_train[train])
        .score(data.X_train[test], data.y_train[test])
        for train, test in splitter.split(data.X_train, data.y_train)
    ]
    best = max(record["top1"] for record in probe.path_)
    assert best == pytest.approx(np.mean(parts), abs=0.01)
    assert probe.gap_ <= 1e-3 * probe.objective_


def test_the_figures_of_folds_are_means_of_the_same_folds(data):
    """Whatever is reported: a gap beside an objective has the same folds behind it."""
    splitter = StratifiedKFold(3, shuffle=True, random_state=0)
    probe = LinearProbe([0.001, 0.1], validation=splitter, random_state=0)
    probe.fit(data.X_train, data.y_train)
    assert [len(fold) for fold in probe.folds_] == [2, 2, 2]
    for record, *folds in zip(probe.path_, *probe.folds_, strict=True):
        for name in ("C", "objective", "gap", "top1", "top5", "mean_per_class", "log_loss"):
            assert record[name] == pytest.approx(np.mean([fold[name] for fold in folds]))
        for name in ("passes", "seconds"):
            assert record[name] == pytest.approx(sum(fold[name] for fold in folds))
        errors = [fold["top1_error"] for fold in folds]
        assert record["top1_error"] == pytest.approx(np.linalg.norm(errors) / 3)
        assert (
            record["gap"]
            <= max(fold["gap"] / fold["objective"] for fold in folds) * (record["objective"])
        )
    alone = LinearProbe([0.1], random_state=0).fit(data.X_train, data.y_train)
    assert alone.folds_ == [alone.path_]


def test_a_number_is_so_many_folds(data):
    X, y = data.X_train[:300], data.y_train[:300]
    probe, again, other = (
        LinearProbe([0.1], validation=3, random_state=seed).fit(X, y) for seed in (0, 0, 1)
    )
    assert len(probe.folds_) == 3
    assert [r["top1"] for (r,) in probe.folds_] == [r["top1"] for (r,) in again.folds_]
    assert [r["log_loss"] for (r,) in probe.folds_] != [r["log_loss"] for (r,) in other.folds_]


def test_groups_are_passed_to_the_splitter(data):
    """No group is both fitted on and judged on."""
    X, y = data.X_train[:300], data.y_train[:300]
    groups = np.arange(300) // 10
    seen = []

    class Watching(GroupKFold):
        def split(self, X, y=None, groups=None):
            seen.append(groups)
            return super().split(X, y, groups)

    LinearProbe([0.1], validation=Watching(3)).fit(X, y, groups=groups)
    np.testing.assert_array_equal(seen[0], groups)
    for validation in (0.1, 3, (X, y)):
        with pytest.raises(ValueError, match="groups are only used by a splitter"):
            LinearProbe([0.1], validation=validation).fit(X, y, groups=groups)


def test_one_value_stands_in_the_middle(data):
    probe = LinearProbe(1, random_state=0).fit(data.X_train, data.y_train)
    assert probe.C_ == pytest.approx(10**-0.5)
    assert probe.score(data.X_test, data.y_test) > 0.5


def test_a_class_missing_from_a_fold_is_named():
    X, y = np.random.default_rng(0).standard_normal((30, 4)), np.arange(30) // 10
    with pytest.raises(ValueError, match="class 0 has no row in the training part of split 0"):
        LinearProbe(3, validation=KFold(3)).fit(X, y)


def test_a_class_of_one_row_stays_in_training():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 4)), np.arange(60) % 3
    y[0] = 7
    probe = LinearProbe(4, random_state=0).fit(X, y)
    assert probe.classes_.tolist() == [0, 1, 2, 7]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("scale", "rival"), [("standard", StandardScaler(with_mean=False)), ("l2", Normalizer())]
)
def test_scaled_probes_take_raw_features(data, scale, rival, form):
    X = np.float64(data.X_train) * 3.0 ** np.linspace(-2, 2, 40)
    X[:, 3] = 0.0
    X_form = form(X)
    probe = LinearProbe([0.5], scale=scale, tol=1e-8, random_state=0).fit(X_form, data.y_train)
    pipe = make_pipeline(rival, LogisticRegression(C=0.5, tol=1e-10, max_iter=10**5))
    pipe.fit(X_form, data.y_train)
    np.testing.assert_allclose(probe.predict_proba(X_form), pipe.predict_proba(X_form), atol=2e-4)
    assert probe.coef_.shape == (8, 40)


def test_few_shots(data):
    probe = LinearProbe(5, shots=4, random_state=0).fit(data.X_train, data.y_train)
    same = LinearProbe(5, shots=4, random_state=0).fit(data.X_train, data.y_train)
    other = LinearProbe(5, shots=4, random_state=1).fit(data.X_train, data.y_train)
    np.testing.assert_array_equal(probe.coef_, same.coef_)
    assert not np.array_equal(probe.coef_, other.coef_)
    all_rows = LinearProbe(5, random_state=0).fit(data.X_train, data.y_train)
    assert probe.score(data.X_test, data.y_test) < all_rows.score(data.X_test, data.y_test)
    with pytest.warns(UserWarning, match="fewer than shots=500"):
        LinearProbe([0.1], shots=500, random_state=0).fit(data.X_train, data.y_train)
    by_folds = LinearProbe([0.1], shots=4, validation=StratifiedKFold(2), random_state=0)
    by_folds.fit(data.X_train, data.y_train)
    assert by_folds.score(data.X_test, data.y_test) > 1 / 8


def test_temperature_lowers_the_log_loss_of_held_out_rows(data):
    X_val, y_val = data.X_test, data.y_test
    options = {"validation": (X_val, y_val), "random_state": 0}
    # a weak penalty on few rows is overconfident
    few = slice(0, 200)
    plain = LinearProbe([1e4], **options).fit(data.X_train[few], data.y_train[few])
    calibrated = LinearProbe([1e4], calibrate=True, **options)
    calibrated.fit(data.X_train[few], data.y_train[few])
    assert calibrated.temperature_ > 1.5
    assert plain.temperature_ == 1.0
    after = log_loss(y_val, calibrated.predict_proba(X_val))
    assert after < 0.8 * log_loss(y_val, plain.predict_proba(X_val))
    for factor in (0.97, 1.03):  # it is the minimum
        S = calibrated.decision_function(X_val) / (calibrated.temperature_ * factor)
        P = np.exp(S - S.max(axis=1, keepdims=True))
        assert log_loss(y_val, P / P.sum(axis=1, keepdims=True)) >= after - 1e-9
    np.testing.assert_array_equal(calibrated.predict(X_val), plain.predict(X_val))


@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1e2, 1e6])
def test_scores_of_any_scale_have_their_temperature(data, scale):
    """It is the scale itself, times that of the scores as they were; no bound cuts it."""
    model = LogisticClassifier(0.1).fit(data.X_train, data.y_train)
    y = data.y_test.astype(np.int32)
    held_out = Examples(as_rows(data.X_test), y, np.ones(len(y)))
    one = temperature(held_out, model.coef_, model.intercept_)
    other = temperature(held_out, scale * model.coef_, scale * model.intercept_)
    assert other == pytest.approx(scale * one, rel=0.01)


def test_rows_that_cannot_tell_the_temperature_leave_it_alone():
    """All of them are right, and the surer the better; or scores say nothing."""
    easy = planted(600, 20, 4, n_test=100, separation=4.0)
    noise = np.random.default_rng(0).permutation(easy.y_train)
    for y, words in ((easy.y_train, "of which 0 are misclassified"), (noise, "not determine")):
        probe = LinearProbe([1e-3], calibrate=True, random_state=0)
        with pytest.warns(UserWarning, match=f"{words}.* it stays 1") as said:
            probe.fit(easy.X_train, y)
        assert probe.temperature_ == 1.0
        assert {warning.filename for warning in said} == {__file__}


def test_without_refit_the_held_out_rows_stay_out(data):
    probe = LinearProbe([0.1], refit=False, random_state=0).fit(data.X_train, data.y_train)
    whole = LinearProbe([0.1], refit=True, random_state=0).fit(data.X_train, data.y_train)
    assert probe.gap_ <= 1e-3 * probe.objective_
    assert probe.objective_ - probe.gap_ > whole.objective_  # another problem, with 1/9 fewer rows


def test_binary_and_string_labels():
    X, y = load_digits(return_X_y=True)
    names = np.where(y > 4, "high", "low")
    probe = LinearProbe(8, random_state=0).fit(X[:1300], names[:1300])
    assert probe.coef_.shape == (1, 64)
    assert probe.score(X[1300:], names[1300:]) > 0.8
    assert "top5" not in probe.path_[0]


def test_ctrl_c_keeps_the_best_so_far(data):
    def press(record, weights):
        if record["C"] > 0.05:
            raise KeyboardInterrupt

    probe = LinearProbe(20, random_state=0, callbacks=[press])
    with pytest.warns(ConvergenceWarning, match="interrupted: the objective at C="):
        probe.fit(data.X_train, data.y_train)
    assert probe.C_ == max(probe.path_, key=lambda record: record["top1"])["C"]
    assert probe.score(data.X_test, data.y_test) > 0.5


def test_a_tolerance_below_rounding_says_what_to_change(data):
    with pytest.warns(ConvergenceWarning, match="float32 allows no further step"):
        LinearProbe([0.1], tol=1e-14, random_state=0).fit(
            data.X_train.astype(np.float32), data.y_train
        )
    with pytest.warns(ConvergenceWarning, match="raise max_iter=1, or tol="):
        LinearProbe([0.1], max_iter=1).fit(data.X_train, data.y_train)


def test_cs_are_sorted_with_a_note(data):
    with pytest.warns(UserWarning, match="sorted and made unique"):
        probe = LinearProbe([1.0, 0.1, 1.0]).fit(data.X_train, data.y_train)
    assert [record["C"] for record in probe.path_] == [0.1, 1.0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"Cs": 0}, "Cs=0 must be"),
        ({"Cs": []}, "Cs=.. must be a list of numbers"),
        ({"Cs": [1.0, 0.0]}, "Cs=.1.0, 0.0. must hold numbers > 0"),
        ({"Cs": [-1.0]}, "Cs=.-1.0. must hold numbers > 0"),
        ({"validation": 0.0}, "validation=0.0 must lie"),
        ({"validation": 1.5}, "validation=1.5 must lie"),
        ({"validation": 1}, "validation=1 must be a share between 0 and 1, or a number of folds"),
        ({"validation": True}, "validation=True must be a share"),
        ({"validation": 3, "calibrate": True}, "calibrate=True needs one set"),
        ({"validation": (1, 2, 3)}, "a share, a number of folds, a pair"),
        ({"scale": "minmax"}, "scale='minmax'"),
        ({"shots": 0}, "shots=0 must be"),
        ({"calibrate": True, "validation": KFold(3)}, "calibrate=True needs one set"),
        ({"refit": False, "validation": KFold(3)}, "refit=False needs one set"),
    ],
)
def test_bad_settings_are_named(data, options, words):
    with pytest.raises(ValueError, match=words):
        LinearProbe(**{"Cs": 3, **options}).fit(data.X_train, data.y_train)


def test_bad_validation_rows_are_named(data):
    X, y = data.X_train[:200], data.y_train[:200]
    with pytest.raises(ValueError, match="validation holds class 77"):
        LinearProbe(3, validation=(X, np.full(200, 77))).fit(X, y)
    with pytest.raises(ValueError, match="features"):
        LinearProbe(3, validation=(X[:, :5], y)).fit(X, y)
    bad = X.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN at row 3, column 1"):
        LinearProbe(3, validation=(bad, y)).fit(X, y)
    with pytest.raises(ValueError, match="holds out no row to choose C on"):
        LinearProbe(3, validation=1e-9, random_state=0).fit(X, y)


def test_a_saved_probe_predicts_the_same(tmp_path, data):
    probe = LinearProbe(
        [0.1, 1.0], scale="l2", calibrate=True, validation=(data.X_test, data.y_test)
    ).fit(data.X_train, data.y_train)
    save_model(probe, tmp_path / "probe")
    loaded = load_model(tmp_path / "probe")
    np.testing.assert_array_equal(
        loaded.predict_proba(data.X_test), probe.predict_proba(data.X_test)
    )
    assert (loaded.C_, loaded.temperature_) == (probe.C_, probe.temperature_)
    assert [r["top1"] for r in loaded.path_] == [r["top1"] for r in probe.path_]


def test_pairs_are_kept_for_one_value_only(monkeypatch):
    """They are twenty times as large as the model; models are kept for a few values."""
    states, init = [], Path.init
    monkeypatch.setattr(
        Path, "init", lambda self, rng: (states.append(init(self, rng)), states[0])[1]
    )
    X, y = load_digits(return_X_y=True)
    LinearProbe(np.geomspace(1e-4, 1e-1, 6), random_state=0).fit(
        X[:600].astype(np.float32), y[:600]
    )
    kept = states[0].kept
    assert len(kept) > 1
    assert [place for place, (_, pairs) in kept.items() if pairs is not None] == [max(kept)]
