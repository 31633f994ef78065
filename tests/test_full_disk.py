"""Full disks, and commands that are told to end: one line is said, and nothing is left behind."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from processes import SLENDER
from slender import LogisticClassifier, ProductQuantizer, save_model, storage
from slender.cli import main

resource = pytest.importorskip("resource")  # no such limits on Windows

rng = np.random.default_rng(0)
X = rng.standard_normal((300, 8), dtype=np.float32)
y = np.arange(300) % 3

WRITERS = {
    "npy": "predict model X.npy --out new.npy",
    "text": "predict model X.npy --out new.csv --proba",
    "json": "score model X.npy y.npy --json new.json",
    "model": "fit X.npy y.npy --out new",
    "export": "export model --to torch --out new.safetensors",
    "codes": "compress X.npy --like codes.pq --out new.pq",
    "figure": "run --opt sgd --passes 1 --plot new.png -q",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with rows and a model in it, as the current one."""
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    np.save("y.npy", y)
    save_model(LogisticClassifier().fit(X, y), "model")
    return tmp_path


@pytest.mark.parametrize("what", WRITERS)
def test_a_file_that_does_not_fit_is_named_and_not_left(folder, slender, what):
    if what == "codes":
        pytest.importorskip("faiss")
        ProductQuantizer(d_sq=8, random_state=0).fit(X).encode(X).save("codes.pq")
    if what == "figure":
        pytest.importorskip("matplotlib.pyplot").figure()  # its own caches are there
    slender(*WRITERS[what].split())  # compiles what there is to compile
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, hard))  # more is refused, also to root
    try:
        code, out, err = slender(*WRITERS[what].split())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "could not be written (File too large)" in err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_no_result_is_written_through_a_mapping(folder, slender, monkeypatch):
    """The system ends a process (SIGBUS) that writes to a mapping for which there is no space."""

    def opened(path, mode="r", *_, **__):
        assert mode == "r"
        return read(path, mode=mode)

    read = np.lib.format.open_memmap
    monkeypatch.setattr(np.lib.format, "open_memmap", opened)
    assert slender("predict", "model", "X.npy", "--out", "new.npy", "-q") == (0, "", "")
    assert np.load("new.npy").shape == (300,)


def test_no_space_says_what_to_do(tmp_path):
    def full(_):
        raise OSError(28, "No space left on device")

    with pytest.raises(storage.FileError, match=r"No space left on device\); free some space"):
        storage.write_whole(tmp_path / "new", full)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", ["predict model X.npy", "score model X.npy y.npy --json -"])
def test_standard_output_on_a_full_disk(folder, words):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*SLENDER, *words.split()], check=False, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert re.fullmatch(
        r"slender: standard output could not be written \(No space left on device\); .*\n",
        done.stderr,
    )


# -- SIGTERM ---------------------------------------------------------------------------------------


def test_what_another_thread_was_writing_is_removed(folder, monkeypatch):
    """`compress` writes in one thread while Ctrl-C arrives in another."""
    seen = []

    def left(code):
        seen.append(code)
        raise SystemExit(code)

    def interrupted(*_):
        temporary = storage._beside(Path("new").absolute())
        storage._unfinished.add(temporary)
        temporary.touch()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    monkeypatch.setattr(os, "_exit", left)
    monkeypatch.setattr("slender.model.load_model", interrupted)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit):
        main(["predict", "model", "X.npy", "--out", "new.npy"])
    assert seen == [130]
    assert signal.getsignal(signal.SIGTERM) is before
    assert {path.name for path in folder.iterdir()} == {"X.npy", "y.npy", "model"}
