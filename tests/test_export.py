"""An exported model answers as the model does, in the tool it was exported to."""

import json
import sys
from functools import cache
from pathlib import Path

import joblib
import numpy as np
import pytest
from safetensors import safe_open
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import normalize

from slender import (
    BCFWClassifier,
    GDClassifier,
    LaRankClassifier,
    LinearProbe,
    LogisticClassifier,
    OLBFGSClassifier,
    SGDClassifier,
    SGDQNClassifier,
    SLNDClassifier,
    TraceNormClassifier,
    TraceNormProbe,
    load_model,
    save_model,
)
from slender.export import to_onnx, to_sklearn, to_torch, write
from slender.export.scoring import linear
from slender.extras import MissingPackageError
from slender.registry import ESTIMATORS

# Small grids are quick; their best value may be the last, and few rows tell no temperature.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.* do not determine the temperature"),
]

rng = np.random.default_rng(0)
CODES = np.repeat(np.arange(6), 30)
X = (rng.standard_normal((6, 8))[CODES] + rng.standard_normal((180, 8))).astype(np.float32)
SPARE = np.vstack([X[::7], np.zeros((1, 8)), 30 * X[:2]]).astype(np.float32)  # zeros, far away

LABELS = {
    "many": CODES,
    "uint8": CODES.astype(np.uint8),
    "float": CODES.astype(float),
    "strings": np.array(["ant", "bee", "cat", "dog", "é, ü", "[f]"])[CODES],
    "objects": np.array(["ant", "bee", "cat", "dog", "elk", "fox"], object)[CODES],
    "binary": np.where(CODES < 3, -1, 1),
    "bool": CODES < 3,
    "multilabel": (CODES[:, None] % [2, 3, 4, 5] == 0).astype(int),
}
MODELS = {
    "slnd": SLNDClassifier(negatives=2.0, passes=2, random_state=0),
    "sgd": SGDClassifier(lam=1e-3, passes=2, random_state=0),
    "hinge": SGDClassifier("hinge", lam=1e-3, passes=2, random_state=0, fit_intercept=False),
    "cross_entropy": SGDClassifier("cross_entropy", batch_size=16, passes=2, random_state=0),
    "crammer_singer": SGDClassifier("crammer_singer", batch_size=16, passes=2, random_state=0),
    "sgdqn": SGDQNClassifier(passes=2, random_state=0),
    "olbfgs": OLBFGSClassifier(passes=2, random_state=0),
    "gd": GDClassifier(passes=5),
    "larank": LaRankClassifier(passes=2, tol=None, random_state=0),
    "bcfw": BCFWClassifier(passes=2, tol=None, random_state=0),
    "logistic": LogisticClassifier(C=0.1),
    "probe": LinearProbe((0.1, 1.0), random_state=0),
    "unit": LinearProbe((0.1, 1.0), scale="l2", random_state=0),
    "standard": LinearProbe((0.1, 1.0), scale="standard", random_state=0),
    "tracenorm": TraceNormClassifier(0.02, fit_intercept=True, random_state=0),
    "tracenorm_probe": TraceNormProbe(3, 2, random_state=0),
    "calibrated": LinearProbe((0.1, 1.0), scale="l2", calibrate=True, random_state=0),
}


@cache
def fit(name, kind="many", dtype=np.float32):
    return clone(MODELS[name]).fit(X.astype(dtype), LABELS[kind])


def test_every_estimator_is_among_the_models():
    assert {type(model).__name__ for model in MODELS.values()} == set(ESTIMATORS)


def close(a, b):
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


every_case = pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, kind)
        for name, model in MODELS.items()
        for kind in LABELS
        if kind != "multilabel" or model.__sklearn_tags__().classifier_tags.multi_label
    ],
)


# -- ONNX ------------------------------------------------------------------------------------------


def run(proto, rows):
    """The answers of an ONNX graph, by name."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": rows}), strict=True))


@every_case
def test_onnx_answers_as_the_model(name, kind):
    model = fit(name, kind)
    answers = run(to_onnx(model), SPARE)
    close(answers["scores"], model.decision_function(SPARE))
    assert np.array_equal(answers["label"], model.predict(SPARE))
    assert ("probabilities" in answers) == hasattr(model, "predict_proba")
    if "probabilities" in answers:
        close(answers["probabilities"], model.predict_proba(SPARE))


def test_onnx_of_a_float64_model_and_of_no_rows():
    model = fit("slnd", dtype=np.float64)
    close(run(to_onnx(model), X)["scores"], model.decision_function(X))
    assert run(to_onnx(model), X[:0])["probabilities"].shape == (0, 6)


def test_onnx_refuses_what_a_file_cannot_hold(monkeypatch):
    monkeypatch.setattr("slender.export.onnx.MAX_BYTES", 100)
    with pytest.raises(ValueError, match="an ONNX file holds at most 2"):
        to_onnx(fit("slnd"))


# -- scikit-learn ----------------------------------------------------------------------------------


@every_case
def test_sklearn_answers_as_the_model(name, kind):
    model = fit(name, kind)
    other = to_sklearn(model)
    temperature = linear(model).temperature  # folded: LogisticRegression has no other place for it
    close(other.decision_function(SPARE) * temperature, model.decision_function(SPARE))
    assert np.array_equal(other.predict(SPARE), model.predict(SPARE))
    assert hasattr(other, "predict_proba") == hasattr(model, "predict_proba")
    if hasattr(model, "predict_proba"):
        close(other.predict_proba(SPARE), model.predict_proba(SPARE))
    assert other.score(X, LABELS[kind]) == model.score(X, LABELS[kind])
    other.fit(X, LABELS[kind])  # a whole estimator, not a shell of one


def test_sklearn_gets_the_estimator_of_the_same_objective():
    assert repr(to_sklearn(fit("logistic"))) == "LogisticRegression(C=0.1)"
    normalizer, probe = to_sklearn(fit("unit")).named_steps.values()
    assert repr(normalizer) == "Normalizer()"
    assert probe.C == fit("unit").C_
    assert to_sklearn(fit("hinge")).loss == "hinge"


def test_sklearn_shares_nothing_with_the_model():
    model = fit("slnd")
    before = model.coef_.copy()
    to_sklearn(model).coef_[:] = 0
    assert np.array_equal(model.coef_, before)


# -- torch -----------------------------------------------------------------------------------------


def read(path):
    """(weight, bias, metadata) of a safetensors file."""
    with safe_open(path, "numpy") as file:
        assert set(file.keys()) == {"weight", "bias"}
        return file.get_tensor("weight"), file.get_tensor("bias"), file.metadata()


@every_case
def test_tensors_answer_as_the_model(tmp_path, name, kind):
    model = fit(name, kind)
    write(model, "torch", tmp_path / "layer.safetensors")
    weight, bias, metadata = read(tmp_path / "layer.safetensors")
    assert weight.dtype == bias.dtype == np.float32
    rows = normalize(SPARE) if metadata["normalize"] == "l2" else SPARE
    scores = (rows @ weight.T + bias) * linear(model).temperature
    classes = np.array(json.loads(metadata["classes"]))
    if kind == "multilabel":
        close(scores, model.decision_function(SPARE))
        assert np.array_equal(scores > 0, model.predict(SPARE))
        return
    assert np.array_equal(classes[scores.argmax(axis=1)], model.predict(SPARE))
    if len(classes) == 2:  # one output a class, also for two
        close(scores[:, 1] - scores[:, 0], model.decision_function(SPARE))
    else:
        close(scores, model.decision_function(SPARE))


@every_case
def test_layer_answers_as_the_model(name, kind):
    torch = pytest.importorskip("torch")
    model, form = fit(name, kind), linear(fit(name, kind))
    layer = to_torch(model)
    with torch.no_grad():
        scores = layer(torch.from_numpy(SPARE))
    assert scores.shape == (len(SPARE), len(form.classes))
    if not form.binary:
        close(scores.numpy() * form.temperature, model.decision_function(SPARE))
    if form.link == "softmax" or (form.link and form.binary):
        close(torch.softmax(scores, dim=1).numpy(), model.predict_proba(SPARE))


# -- what cannot be exported -----------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["calibrated_hinge", "squared"])
@pytest.mark.parametrize("convert", [to_onnx, to_sklearn, linear])
def test_bent_scores_are_refused(loss, convert):
    model = SLNDClassifier(loss, passes=1).fit(X, CODES)
    with pytest.raises(ValueError, match=f"loss='{loss}' cannot be exported.*not linear"):
        convert(model)


def test_strangers_and_unfitted_models_are_refused():
    with pytest.raises(ValueError, match="dict is not a linear classifier of slender"):
        to_onnx({})
    with pytest.raises(NotFittedError):
        to_sklearn(SLNDClassifier())


@pytest.mark.parametrize(("convert", "package"), [(to_onnx, "onnx"), (to_torch, "torch")])
def test_a_missing_package_is_named(monkeypatch, convert, package):
    monkeypatch.setitem(sys.modules, package, None)
    model = fit("slnd")
    with pytest.raises(MissingPackageError, match=f"pip install {package}"):
        convert(model)


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLENDER_DEBUG", raising=False)
    save_model(fit("slnd"), "model")
    return tmp_path


def test_export_writes_what_a_loaded_model_computes(here, slender):
    import onnx

    model = load_model("model")
    code, out, err = slender("export", "model", "--to", "onnx", "--out", "m.onnx")
    assert (code, err) == (0, "")
    assert "scores, label, probabilities" in out
    close(run(onnx.load("m.onnx"), X)["scores"], model.decision_function(X))

    assert slender("export", "model", "--to", "sklearn", "--out", "m.joblib", "-q") == (0, "", "")
    assert np.array_equal(joblib.load("m.joblib").predict(X), model.predict(X))

    code, out, _ = slender(
        "export", "model", "--to", "torch", "--out", "m.safetensors", "--json", "-"
    )
    assert json.loads(out)["features"] == 8
    weight, bias, _ = read("m.safetensors")
    close(X @ weight.T + bias, model.decision_function(X))
    assert sorted(path.name for path in here.iterdir()) == [
        "m.joblib",
        "m.onnx",
        "m.safetensors",
        "model",
    ]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("model --to tflite --out m.tflite", "cannot export to 'tflite'; choose one of onnx,"),
        ("model --to onnx --out m.pb", "m.pb: a file for onnx must have the suffix .onnx"),
        ("model --to torch --out m.pt", "must have the suffix .safetensors"),
        ("model --to onnx --out none/m.onnx", "no folder"),
        ("model --to onnx --out m.onnx --json m.onnx", "two results"),
        ("model --to onnx", "Missing option '--out'"),
        ("model --out m.onnx", "Missing option '--to'"),
        ("none --to onnx --out m.onnx", "none: no such file"),
        ("bent --to onnx --out m.onnx", "loss='squared' cannot be exported"),
        ("m.safetensors --to torch --out m.safetensors", "is the model itself"),
    ],
)
def test_export_refuses(here, slender, words, part):
    save_model(SLNDClassifier("squared", passes=1).fit(X, CODES), "bent")
    save_model(fit("slnd"), "m.safetensors")
    before = {path: path.read_bytes() for path in here.iterdir()}
    code, out, err = slender("export", *words.split())
    assert (code, out) == (2, "")
    assert part in err
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in here.iterdir()} == before


def test_export_without_onnx(here, slender, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    code, _, err = slender("export", "model", "--to", "onnx", "--out", "m.onnx")
    assert code == 2
    assert err == "slender: export to onnx needs the package onnx: pip install onnx\n"
    assert not Path("m.onnx").exists()
