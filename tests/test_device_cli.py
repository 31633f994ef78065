"""--device: where a command computes, and that its results say so."""

import json
import subprocess
import sys

import numpy as np
import pytest

from slender import load_model
from slender.registry import METHODS

rng = np.random.default_rng(0)
y = np.arange(300) % 4
X = (rng.standard_normal((300, 10)) + rng.standard_normal((4, 10))[y]).astype(np.float32)
TORCH = ("--device", "torch:cpu")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    np.save("y.npy", y)
    return tmp_path


def result(slender, *words):
    code, out, err = slender(*words, "--json", "-", "--quiet")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("words", [("fit", "--C", "0.1"), ("path", "--cs", "0.01,0.1,1")])
def test_fits_on_a_device_and_says_so(slender, words):
    pytest.importorskip("torch")
    data = (*words, "X.npy", "y.npy", "--out")
    here, there = result(slender, *data, "here"), result(slender, *data, "there", *TORCH)
    assert (here["device"], there["device"]) == ("cpu", "torch:cpu")
    for of in (here, there):
        of["objective"] = of.get("objective", of["path"][-1]["objective"] if "path" in of else 0)
    assert abs(here["objective"] - there["objective"]) <= 2e-3 * here["objective"]
    assert isinstance(load_model("there").coef_, np.ndarray)
    for model in ("here", "there"):
        predict = ("predict", model, "X.npy", "--proba", "--out")
        said = [result(slender, *predict, "cores.npy")]
        said += [result(slender, *predict, "torch.npy", *TORCH)]
        assert [of["device"] for of in said] == ["cpu", "torch:cpu"]
        np.testing.assert_allclose(np.load("cores.npy"), np.load("torch.npy"), rtol=1e-4, atol=1e-6)
        scores = [result(slender, "score", model, "X.npy", "y.npy", *of) for of in ((), TORCH)]
        assert [of["device"] for of in scores] == ["cpu", "torch:cpu"]
        assert scores[0]["top1"] == scores[1]["top1"]


@pytest.mark.usefixtures("folder")
def test_people_read_where_it_was(slender):
    pytest.importorskip("torch")
    watched = ("--val", "X.npy", "--val-y", "y.npy")
    _, out, _ = slender("fit", "X.npy", "y.npy", "--out", "model", *watched, *TORCH)
    assert "validation" in out
    assert any(line.split() == ["device", "torch:cpu"] for line in out.splitlines())
    _, out, _ = slender("fit", "X.npy", "y.npy", "--out", "model", "--device", "cpu")
    assert "device" not in out


def test_run_on_a_device(slender):
    pytest.importorskip("torch")
    words = ("run", "--dataset", "digits", "--opt", "slnd", "--passes", "2")
    there = result(slender, *words, *TORCH)
    assert there["device"] == "torch:cpu"
    here = result(slender, *words)
    assert here["device"] == "cpu"
    assert abs(here["test"]["error"] - there["test"]["error"]) < 0.02


def one_line(slender, *words):
    code, out, err = slender(*words)
    assert (code, out, err.count("\n")) == (2, "", 1), (out, err)
    return err


@pytest.mark.usefixtures("folder")
def test_devices_that_are_not_there(slender, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    fit = ("fit", "X.npy", "y.npy", "--out", "model")
    said = one_line(slender, *fit, "--device", "cuda")
    assert said.startswith("slender: --device cuda: torch sees no GPU here")
    assert "use --device cpu" in said
    assert one_line(slender, *fit, "--device", "gpu") == (
        "slender: --device gpu must be cpu, torch:cpu, cuda, or one of several GPUs, as cuda:1; "
        "or auto, to choose one by the size of the problem\n"
    )
    for command in (("path", *fit[1:]), ("run", "--opt", "slnd")):
        assert "torch sees no GPU" in one_line(slender, *command, "--device", "cuda")
    slender(*fit)
    for command in (("predict", "model", "X.npy"), ("score", "model", "X.npy", "y.npy")):
        assert "torch sees no GPU" in one_line(slender, *command, "--device", "cuda")


@pytest.mark.usefixtures("folder")
def test_no_torch(slender, monkeypatch):
    monkeypatch.setattr("slender.extras.find_spec", lambda name: None)
    said = one_line(slender, "fit", "X.npy", "y.npy", "--out", "model", "--device", "cuda")
    assert said == "slender: --device cuda needs the package torch: pip install torch\n"


@pytest.mark.usefixtures("folder")
def test_methods_without_a_form_for_a_gpu(slender):
    pytest.importorskip("torch")
    able = ", ".join(name for name, of in METHODS.items() if of.load().on_device)
    fit = ("fit", "X.npy", "y.npy", "--method", "sgd", "--out", "model")
    said = one_line(slender, *fit, *TORCH)
    assert said == f"slender: method sgd does not support --device: use --method {able}\n"
    slender(*fit)
    said = one_line(slender, "score", "model", "X.npy", "y.npy", *TORCH)
    assert "SGDClassifier does not compute on a GPU; these do: LogisticClassifier" in said
    assert "does not compute on a GPU" in one_line(slender, "run", "--opt", "bcfw", *TORCH)
    assert result(slender, "score", "model", "X.npy", "y.npy")["device"] == "cpu"


@pytest.mark.usefixtures("folder")
def test_auto_leaves_large_problems_to_a_gpu(slender, monkeypatch):
    """Here its GPU is torch on the CPU."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("slender.places.gpus", lambda: ["A"])
    monkeypatch.setattr("slender.places.torch_device", lambda name: torch.device("cpu"))
    monkeypatch.setattr("slender.estimators.placing.torch_device", lambda name: torch.device("cpu"))
    fit = ("fit", "X.npy", "y.npy", "--out", "model")
    assert result(slender, *fit)["device"] == "cpu"
    monkeypatch.setattr("slender.places.WORTH", 20 * X.size * 4)
    assert result(slender, *fit)["device"] == "torch:cpu"
    assert result(slender, *fit, "--device", "cpu")["device"] == "cpu"
    assert result(slender, "score", "model", "X.npy", "y.npy")["device"] == "cpu"  # one pass only


@pytest.mark.usefixtures("folder")
def test_auto_does_not_import_torch_for_small_problems():
    code = (
        "import sys\nfrom slender.cli import main\n"
        "try:\n    main(['fit', 'X.npy', 'y.npy', '--out', 'model', '--quiet'])\n"
        "except SystemExit as end:\n    assert not end.code\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
