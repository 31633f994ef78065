"""A loaded model is the saved one, bit for bit; a file that is no model says so in one line."""

import copy
import json
import os
import pickle
import tracemalloc

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold

import slender
from slender import (
    LinearProbe,
    LogisticClassifier,
    SGDClassifier,
    SLNDClassifier,
    TraceNormClassifier,
    load_model,
    save_model,
)
from slender.model import FORMAT, VERSION, WITHOUT_IMAGES
from slender.storage import FileError

# Small grids are quick; their best value may be the last, and few rows tell no temperature.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.* do not determine the temperature"),
]

rng = np.random.default_rng(0)
CODES = np.repeat(np.arange(6), 20)
X = (rng.standard_normal((6, 8))[CODES] * 2 + rng.standard_normal((120, 8))).astype(np.float32)

LABELS = {
    "int64": CODES,
    "uint8": CODES.astype(np.uint8),
    "big-endian": CODES.astype(">i4"),
    "float": CODES.astype(float),
    "bool": CODES < 3,
    "binary": np.where(CODES < 3, -1, 1),
    "strings": np.array(["ant", "bee", "cat", "dog", "é, ü", "[f]"])[CODES],
    "objects": np.array(["ant", "bee", "cat", "dog", "elk", "fox"], object)[CODES],
    "multilabel": (CODES[:, None] % [2, 3, 4, 5] == 0).astype(int),
}


@pytest.fixture(scope="module")
def fitted():
    return SLNDClassifier("calibrated_hinge", random_state=0, passes=2).fit(X, CODES)


@pytest.fixture
def saved(fitted, tmp_path):
    save_model(fitted, tmp_path / "model")
    return tmp_path / "model"


def same(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes() if a.dtype != object else np.array_equal(a, b)


def predictions(model):
    yield model.decision_function(X)
    yield model.predict(X)
    yield model.predict_top_k(X, 2)
    if hasattr(model, "predict_proba"):
        yield model.predict_proba(X)


MODELS = {
    "slnd": SLNDClassifier("calibrated_hinge", negatives=2.0, passes=2, random_state=0),
    "sgd": SGDClassifier("calibrated_hinge", lam=1e-3, passes=2, random_state=0),
    "logistic": LogisticClassifier(C=0.1, random_state=0),
    "probe": LinearProbe([0.1, 1.0], scale="l2", calibrate=True, random_state=0),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, kind)
        for name in MODELS
        for kind in LABELS
        if kind != "multilabel" or name in ("slnd", "sgd")
    ],
)
def test_bit_for_bit(tmp_path, name, kind):
    y = LABELS[kind]
    model = clone(MODELS[name]).fit(X, y)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    same(loaded.classes_, model.classes_)
    for a, b in zip(predictions(model), predictions(loaded), strict=True):
        same(a, b)
    assert loaded.score(X, y) == model.score(X, y)
    for attribute in ("n_features_in_", "n_iter_", "trace_", "multilabel_"):
        assert getattr(loaded, attribute) == getattr(model, attribute)
    assert list(tmp_path.iterdir()) == [tmp_path / "model"]


def test_the_file_is_what_it_says(saved, fitted):
    with safe_open(saved, "numpy") as file:
        document = json.loads(file.metadata()[FORMAT])
    assert document["version"] == WITHOUT_IMAGES
    assert document["slender"] == slender.__version__
    assert document["estimator"] == "SLNDClassifier"
    same(load_file(saved)["coef_"], fitted.coef_)


def test_settings(tmp_path):
    model = SLNDClassifier(
        "calibrated_hinge",
        class_weight={0: 2.0, np.int64(5): 0.5},
        callbacks=[lambda record, weights: None],
        random_state=np.random.default_rng(0),
        passes=1,
    ).fit(X, CODES)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.class_weight == {0: 2.0, 5: 0.5}
    assert loaded.callbacks is None
    assert loaded.random_state is None


@pytest.mark.parametrize(
    "validation", [(X[::2], CODES[::2]), StratifiedKFold(2)], ids=["rows", "splitter"]
)
def test_what_a_probe_chose_with_stays_out_of_the_file(tmp_path, validation):
    probe = LinearProbe(np.array([0.1, 1.0]), validation=validation).fit(X, CODES)
    save_model(probe, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.validation is None
    assert loaded.Cs == [0.1, 1.0]
    assert loaded.path_ == probe.path_
    assert loaded.C_ == probe.C_
    same(loaded.predict_proba(X), probe.predict_proba(X))


def test_feature_names(tmp_path):
    names = np.array([f"column {j}" for j in range(8)], object)  # as from a data frame
    model = SLNDClassifier("calibrated_hinge", passes=1).fit(X, CODES)
    model.feature_names_in_ = names
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert list(loaded.feature_names_in_) == list(names)
    assert loaded.feature_names_in_.dtype == object


def test_a_loaded_model_does_not_pretend_to_go_on(saved):
    with pytest.raises(ValueError, match="partial_fit: a loaded model"):
        load_model(saved).partial_fit(X, CODES)


def test_an_interrupted_write_leaves_the_old_model(saved, fitted, monkeypatch):
    before = saved.read_bytes()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_model(fitted, saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_only_fitted_estimators_of_slender(tmp_path):
    class Mine(SLNDClassifier):
        pass

    with pytest.raises(NotFittedError):
        save_model(SLNDClassifier(), tmp_path / "model")
    with pytest.raises(FileError, match="Mine cannot be saved; slender saves BCFWClassifier"):
        save_model(Mine("calibrated_hinge", passes=1).fit(X, CODES), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def flipped(content, place):
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:-7], "not a slender model, or a damaged one"),
        (lambda content: content[:20], "not a slender model, or a damaged one"),
        (lambda content: b"", "not a slender model, or a damaged one"),
        (lambda content: np.random.default_rng(0).bytes(300), "not a slender model"),
        (lambda content: pickle.dumps({"a": list(range(100))}), "not a slender model"),
        (lambda content: flipped(content, len(content) - 1), "checksum"),
        (lambda content: content.replace(b"empirical", b"emp1rical"), "checksum"),
    ],
)
def test_damaged(saved, damage, message):
    saved.write_bytes(damage(saved.read_bytes()))
    with pytest.raises(FileError, match=message) as caught:
        load_model(saved)
    assert "\n" not in str(caught.value)
    assert str(saved) in str(caught.value)


def test_foreign(tmp_path):
    save_file({"coef_": X}, tmp_path / "foreign", {"format": "pt"})
    for path, message in (
        (tmp_path / "foreign", "a safetensors file, but not a slender model"),
        (tmp_path, "is a folder"),
        (tmp_path / "none", "no such file"),
    ):
        with pytest.raises(FileError, match=message):
            load_model(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": VERSION + 1, "slender": "9.0"}, "written by slender 9.0.*upgrade"),
        ({"estimator": "Popen"}, "class Popen, which slender"),
        ({"params": {"nonsense": 1}}, "cannot be read as a model"),
        ({"values": None}, "cannot be read as a model"),
        ({"arrays": {"other_": "<f4"}}, "cannot be read as a model"),
    ],
)
def test_a_document_this_version_cannot_use(saved, change, message):
    forge(saved, lambda document, _: document.update(change))
    with pytest.raises(FileError, match=message):
        load_model(saved)


# -- files with a valid checksum whose parts do not belong together --------------------------------


def array(name, change):
    def apply(document, arrays):
        arrays[name] = np.ascontiguousarray(change(arrays[name]))
        document["arrays"][name] = arrays[name].dtype.str

    return apply


def value(name, of):
    return lambda document, _: document["values"].update({name: of})


def setting(name, of):
    return lambda document, _: document["params"].update({name: of})


def strings(dtype, values):
    def apply(document, arrays):
        del arrays["classes_"], document["arrays"]["classes_"]
        document["strings"]["classes_"] = {"dtype": dtype, "values": values}

    return apply


def with_nan(W):
    W[1, 2] = np.nan
    return W


def moved(document, arrays):
    arrays["predict"] = arrays.pop("coef_")
    document["arrays"]["predict"] = document["arrays"].pop("coef_")


SIX = ["a", "b", "c", "d", "e", "f"]
FORGED = {
    "one intercept": (array("intercept_", lambda b: b[:1]), r"intercept_ has shape \(1,\).*\(6,\)"),
    "seven classes": (array("classes_", lambda _: np.arange(7)), r"coef_ has shape \(6, 8\)"),
    "two classes": (array("classes_", lambda c: c[:2]), r"coef_ has shape \(6, 8\).*\(1, 8\)"),
    "one class": (array("classes_", lambda c: c[:1]), "classes_"),
    "classes in no order": (array("classes_", lambda c: c[::-1]), "classes_"),
    "a table of classes": (array("classes_", lambda c: c.reshape(2, 3)), "classes_"),
    "narrow coef_": (array("coef_", lambda W: W[:, :5]), r"coef_ has shape \(6, 5\)"),
    "NaN": (array("coef_", with_nan), "coef_ holds NaN or infinity"),
    "integers": (array("coef_", lambda W: W.astype(np.int32)), "coef_ holds int32"),
    "prior shift": (array("prior_shift_", lambda p: p[:2]), "prior_shift_ has shape"),
    "features": (value("n_features_in_", 7), r"coef_ has shape \(6, 8\).*\(6, 7\)"),
    "a word for features": (value("n_features_in_", "many"), "n_features_in_"),
    "a list for coef_": (value("coef_", [[1.0]]), "coef_"),
    "a method": (moved, "predict"),
    "a private name": (value("__class__", 1), "__class__"),
    "loss": (setting("loss", "nonsense"), "nonsense"),
    "no loss": (setting("loss", []), "cannot be read as a model"),
    "huge strings": (strings("<U250000000", SIX), None),
    "huge records": (lambda document, _: document["arrays"].update(coef_="V1000000000"), "dtype"),
    "other numbers": (lambda document, _: document["arrays"].update(coef_="<f8"), "dtype"),
    "bytes": (strings("S5", SIX), "dtype"),
    "nested strings": (strings("<U1", [SIX]), "classes_"),
}


def forge(path, change):
    """The same file with another document or other tensors, and a checksum that fits."""
    from slender.storage import checksum

    with safe_open(path, "numpy") as file:
        document = json.loads(file.metadata()[FORMAT])
    arrays = load_file(path)
    change(document, arrays)
    text = json.dumps(document)
    save_file(arrays, path, {FORMAT: text, "sha256": checksum(text, arrays)})


@pytest.mark.parametrize("name", FORGED)
def test_parts_that_do_not_belong_together(saved, name):
    change, message = FORGED[name]
    forge(saved, change)
    tracemalloc.start()
    try:
        if message is None:  # of no harm
            load_model(saved)
        else:
            with pytest.raises(FileError, match=message) as caught:
                load_model(saved)
            assert str(caught.value).startswith(f"{saved}: ")
            assert "\n" not in str(caught.value)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("depth", [300, 100_000])
def test_a_document_nested_too_deeply(saved, depth):
    from slender.storage import checksum

    arrays = load_file(saved)
    text = '{"version": 1, "estimator": "SLNDClassifier", "params": {"step": DEEP}}'
    text = text.replace("DEEP", "[" * depth + "]" * depth)
    save_file(arrays, saved, {FORMAT: text, "sha256": checksum(text, arrays)})
    with pytest.raises(FileError, match="cannot be read as a model"):
        load_model(saved)


def test_a_file_of_version_1_has_the_names_of_then(tmp_path):
    model = slender.BCFWClassifier(0.5, average=False, random_state=0).fit(X, CODES)
    save_model(model, tmp_path / "old")

    def as_then(document, arrays):
        params = document["params"]
        document["version"], params["mu"] = 1, params.pop("lam")
        params["averaging"] = params.pop("average")

    forge(tmp_path / "old", as_then)
    loaded = load_model(tmp_path / "old")
    assert (loaded.lam, loaded.average) == (0.5, False)
    same(loaded.predict(X), model.predict(X))


def test_factors_and_settings_of_other_models_are_checked_too(tmp_path):
    path = tmp_path / "model"
    save_model(TraceNormClassifier(0.01).fit(X, CODES), path)
    forge(path, array("V_", lambda V: V[:, :1]))
    with pytest.raises(FileError, match="V_ has shape"):
        load_model(path)
    probe = LinearProbe([1.0], calibrate=True).fit(X, CODES)
    for change, message in (
        (value("temperature_", 0.0), "temperature_=0.0 must be"),
        (setting("scale", "thrice"), "scale='thrice' must be one of"),
    ):
        save_model(probe, path)
        forge(path, change)
        with pytest.raises(FileError, match=message):
            load_model(path)


def test_a_model_that_diverged_is_not_written(tmp_path, fitted):
    model = copy.deepcopy(fitted)
    model.coef_[0, 0] = np.inf
    with pytest.raises(FileError, match="cannot be saved: coef_ holds NaN or infinity"):
        save_model(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_pipe_is_no_model(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="pipe: is not a regular file"):
        load_model(tmp_path / "pipe")
