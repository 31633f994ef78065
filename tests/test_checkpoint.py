"""Fits that are killed and called again end as if nothing had happened; all else is refused."""

import json
import logging
import os
import signal
import threading
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.model_selection import KFold

import slender
from slender import LinearProbe, LogisticClassifier, SGDClassifier, storage
from slender.rows.fingerprint import fingerprint
from slender.solvers import checkpoint as module
from slender.solvers.checkpoint import SavedRun, clear, saved_in
from slender.solvers.newton import Newton
from slender.solvers.packing import pack
from slender.storage import FileError

rng = np.random.default_rng(0)
# more rows than the line search samples, so that which ones it samples matters
y = np.arange(1700) % 4
X = rng.standard_normal((1700, 6)) * np.geomspace(3, 0.3, 6) + 0.7 * rng.standard_normal((4, 6))[y]
X = X.astype(np.float32)

CASES = {  # estimator, settings, every how many writes it is killed
    "logistic": ("LogisticClassifier", {"tol": 1e-9}, 3),
    "logistic, no intercept": ("LogisticClassifier", {"C": 100, "fit_intercept": False}, 1),
    "gd": ("GDClassifier", {"passes": 12, "tol": 1e-3, "lam": 0.1}, 4),
    "probe": ("LinearProbe", {"Cs": 7}, 5),
    "probe, folds": ("LinearProbe", {"Cs": [0.01, 1.0], "validation": 3}, 6),
    "probe, calibrated": ("LinearProbe", {"Cs": [0.01, 1.0], "calibrate": True}, 3),
    "trace": ("TraceNormClassifier", {"tol": 1e-5}, 2),
    "trace, literal": ("TraceNormClassifier", {"turn": False, "pairs": 1, "passes": 20}, 4),
    "trace probe": ("TraceNormProbe", {"n_lambda1": 3, "n_lambda2": 2}, 7),
    "sgd": ("SGDClassifier", {}, 2),
    "sgd, batches": ("SGDClassifier", {"loss": "cross_entropy", "batch_size": 8}, 2),
    "sgdqn": ("SGDQNClassifier", {"passes": 3}, 1),
    "sgdqn 2008": ("SGDQNClassifier", {"passes": 3, "variant": "2008"}, 1),
    "olbfgs": ("OLBFGSClassifier", {"passes": 3}, 1),
    "slnd": ("SLNDClassifier", {"negatives": 1.0}, 2),
    "slnd, theory": ("SLNDClassifier", {"step": "theory", "passes": 2}, 1),
    "larank": ("LaRankClassifier", {"tol": 1e-2, "C": 0.1}, 3),
    "bcfw": ("BCFWClassifier", {"passes": 8, "lam": 0.1}, 3),
}


class Killed(BaseException):
    """As abrupt as a process can be that is to live on."""


def killed_every(monkeypatch, writes):
    """From here on a fit dies after so many writes; 0: it does not."""
    usual, count = SavedRun.write, [0]

    def write(self, *given):
        usual(self, *given)
        count[0] += 1
        if count[0] % writes == 0:
            raise Killed

    monkeypatch.setattr(SavedRun, "write", write if writes else usual)


def resumed(make, monkeypatch, writes, *data):
    """The model after as many kills as there are, and their number."""
    kills = 0
    while True:
        try:
            with monkeypatch.context() as patch:
                killed_every(patch, writes)
                return make().fit(*data), kills
        except Killed:
            kills += 1


def figures(model):
    """All that must be the same."""
    names = ("gap_", "objective_", "n_iter_", "C_", "lambda1_", "lambda2_", "temperature_", "step_")
    timed = {"seconds", "bytes_read"}
    records = [
        {name: value for name, value in record.items() if name not in timed}
        for name in ("trace_", "path_", "folds_")
        for record in np.ravel(getattr(model, name, []))
    ]
    found = {name: getattr(model, name) for name in names if hasattr(model, name)}
    return model.coef_.tobytes(), model.intercept_.tobytes(), repr(found), repr(records)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_a_killed_fit_ends_as_one_that_was_not(case, tmp_path, monkeypatch):
    name, settings, writes = CASES[case]
    cls, folder = getattr(slender, name), tmp_path / "saved"
    n = 300 if "theory" in case else len(y)
    whole = cls(random_state=3, **settings).fit(X[:n], y[:n])

    def make():
        return cls(random_state=3, checkpoint=folder, checkpoint_every=0, **settings)

    model, kills = resumed(make, monkeypatch, writes, X[:n], y[:n])
    assert kills > 0
    assert figures(model) == figures(whole)
    # the same call again finds the last step, and only ends it
    steps = []
    monkeypatch.setattr(SavedRun, "stepped", lambda *given, **more: steps.append(given))
    assert figures(make().fit(X[:n], y[:n])) == figures(whole)
    assert not steps


def kinds_in(node):
    """Names of the classes in a document."""
    if isinstance(node, dict):
        yield from [node["is"]] if "is" in node else []
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from kinds_in(part)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_part_of_a_state_is_saved(dtype, tmp_path, monkeypatch):
    """With many classes, and with few but many steps, there are others than in the cases above."""
    monkeypatch.setattr("slender.solvers.linesearch.BYTES", 2**16)
    monkeypatch.setattr("slender.solvers.quasinewton.MANY", 4)
    many = np.arange(1700) % 300
    seen = set()

    def write(self, saved, *given):
        seen.update(kinds_in(pack(saved.tree, saved.kinds)[0]))
        usual(self, saved, *given)

    usual = SavedRun.write
    monkeypatch.setattr(SavedRun, "write", write)
    for place, labels in enumerate((y, many)):
        settings = {"tol": 1e-9 if labels is y else 1e-3, "max_iter": 12, "random_state": 0}
        whole = LogisticClassifier(**settings).fit(X.astype(dtype), labels)
        settings |= {"checkpoint": tmp_path / str(place), "checkpoint_every": 0}
        model, kills = resumed(
            partial(LogisticClassifier, **settings), monkeypatch, 4, X.astype(dtype), labels
        )
        assert kills > 0
        assert figures(model) == figures(whole)
    wanted = {kind.__name__ for kind in Newton.made_of} - {"ClassDiagonal", "LineSample"}
    wanted -= {"Batch", "BatchedGram", "BatchedCorrection"}  # on a device: test_tensors.py
    assert wanted - seen <= {"DenseNewton", "ClassMatrix"}, wanted - seen


def test_passes_may_be_added(tmp_path):
    long = slender.GDClassifier(passes=9, random_state=0).fit(X, y)
    settings = {"random_state": 0, "checkpoint": tmp_path / "saved", "checkpoint_every": 0}
    slender.GDClassifier(passes=4, **settings).fit(X, y)
    assert figures(slender.GDClassifier(passes=9, **settings).fit(X, y)) == figures(long)
    settings["checkpoint"] = tmp_path / "other"
    SGDClassifier(passes=1, **settings).fit(X, y)
    with pytest.raises(FileError, match=r"was made with passes=1, this fit has passes=2"):
        SGDClassifier(passes=2, **settings).fit(X, y)  # step="auto" depends on them


def test_without_a_seed_the_random_numbers_are_those_of_the_first_call(tmp_path, monkeypatch):
    def make():
        return SGDClassifier(passes=4, checkpoint=tmp_path / "saved", checkpoint_every=0)

    model, kills = resumed(make, monkeypatch, 1, X, y)
    assert kills == 4
    assert figures(make().fit(X, y)) == figures(model)
    clear(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
    assert figures(make().fit(X, y)) != figures(model)


def test_a_short_fit_writes_nothing(tmp_path):
    LogisticClassifier(checkpoint=tmp_path / "saved", checkpoint_every=1e6).fit(X, y)
    assert not saved_in(tmp_path / "saved")


def test_partial_fit_is_not_saved(tmp_path):
    SGDClassifier(checkpoint=tmp_path / "saved", checkpoint_every=0).partial_fit(X, y)
    assert not (tmp_path / "saved").exists()


def test_a_fit_that_a_callback_stopped_stays_stopped(tmp_path, monkeypatch):
    settings = {"checkpoint": tmp_path / "saved", "checkpoint_every": 0, "random_state": 0}
    ends = {"callbacks": lambda record, model: record["passes"] >= 2}
    model = SGDClassifier(passes=5, **settings, **ends).fit(X, y)
    assert figures(SGDClassifier(passes=5, **settings).fit(X, y)) == figures(model)
    assert model.n_iter_ == 2


@pytest.mark.parametrize("cls", [SGDClassifier, LinearProbe])
def test_ctrl_c_waits_for_the_step_and_saves_it(cls, tmp_path):
    less = {"passes": 6} if cls is SGDClassifier else {"Cs": 6}
    whole = cls(random_state=0, **less).fit(X, y)
    settings = {"random_state": 0, "checkpoint": tmp_path / "saved", **less}

    def press(record, model):
        if not press.done:
            os.kill(os.getpid(), signal.SIGINT)
        press.done = True

    press.done = False
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.warns(match="interrupted"):
            cls(callbacks=press, **settings).fit(X, y)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(saved_in(tmp_path / "saved")) == 1  # not the hurried end
    assert figures(cls(**settings).fit(X, y)) == figures(whole)


# -- refusals --------------------------------------------------------------------------------------


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A fit that was killed, and how it was called."""
    folder = tmp_path / "saved"
    settings = {"random_state": 0, "checkpoint": folder, "checkpoint_every": 0}
    with monkeypatch.context() as patch:
        killed_every(patch, 1)
        with pytest.raises(Killed):
            LogisticClassifier(**settings).fit(X, y)
    return folder, settings


def refusal(model, *data, **more):
    with pytest.raises(FileError) as caught:
        model.fit(*data, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_other_data_is_refused(begun):
    folder, settings = begun
    model = LogisticClassifier(**settings)
    other = X.copy()
    other[1234, 2] += 1e-3  # a single number
    labels = y.copy()
    labels[[7, 8]] = labels[[8, 7]]
    said = refusal(model, X[:1600], y[:1600])
    assert said.startswith(f"{folder}: was made from other rows (1,700 x 6 there, 1,600 x 6 here)")
    assert said.endswith("choose another folder, or delete this one")
    assert "made from other rows" in refusal(model, other, y)
    assert "made from other rows" in refusal(model, -X, y)  # with the same norms
    assert "made from other rows" in refusal(model, X.astype(float), y)
    assert "made from other labels" in refusal(model, X, labels)
    assert "made from other labels" in refusal(model, X, y + 1)
    assert "made from other weights" in refusal(model, X, y, sample_weight=np.ones(len(y)))
    model.fit(X, y)


def test_other_settings_estimators_and_versions_are_refused(begun, monkeypatch):
    folder, settings = begun
    said = refusal(LogisticClassifier(C=2.0, **settings), X, y)
    assert said.startswith(f"{folder}: was made with C=1.0, this fit has C=2.0; choose another")
    other = {**settings, "random_state": 1}
    assert "random_state=0, this fit has random_state=1" in refusal(
        LogisticClassifier(**other), X, y
    )
    other["random_state"] = np.random.Generator(np.random.MT19937(0))
    assert "random_state" in refusal(LogisticClassifier(**other), X, y)
    said = refusal(slender.GDClassifier(**settings), X, y)
    assert "is of LogisticClassifier, not of GDClassifier" in said
    monkeypatch.setattr(module, "__version__", "99.0")
    assert "was made by slender" in refusal(LogisticClassifier(**settings), X, y)


def test_other_held_out_rows_are_refused(tmp_path, monkeypatch):
    settings = {"Cs": [0.1], "random_state": 0, "checkpoint_every": 0}

    def probe(folder, validation):
        return LinearProbe(validation=validation, checkpoint=tmp_path / folder, **settings)

    part = X[1500:], y[1500:]
    probe("rows", part).fit(X[:1500], y[:1500])
    assert "held out rows" in refusal(probe("rows", (part[0] * 2, part[1])), X[:1500], y[:1500])
    assert "held out labels" in refusal(probe("rows", (part[0], part[1][::-1])), X[:1500], y[:1500])
    probe("rows", part).fit(X[:1500], y[:1500])
    probe("folds", KFold(3, shuffle=True, random_state=0)).fit(X, y)
    assert "validation=" in refusal(probe("folds", KFold(3, shuffle=True, random_state=1)), X, y)


def test_damaged_files_are_refused(begun):
    folder, settings = begun
    (path,) = saved_in(folder)
    whole = path.read_bytes()
    model = LogisticClassifier(**settings)
    path.write_bytes(whole[:-100])
    assert "damaged" in refusal(model, X, y)
    changed = bytearray(whole)
    changed[-5] ^= 1
    path.write_bytes(changed)
    assert "damaged (checksum differs)" in refusal(model, X, y)
    for wrong in (
        b"",
        b"not a checkpoint",
        whole.replace(b"slender-checkpoint", b"slender-chickpoint"),
    ):
        path.write_bytes(wrong)
        refusal(model, X, y)
    path.write_bytes(whole)
    model.fit(X, y)


def test_folders_that_are_not_ours_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    said = refusal(LogisticClassifier(checkpoint=tmp_path), X, y)
    assert said == f"{tmp_path}: holds other files; choose a new folder, or an empty one"
    said = refusal(LogisticClassifier(checkpoint=tmp_path / "notes.txt"), X, y)
    assert said == f"{tmp_path / 'notes.txt'}: is a file; name a folder"
    said = refusal(LogisticClassifier(checkpoint=tmp_path / "a/b"), X, y)
    assert said.endswith("(No such file or directory); create the folder that it is to be in")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_read_only_folder_is_refused_before_the_work(tmp_path, monkeypatch):
    def refuse(self, *given, **more):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(storage.Path, "touch", refuse)  # also where the tests run as root
        said = refusal(LogisticClassifier(checkpoint=tmp_path / "saved"), X, y)
        assert "cannot be written (Permission denied); choose another folder" in said
        patch.setattr(storage.Path, "mkdir", refuse)  # its parent is
        said = refusal(LogisticClassifier(checkpoint=tmp_path / "other"), X, y)
        assert "could not be written (Permission denied); choose another folder" in said


def test_the_folder_is_checked_before_the_rows_are_read(begun, monkeypatch):
    def read(rows):
        raise AssertionError

    monkeypatch.setattr("slender.estimators.checkpoints.fingerprint", read)
    folder, settings = begun
    assert "C=2.0" in refusal(LogisticClassifier(C=2.0, **settings), X, y)
    (folder / "fit-0.safetensors").rename(folder / "notes.txt")
    assert "holds other files" in refusal(LogisticClassifier(**settings), X, y)


def test_another_word_for_the_same_device(begun):
    """device=None computes where X is, which for an array is the CPU."""
    _, settings = begun
    LogisticClassifier(device="cpu", **settings).fit(X, y)
    said = refusal(LogisticClassifier(fit_intercept=False, **settings), X, y)
    assert "was made with fit_intercept=True, this fit has fit_intercept=False" in said
    torch = pytest.importorskip("torch")
    said = refusal(LogisticClassifier(**settings), torch.from_numpy(X), y)
    assert "was made with device=cpu, this fit has device=torch:cpu" in said


def test_two_fits_do_not_share_a_folder(tmp_path):
    settings = {"checkpoint": tmp_path / "saved", "random_state": 0}
    said = []

    def other(record, model):
        if not said:
            thread = threading.Thread(
                target=lambda: said.append(refusal(LogisticClassifier(**settings), X, y))
            )
            thread.start()
            thread.join()

    LogisticClassifier(callbacks=other, **settings).fit(X, y)
    assert said == [f"{tmp_path / 'saved'}: another fit is writing there; wait for its end"]


def test_a_full_disk_is_a_warning_and_the_fit_goes_on(tmp_path):
    resource = pytest.importorskip("resource")
    whole = LogisticClassifier(random_state=0).fit(X, y)
    folder = tmp_path / "saved"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = LogisticClassifier(random_state=0, checkpoint=folder, checkpoint_every=0)
            model.fit(X, y)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert figures(model) == figures(whole)
    (warning,) = caught  # once
    assert "could not be written" in str(warning.message)
    assert "the fit goes on" in str(warning.message)
    assert not list(folder.iterdir())


def test_bad_parameters(tmp_path):
    for settings, said in {
        ("checkpoint", 3): "checkpoint=3 must be the name of a folder",
        ("checkpoint_every", -1.0): "checkpoint_every=-1.0",
        ("checkpoint_every", 5.0): "checkpoint_every=5.0 is not used without a checkpoint",
    }.items():
        with pytest.raises(ValueError, match=said):
            LogisticClassifier(**dict([settings])).fit(X, y)


def test_a_model_file_does_not_tell_where_checkpoints_were(tmp_path):
    model = LogisticClassifier(checkpoint=tmp_path / "saved").fit(X, y)
    slender.save_model(model, tmp_path / "model")
    assert slender.load_model(tmp_path / "model").checkpoint is None
    assert b"checkpoint" not in (tmp_path / "model").read_bytes()


def test_another_number_of_threads_is_a_warning(begun, monkeypatch):
    _, settings = begun
    monkeypatch.setattr(module, "num_threads", lambda: 77)
    with pytest.warns(match="now there are 77: the result may differ by rounding errors"):
        model = LogisticClassifier(**settings).fit(X, y)
    assert model.gap_ <= model.tol * model.objective_


def test_what_is_continued_is_logged(begun, caplog):
    _, settings = begun
    with caplog.at_level(logging.INFO, "slender"):
        LogisticClassifier(**settings).fit(X, y)
    assert "a saved fit is continued after 1 passes" in caplog.messages


def test_the_file_can_be_read_by_anyone(begun):
    from safetensors import safe_open

    folder, _ = begun
    with safe_open(saved_in(folder)[0], "numpy") as file:
        document = json.loads(file.metadata()["slender-checkpoint"])
        assert {file.get_tensor(name).dtype.kind for name in file.keys()} <= set("fiub")  # noqa: SIM118
    assert document["about"]["settings"]["C"] == 1.0
    assert document["slender"] == slender.__version__


def test_equal_rows_have_one_fingerprint(tmp_path):
    from scipy.sparse import csr_array

    from slender.rows import as_rows

    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert fingerprint(as_rows(X)) == fingerprint(as_rows(mapped))
    assert fingerprint(as_rows(X)) != fingerprint(as_rows(X[::-1]))
    sparse = np.where(X > 1, X, 0)
    assert fingerprint(as_rows(csr_array(sparse))) != fingerprint(as_rows(csr_array(X)))
