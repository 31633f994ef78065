"""slender fit with its default method, the certified one; and the bars that show it at work."""

import json

import numpy as np
import pytest

from slender import LogisticClassifier, load_model
from slender.cli import main, progress

rng = np.random.default_rng(0)
CODES = np.arange(180) % 6
X = (rng.standard_normal((6, 8))[CODES] + rng.standard_normal((180, 8))).astype(np.float32)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLENDER_DEBUG", raising=False)
    for part, rows in (("train", slice(120)), ("test", slice(120, None))):
        np.save(f"X_{part}.npy", X[rows])
        np.save(f"y_{part}.npy", CODES[rows])
    return tmp_path


@pytest.fixture
def fit(capsys):
    def run(*words):
        with pytest.raises(SystemExit) as caught:
            main(["fit", *[str(word) for word in words]])
        captured = capsys.readouterr()
        return caught.value.code or 0, captured.out, captured.err

    return run


@pytest.mark.parametrize("method", [(), ("--method", "logistic")])
def test_the_model_of_the_library(here, fit, method):
    code, out, err = fit(".", *method, "--out", "new", "--C", 0.1, "--tol", 1e-4)
    assert (code, err) == (0, "")
    model = LogisticClassifier(C=0.1, tol=1e-4).fit(X[:120], CODES[:120])
    assert np.array_equal(load_model("new").coef_, model.coef_)
    share = model.gap_ / model.objective_
    assert f"relative gap  {share:.1e}  (asked for: 1e-04)" in out


def test_for_machines(here, fit):
    code, out, err = fit(".", "--out", "new", "--json", "-", "--val", ".")
    assert (code, err) == (0, "")
    results = json.loads(out)
    assert results["relative_gap"] <= results["tol"]
    assert results["gap"] == results["trace"][-1]["gap"]
    assert results["passes"] == results["trace"][-1]["passes"]
    final = load_model("new").score(X[120:], CODES[120:])
    assert results["trace"][-1]["validation_top1"] == pytest.approx(final)


def test_every_option_reaches_the_estimator(here, fit):
    words = "--C 0.5 --tol 0.01 --max-iter 77 --no-intercept --class-weight balanced --seed 3"
    assert fit(".", "--out", "new", "-q", *words.split()) == (0, "", "")
    params = load_model("new").get_params()
    expected = {
        "C": 0.5,
        "tol": 0.01,
        "max_iter": 77,
        "fit_intercept": False,
        "class_weight": "balanced",
        "random_state": 3,
    }
    assert {name: params[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("--C 0", "--C 0.0 must be a number > 0"),
        ("--C=-1", "--C -1.0 must"),
        ("--C much", "--C"),
        ("--tol 0", "--tol 0.0 must"),
        ("--max-iter 0", "--max-iter 0 must"),
        ("--class-weight heavy", "class_weight"),
        ("--rank 3", "method logistic does not support --rank: use --method slnd"),
        ("--passes 3", "method logistic does not support --passes: use --method slnd"),
        ("--no-average", "method logistic does not support --average: use --method slnd"),
    ],
)
def test_refuses(here, fit, words, part):
    code, out, err = fit(".", "--out", "new", *words.split())
    assert (code, out) == (2, "")
    assert part in err
    assert err.count("\n") == 1
    assert not (here / "new").exists()


# -- bars ------------------------------------------------------------------------------------------


@pytest.fixture
def steps(monkeypatch):
    """A bar's step function, in place of the bar."""
    monkeypatch.setattr(progress, "_bar", lambda title, total, start, step, quiet: step)


def test_a_bar_of_the_gap_goes_from_1_to_tol(steps):
    step = progress.progress_of_gap("fit", 1e-3, False)
    assert step({"passes": 2.0, "objective": 2.0, "gap": 2.0}) == (
        None,
        "2 passes  objective 2  nothing proved yet",
    )
    shares = [step({"passes": 3.0, "objective": 2.0, "gap": 2 * gap})[0] for gap in (0.1, 0.5)]
    assert shares == pytest.approx([1 / 3, 1 / 3])  # never back
    share, text = step({"passes": 7.0, "objective": 2.0, "gap": 2e-4})
    assert share == 1
    assert text == "7 passes  objective 2  gap 1.0e-04 -> 1e-03"


def test_bars_of_passes_and_of_a_path(steps):
    step = progress.progress_of_passes("fit", 5, False)
    assert step({"passes": 2.0, "objective": 0.25}) == (2, "2/5 passes  objective 0.25")
    assert step({"passes": 3.0, "objective": None}) == (3, "3/5 passes  objective inf")
    step = progress.progress_of_path("path", 45, "C", ("C",), False)
    assert step({"C": 1e-6, "top1": 0.5})[0] == 1
    assert step({"C": 1e-5, "top1": 0.5}) == (2, "2/45 C  last 1e-05: top-1 0.5000")
    step = progress.progress_of_fits("compare", 9, False)
    record = {"passes": 2.0, "seconds": 0.5, "objective": 0.25, "gap": None}
    record["validation_accuracy"] = 0.5
    fit = {"dataset": "digits", "size": None, "opt": "sgd", "obj": "svm", "seed": 0}
    event = {**fit, "done": 3, "record": record, "ended": False}
    done, text = step(event)
    assert done == 3
    assert text.startswith("3/9 fits  digits sgd svm seed 0: ")
    assert "0.25" in text
    assert step({**event, "record": None})[1].endswith("starts")
    assert step({**event, "ended": True})[1].endswith("done")
