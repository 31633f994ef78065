"""slender run as people use it: every optimiser, its table, JSON and figure; bad input."""

import json
import math
import os
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import slender
from idx_files import write_images
from slender.cli import main
from slender.lab.experiment import experiment
from slender.lab.optimisers import OPTIMISERS, Options, choose, complete
from slender.lab.splits import Split, load
from slender.registry import METHODS

PAIRS = [(opt, obj) for opt, of in OPTIMISERS.items() for obj in of]
DATA = os.environ.get("SLENDER_DATA", "")
DOC = Path(__file__).resolve().parent.parent / "docs" / "experiments.md"

rng = np.random.default_rng(0)
CODES = np.arange(300) % 4
X = (1.5 * rng.standard_normal((4, 6))[CODES] + rng.standard_normal((300, 6))).astype(np.float32)


def split_of(y):
    return Split(X[:200], y[:200], X[200:240], y[200:240], X[240:], y[240:])


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a data set in it, as the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLENDER_DEBUG", raising=False)
    monkeypatch.delenv("SLENDER_DATA", raising=False)
    Path("data").mkdir()
    for part, rows in (("train", slice(200)), ("test", slice(240, 300))):
        np.save(f"data/X_{part}.npy", X[rows])
        np.save(f"data/y_{part}.npy", CODES[rows])
    return tmp_path


@pytest.fixture
def run(capsys):
    """Run `slender run` in this process: (exit code, stdout, stderr)."""

    def call(*words):
        with pytest.raises(SystemExit) as caught:
            main(["run", *[str(word) for word in words]])
        captured = capsys.readouterr()
        return caught.value.code or 0, captured.out, captured.err

    return call


def results_of(result):
    code, out, err = result
    assert (code, err) == (0, "")
    return json.loads(out)


# -- what is reported ------------------------------------------------------------------------------


def naive(obj, one_vs_rest, W, b, X, y, lam):
    """The objective, row by row."""
    total = 0.0
    W, b = np.asarray(W, np.float64), np.asarray(b, np.float64)
    for x, label in zip(X.astype(np.float64), y, strict=True):
        s = W @ x + b
        if one_vs_rest:
            signs = [1 if label == c else -1 for c in range(len(W))] if len(W) > 1 else [
                1 if label == 1 else -1
            ]  # fmt: skip
            margins = [sign * score for sign, score in zip(signs, s, strict=True)]
            each = [max(0, 1 - z) if obj == "svm" else math.log1p(math.exp(-z)) for z in margins]
            total += sum(each) / len(W)
        elif obj == "svm":
            total += max(s[k] + (k != label) for k in range(len(W))) - s[label]
        else:
            total += math.log(sum(math.exp(score) for score in s)) - s[label]
    penalty = lam / 2 * (W**2).sum() / (len(W) if one_vs_rest else 1)
    return total / len(y) + penalty


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("classes", [4, 2])
@pytest.mark.parametrize(("opt", "obj"), PAIRS)
def test_the_figures_are_those_of_the_estimator(opt, obj, classes, intercept):
    """Same settings in the library: the same weights, hence the same objective and accuracies."""
    y = CODES % classes
    split = split_of(y)
    _, optimiser = choose(opt, obj)
    options = {"lam": 0.02, "step": 0.05, "batch_size": 16, "schedule": "constant"}
    options["fit_intercept"] = intercept
    options = {name: of for name, of in options.items() if name in optimiser.takes}
    result = experiment(split, opt, obj, Options(**options, passes=2), seed=3)
    by_hand = {
        "lam": 0.02,
        "C": 1 / (200 * 0.02),
        "step": 0.05,
        "t0": 1 / (0.02 * 0.05),
        "batch_size": 16,
        "schedule": "constant",
        "average": opt == "bcfw",
        "fit_intercept": intercept,
    }
    own = {"larank": {"lam": "C"}, "sgdqn": {"step": "t0"}}.get(opt, {})
    takes = {own.get(name, name) for name in optimiser.takes}
    wanted = {name: of for name, of in by_hand.items() if name in takes}
    if opt == "slnd":
        del wanted["average"]
    model = (
        METHODS[optimiser.method]
        .load()(**optimiser.settings, **wanted, passes=2 + optimiser.looks, random_state=3)
        .fit(split.X_train, split.y_train)
    )
    last = result["curve"][-1]
    assert [entry["passes"] for entry in result["curve"]] == [1, 2]
    record = model.trace_[-1]
    assert last["objective"] == pytest.approx(record.get("estimate", record["objective"]))
    assert last["train_accuracy"] == pytest.approx(model.score(split.X_train, split.y_train))
    assert last["validation_accuracy"] == pytest.approx(model.score(split.X_val, split.y_val))
    assert result["test"]["error"] == pytest.approx(1 - model.score(split.X_test, split.y_test))
    assert ("pr_area" in result["test"]) == (classes == 2)

    one_vs_rest = opt in ("sgd-ovr", "sgdqn", "olbfgs", "slnd") or (opt, classes) == ("larank", 2)
    W, b = model.coef_, model.intercept_
    if classes == 2 and not one_vs_rest:  # the softmax's, or Crammer and Singer's, two rows
        W, b = np.vstack([-W / 2, W / 2]), np.concatenate([-b / 2, b / 2])
    lam = 0.0 if opt == "slnd" else 0.02
    expected = naive(obj, one_vs_rest, W, b, split.X_train, split.y_train, lam)
    if opt in ("larank", "bcfw"):  # the weight of a constant column as large as a typical row
        expected += lam / 2 * (b**2).sum() / (split.X_train**2).sum(axis=1).mean()
    elif opt != "gd":  # whose first step leaves it 0: the classes are balanced
        assert b.any() == intercept
    assert last["exact"] == pytest.approx(expected, rel=1e-4)
    if opt in ("gd", "larank"):  # their own figure is exact
        assert last["objective"] == pytest.approx(expected, rel=1e-4)
    if opt in ("gd", "larank", "bcfw"):
        assert last["gap"] >= 0
    else:
        assert last["gap"] is None


@pytest.mark.parametrize(("opt", "obj"), PAIRS)
def test_one_pass_is_a_step_at_least(opt, obj):
    result = experiment(split_of(CODES), opt, obj, Options(passes=1))
    assert [entry["passes"] for entry in result["curve"]] == [1]
    assert result["curve"][0]["train_accuracy"] > 0.4  # of four classes: W is not 0


PAPER = {  # SLND's
    "loss": "calibrated_hinge",
    "rank": 3,
    "hessian_samples": 50,
    "negatives": 1.0,
    "damping": 0.0,
    "prior": "uniform",
}


def test_slnd_as_in_its_paper(here, run):
    y = np.arange(300) % 7
    split = split_of(y)
    for part, rows in (("train", slice(200)), ("val", slice(200, 240)), ("test", slice(240, 300))):
        np.save(f"data/X_{part}.npy", X[rows])
        np.save(f"data/y_{part}.npy", y[rows])
    words = [word for name, of in PAPER.items() for word in (f"--{name.replace('_', '-')}", of)]
    words = ["--dataset", "data", "--opt", "slnd", "--passes", 2, "--no-average", *words]
    result = results_of(run(*words, "--exact", "--json", "-"))
    model = slender.SLNDClassifier(
        **PAPER, average=False, fit_intercept=False, passes=2, random_state=0
    ).fit(split.X_train, split.y_train)
    problem = "one-vs-rest calibrated hinge, no penalty, 1 negatives per positive"
    assert result["problem"] == problem
    assert result["options"].items() >= PAPER.items()
    best = model.predict_top_k(split.X_val, 5)
    last = result["curve"][-1]
    assert last["validation_top5"] == np.mean((best == split.y_val[:, None]).any(axis=1))
    assert last["validation_accuracy"] == model.score(split.X_val, split.y_val)
    assert last["objective"] == pytest.approx(model.trace_[-1]["objective"])
    assert result["test"]["top5"] >= result["test"]["accuracy"]
    _, out, _ = run(*words)
    assert "top-5" in out.splitlines()[1]
    assert "top-5 error" in out.splitlines()[-1]


@pytest.mark.parametrize(("opt", "obj"), PAIRS)
def test_every_optimiser_learns(here, run, opt, obj):
    results = results_of(
        run("--dataset", "data", "--opt", opt, "--obj", obj, "--passes", 5, "--json", "-")
    )
    assert (results["opt"], results["obj"], results["rows"]) == (opt, obj, 180)
    assert len(results["curve"]) == 5
    assert results["test"]["error"] < 0.3
    assert results["options"]["passes"] == 5
    seconds = [entry["seconds"] for entry in results["curve"]]
    assert seconds == sorted(seconds)
    assert "exact" not in results["curve"][-1]


def test_the_same_seed_gives_the_same_run(here, run):
    words = ("--dataset", "data", "--opt", "sgd", "--passes", 2, "--json", "-")
    first, again, other = (results_of(run(*words, "--seed", seed)) for seed in (1, 1, 2))
    for results in (first, again, other):
        del results["machine"]["date"]
        for entry in results["curve"]:
            del entry["seconds"]
    assert first == again
    assert first["curve"] != other["curve"]


def test_the_penalty_has_a_second_name(here, run):
    words = ("--dataset", "data", "--opt", "bcfw", "--passes", 2, "--json", "-")
    one, other = (results_of(run(*words, flag, 0.1)) for flag in ("--lam", "--mu"))
    assert other["options"] == one["options"]


def test_for_people(here, run):
    code, out, err = run("--dataset", "data", "--opt", "bcfw", "--passes", 2, "--exact")
    assert (code, err) == (0, "")
    heads = ("pass", "seconds", "objective", "exact", "gap", "train", "validation")
    assert "bcfw on data: multi-class SVM, lam = 0.01; 180 x 6, 4 classes, seed 0" in out
    for head in heads:
        assert head in out
    assert re.fullmatch(r"test error \d+\.\d\d % of 60 rows", out.splitlines()[-1])
    _, out, _ = run("--dataset", "data", "--opt", "sgd", "--passes", 2)
    assert "exact" not in out
    assert "gap" not in out
    assert run("--dataset", "data", "--opt", "sgd", "--passes", 1, "-q") == (0, "", "")


def test_digits_by_default_and_an_intercept(here, run):
    words = ("--opt", "slnd", "--passes", 1, "--json", "-", "--preprocess", "standard")
    results = results_of(run(*words, "--intercept"))
    assert results["dataset"] == "digits"
    assert results["problem"] == "one-vs-rest logistic, no penalty, intercept"
    assert results["preprocess"] == "standard"
    assert results["test"]["error"] < 0.2


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_plot(here, run, suffix):
    words = ("--dataset", "data", "--opt", "sgd", "--passes", 2, "-q", "--plot", f"c{suffix}")
    assert run(*words) == (0, "", "")
    assert Path(f"c{suffix}").read_bytes().startswith((b"\x89PNG", b"<?xml"))


@pytest.mark.filterwarnings("default:the fit diverged")
def test_a_rate_too_large_is_said_and_is_no_failure(here, run):
    words = ("--dataset", "data", "--opt", "sgd", "--passes", 3, "--step", 1e30, "--json", "-")
    code, out, err = run(*words, "--schedule", "constant", "--exact")
    assert code == 0
    assert err.startswith("slender: warning: the fit diverged")
    assert err.count("\n") == 1
    assert json.loads(out)["curve"][-1]["exact"] is None or json.loads(out)["warnings"]


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("--opt newton", ["--opt newton is not one of gd, sgd, sgd-ovr"]),
        ("--opt sgd --obj ridge", ["--obj ridge is not one of logistic, svm"]),
        ("--opt larank --obj logistic", ["solves svm, not logistic", "use --obj svm", "gd, sgd"]),
        ("--opt gd --obj svm", ["solves logistic, not svm", "bcfw"]),
        ("--opt gd --batch-size 8", ["--opt gd does not use --batch-size", "--opt sgd, bcfw"]),
        ("--opt bcfw --step 0.1", ["--opt bcfw does not use --step", "--opt gd, sgd"]),
        ("--opt slnd --lam 0.1", ["--opt slnd does not use --lam"]),
        ("--opt sgd --rank 3", ["--opt sgd does not use --rank: remove it, or use --opt slnd"]),
        ("--opt slnd --loss hinge", ["--loss hinge must be one of ['logistic'"]),
        ("--opt sgdqn --obj svm --loss squared", ["--opt sgdqn does not use --loss"]),
        ("--opt slnd --negatives some", ["--negatives some must be a number > 0"]),
        ("--opt slnd --damping=-1", ["--damping -1.0 must be a number >= 0"]),
        ("--opt slnd --prior flat", ["--prior flat must be one of"]),
        ("--opt slnd --prior uniform", ["--negatives all draws none"]),
        ("--opt larank --average", ["--opt larank does not use --average"]),
        ("--opt sgdqn --schedule sqrt", ["--opt sgdqn does not use --schedule: remove it"]),
        ("--opt bcfw --lam 0", ["--lam 0: --opt bcfw needs a penalty"]),
        ("--opt sgdqn --lam 0", ["needs a penalty"]),
        ("--opt sgd --lam=-1", ["--lam -1.0 must be a number >= 0"]),
        ("--opt sgd --step 0", ["--step 0.0 must be a number > 0"]),
        ("--opt sgd --passes 0", ["--passes 0 must be an integer > 0"]),
        ("--opt sgd --batch-size 0", ["--batch-size 0 must be an integer > 0"]),
        ("--opt sgd --batch-size 181", ["--batch-size 181 is more", "180 rows"]),
        ("--opt sgd --schedule often", ["--schedule often must"]),
        ("--opt sgd --preprocess whiten", ["--preprocess"]),
        ("--opt sgd --dataset minst", ["minst: neither a data set nor a file"]),
        ("--opt sgd --dataset mnist", ["mnist: not found", "SLENDER_DATA"]),
        ("--opt sgd --dataset mnist --data-dir data", ["not found (looked in data/mnist"]),
        ("--opt sgd --data-dir data", ["--data-dir is not used by --dataset data"]),
        ("--opt sgd --plot c.gif", ["no known format of figures"]),
        ("--opt sgd --json none/r.json", ["no folder"]),
        ("--opt sgd --json r --plot r", ["two results"]),
        ("--seed 1", ["Missing option '--opt'"]),
    ],
)
def test_refuses(here, run, words, parts):
    given = [] if "--dataset" in words else ["--dataset", "data"]
    code, out, err = run(*words.split(), *given)
    assert (code, out) == (2, "")
    assert err.startswith("slender: ")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err
    assert sorted(here.iterdir()) == [here / "data"]


def test_refuses_rows(here, run):
    bad = X[:200].copy()
    bad[7, 3] = np.nan
    np.save("data/X_train.npy", bad)
    code, _, err = run("--dataset", "data", "--opt", "sgd")
    assert code == 2
    assert "data: the train part of X contains NaN at row 7, column 3" in err
    np.save("data/X_train.npy", X[:200])
    np.save("data/y_train.npy", np.zeros(200, int))
    code, _, err = run("--dataset", "data", "--opt", "sgd")
    assert code == 2
    assert "one class only" in err


def test_options_that_are_complete():
    assert complete("bcfw", "svm", Options(passes=3)) == {
        "passes": 3,
        "lam": 0.01,
        "batch_size": 64,
        "average": True,
        "fit_intercept": False,
    }
    assert complete("bcfw", "svm", Options(), n=30)["batch_size"] == 30
    assert choose("larank")[0] == "svm"
    assert choose("sgd")[0] == "logistic"


# -- the guide, and the real thing -----------------------------------------------------------------


def commands():
    """The command lines of the guide, each once."""
    blocks = re.findall(r"```sh\n(.*?)```", DOC.read_text(), flags=re.DOTALL)
    lines = [line.split("  #")[0].strip() for line in "\n".join(blocks).splitlines()]
    return list(dict.fromkeys(line for line in lines if line.startswith("slender ")))


@pytest.mark.parametrize("line", commands())
def test_the_guide_says_what_works(here, capsys, line, monkeypatch):
    words = shlex.split(line)[1:]
    write_images(here / "mnist", n=2400, n_test=60)  # small, under the names of the guide
    write_images(here / "fashion-mnist", n=2400, n_test=60)
    monkeypatch.setenv("SLENDER_DATA", str(here))
    with pytest.raises(SystemExit) as caught:
        main(words)
    captured = capsys.readouterr()
    assert (caught.value.code or 0, captured.err) == (0, ""), line
    assert captured.out


@pytest.mark.skipif(not Path(DATA, "mnist").is_dir(), reason="SLENDER_DATA has no mnist/")
def test_the_practical_on_mnist():
    """Task 10 of the practical: the reference run ends at 8.65 % after 5 passes."""
    split = load("mnist", DATA)
    options = Options(passes=5, lam=0.01, batch_size=256)
    result = experiment(split, "bcfw", "svm", options, exact=False)
    assert result["test"]["error"] < 0.09
