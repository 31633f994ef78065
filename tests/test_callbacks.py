"""Records of fits in other places: JSON lines, TensorBoard, Weights & Biases, MLflow."""

import copy
import json
import pickle
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from slender import LinearProbe, LogisticClassifier, SLNDClassifier
from slender.callbacks import JSONLines, MLflow, TensorBoard, WandB, named
from slender.extras import MissingPackageError
from slender.storage import FileError

X = np.random.default_rng(0).standard_normal((60, 5)).astype(np.float32)
y = np.arange(60) % 3


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def fitted(callback, **more):
    return SLNDClassifier(passes=3, random_state=0, callbacks=[callback], **more).fit(X, y)


@pytest.mark.parametrize(
    "model", [SLNDClassifier(passes=3), LogisticClassifier(), LinearProbe([0.1, 1.0])]
)
def test_json_lines_are_the_records(model):
    model.set_params(callbacks=JSONLines("log.jsonl"), random_state=0).fit(X, y)
    assert lines("log.jsonl") == getattr(model, "path_", model.trace_)


def test_json_lines_begin_anew_unless_told_otherwise():
    call = JSONLines("log.jsonl")
    call({"objective": 1.0})
    JSONLines("log.jsonl", append=True)({"objective": float("nan"), "word": "ä"})
    assert lines("log.jsonl") == [{"objective": 1.0}, {"objective": None, "word": "ä"}]
    JSONLines("log.jsonl")
    assert lines("log.jsonl") == []


def test_a_place_that_cannot_be_written_is_told_at_once():
    with pytest.raises(FileError, match="there is no folder"):
        JSONLines("nowhere/log.jsonl")


def test_clones_write_to_the_same_place():
    call = JSONLines("log.jsonl")
    model = SLNDClassifier(passes=2, callbacks=[call], random_state=0)
    for _ in range(2):
        clone(model).fit(X, y)
    assert len(lines("log.jsonl")) == call.records == 4


class Module(SimpleNamespace):
    """A module that find_spec finds."""

    def __init__(self, name, **functions):
        super().__init__(__spec__=SimpleNamespace(name=name), __name__=name, **functions)


def test_wandb_takes_a_run_the_current_one_or_a_new_one(monkeypatch):
    def run():
        logged = []
        return SimpleNamespace(log=logged.append, logged=logged)

    given, current, new = run(), run(), run()
    model = fitted(WandB(given))  # the package is not asked for
    assert given.logged == model.trace_
    fake = Module("wandb", run=current, init=lambda: new)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    assert fitted(WandB()).trace_ == current.logged
    fake.run = None
    assert fitted(WandB()).trace_ == new.logged


def test_mlflow_gets_metrics_with_steps(monkeypatch):
    logged = []
    fake = Module("mlflow", log_metrics=lambda metrics, step: logged.append((step, metrics)))
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    model = fitted(MLflow())
    assert logged == list(enumerate(model.trace_, start=1))
    MLflow()({"objective": 1.0, "gap": float("inf"), "opt": "sgd", "validation": None})
    assert logged[-1] == (1, {"objective": 1.0})  # only what is a finite number


def test_tensorboard_gets_scalars_with_steps(monkeypatch):
    written = []

    def writer(folder, flush_secs):
        assert folder == "runs"
        return SimpleNamespace(add_scalar=lambda *scalar: written.append(scalar))

    monkeypatch.setitem(sys.modules, "tensorboardX", Module("tensorboardX", SummaryWriter=writer))
    call = TensorBoard("runs")
    model = fitted(call)
    assert written == [
        (name, value, step)
        for step, record in enumerate(model.trace_, start=1)
        for name, value in record.items()
    ]
    assert copy.deepcopy(call) is call
    assert pickle.loads(pickle.dumps(call)).records == 3  # for another process, without its files


def test_tensorboard_reads_what_tensorboardx_wrote():
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    call = TensorBoard("runs")
    model = fitted(call)
    call.close()
    (file,) = Path("runs").iterdir()
    content, found = file.read_bytes(), []
    while content:  # a TFRecord: length, its checksum, the event, its checksum
        (length,) = struct.unpack("<Q", content[:8])
        event = event_pb2.Event.FromString(content[12 : 12 + length])
        found += [(v.tag, event.step, v.simple_value) for v in event.summary.value]
        content = content[16 + length :]
    objectives = [value for tag, _, value in found if tag == "objective"]
    assert objectives == pytest.approx([record["objective"] for record in model.trace_], rel=1e-6)


@pytest.mark.parametrize(
    ("make", "package"),
    [(lambda: TensorBoard("x"), "tensorboardX"), (WandB, "wandb"), (MLflow, "mlflow")],
)
def test_a_missing_package_is_told_when_the_callback_is_made(monkeypatch, make, package):
    monkeypatch.setattr("slender.extras.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=f"pip install {package}"):
        make()


def test_names_of_places():
    assert isinstance(named("a.jsonl"), JSONLines)
    for word in ("tensorboard", "tensorboard:", "a.json", "wandb:x", ""):
        with pytest.raises(ValueError, match=r"is not one of FILE\.jsonl, tensorboard:FOLDER"):
            named(word)


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def files():
    np.save("X.npy", X)
    np.save("y.npy", y)


def test_fit_and_path_keep_records(slender, files):
    fit = ("fit", "X.npy", "y.npy", "--method", "slnd", "--passes", 3, "--out", "m", "-q")
    assert slender(*fit, "--val", "X.npy", "--val-y", "y.npy", "--log", "f.jsonl")[0] == 0
    assert [line["passes"] for line in lines("f.jsonl")] == [1.0, 2.0, 3.0]
    assert "validation_top1" in lines("f.jsonl")[0]
    path = ("path", "X.npy", "y.npy", "--cs", "0.1,1", "--out", "m", "-q", "--log", "p.jsonl")
    assert slender(*path)[0] == 0
    assert [line["C"] for line in lines("p.jsonl")] == [0.1, 1.0]


def test_lines_are_beside_every_json_also_if_records_go_elsewhere(slender, files, monkeypatch):
    seen = []
    monkeypatch.setattr("slender.extras.find_spec", lambda name: True)
    monkeypatch.setattr("slender.callbacks.MLflow.keep", lambda self, record: seen.append(record))
    where = ("--log", "mlflow", "-q")
    for words, passes in (
        (("fit", "X.npy", "y.npy", "--method", "slnd", "--passes", 3, "--out", "m"), 3),
        (("path", "X.npy", "y.npy", "--cs", "0.1,1", "--out", "m"), 2),
        (("run", "--opt", "bcfw", "--passes", 4), 4),
    ):
        seen.clear()
        code, _, err = slender(*words, "--json", "out.json", *where)
        assert (code, err) == (0, "")
        assert len(seen) == len(lines("out.jsonl")) == passes
        Path("out.jsonl").unlink()
        assert slender(*words, "--json", "-", *where)[0] == 0
        assert not list(Path().glob("*.jsonl"))


def test_records_of_a_fit_that_continues_are_added(slender, files):
    words = ("fit", "X.npy", "y.npy", "--method", "slnd", "--passes", 3, "--out", "m", "-q",
             "--checkpoint", "saved", "--log", "f.jsonl")  # fmt: skip
    Path("f.jsonl").write_text('{"passes": 0.5}\n')  # of the run that was killed
    assert slender(*words, "--resume")[0] == 0
    assert [line["passes"] for line in lines("f.jsonl")] == [0.5, 1.0, 2.0, 3.0]
    assert slender(*words)[0] == 0
    assert [line["passes"] for line in lines("f.jsonl")] == [1.0, 2.0, 3.0]


def test_run_and_compare_keep_records_beside_their_json(slender):
    words = ("--opt", "bcfw", "--passes", 2, "--quiet")
    assert slender("run", *words, "--json", "run.json")[0] == 0
    assert lines("run.jsonl") == json.loads(Path("run.json").read_text())["curve"]
    compare = ("compare", *words, "--json", "c.json")
    assert slender(*compare)[0] == 0
    assert slender(*compare, "--seeds", 2, "--resume")[0] == 0
    found = lines("c.jsonl")
    assert [(line["seed"], line["passes"]) for line in found] == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert {"dataset": "digits", "opt": "bcfw", "obj": "svm", "size": None}.items() <= {
        **found[0]
    }.items()
    assert slender(*compare[:-1], "d.json", "--log", "other.jsonl")[0] == 0
    assert len(lines("other.jsonl")) == 2
    assert not Path("d.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "--opt", "bcfw", "--log", "x.txt"), "--log x.txt is not one of FILE.jsonl"),
        (("run", "--opt", "bcfw", "--json", "a.jsonl"), "two results cannot both go to a.jsonl"),
        (("run", "--opt", "bcfw", "--log", "no/x.jsonl"), "there is no folder"),
        (("compare", "--opt", "bcfw", "--log", "mlflow"), "takes the records of one fit"),
        (("fit", "X.npy", "y.npy", "--out", "m", "--log", "mlflow"), "pip install mlflow"),
    ],
)
def test_bad_places(slender, files, monkeypatch, words, said):
    monkeypatch.setattr("slender.extras.find_spec", lambda name: None)
    code, out, err = slender(*words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
