"""slender path as people use it: table, model, plot, and one clear line on bad input."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from slender import LinearProbe, load_model
from slender.cli import main
from slender.lab.plots import plot_path

CS = (0.001, 0.1, 10.0)

rng = np.random.default_rng(0)
CODES = np.arange(300) % 6
X = (rng.standard_normal((6, 8))[CODES] + rng.standard_normal((300, 8))).astype(np.float32)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a data set in it, as the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLENDER_DEBUG", raising=False)
    for part, rows in (("train", slice(200)), ("test", slice(200, None))):
        np.save(f"X_{part}.npy", X[rows])
        np.save(f"y_{part}.npy", CODES[rows])
    return tmp_path


@pytest.fixture
def path(capsys):
    """Run `slender path` in this process: (exit code, stdout, stderr)."""

    def run(*words):
        with pytest.raises(SystemExit) as caught:
            main(["path", *[str(word) for word in words]])
        captured = capsys.readouterr()
        return caught.value.code or 0, captured.out, captured.err

    return run


def results_of(result):
    code, out, err = result
    assert (code, err) == (0, "")
    return json.loads(out)


FILES = ("X_train.npy", "y_train.npy")
QUICK = ("--cs", "0.001,0.1,10", "--seed", 0, "--out", "probe")


# -- results ---------------------------------------------------------------------------------------


def test_the_model_of_the_library(here, path):
    code, out, err = path(*FILES, *QUICK)
    assert (code, err) == (0, "")
    probe = LinearProbe(CS, random_state=0).fit(X[:200], CODES[:200])
    loaded = load_model("probe")
    assert loaded.C_ == probe.C_
    assert np.array_equal(loaded.coef_, probe.coef_)
    assert np.array_equal(loaded.predict_proba(X), probe.predict_proba(X))
    heads = ("C", "objective", "rel. gap", "top-1", "top-5", "per class", "log loss", "passes")
    for word in (*heads, "seconds", "chosen C", "relative gap", "10 % of the rows"):
        assert word in out
    (marked,) = [line for line in out.splitlines() if line.lstrip().startswith(">")]
    assert float(marked.split()[1]) == pytest.approx(probe.C_, rel=1e-2)
    assert "test" not in out
    assert marked.count("±") == 2  # of top-1 and of the log loss


def test_a_scorer_has_a_column(here, path):
    code, out, err = path(*FILES, *QUICK, "--select", "f1_macro")
    assert (code, err) == (0, "")
    assert "f1_macro" in out
    assert load_model("probe").select == "f1_macro"
    results = results_of(path(*FILES, *QUICK, "--select", "f1_macro", "--json", "-"))
    best = max(results["path"], key=lambda record: record["f1_macro"])
    assert results["C"] == best["C"]
    assert results["select"] == "f1_macro"


def test_for_machines(here, path):
    results = results_of(path(*FILES, *QUICK, "--json", "-"))
    assert (results["rows"], results["features"], results["classes"]) == (200, 8, 6)
    assert results["C"] in [record["C"] for record in results["path"]]
    wanted = {"C", "objective", "gap", "top1", "top5", "mean_per_class", "log_loss", "passes"}
    assert all(wanted | {"seconds"} <= set(record) for record in results["path"])
    assert results["test"] is None
    assert path(*FILES, *QUICK, "--json", "r.json", "-q") == (0, "", "")
    assert json.loads(Path("r.json").read_text())["C"] == results["C"]


def test_the_test_part_of_a_folder_is_scored_and_never_chosen_on(here, path):
    results = results_of(path(".", *QUICK, "--json", "-"))
    probe = load_model("probe")
    assert results["test"]["top1"] == pytest.approx(probe.score(X[200:], CODES[200:]))
    np.save("y_test.npy", rng.permutation(CODES[200:]))  # nonsense: the choice must not notice
    again = results_of(path(".", *QUICK, "--json", "-"))
    for record in (*results["path"], *again["path"]):
        del record["seconds"]
    assert again["path"] == results["path"]
    assert again["C"] == results["C"]
    assert again["test"]["top1"] < 0.5
    assert np.array_equal(load_model("probe").coef_, probe.coef_)
    _, out, _ = path(".", *QUICK)
    assert "test top-1" in out


def test_val_is_never_the_test_part(here, path):
    code, out, err = path(".", *QUICK, "--val", ".")
    assert (code, out) == (2, "")
    assert "lacks X_val.npy" in err
    np.save("X_val.npy", X[:60])
    np.save("y_val.npy", CODES[:60])
    results = results_of(path(".", *QUICK, "--val", ".", "--json", "-"))
    assert results["validation"] == "., 60 rows"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--validation 0.25", "25 % of the rows"),
        ("--cv 3", "3 folds"),
        ("--val X_test.npy --val-y y_test.npy", "X_test.npy, 100 rows"),
    ],
)
def test_ways_to_choose(here, path, words, said):
    results = results_of(path(*FILES, *QUICK, *words.split(), "--json", "-"))
    assert results["validation"] == said
    loaded = load_model("probe")
    assert loaded.validation == {"--validation": 0.25, "--cv": 3}.get(words.split()[0])
    assert loaded.score(X, CODES) > 0.5


@pytest.mark.parametrize(
    ("cs", "expected"),
    [
        ("0.001,0.1,10", [0.001, 0.1, 10]),
        ("1e-2:1e2:5", [0.01, 0.1, 1, 10, 100]),
        ("3", np.logspace(-6, 5, 3)),
        ("0.5", [0.5]),
    ],
)
def test_cs(here, path, cs, expected):
    results = results_of(
        path(*FILES, "--full", "--cs", cs, "--seed", 0, "--out", "probe", "--json", "-")
    )
    assert [record["C"] for record in results["path"]] == pytest.approx(list(expected))


@pytest.mark.filterwarnings("default:Cs were sorted")
def test_unsorted_cs_are_sorted_and_it_says_so(here, path):
    code, out, err = path(*FILES, "--cs", "10,0.1,0.1", "--full", "--out", "probe", "--json", "-")
    assert code == 0
    assert err.startswith("slender: warning: --cs were sorted")
    assert err.count("\n") == 1
    assert [record["C"] for record in json.loads(out)["path"]] == [0.1, 10]


def test_the_seed_is_zero_unless_it_is_given(here, path):
    words = (*FILES, "--cs", "0.1", "--out", "probe", "--json", "-")
    results = results_of(path(*words))
    coef = load_model("probe").coef_
    results_of(path(*words, "--seed", 0))
    assert np.array_equal(load_model("probe").coef_, coef)
    assert results["seed"] == 0 == load_model("probe").random_state


def test_every_option_reaches_the_probe(here, path):
    words = "--full --scale standard --shots 20 --no-refit --no-intercept --class-weight balanced"
    words += " --tol 0.01 --max-iter 500 --validation 0.2 --calibrate"
    results = results_of(path(*FILES, *QUICK, *words.split(), "--json", "-"))
    params = load_model("probe").get_params()
    expected = {
        "Cs": list(CS),
        "full": True,
        "scale": "standard",
        "shots": 20,
        "refit": False,
        "fit_intercept": False,
        "class_weight": "balanced",
        "tol": 0.01,
        "max_iter": 500,
        "validation": 0.2,
        "calibrate": True,
        "random_state": 0,
        "callbacks": None,
    }
    assert {name: params[name] for name in expected} == expected
    assert results["temperature"] == pytest.approx(load_model("probe").temperature_)
    assert len(results["path"]) == 3


def test_binary_labels(here, path):
    np.save("y.npy", np.array(["no", "yes"])[(CODES[:200] < 3).astype(int)])
    results = results_of(path("X_train.npy", "y.npy", *QUICK, "--json", "-"))
    assert results["path"][0]["top5"] is None
    assert path("X_train.npy", "y.npy", *QUICK)[0] == 0
    assert set(load_model("probe").predict(X)) == {"no", "yes"}


# -- plots -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_plot(here, path, suffix):
    assert path(*FILES, *QUICK, "--plot", f"path{suffix}", "-q") == (0, "", "")
    content = Path(f"path{suffix}").read_bytes()
    assert content.startswith({".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}[suffix])


def test_plot_from_python(tmp_path):
    records = [
        {"C": C, "top1": top1, "top5": None, "mean_per_class": top1, "log_loss": 1 - top1}
        for C, top1 in ((10.0, 0.6), (0.1, 0.5), (1.0, 0.7))
    ]
    upper, lower = plot_path(records, 1.0).axes
    curve, other, chosen = upper.get_lines()
    assert list(curve.get_xdata()) == [0.1, 1.0, 10.0]
    assert list(curve.get_ydata()) == [0.5, 0.7, 0.6]
    assert [line.get_label() for line in (curve, other)] == ["top-1", "mean per class"]  # no top-5
    assert chosen.get_label() == "chosen C = 1"
    assert (upper.get_xscale(), lower.get_ylabel()) == ("log", "validation log-loss")
    with pytest.raises(ValueError, match="no known format of figures"):
        plot_path(records, 1.0, tmp_path / "path.gif")


def test_plots_show_standard_errors_and_fit_what_matters():
    """The bad accuracies of tiny C leave the axes; bands are a standard error on either side."""
    top1 = {1e-6: 0.1, 1e-5: 0.1, 1e-4: 0.1, 0.01: 0.5, 0.1: 0.85, 1.0: 0.9, 10.0: 0.88}
    records = [
        {"C": C, "top1": a, "top1_error": 0.02, "mean_per_class": a, "log_loss": 2 - a,
         "log_loss_error": 0.1}
        for C, a in top1.items()
    ]  # fmt: skip
    upper, lower = plot_path(records, 1.0).axes
    (band,) = upper.collections
    box = band.get_datalim(upper.transData)
    assert (box.y0, box.y1) == pytest.approx((0.08, 0.92))
    assert len(lower.collections) == 1
    low, high = upper.get_ylim()
    assert 0.8 < low < 0.83
    assert 0.92 < high < 0.95
    assert 1e-3 < upper.get_xlim()[0] < 0.01


def test_plot_without_matplotlib_is_refused_before_the_work(here, path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = path("none.npy", *QUICK, "--plot", "path.png")
    assert code == 2
    assert err == "slender: --plot needs the package matplotlib: pip install matplotlib\n"


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("--cs 0,1", ["--cs 0,1", "every one a number > 0"]),
        ("--cs=-1", ["every one a number > 0"]),
        ("--cs 1,few", ["--cs 1,few: give a number of values (45)"]),
        ("--cs 1:2", ["lowest:highest:number"]),
        ("--cs 0:1:5", ["every one a number > 0"]),
        ("--cs 5:1:5", ["lowest:highest:number"]),
        ("--cs nan", ["every one a number > 0"]),
        ("--cs 0", ["--cs 0 must"]),
        ("--val-y y_test.npy", ["--val-y without --val"]),
        ("--val narrow.npy --val-y y_test.npy", ["--val has 3 features but X has 8"]),
        ("--val X_test.npy --val-y y_train.npy", ["100 rows", "200 labels"]),
        ("--val X_test.npy --cv 3", ["--val and --cv exclude each other"]),
        ("--validation 0.1 --cv 3", ["--validation and --cv exclude each other"]),
        ("--cv 1", ["--cv 1", "two folds"]),
        ("--validation 1.5", ["--validation 1.5 must"]),
        ("--scale huge", ["--scale huge must"]),
        ("--shots 0", ["--shots 0 must"]),
        ("--tol 0", ["--tol 0.0 must"]),
        ("--max-iter 0", ["--max-iter 0 must"]),
        ("--class-weight heavy", ["class_weight"]),
        ("--plot path.gif", ["path.gif: no known format of figures"]),
        ("--plot none/path.png", ["no folder"]),
        ("--plot probe", ["two results"]),
        ("--json probe", ["two results"]),
        ("--method sgd", ["No such option", "--method"]),
    ],
)
def test_refuses(here, path, words, parts):
    np.save("narrow.npy", X[200:, :3])
    before = sorted(here.iterdir())
    code, out, err = path(*FILES, *QUICK, *words.split())
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err
    assert sorted(here.iterdir()) == before


def test_refuses_data(here, path):
    assert "Missing option '--out'" in path(*FILES)[2]
    assert "no such file" in path("none.npy", *QUICK)[2]
    bad = X[:200].copy()
    bad[7, 3] = np.nan
    np.save("X_train.npy", bad)
    code, _, err = path(".", *QUICK)
    assert code == 2
    assert "row 7, column 3" in err
    assert not Path("probe").exists()
