"""slender info: what is said of a model is what was fitted."""

import json

import numpy as np
import pandas as pd
import pytest

import slender as library
from slender import LinearProbe, LogisticClassifier, SGDClassifier, save_model
from slender.model import WITHOUT_IMAGES

rng = np.random.default_rng(0)
NAMES = np.array([f"class {c}" for c in range(10)])
CODES = np.arange(200) % 10
X = (2 * rng.standard_normal((10, 6))[CODES] + rng.standard_normal((200, 6))).astype(np.float32)


@pytest.fixture
def info(tmp_path, monkeypatch, slender):
    """What the command says of a fitted model: (the document, the lines)."""
    monkeypatch.chdir(tmp_path)

    def call(model):
        save_model(model, "model")
        code, out, err = slender("info", "model", "--json", "i.json")
        assert (code, err) == (0, "")
        return json.loads((tmp_path / "i.json").read_text()), out

    return call


def test_a_certified_model(info, tmp_path):
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = LogisticClassifier(C=0.5, tol=1e-2).fit(frame, NAMES[CODES])
    found, out = info(model)
    assert (found["estimator"], found["features"]) == ("LogisticClassifier", 6)
    assert found["classes"] == NAMES.tolist()
    assert found["feature_names"] == list("abcdef")
    assert found["settings"]["C"] == 0.5
    assert found["gap"] == model.gap_
    assert found["relative_gap"] == pytest.approx(model.gap_ / model.objective_)
    assert (found["format"], found["slender"]) == (WITHOUT_IMAGES, library.__version__)
    assert found["bytes"] == (tmp_path / "model").stat().st_size
    assert found["validation"] is None
    for part in (
        "slender fit --method logistic",
        "10: class 0, class 1,",
        "class 7, ...",
        "C 0.5",
        f"within {model.gap_:.2g} of the optimum",
        f"written by slender {library.__version__}",
    ):
        assert part in out
    assert "accuracy" not in out


def test_a_probe_knows_its_accuracy(info):
    model = LinearProbe(Cs=3, random_state=0).fit(X, CODES)
    found, out = info(model)
    record = next(record for record in model.path_ if record["C"] == model.C_)
    assert found["found"]["C"] == model.C_
    assert found["validation"] == {"top1": record["top1"], "top5": record["top5"]}
    assert f"top-1 {record['top1']:.4f}" in out


def test_many_labels_a_row_and_no_certificate(info):
    found, out = info(SGDClassifier(passes=1).fit(X, np.eye(10)[CODES]))
    assert found["multilabel"]
    assert found["gap"] is None
    assert "10 (any number of them per row)" in out
    assert "this method gives no bound" in out


def test_refuses(slender, tmp_path):
    (tmp_path / "no").write_text("model")
    code, out, err = slender("info", tmp_path / "no")
    assert (code, out) == (2, "")
    assert "not a slender model" in err
