"""slender fit with every method: its options reach the estimator, others are refused."""

import json

import numpy as np
import pytest

from slender import load_model

rng = np.random.default_rng(0)
CODES = np.arange(180) % 6
X = (2 * rng.standard_normal((6, 8))[CODES] + rng.standard_normal((180, 8))).astype(np.float32)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLENDER_DEBUG", raising=False)
    np.savez("data.npz", X=X[:120], y=CODES[:120])
    return tmp_path


METHOD_OPTIONS = {  # of each method: words, and what they set
    "sgd": (
        "--loss crammer_singer --lam 0.1 --step 0.5 --batch-size 10 --schedule sqrt --average",
        {"loss": "crammer_singer", "lam": 0.1, "step": 0.5, "batch_size": 10, "schedule": "sqrt"},
    ),
    "sgdqn": (
        "--loss hinge --lam 0.1 --t0 100 --period 8 --passes 2",
        {"loss": "hinge", "lam": 0.1, "t0": 100.0, "period": 8, "passes": 2},
    ),
    "olbfgs": (
        "--lam 0.1 --memory 3 --damping 0.5 --t0 auto --step 0.1 --no-intercept",
        {"lam": 0.1, "memory": 3, "damping": 0.5, "t0": "auto", "step": 0.1},
    ),
    "gd": (
        "--lam 0.1 --step lipschitz --passes 300 --tol 0.5",
        {"lam": 0.1, "step": "lipschitz", "passes": 300, "tol": 0.5},
    ),
    "larank": (
        "--C 2 --tol 0.5 --no-adaptive --no-active --inner 1 --passes 50",
        {
            "C": 2.0,
            "tol": 0.5,
            "reprocess": True,
            "adaptive": False,
            "active": False,
            "inner": 1,
            "passes": 50,
        },
    ),
    "bcfw": (
        "--lam 0.1 --batch-size 7 --tol 0.1 --no-average --passes 50",
        {"lam": 0.1, "batch_size": 7, "tol": 0.1, "average": False, "passes": 50},
    ),
    "tracenorm": (
        "--lambda1 0.05 --lambda2 0.001 --tol 0.01 --passes 50 --intercept",
        {"lambda1": 0.05, "lambda2": 1e-3, "tol": 0.01, "passes": 50, "fit_intercept": True},
    ),
}


@pytest.mark.parametrize("method", METHOD_OPTIONS)
def test_every_method(here, slender, method):
    words, expected = METHOD_OPTIONS[method]
    code, out, err = slender(
        "fit", "data.npz", "--method", method, "--out", "new", "--seed", 0, *words.split()
    )
    assert (code, err) == (0, "")
    model = load_model("new")
    assert {name: model.get_params()[name] for name in expected} == expected
    assert model.score(X[120:], CODES[120:]) > 0.6
    assert ("relative gap" in out) == (method in ("gd", "larank", "bcfw", "tracenorm"))
    code, _, err = slender("predict", "new", "data.npz", "--proba", "--out", "p.npy", "-q")
    if hasattr(model, "predict_proba"):
        assert (code, err) == (0, "")
    else:
        assert code == 2
        loss = f" with loss {model.loss}" if hasattr(model, "loss") else ""
        assert f"a {type(model).__name__}{loss} gives no probabilities; fit" in err


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("--method bcfw --C 9", "method bcfw does not support --C: use --method logistic"),
        ("--method larank --lam 9", "method larank does not support --lam: use --method sgd"),
        ("--method gd --average", "method gd does not support --average: use --method slnd"),
        ("--method sgd --memory 3", "method sgd does not support --memory: use --method olbfgs"),
        ("--method sgdqn --step 1", "method sgdqn does not support --step: use --method slnd"),
        ("--method sgdqn --period soon", "--period soon must"),
        ("--method sgdqn --variant 2009", "--variant 2009 must"),
        ("--method sgdqn --lam 0", "--lam 0: the rates"),
        ("--method bcfw --batch-size 121", "--batch-size 121 is more than the 120"),
        ("--method gd --loss crammer_singer", "crammer_singer"),
    ],
)
def test_refuses(here, slender, words, part):
    code, out, err = slender("fit", "data.npz", "--out", "new", *words.split())
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert part in err
    assert not (here / "new").exists()


@pytest.mark.parametrize("classes", [2, 6])
def test_a_model_in_factors_is_watched_on_other_rows(here, slender, classes):
    mine = CODES < classes
    np.savez("few.npz", X=X[mine], y=CODES[mine])
    words = ("--method", "tracenorm", "--val", "few.npz", "--out", "new", "--json", "-")
    code, out, err = slender("fit", "few.npz", *words)
    assert (code, err) == (0, "")
    last = json.loads(out)["trace"][-1]
    assert last["validation_top1"] == load_model("new").score(X[mine], CODES[mine])


def test_the_path_of_the_trace_norm(here, slender):
    words = ("--penalty", "trace", "--n-lambda1", 3, "--n-lambda2", 2, "--out", "probe")
    code, out, err = slender("path", "data.npz", *words, "--plot", "grid.png", "--json", "out.json")
    assert (code, err) == (0, "")
    found = json.loads((here / "out.json").read_text())
    probe = load_model("probe")
    assert len(found["path"]) >= 6  # or more, until validation turns
    assert (found["lambda1"], found["lambda2"]) == (probe.lambda1_, probe.lambda2_)
    assert "chosen lambda1" in out
    assert (here / "grid.png").stat().st_size > 0
    code, _, err = slender("path", "data.npz", *words, "--scale", "l2")
    assert code == 2
    assert "penalty trace does not support --scale: use --penalty l2" in err
    code, _, err = slender("path", "data.npz", "--alpha", 0.1, "--out", "probe")
    assert code == 2
    assert "penalty l2 does not support --alpha: use --penalty trace" in err


def test_grids_of_the_trace_norm(here, slender):
    grids = ("--lambda1s", "0.01:1:3", "--lambda2s", "1e-4,1e-3")
    words = ("path", "data.npz", "--penalty", "trace", "--out", "probe", "--json", "-")
    code, out, err = slender(*words, *grids)
    assert (code, err) == (0, "")
    path = json.loads(out)["path"]
    lambda1s = np.unique([record["lambda1"] for record in path])
    np.testing.assert_allclose(lambda1s, [0.01, 0.1, 1])
    assert {record["lambda2"] for record in path} == {1e-4, 1e-3}
    code, _, err = slender(*words, *grids, "--n-lambda2", 3)
    assert (code, err.count("\n")) == (2, 1)
    assert "--n-lambda2 and --lambda2s exclude each other" in err
    code, _, err = slender(*words, "--lambda1s", "few")
    assert (code, err.count("\n")) == (2, 1)
    assert "--lambda1s few: give a list (0.01,0.1,1) or lowest:highest:number" in err
