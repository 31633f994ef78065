"""slender score: every figure is scikit-learn's, and the estimator's own."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

from slender import LaRankClassifier, LogisticClassifier, SLNDClassifier, save_model
from slender.lab.evaluation import evaluate

rng = np.random.default_rng(0)
CODES = np.arange(180) % 6
X = (rng.standard_normal((6, 8))[CODES] + rng.standard_normal((180, 8))).astype(np.float32)
NAMES = np.array(["ant", "bee", "cat", "dog", "elk, big", "[fox]"])
SEVERAL = (CODES[:, None] % [2, 3, 4] == 0).astype(int)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with rows, as the current one."""
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    return tmp_path


@pytest.fixture
def scored(here, slender):
    """The JSON document of a model's scores."""

    def call(model, y, *words):
        save_model(model, "model")
        np.save("y.npy", y)
        code, out, err = slender("score", "model", "X.npy", "y.npy", "--json", "-", *words)
        assert (code, err) == (0, "")
        return json.loads(out)

    return call


def test_one_label_a_row(scored, slender):
    model = LogisticClassifier(C=0.1).fit(X[:120], NAMES[CODES[:120]])
    y, predicted, P = NAMES[CODES], model.predict(X), model.predict_proba(X)
    found = scored(model, y, "--per-class")
    assert found["accuracy"] == found["top1"] == pytest.approx(model.score(X, y))
    places = np.searchsorted(model.classes_, y)
    assert found["top5"] == pytest.approx(metrics.top_k_accuracy_score(places, P, k=5))
    balanced = metrics.balanced_accuracy_score(y, predicted)
    assert found["mean_per_class"] == pytest.approx(balanced)
    precision, recall, _, support = metrics.precision_recall_fscore_support(y, predicted)
    for name, values in (("recall", recall), ("precision", precision), ("support", support)):
        assert [entry[name] for entry in found["per_class"]] == pytest.approx(values)
    assert 0 < found["ece"] < 0.5
    assert "mean_average_precision" not in found
    _, out, _ = slender("score", "model", "X.npy", "y.npy", "--per-class")
    for part in ("top-5", "calibration error", "recall", "support", "elk, big"):
        assert part in out
    assert scored(LaRankClassifier().fit(X, CODES), CODES)["ece"] is None


def test_two_classes(scored):
    model = SLNDClassifier(passes=1).fit(X, CODES < 2)
    found = scored(model, CODES < 2)
    assert found["top1"] == pytest.approx(model.score(X, CODES < 2))
    assert found["top5"] is None


@pytest.mark.parametrize("bytes_at_once", [2**28, 3000])
def test_several_labels_a_row(scored, slender, monkeypatch, bytes_at_once):
    monkeypatch.setattr("slender.lab.evaluation.SCORES_BYTES", bytes_at_once)
    model = SLNDClassifier(passes=1, random_state=0).fit(X, SEVERAL)
    predicted, scores = model.predict(X), model.decision_function(X)
    found = scored(model, SEVERAL, "--per-class")
    assert found["accuracy"] == pytest.approx(model.score(X, SEVERAL))
    for average in ("micro", "macro"):
        f1 = metrics.f1_score(SEVERAL, predicted, average=average)
        assert found[f"f1_{average}"] == pytest.approx(f1)
    mean = metrics.average_precision_score(SEVERAL, scores, average="macro")
    assert found["mean_average_precision"] == pytest.approx(mean)
    recall = metrics.recall_score(SEVERAL, predicted, average=None)
    assert [entry["recall"] for entry in found["per_class"]] == pytest.approx(recall)
    assert found["mean_per_class"] == pytest.approx(recall.mean())
    assert found["ece"] is None
    _, out, _ = slender("score", "model", "X.npy", "y.npy", "--per-class")
    for part in ("all labels right", "mAP", "F1 macro", "AP"):
        assert part in out
    assert slender("predict", "model", "X.npy", "--out", "p.csv", "-q") == (0, "", "")
    heading, first, *_ = Path("p.csv").read_text().splitlines()
    assert (heading, first) == ("0,1,2", ",".join(map(str, predicted[0])))
    np.save("y.npy", CODES)
    code, _, err = slender("score", "model", "X.npy", "y.npy", "-q")
    assert code == 2
    assert "fitted on an indicator matrix" in err
    np.save("y.npy", 2 * SEVERAL - 1)
    code, _, err = slender("score", "model", "X.npy", "y.npy", "-q")
    assert code == 2
    assert "y is a matrix of -1 and 1" in err


def test_a_class_without_rows_has_no_figures(scored):
    model = SLNDClassifier(passes=1).fit(X, SEVERAL)
    some = SEVERAL.copy()
    some[:, 1] = 0
    found = scored(model, some, "--per-class")
    assert found["per_class"][1]["recall"] is None
    assert found["per_class"][1]["average_precision"] is None
    recalls = [entry["recall"] for entry in found["per_class"] if entry["recall"] is not None]
    assert found["mean_per_class"] == pytest.approx(np.mean(recalls))


def test_columns_of_an_indicator_frame_are_the_classes(scored):
    frame = pd.DataFrame(SEVERAL, columns=["wide", "tall", "odd"])  # not in order
    named = SLNDClassifier(passes=1, random_state=0).fit(X, frame)
    plain = SLNDClassifier(passes=1, random_state=0).fit(X, SEVERAL)
    assert named.classes_.tolist() == ["wide", "tall", "odd"]
    assert np.array_equal(named.predict(X), plain.predict(X))
    assert np.array_equal(named.predict_top_k(X, 2), named.classes_[plain.predict_top_k(X, 2)])
    found, other = scored(named, SEVERAL, "--per-class"), scored(plain, SEVERAL, "--per-class")
    assert [entry.pop("class") for entry in found["per_class"]] == ["wide", "tall", "odd"]
    for entry in other["per_class"]:
        del entry["class"]
    for of in (found, other):
        del of["inputs"]  # the model's checksum
    assert found == other
    again = SLNDClassifier(passes=1).partial_fit(X, frame).partial_fit(X, frame)
    with pytest.raises(ValueError, match="give y's columns in this order"):
        again.partial_fit(X, frame[["tall", "wide", "odd"]])
    twice = frame.set_axis(["wide", "wide", "odd"], axis=1)
    with pytest.raises(ValueError, match="column"):
        SLNDClassifier().fit(X, twice)


@pytest.mark.parametrize("suffix", [".csv", ".npy"])
def test_confusion(scored, slender, suffix):
    model = LogisticClassifier(C=0.01).fit(X[:120], NAMES[CODES[:120]])
    scored(model, NAMES[CODES], "--confusion", f"c{suffix}")
    want = metrics.confusion_matrix(NAMES[CODES], model.predict(X), labels=model.classes_)
    if suffix == ".csv":
        read = pd.read_csv("c.csv", index_col=0)
        assert list(read.columns) == list(read.index) == model.classes_.tolist()
        assert np.array_equal(read.to_numpy(), want)
    else:
        assert np.array_equal(np.load("c.npy"), want)


def test_confusion_refuses(scored, slender, here):
    scored(SLNDClassifier(passes=1).fit(X, SEVERAL), SEVERAL)
    for words, part in (("c.csv", "--per-class"), ("c.png", "use .csv or .npy")):
        code, _, err = slender("score", "model", "X.npy", "y.npy", "--confusion", words)
        assert code == 2
        assert part in err
        assert not Path(words).exists()


def test_labels_that_the_model_does_not_know_count_as_wrong(here):
    model = LogisticClassifier().fit(X, CODES)
    strange = np.where(CODES == 5, 99, CODES)
    with pytest.warns(UserWarning, match="30 rows have a label"):
        scores = evaluate(model, X, strange)
    assert scores.accuracy == pytest.approx(model.score(X, strange))
