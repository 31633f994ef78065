"""slender compare as people use it: tables, one JSON, resuming, presets, sizes, figures."""

import json
import math
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processes import SLENDER
from slender.cli import main
from slender.lab import comparison, documents, ledger, measures
from slender.lab.figures import plot_curves, plot_sizes
from slender.lab.splits import load
from slender.storage import FileError

rng = np.random.default_rng(0)
CODES = np.arange(400) % 4
X = (rng.standard_normal((4, 6))[CODES] + rng.standard_normal((400, 6))).astype(np.float32)
PARTS = (("train", slice(280)), ("test", slice(320, 400)))  # 63 + 7 rows of each class, 80


def write(folder, y):
    Path(folder).mkdir()
    for part, rows in PARTS:
        np.save(f"{folder}/X_{part}.npy", X[rows])
        np.save(f"{folder}/y_{part}.npy", y[rows])


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with two data sets in it, as the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLENDER_DEBUG", raising=False)
    monkeypatch.delenv("SLENDER_DATA", raising=False)
    write("four", CODES)
    write("two", CODES % 2)
    return tmp_path


@pytest.fixture
def compare(capsys):
    """Run `slender compare` in this process: (exit code, stdout, stderr)."""

    def call(*words):
        with pytest.raises(SystemExit) as caught:
            main(["compare", *[str(word) for word in words]])
        captured = capsys.readouterr()
        return caught.value.code or 0, captured.out, captured.err

    return call


@pytest.fixture
def fitted(monkeypatch):
    """Every experiment that is really run, as (opt, seed, step)."""
    seen = []
    whole = comparison.experiment

    def counted(split, opt, obj, options, seed, **rest):
        result = whole(split, opt, obj, options, seed, **rest)
        seen.append((opt, seed, options.step))
        return result

    monkeypatch.setattr(comparison, "experiment", counted)
    return seen


def results_of(result):
    code, out, err = result
    assert (code, err) == (0, "")
    return json.loads(out)


QUICK = ("--dataset", "four", "--passes", 2)


# -- results ---------------------------------------------------------------------------------------


def test_one_json_with_every_curve(here, compare):
    words = ("--dataset", "four,two", "--opt", "sgd,bcfw", "--obj", "svm", "--seeds", 2)
    results = results_of(compare(*words, "--passes", 3, "--json", "-"))
    assert results["finished"]
    assert len(results["fits"]) == results["planned"] == 8
    for fit in results["fits"]:
        assert len(fit["curve"]) == 3
        assert {"exact", "gap", "train_accuracy", "validation_accuracy"} <= fit["curve"][0].keys()
    assert set(results["datasets"]) == {"four", "two"}
    assert results["datasets"]["two"]["guess_error"] == 0.5
    assert results["left_out"] == results["choices"] == []
    assert results["large_scale"] is None
    rows = results["summary"]
    assert [(row["dataset"], row["opt"]) for row in rows] == [
        ("four", "sgd"), ("four", "bcfw"), ("two", "sgd"), ("two", "bcfw"),
    ]  # fmt: skip
    assert len({row["problem"] for row in rows}) == 1  # they can be compared
    last = [fit["curve"][-1]["exact"] for fit in results["fits"] if fit["dataset"] == "four"]
    sgd = [value for value, fit in zip(last, results["fits"], strict=False) if fit["opt"] == "sgd"]
    assert rows[0]["objective"]["mean"] == pytest.approx(np.mean(sgd))
    assert rows[0]["objective"]["spread"] == pytest.approx(np.std(sgd, ddof=1))
    assert rows[0]["gap"]["mean"] is None
    assert rows[1]["gap"]["mean"] >= 0


def test_for_people(here, compare):
    code, out, err = compare(*QUICK, "--opt", "sgd,slnd,larank", "--seeds", 2)
    assert (code, err) == (0, "")
    assert "four: 252 training, 28 validation, 80 test rows x 6, 4 classes" in out
    for problem in (
        "multinomial logistic, lam = 0.01",
        "one-vs-rest logistic, no penalty",
        "multi-class SVM, lam = 0.01",
    ):
        assert problem in out
    for head in ("objective", "gap", "train", "validation", "test", "seconds", "passes", "±"):
        assert head in out
    assert compare(*QUICK, "--opt", "sgd", "-q") == (0, "", "")


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_plot(here, compare, suffix):
    words = ("--opt", "sgd,slnd", "--seeds", 2, "-q", "--plot", f"c{suffix}")
    assert compare(*QUICK, *words) == (0, "", "")
    assert Path(f"c{suffix}").read_bytes().startswith((b"\x89PNG", b"%PDF", b"<?xml"))


def test_the_panels(here, compare):
    words = ("--dataset", "four,two", "--opt", "sgd,sgd-ovr", "--obj", "logistic,svm")
    results = results_of(compare(*words, "--passes", 2, "--json", "-"))
    figure = plot_curves(results["fits"])
    titles = [ax.get_title(loc="left") for ax in figure.axes if ax.get_title(loc="left")]
    assert titles == [
        f"{dataset}: {panel}"
        for dataset in ("four", "two")
        for panel in (
            "multinomial logistic, lam = 0.01",
            "multi-class SVM, lam = 0.01",
            "one-vs-rest logistic, lam = 0.01",
            "one-vs-rest SVM, lam = 0.01",
            "validation accuracy",
        )
    ]
    assert len(figure.axes) == 2 * len(titles)  # over seconds, over passes
    heights = [line.get_ydata() for ax in figure.axes[:2] for line in ax.lines]
    assert all((y > 0).all() for y in heights)
    labels = {text.get_text() for text in figure.legends[0].get_texts()}
    assert labels == {"sgd logistic", "sgd svm", "sgd-ovr logistic", "sgd-ovr svm"}


# -- the ledger ------------------------------------------------------------------------------------


def test_resume_fits_only_what_is_missing(here, compare, fitted):
    words = (*QUICK, "--opt", "sgd,slnd", "--json", "r.json", "-q")
    assert compare(*words, "--seeds", 1)[0] == 0
    before = json.loads(Path("r.json").read_text())["fits"]
    fitted.clear()
    assert compare(*words, "--seeds", 2, "--resume") == (0, "", "")
    assert fitted == [("sgd", 1, None), ("slnd", 1, None)]
    after = json.loads(Path("r.json").read_text())
    assert after["fits"][:2] == before
    assert after["planned"] == len(after["compared"]) == 4
    fitted.clear()
    assert compare(*words, "--seeds", 2, "--resume", "--lam", 0.5)[0] == 0
    assert fitted == [("sgd", 0, None), ("sgd", 1, None)]  # SLND has no penalty
    kept = json.loads(Path("r.json").read_text())
    assert len(kept["fits"]) == 6  # nothing is lost,
    assert len(kept["compared"]) == 4  # and the table is of what was asked for
    fitted.clear()
    np.save("four/X_train.npy", 2 * X[:280])
    assert compare(*words, "--seeds", 1, "--resume")[0] == 0
    assert fitted == [("sgd", 0, None), ("slnd", 0, None)]  # other rows


def test_results_are_saved_after_each_fit(here, compare, monkeypatch):
    whole = comparison.experiment

    def fails(split, opt, *rest, **more):
        if opt == "slnd":
            raise RuntimeError("the power went")
        return whole(split, opt, *rest, **more)

    words = (*QUICK, "--opt", "sgd,slnd,bcfw", "--json", "r.json")
    monkeypatch.setattr(comparison, "experiment", fails)
    code, _, err = compare(*words)
    assert code == 1
    assert "the power went" in err
    saved = json.loads(Path("r.json").read_text())
    assert not saved["finished"]
    assert [fit["opt"] for fit in saved["fits"]] == ["sgd"]
    monkeypatch.setattr(comparison, "experiment", whole)
    code, out, err = compare(*words)
    assert (code, out) == (2, "")
    assert "r.json: holds an unfinished comparison, 1 of 3 fits; --resume continues it" in err
    assert compare(*words, "--resume", "-q") == (0, "", "")
    results = json.loads(Path("r.json").read_text())
    assert results["finished"]
    assert results["fits"][0] == saved["fits"][0]
    assert compare(*words, "-q") == (0, "", "")  # a finished one may be written over


@pytest.mark.filterwarnings("default:.*could not be written:UserWarning")
def test_a_full_disk_drops_no_fit(here, compare, monkeypatch):
    """A save that fails is a warning, and the next one saves all."""
    whole, saves = documents.save, []

    def full_at_first(text, path):
        saves.append(len(json.loads(text)["fits"]))
        if len(saves) < 3:
            raise FileError(f"{path}: could not be written (No space left on device)")
        whole(text, path)

    monkeypatch.setattr("slender.lab.documents.save", full_at_first)
    words = (*QUICK, "--opt", "sgd,bcfw", "--obj", "svm", "--seeds", 2, "--checkpoint", "kept")
    code, out, err = compare(*words)
    assert code == 0
    assert err == (
        "slender: warning: kept/fits.json: could not be written (No space left on device); the "
        "work goes on, but would be lost until this succeeds\n"
    )
    assert saves == [1, 2, 3, 4]
    assert "sgd" in out
    assert "bcfw" in out


def test_resume_needs_a_comparison(here, compare):
    words = (*QUICK, "--opt", "sgd", "--resume")
    assert "--resume continues the file of --json, or --checkpoint; name it" in compare(*words)[2]
    Path("r.json").write_text("[1, 2")
    code, _, err = compare(*words, "--json", "r.json")
    assert code == 2
    assert "r.json: not a file of slender compare" in err
    Path("r.json").write_text('{"command": "fit", "fits": []}')
    assert "not a file of slender compare" in compare(*words, "--json", "r.json")[2]
    Path("r.json").write_text('{"command": "compare", "fits": ' + "[" * 10**5)
    assert "not a file of slender compare" in compare(*words, "--json", "r.json")[2]
    Path("r.json").unlink()
    assert compare(*words, "--json", "r.json", "-q") == (0, "", "")  # nothing there: from the start


@pytest.mark.parametrize(
    "edit",
    [
        lambda fit: fit["curve"].clear(),
        lambda fit: fit.update(curve=None),
        lambda fit: fit["test"].update(error=0.0),
        lambda fit: fit["curve"][-1].update(exact="low"),
        lambda fit: fit.update(seed=1),
    ],
)
def test_resume_does_not_believe_an_edited_file(here, compare, edit):
    words = (*QUICK, "--opt", "sgd", "--json", "r.json", "-q")
    assert compare(*words)[0] == 0
    document = json.loads(Path("r.json").read_text())
    edit(document["fits"][0])
    Path("r.json").write_text(json.dumps(document))
    code, out, err = compare(*words, "--resume")
    assert (code, out) == (2, "")
    assert err.startswith("slender: r.json: its fits are not as they were written")
    assert err.count("\n") == 1


def test_resume_does_not_mix_in_fits_of_other_names(here, compare):
    """Before options were called lam, step and passes, they were mu, init_lr and epochs."""
    words = (*QUICK, "--opt", "sgd", "--json", "r.json", "-q")
    assert compare(*words)[0] == 0
    document = json.loads(Path("r.json").read_text())
    options = document["fits"][0]["options"]
    options |= {"mu": options.pop("lam"), "epochs": options.pop("passes")}
    document["checksum"] = ledger.checksum(document["fits"])
    Path("r.json").write_text(json.dumps(document))
    code, out, err = compare(*words, "--resume")
    assert (code, out) == (2, "")
    assert err.startswith("slender: r.json: written by another version of slender, whose options")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done(here):
    command = [*SLENDER, "compare"]
    words = [*map(str, QUICK), "--opt", "sgd", "--json", "r.json", "-q", "--seeds"]
    running = subprocess.Popen(
        [*command, *words, "100000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        for _ in range(600):
            if Path("r.json").exists():
                break
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130
    saved = json.loads(Path("r.json").read_text())
    n = len(saved["fits"])
    kept = f"{n} fits are in r.json; the same command with --resume continues"
    assert err == f"slender: interrupted; {kept}\n"
    assert not list(here.glob(".slender*"))
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    done = subprocess.run([*command, *words, str(n), "--resume"], check=False, env=environment)
    assert done.returncode == 0
    assert json.loads(Path("r.json").read_text())["fits"] == saved["fits"]


# -- rates and presets -----------------------------------------------------------------------------


def test_the_best_rate_is_the_lowest_exact_objective(here, compare, fitted):
    words = ("--opt", "sgd,bcfw", "--obj", "svm", "--rates", "1e-4,0.01,1e6", "--seeds", 2)
    code, out, err = compare(*QUICK, *words, "--json", "r.json")
    assert (code, err) == (0, "")
    results = json.loads(Path("r.json").read_text())
    (choice,) = results["choices"]
    assert choice["opt"] == "sgd"
    assert choice["rates"] == [1e-4, 0.01, 1e6]
    finals = {
        fit["options"]["step"]: fit["curve"][-1]["exact"]
        for fit in results["fits"]
        if fit["opt"] == "sgd" and fit["seed"] == 0
    }
    assert choice["objectives"] == list(finals.values())
    assert choice["chosen"] == min(finals, key=lambda rate: finals[rate] or math.inf)
    assert not choice["at_edge"]
    assert f"sgd on four: first step {choice['chosen']:.3g}, the best of 3" in out
    assert [seed for opt, seed, _ in fitted if opt == "sgd"] == [0, 0, 0, 1]
    assert fitted[-2] == ("sgd", 1, choice["chosen"])
    assert results["planned"] == len(results["fits"]) == 6
    assert results["summary"][0]["step"] == choice["chosen"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0.1,1", [0.1, 1]), ("1e-2:1:3", [0.01, 0.1, 1]), ("0.5", [0.5])],
)
def test_rates(here, compare, text, expected):
    results = results_of(compare(*QUICK, "--opt", "sgd", "--rates", text, "--json", "-"))
    assert results["choices"][0]["rates"] == pytest.approx(expected)


def test_a_number_of_rates_is_in_units_of_the_rows(here, compare):
    words = ("--opt", "sgd,olbfgs", "--rates", 4, "--json", "-")
    (choice,) = results_of(compare(*QUICK, *words))["choices"]  # oLBFGS has its own units
    mean_sq = (load("four").X_train.astype(float) ** 2).sum(axis=1).mean()
    assert np.multiply(choice["rates"], mean_sq) == pytest.approx([10**-1.5, 1, 10**1.5, 1000])


def test_the_practical(here, compare):
    results = results_of(
        compare(*QUICK, "--preset", "practical", "--batch-size", 32, "--json", "-")
    )
    bcfw, sgd = results["summary"]
    assert (bcfw["opt"], sgd["opt"]) == ("bcfw", "sgd")
    assert bcfw["problem"] == sgd["problem"] == "multi-class SVM, lam = 0.01"
    (choice,) = results["choices"]
    assert len(choice["rates"]) == 10
    for fit in results["fits"]:
        assert fit["options"]["average"]
        assert fit["options"]["batch_size"] == 32  # what is given wins
    gap, best = bcfw["gap"]["mean"], min(bcfw["objective"]["mean"], sgd["objective"]["mean"])
    assert bcfw["objective"]["mean"] - gap <= best + 1e-6  # no rate gets below what is proved


def test_first_against_second_order(here, compare):
    words = ("--dataset", "four", "--preset", "orders", "--passes", 3, "--json", "-")
    results = results_of(compare(*words))
    assert [row["opt"] for row in results["summary"]] == ["sgd-ovr", "sgdqn", "olbfgs", "slnd"]
    assert {fit["preprocess"] for fit in results["fits"]} == {"standard"}
    problems = [row["problem"] for row in results["summary"]]
    assert problems == ["one-vs-rest logistic, lam = 0.0001, intercept"] * 3 + [
        "one-vs-rest logistic, no penalty, intercept"
    ]
    given = ("--obj", "svm", "--lam", 0.1, "--passes", 1, "--no-intercept")
    code, out, err = compare(*words[:-2], *given)
    assert (code, err) == (0, "slender: left out: --opt slnd solves logistic, not svm\n")
    assert "one-vs-rest SVM, lam = 0.1\n" in out  # options that are given win


def test_options_of_a_preset_that_nobody_uses_are_no_error(here, compare):
    words = ("--preset", "practical", "--opt", "bcfw", "--batch-size", 9)
    assert compare(*QUICK, *words, "-q") == (0, "", "")


# -- what does not apply ---------------------------------------------------------------------------


def test_who_cannot_be_fitted_is_left_out_and_the_rest_goes_on(here, compare):
    words = ("--opt", "sgd,slnd", "--batch-size", 253, "--seeds", 2)
    code, out, err = compare(*QUICK, *words, "--json", "r.json")
    assert code == 0
    assert err.startswith("slender: sgd left out on four: batch_size=253 is more than the 252 rows")
    assert err.count("\n") == 1
    assert "one-vs-rest logistic" in out
    results = json.loads(Path("r.json").read_text())
    assert [fit["opt"] for fit in results["fits"]] == ["slnd", "slnd"]
    assert results["left_out"][0]["opt"] == "sgd"


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("", ["--opt or --preset says what is compared"]),
        ("--opt newton", ["--opt newton is not one of gd"]),
        ("--opt sgd,,slnd", ["--opt sgd,,slnd: give names with a comma"]),
        ("--opt sgd,sgd", ["each once"]),
        ("--opt sgd --obj ridge", ["--obj"]),
        ("--opt larank --obj logistic", ["--opt larank solves svm, not logistic"]),
        ("--preset fast", ["--preset fast is not one of orders, practical"]),
        ("--opt larank,bcfw --step 1", ["--step is used by none of larank, bcfw"]),
        ("--opt larank --rates 3", ["--rates is used by none of larank"]),
        ("--opt slnd --rates 3", ["--rates is used by none of slnd"]),
        ("--opt sgd --rates 3 --step 1", ["--step and --rates exclude each other"]),
        ("--opt sgd --rates 0", ["--rates 0: give a number of values"]),
        ("--opt sgd --rates 1,few", ["every one a number > 0"]),
        ("--opt sgd --rates 1:2", ["lowest:highest:number"]),
        ("--opt sgd --rates 1:2:1", ["lowest:highest:number"]),
        ("--opt sgd --rates=-1,1", ["every one a number > 0"]),
        ("--opt sgd --seeds 0", ["--seeds 0"]),
        ("--opt sgd --sizes 10,few", ["--sizes 10,few: give numbers of rows"]),
        ("--opt sgd --sizes 0", ["--sizes 0"]),
        ("--opt sgd --sizes 253", ["nothing could be fitted", "only 252 training rows"]),
        ("--opt sgd --batch-size 999", ["nothing could be fitted", "--batch-size 999 is more"]),
        ("--opt sgd --lam=-1", ["--lam -1.0 must"]),
        ("--opt bcfw --lam 0", ["needs a penalty"]),
        ("--opt sgd --preprocess whiten", ["--preprocess whiten is not one of none, standard"]),
        ("--opt sgd --dataset four,minst", ["minst: neither a data set nor a file"]),
        ("--opt sgd --dataset four,mnist", ["mnist: not found"]),
        ("--opt sgd --data-dir .", ["--data-dir is not used"]),
        ("--opt sgd --plot c.gif", ["no known format of figures"]),
        ("--opt sgd --json none/r.json", ["no folder"]),
    ],
)
def test_refuses(here, compare, words, parts):
    before = sorted(here.iterdir())
    given = [] if "--dataset" in words else ["--dataset", "four"]
    code, out, err = compare(*words.split(), *given)
    assert (code, out) == (2, "")
    lines = err.splitlines()
    assert len(lines) == (2 if "nothing could be fitted" in err else 1)  # who is left out, first
    for part in parts:
        assert part in lines[-1]
    assert sorted(here.iterdir()) == before


# -- numbers of rows -------------------------------------------------------------------------------


def test_sizes(here, compare):
    words = ("--dataset", "two", "--opt", "sgd,slnd", "--sizes", "200,50,100", "--seeds", 2)
    code, out, err = compare(*words, "--passes", 2, "--json", "r.json", "--plot", "s.png")
    assert (code, err) == (0, "")
    results = json.loads(Path("r.json").read_text())
    assert len(results["fits"]) == 12
    assert [fit["rows"] for fit in results["fits"][:4]] == [50] * 4
    of = results["large_scale"]["two"]
    assert of["best_error"] == min(fit["test"]["error"] for fit in results["fits"])
    for each in of["contenders"]:
        assert [point["size"] for point in each["points"]] == [50, 100, 200]
        assert all(point["excess"] >= 0 for point in each["points"])
        assert all(0 <= point["pr_area"]["mean"] <= 1 for point in each["points"])
        assert 0 <= each["au_time"] <= 0.5
        assert 0 <= each["au_time_pr"] <= 0.5
        assert math.isfinite(each["effort"])
    for word in ("seconds ~ rows^", "AuTime", "PR area", "above the best", "best achieved by any"):
        assert word in out
    assert Path("s.png").read_bytes().startswith(b"\x89PNG")
    figure = plot_sizes(results["large_scale"])
    assert len(figure.axes) == 4


def test_a_size_that_is_not_there_is_left_out(here, compare):
    words = ("--opt", "slnd", "--sizes", "50,999", "--json", "r.json")
    code, out, err = compare(*QUICK, *words)
    assert code == 0
    assert err == (
        "slender: every optimiser left out on four, 999 rows: there are only 252 training rows\n"
    )
    assert "seconds ~ rows^-" in out  # one size has no exponent
    assert "PR area" not in out


def fit_of(size, seconds, error, opt="sgd", seed=0, pr_area=None):
    return {
        "dataset": "d", "size": size, "opt": opt, "obj": "svm", "seed": seed, "problem": "p",
        "options": {}, "test": {"accuracy": 1 - error, "error": error, "pr_area": pr_area},
        "curve": [{"seconds": seconds, "passes": 1, "objective": 1.0, "exact": 1.0}],
    }  # fmt: skip


@given(p=st.floats(-2, 3), scale=st.floats(1e-3, 1e3))
def test_the_exponent_of_a_power_is_that_power(p, scale):
    sizes = [10, 30, 100, 1000, 1000]
    assert measures.exponent(sizes, [scale * n**p for n in sizes]) == pytest.approx(p, abs=1e-9)
    assert measures.exponent([10, 10], [1.0, 2.0]) is None


def test_the_large_scale_measures_by_hand():
    facts = {"d": {"guess_error": 0.8, "guess_pr_area": 0.25}}
    fits = [
        fit_of(10, 1.0, 0.4, pr_area=0.5),
        fit_of(100, 10.0, 0.2, pr_area=0.75),
        fit_of(10, 10.0, 0.5, "bcfw", pr_area=0.25),
        fit_of(100, 100.0, 0.1, "bcfw", pr_area=1.0),
    ]
    of = measures.large_scale(fits, facts)["d"]
    assert of["best_error"] == 0.1
    sgd, bcfw = of["contenders"]
    assert [point["excess"] for point in sgd["points"]] == pytest.approx([0.3, 0.1])
    assert [point["excess"] for point in bcfw["points"]] == pytest.approx([0.4, 0.0])
    assert (sgd["effort"], bcfw["effort"]) == pytest.approx((1.0, 1.0))
    # two decades, 1 to 100 s: 0.4 until 10 s, then 0.2; and 0.8, the guess, until 10 s, then 0.5
    assert sgd["au_time"] == pytest.approx(0.3)
    assert bcfw["au_time"] == pytest.approx(0.65)
    assert sgd["au_time_pr"] == pytest.approx((0.5 + 0.25) / 2)
    assert bcfw["au_time_pr"] == pytest.approx(0.75)


def test_an_area_never_counts_a_later_worse_fit():
    assert measures.area_over_time([1, 10], [0.2, 0.6], 0.9, (1, 100)) == pytest.approx(0.2)
    assert measures.area_over_time([1], [0.2], 0.9, (1, 1)) is None


def test_a_fit_that_failed_leaves_no_mean():
    bad = fit_of(None, 1.0, 0.5, seed=1)
    bad["curve"][-1]["exact"] = None
    (row,) = measures.summary([fit_of(None, 1.0, 0.5), bad])
    assert row["objective"] == {"mean": None, "spread": None}
    assert row["seconds"] == {"mean": 1.0, "spread": 0.0}
    assert plot_curves([fit_of(None, 1.0, 0.5), bad]) is not None
