"""--checkpoint and --resume as people use them: killed jobs continue, other jobs are refused."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from processes import SLENDER
from slender import load_model

ROOT = Path(__file__).resolve().parent.parent
rng = np.random.default_rng(0)
CLASSES = np.arange(600) % 6
X = (rng.standard_normal((6, 8))[CLASSES] + rng.standard_normal((600, 8))).astype(np.float32)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a data set in it, as the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLENDER_DEBUG", raising=False)
    np.save("X.npy", X)
    np.save("y.npy", CLASSES)
    return tmp_path


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the script forks")
@pytest.mark.parametrize("command", ["fit", "path", "compress", "compare"])
def test_five_kills_lose_nothing(command):
    if command == "compress":
        pytest.importorskip("faiss")
    words = [sys.executable, "-m", "benchmarks.kills", "--count", "5", "--only", command]
    done = subprocess.run(words, check=False, cwd=ROOT, capture_output=True, text=True, timeout=300)
    found = re.fullmatch(
        r"\w+: 5 kills, \d+ jobs, 0 lost, 0 half written, 0 different\n", done.stdout
    )
    assert found, done.stdout + done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("words", ["fit --method gd --passes 1000000 --tol 1e-12 --lam 1e-6",
                                   "path --cs 20000 --full --tol 1e-9"])  # fmt: skip
def test_whoever_is_told_to_end_saves_first(here, number, words):
    """With the default of 60 seconds, nothing else would write so soon.  The jobs take minutes."""
    given = ["X.npy", "y.npy", "--out", "model", "--checkpoint", "kept"]
    command = [*SLENDER, *words.split(), *given]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not Path("kept").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.5)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert list(Path("kept").glob("fit-*.safetensors"))
    assert err.splitlines()[-1].endswith("the same command with --resume continues from kept")


# -- fit and path ----------------------------------------------------------------------------------


def test_a_folder_with_a_job_is_continued_only_when_asked(here, slender, monkeypatch):
    words = "fit X.npy y.npy --tol 1e-8 --out model --checkpoint kept --checkpoint-every 0 -q"
    slender(*words.split())
    assert not Path("kept").exists()  # what was saved is in the model
    wanted = load_model("model")
    with monkeypatch.context() as patch:
        patch.setattr("slender.model.save_model", lambda *given: 1 / 0)  # a crash, before the end
        assert slender(*words.split())[0] == 1
    code, out, err = slender(*words.split())
    assert (code, out) == (2, "")
    assert err == (
        "slender: kept: holds an unfinished job; --resume continues it, or name another folder\n"
    )
    code, _, err = slender(*words.split(), "--resume", "--C", "2")
    assert code == 2
    assert "kept: was made with --C 1.0, this fit has --C 2.0; choose another folder" in err
    assert slender(*words.split(), "--resume") == (0, "", "")
    model = load_model("model")
    assert model.coef_.tobytes() == wanted.coef_.tobytes()
    assert len(model.trace_) == len(wanted.trace_)
    assert slender(*words.split(), "--resume")[0] == 0  # with nothing to continue it begins


@pytest.mark.parametrize("command", ["fit X.npy y.npy --out m", "path X.npy y.npy --out m",
                                     "compress X.npy --out m.pq"])  # fmt: skip
def test_resume_needs_a_folder(here, slender, command):
    code, _, err = slender(*command.split(), "--resume")
    assert (code, err) == (
        2, "slender: --resume continues what a folder holds: name it with --checkpoint\n"
    )  # fmt: skip


def test_figures_on_other_rows_are_kept_too(here, slender, monkeypatch):
    """What a callback wrote into the records is saved with them."""
    words = "fit X.npy y.npy --val X.npy --val-y y.npy --method sgd --out model --json m.json -q"
    slender(*words.split())
    wanted = json.loads(Path("m.json").read_text())["trace"]
    saved = [*words.split(), "--checkpoint", "kept", "--checkpoint-every", "0", "--resume"]
    with monkeypatch.context() as patch:
        from slender.solvers.checkpoint import SavedRun

        usual = SavedRun.write

        def write(self, *given):
            usual(self, *given)
            raise RuntimeError("killed")

        patch.setattr(SavedRun, "write", write)
        for _ in range(3):
            assert slender(*saved)[0] == 1
    assert slender(*saved)[0] == 0
    found = json.loads(Path("m.json").read_text())["trace"]
    timed = ("seconds", "bytes_read")
    assert [{k: v for k, v in r.items() if k not in timed} for r in found] == [
        {k: v for k, v in r.items() if k not in timed} for r in wanted
    ]


# -- compress --------------------------------------------------------------------------------------


@pytest.fixture
def halted(here, slender, monkeypatch):
    """A compression that ended after two of its blocks, and its command."""
    pytest.importorskip("faiss")
    from slender.compress.quantizer import ProductQuantizer
    from slender.rows import base

    monkeypatch.setattr(base, "BLOCK_BYTES", 4096)
    words = ["compress", "X.npy", "--dsq", "4", "--out", "X.pq", "-q"]
    words += ["--checkpoint", "kept", "--checkpoint-every", "0"]
    usual = ProductQuantizer.encoded

    def encoded(self, rows, progress, first=0):
        for number, block in enumerate(usual(self, rows, progress, first)):
            if number == 2:
                raise RuntimeError("killed")
            yield block

    with monkeypatch.context() as patch:
        patch.setattr(ProductQuantizer, "encoded", encoded)
        assert slender(*words)[0] == 1
    assert not Path("X.pq").exists()
    return words


def test_codes_are_not_computed_twice(halted, slender, monkeypatch):
    from slender.compress.quantizer import ProductQuantizer

    assert slender("compress", "X.npy", "--dsq", "4", "--out", "whole.pq", "-q")[0] == 0
    usual, firsts = ProductQuantizer.encoded, []

    def encoded(self, rows, progress, first=0):
        firsts.append(first)
        return usual(self, rows, progress, first)

    monkeypatch.setattr(ProductQuantizer, "encoded", encoded)
    monkeypatch.setattr(ProductQuantizer, "fit", None)  # the codebooks are there
    assert slender(*halted)[0] == 2
    assert slender(*halted, "--resume") == (0, "", "")
    assert firsts == [2 * 128]
    assert Path("X.pq").read_bytes() == Path("whole.pq").read_bytes()
    assert not Path("kept").exists()


@pytest.mark.parametrize("name", ["codebooks.npy", "codes.part"])
def test_a_damaged_compression_is_refused(halted, slender, name):
    content = bytearray(Path("kept", name).read_bytes())
    content[-1] ^= 1
    Path("kept", name).write_bytes(content)
    code, _, err = slender(*halted, "--resume")
    assert code == 2
    assert f"kept/{name}: damaged (checksum differs); delete kept to begin anew" in err
    assert not Path("X.pq").exists()


def test_a_compression_that_is_told_to_end_saves_first(here, slender, monkeypatch):
    """Its codes, too, although the default of 60 seconds is far away."""
    pytest.importorskip("faiss")
    from slender.compress.quantizer import ProductQuantizer

    monkeypatch.setattr("slender.rows.base.BLOCK_BYTES", 4096)
    words = ["compress", "X.npy", "--dsq", "4", "-q", "--out"]
    assert slender(*words, "whole.pq")[0] == 0
    encoded, told = ProductQuantizer.encoded, []

    def interrupting(self, rows, progress, first=0):
        for number, block in enumerate(encoded(self, rows, progress, first)):
            yield block
            if number == 1 and not told:
                told.append(signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(1)

    monkeypatch.setattr(ProductQuantizer, "encoded", interrupting)
    monkeypatch.setattr(os, "_exit", sys.exit)
    words += ["X.pq", "--checkpoint", "kept"]
    code, _, err = slender(*words)
    assert code == 130
    assert err.splitlines()[-1].endswith("the same command with --resume continues from kept")
    assert json.loads(Path("kept/progress.json").read_text())["rows"] > 0
    assert slender(*words, "--resume")[0] == 0
    assert Path("X.pq").read_bytes() == Path("whole.pq").read_bytes()


def test_other_compressions_are_refused(halted, slender):
    def said(*words):
        code, out, err = slender(*halted, "--resume", *words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        return err

    assert "kept: holds a compression with --seed 0, now --seed 1" in said("--seed", 1)
    np.save("X.npy", X[:500])
    assert "of other rows (600 x 8 there, 500 x 8 here)" in said()
    np.save("X.npy", X)
    with Path("kept/codes.part").open("rb+") as file:
        file.truncate(10)
    assert "codes.part: is shorter than it was" in said()
    Path("kept/progress.json").write_text("{")
    assert "progress.json: cannot be read as the progress of a compression" in said()
    Path("kept/job.json").unlink()
    assert "kept: holds other files" in said()


# -- compare ---------------------------------------------------------------------------------------


def test_a_comparison_is_kept_in_a_folder(here, slender, monkeypatch):
    words = ["compare", "--opt", "sgd,bcfw", "--obj", "svm", "--passes", "1", "-q"]
    words += ["--checkpoint", "kept", "--json", "-"]
    from slender.lab import comparison

    usual, made = comparison.experiment, []

    def experiment(*given, **more):
        if len(made) == 1:
            raise RuntimeError("killed")
        made.append(given[1])
        return usual(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(comparison, "experiment", experiment)
        assert slender(*words)[0] == 1
    code, _, err = slender(*words)
    assert code == 2
    assert "fits.json: holds an unfinished comparison, 1 of 2 fits; --resume continues it" in err
    code, out, _ = slender(*words, "--resume")
    assert code == 0
    assert len(json.loads(out)["fits"]) == 2
    assert not Path("kept").exists()
    Path("kept").mkdir()
    Path("kept/mine.txt").touch()
    assert "kept: holds other files" in slender(*words)[2]


# -- the guide -------------------------------------------------------------------------------------


def test_the_commands_of_the_guide_run(here, slender):
    guide = (ROOT / "docs" / "resuming.md").read_text()
    lines = [
        line.partition("#")[0].split()
        for block in re.findall(r"```sh\n(.*?)```", guide, flags=re.DOTALL)
        for line in block.splitlines()
    ]
    commands = [words[1:] for words in lines if words[:1] == ["slender"]]
    assert {words[0] for words in commands} >= {"fit", "path", "compress", "compare"}
    for words in commands:
        if words[0] == "extract" or (words[0] == "compress" and find_spec("faiss") is None):
            continue  # images: tests/test_extraction.py
        code, _, err = slender(*words)
        assert code == 0, err
