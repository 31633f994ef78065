"""The command as people use it: results, and one clear line on bad input."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from slender import SLNDClassifier, __version__, load_model, save_model
from slender.files import read_labels

rng = np.random.default_rng(0)
CODES = np.arange(180) % 6
X = (2 * rng.standard_normal((6, 8))[CODES] + rng.standard_normal((180, 8))).astype(np.float32)
SLND = ("--method", "slnd")  # what these tests are about; test_cli_logistic.py has the default
NAMES = np.array(["ant", "bee", "cat", "dog", "elk, big", "[fox]"])


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a data set in it, and a model, as the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLENDER_DEBUG", raising=False)
    for part, rows in (("train", slice(120)), ("test", slice(120, None))):
        np.save(f"X_{part}.npy", X[rows])
        np.save(f"y_{part}.npy", CODES[rows])
    return tmp_path


@pytest.fixture(scope="module")
def fitted():
    return SLNDClassifier(random_state=0).fit(X[:120], CODES[:120])


@pytest.fixture
def model(here, fitted):
    save_model(fitted, here / "model")
    return "model"


def refused(result, *parts):
    """Exit code 2, nothing on stdout, one line on stderr that says all of `parts`."""
    code, out, err = result
    assert code == 2
    assert out == ""
    assert err.startswith("slender: ")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err


def test_what_the_library_refuses_is_named_as_an_option(here, slender):
    refused(
        slender("fit", ".", "--method", "logistic", "--tol", -1, "--out", "m"), "--tol -1.0 must"
    )


# -- fit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [("X_train.npy", "y_train.npy"), (".",)])
def test_fit_writes_the_model_of_the_library(here, slender, fitted, data):
    code, out, err = slender("fit", *data, *SLND, "--out", "new", "--seed", 0)
    assert (code, err) == (0, "")
    for word in ("rows", "120", "features", "classes", "seconds", "throughput", "objective"):
        assert word in out
    assert np.array_equal(load_model("new").coef_, fitted.coef_)


def test_fit_for_machines(here, slender):
    code, out, err = slender("fit", ".", *SLND, "--out", "new", "--json", "-", "--val", ".")
    results = json.loads(out)
    assert (code, err) == (0, "")
    assert (results["rows"], results["features"], results["classes"]) == (120, 8, 6)
    assert len(results["trace"]) == results["passes"] == 5
    final = load_model("new").score(X[120:], CODES[120:])
    assert results["trace"][-1]["validation_top1"] == pytest.approx(final)
    assert slender("fit", ".", "--out", "new", "--json", "r.json", "-q") == (0, "", "")
    assert json.loads(Path("r.json").read_text())["command"] == "fit"


WHERE_FROM = {
    "fit": ("fit . --method sgd --out new", 0, {"X", "y"}),
    "path": ("path . --cs 0.1 --cv 3 --out new", 0, {"X", "y", "X_test", "y_test"}),
    "score": ("score model X_test.npy y_test.npy", None, {"model", "X", "y"}),
    "predict": ("predict model X_test.npy --out y.txt", None, {"model", "X"}),
    "export": ("export model --to sklearn --out m.joblib", None, {"model"}),
    "run": ("run --opt sgd --passes 1", 0, {"X_train", "y_train", "X_val", "y_val",
                                                  "X_test", "y_test"}),
}  # fmt: skip


@pytest.mark.parametrize("command", WHERE_FROM)
def test_json_says_where_results_come_from(here, model, slender, command):
    words, seed, inputs = WHERE_FROM[command]
    code, _, err = slender(*words.split(), "--json", "r.json")
    assert (code, err) == (0, "")
    results = json.loads(Path("r.json").read_text())
    assert results.get("seed") == seed
    assert isinstance(results["settings"], dict)
    assert results["version"] == __version__
    assert {"system", "processor", "cores", "threads", "python", "numpy"} <= set(results["machine"])
    assert set(results["inputs"]) == inputs
    if command == "fit":
        assert results["settings"]["loss"] == "logistic"
        content = np.load("X_train.npy").tobytes()
        expected = {"name": ".", "shape": [120, 8], "sha256": sha256(content).hexdigest()}
        assert results["inputs"]["X"] == expected
    if command == "score":
        content = Path("model").read_bytes()
        assert results["inputs"]["model"]["sha256"] == sha256(content).hexdigest()


def test_validation_sees_the_scores_of_the_final_model(here, slender):
    """Drawn negatives shift the priors; what --val reports must undo that as the model does."""
    y = np.where(CODES < 4, 0, CODES)  # one frequent class, so that the shift matters
    np.save("y_train.npy", y[:120])
    np.save("y_test.npy", y[120:])
    words = (*SLND, "--out", "new", "--negatives", 1, "--seed", 1, "--json", "-", "--passes", 2)
    _, out, _ = slender("fit", ".", "--val", "X_test.npy", "--val-y", "y_test.npy", *words)
    final = load_model("new").score(X[120:], y[120:])
    assert json.loads(out)["trace"][-1]["validation_top1"] == pytest.approx(final)


def test_every_option_reaches_the_estimator(here, slender):
    words = "--loss logistic --passes 2 --rank 3 --hessian-samples 50 --damping 0.5 --step 0.1 "
    words += "--negatives 2 --no-average --curvature lowrank --no-intercept --prior empirical "
    words += "--class-weight balanced --objective exact --seed 3"
    assert slender("fit", ".", *SLND, "--out", "new", *words.split())[0] == 0
    assert load_model("new").get_params() == {
        "loss": "logistic",
        "passes": 2,
        "rank": 3,
        "hessian_samples": 50,
        "damping": 0.5,
        "step": 0.1,
        "negatives": 2.0,
        "average": False,
        "curvature": "lowrank",
        "fit_intercept": False,
        "prior": "empirical",
        "class_weight": "balanced",
        "objective": "exact",
        "random_state": 3,
        "callbacks": None,
        "device": None,
        "checkpoint": None,
        "checkpoint_every": 60.0,
    }
    words = "--method sgd --lam 0.01 --average"
    assert slender("fit", ".", "--out", "new", *words.split())[0] == 0
    assert load_model("new").lam == 0.01


def test_an_option_of_another_method_is_refused(here, slender):
    result = slender("fit", ".", "--out", "new", "--lam", 1)
    refused(result, "method logistic does not support --lam: use --method sgd")
    result = slender("fit", ".", *SLND, "--out", "new", "--C", 1)
    refused(result, "method slnd does not support --C: use --method logistic")
    result = slender("fit", ".", *SLND, "--out", "new", "--lam", 1)
    refused(result, "method slnd does not support --lam: use --method sgd")
    result = slender("fit", ".", "--out", "new", "--method", "sgd", "--hessian-samples", 9)
    refused(result, "method sgd does not support --hessian-samples: use --method slnd")
    refused(slender("fit", ".", "--out", "new", "--method", "svm"), "logistic, slnd, sgd")
    assert not Path("new").exists()


def test_other_formats(here, slender):
    save_file({"X": X, "y": CODES}, "both.safetensors")
    assert slender("fit", "both.safetensors", "--out", "new", "-q") == (0, "", "")
    Path("y.txt").write_text("\n".join(NAMES[CODES[:120]]))
    assert slender("fit", "X_train.npy", "y.txt", "--out", "new", "-q") == (0, "", "")
    assert list(load_model("new").classes_) == sorted(NAMES)
    Path("d.svm").write_text("1 1:1 2:2\n2 1:2 3:1\n" * 9)
    assert slender("fit", "d.svm", "--out", "new", "-q") == (0, "", "")
    Path("t.svm").write_text("1 1:1 2:2\n2 1:2\n")  # no third column: the model has one
    assert slender("score", "new", "t.svm", "-q") == (0, "", "")


@pytest.mark.parametrize(
    ("make", "words", "parts"),
    [
        (lambda X, y: X.__setitem__((7, 3), np.nan), "", ["NaN", "row 7, column 3"]),
        (lambda X, y: X.__setitem__((9, 0), np.inf), "", ["infinity", "row 9, column 0"]),
        (lambda X, y: y.fill(4), "", ["one class only"]),
        (None, "--rank 99", ["--rank 99 is too large", "or no --rank"]),
        (None, "--step 0", ["--step 0.0 must be a number > 0"]),
        (None, "--step soon", ["--step soon must"]),
        (None, "--passes 0", ["--passes 0 must"]),
        (None, "--passes few", ["--passes", "see slender fit --help"]),
        (None, "--loss huber", ["--loss huber must"]),
        (None, "--val-y y_test.npy", ["--val-y without --val"]),
        (None, "--nonsense", ["No such option", "--nonsense"]),
        (None, "--val none.npy", ["none.npy", "no such file"]),
        (None, "--out none/new", ["none/new", "no folder"]),
        (None, "--out X_test.npy/new", ["X_test.npy/new", "cannot be written"]),
        (None, "--out .", ["cannot be written"]),
        (None, "--json none/r.json", ["none/r.json", "no folder"]),
        (None, "--json new", ["two results"]),
    ],
)
def test_fit_refuses(here, slender, make, words, parts):
    if make:
        rows, labels = X[:120].copy(), CODES[:120].copy()
        make(rows, labels)
        np.save("X_train.npy", rows)
        np.save("y_train.npy", labels)
    out = [] if "--out" in words else ["--out", "new"]
    refused(slender("fit", "X_train.npy", "y_train.npy", *SLND, *out, *words.split()), *parts)
    assert not Path("new").exists()
    assert not list(here.glob(".slender*"))


@pytest.mark.parametrize(
    ("rows", "labels", "parts"),
    [
        (X, CODES[:100], ["180 rows", "100 labels"]),
        (np.zeros((0, 8)), np.zeros(0, int), ["0 sample"]),
        (np.zeros((120, 0)), CODES[:120], ["0 feature"]),
        (X.astype(str), CODES, ["X.npy", "convert it to numbers"]),
        (X[:, 0], CODES, ["X.npy", "1 dimension"]),
        (X, rng.standard_normal(180), ["y.npy: the label of row 0 is", "integers or strings"]),
    ],
)
def test_fit_refuses_arrays(here, slender, rows, labels, parts):
    np.save("X.npy", rows)
    np.save("y.npy", labels)
    refused(slender("fit", "X.npy", "y.npy", "--out", "new"), *parts)


def test_fit_refuses_files(here, slender):
    Path("cut.npy").write_bytes(Path("X_train.npy").read_bytes()[:-9])
    refused(slender("fit", "cut.npy", "y_train.npy", "--out", "new"), "cut.npy", "damaged")
    refused(slender("fit", "none.npy", "y_train.npy", "--out", "new"), "none.npy", "no such file")
    refused(slender("fit", "X_train.npy", "--out", "new"), "holds no labels")
    refused(slender("fit", "X_train.npy", "y_train.npy"), "Missing option '--out'")
    refused(slender("fit"), "Missing argument 'X'", "slender fit --help")
    np.save("narrow.npy", X[:, :3])
    words = ("--out", "new", "--val", "narrow.npy", "--val-y", "y_test.npy")
    np.save("y_test.npy", CODES)
    refused(slender("fit", ".", *words), "--val has 3 features but X has 8")


# -- predict and score -----------------------------------------------------------------------------


def test_predict(here, slender, model, fitted):
    rows = X[120:]
    assert slender("predict", model, "X_test.npy", "--out", "y.npy", "-q") == (0, "", "")
    assert np.array_equal(np.load("y.npy"), fitted.predict(rows))
    assert slender("predict", model, "X_test.npy", "--out", "k.npy", "--top-k", 3)[0] == 0
    assert np.array_equal(np.load("k.npy"), fitted.predict_top_k(rows, 3))
    assert slender("predict", model, "X_test.npy", "--out", "p.npy", "--proba")[0] == 0
    assert np.array_equal(np.load("p.npy"), fitted.predict_proba(rows))
    assert slender("predict", model, "X_test.npy", "--out", "p.csv", "--proba")[0] == 0
    heading, *lines = Path("p.csv").read_text().splitlines()
    assert heading == ",".join(map(str, fitted.classes_))
    assert np.array_equal(np.loadtxt(lines, delimiter=","), fitted.predict_proba(rows))
    code, out, err = slender("predict", model, "X_test.npy", "--out", "-")
    assert (code, err) == (0, "")
    assert out.split() == [str(label) for label in fitted.predict(rows)]
    _, out, _ = slender("predict", model, "X_test.npy", "--out", "y.txt", "--json", "-")
    assert json.loads(out)["rows"] == 60


def test_predict_by_blocks(here, slender, model, fitted, monkeypatch):
    monkeypatch.setattr("slender.rows.base.BLOCK_BYTES", 7 * 8 * 6)  # seven rows
    for name in ("y.npy", "y.txt"):
        assert slender("predict", model, "X_test.npy", "--out", name, "-q") == (0, "", "")
        assert np.array_equal(read_labels(name), fitted.predict(X[120:]))


def test_labels_come_back_from_text(here, slender):
    save_model(SLNDClassifier(passes=1).fit(X, NAMES[CODES]), "named")
    assert slender("predict", "named", "X_test.npy", "--out", "y.csv")[0] == 0
    assert np.array_equal(read_labels("y.csv"), load_model("named").predict(X[120:]))
    assert slender("score", "named", "X_test.npy", "y.csv")[1].split()[:4] == [
        "rows",
        "60",
        "top-1",
        "1.0000",
    ]


def test_predict_and_score_refuse(here, slender, model):
    np.save("narrow.npy", X[:60, :3])
    for command in (("predict", model, "narrow.npy"), ("score", model, "narrow.npy", "y_test.npy")):
        refused(slender(*command), "3 features", "expecting 8")
    Path("foreign").write_bytes(b"not a model at all")
    for command in (("predict", "foreign", "X_test.npy"), ("score", "foreign", ".")):
        refused(slender(*command), "foreign", "not a slender model")
    bad = X[120:].copy()
    bad[50, 2] = np.nan
    np.save("bad.npy", bad)
    refused(slender("predict", model, "bad.npy", "--out", "y.npy"), "row 50, column 2")
    refused(slender("predict", model, "X_test.npy", "--out", "y.pkl"), "no known format")
    refused(slender("predict", model, "X_test.npy", "--out", "none/y.npy"), "no folder")
    refused(slender("predict", model, "X_test.npy", "--top-k", 7), "k=7", "between 1 and 6")
    refused(slender("predict", model, "X_test.npy", "--proba", "--top-k", 1), "exclude")
    np.save("names.npy", NAMES[CODES[120:]])
    refused(slender("score", model, "X_test.npy", "names.npy"), "labels of the same kind")
    np.save("far.npy", CODES[120:] + 100)
    refused(slender("score", model, "X_test.npy", "far.npy"), "no label of y is a class")
    assert "np." not in slender("score", model, "X_test.npy", "far.npy")[2]
    assert not list(here.glob("y.*"))
    assert not list(here.glob(".slender*"))


# -- the command ---------------------------------------------------------------------------------


def test_an_unexpected_failure_is_one_line(here, slender, monkeypatch):
    def fails(path):
        raise RuntimeError("the sky\nfell")

    monkeypatch.setattr("slender.model.load_model", fails)
    code, _, err = slender("score", "model", ".")
    assert code == 1
    assert err == "slender: RuntimeError: the sky fell (--debug shows where)\n"
    monkeypatch.setenv("SLENDER_DEBUG", "1")
    assert "Traceback" in slender("score", "model", ".")[2]


@pytest.mark.parametrize(
    "command", ["fit", "path", "predict", "score", "run", "compare", "export", "demo"]
)
def test_help_has_an_example(slender, command):
    code, out, _ = slender(command, "--help")
    assert code == 0
    assert f"Example:  slender {command}" in out


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "X_train.npy", "y_train.npy", "--out", "new"),
        ("path", ".", "--cs", "0.1", "--out", "new"),
        ("predict", "model", "X_test.npy"),
        ("score", "model", "X_test.npy", "y_test.npy"),
        ("run", "--opt", "gd", "--passes", "1"),
        ("compare", "--opt", "gd", "--passes", "1"),
    ],
    ids=lambda words: words[0],
)
def test_a_command_works_with_so_many_threads(model, slender, monkeypatch, words):
    from slender.rows import cores, threads

    used = []
    monkeypatch.setattr(
        threads, "num_threads", lambda: used.append(cores.num_threads()) or used[-1]
    )
    monkeypatch.setenv("SLENDER_NUM_THREADS", "5")
    code, _, err = slender(*words, "--threads", 3)
    assert code == 0, err
    assert set(used) == {3}
    assert cores.num_threads() == 5  # afterwards
    refused(slender(*words, "--threads", 0), "--threads 0: give a number from 1 on")
    refused(slender(*words, "--threads", "two"), "--threads")
    monkeypatch.setenv("SLENDER_NUM_THREADS", "many")
    code, _, err = slender(*words)
    assert code == 2
    assert "SLENDER_NUM_THREADS='many' must be a whole number of at least 1\n" in err


def test_version_and_bare_command(slender):
    import slender as package

    assert slender("--version") == (0, f"slender {package.__version__}\n", "")
    assert "fit" in slender()[1]
    refused(slender("fti"), "No such command 'fti'")


def test_demo(slender, monkeypatch):
    from slender.datasets import planted

    monkeypatch.setattr(
        "slender.datasets.planted", lambda n, d, C, separation: planted(2000, 32, 40, 200, 1.0)
    )
    code, out, _ = slender("demo", "--json", "-")
    assert code == 0
    digits, many = json.loads(out)["datasets"]
    assert digits["top1"] > 0.95
    assert digits["sklearn_sgd"]["top1"] > 0.9
    assert many["classes"] == 40
    code, out, _ = slender("demo")
    assert "test top-5" in out
    assert "scikit-learn's SGDClassifier: top-1" in out
