"""The command as a process: exit codes, streams, start-up, Ctrl-C."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from processes import SLENDER
from slender import SLNDClassifier, load_model, save_model
from slender.cli import interrupts, progress

rng = np.random.default_rng(0)
CODES = np.arange(60) % 6
X = (2 * rng.standard_normal((6, 8))[CODES] + rng.standard_normal((60, 8))).astype(np.float32)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with test rows and a model in it, as the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLENDER_DEBUG", raising=False)
    np.save("X_test.npy", X)
    np.save("y_test.npy", CODES)
    save_model(SLNDClassifier(random_state=0).fit(X, CODES), "model")
    return tmp_path


def process(*words):
    command = [*SLENDER, *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_exit_codes_and_streams(folder):
    done = process("fit", "none.npy", "--out", "new")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"slender: none\.npy: no such file.*\n", done.stderr)
    done = process("score", "model", "none.npy", "--debug")
    assert done.returncode == 2
    assert "Traceback" in done.stderr


def test_the_package_runs_as_a_module(folder):
    command = [sys.executable, "-m", "slender", "info", "model", "--json", "-"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["classes"] == list(range(6))


def test_a_warning_is_one_line(folder):
    labels = CODES.copy()
    labels[3:5] = 99
    np.save("y_test.npy", labels)
    done = process("score", "model", ".", "--json", "-")
    assert done.returncode == 0
    assert json.loads(done.stdout)["rows"] == 60
    assert re.fullmatch(r"slender: warning: 2 rows have a label .*\n", done.stderr)


def test_help_starts_without_the_heavy_imports():
    check = (
        "import sys, slender, slender.cli\n"
        "print({'numpy', 'scipy', 'sklearn', 'numba', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n"


FITS = {
    "slnd": "fit X.npy y.npy --out new --json r.json --method slnd --passes 100000",
    "logistic": "fit X.npy y.npy --out new --json r.json --C 1e5 --tol 1e-15",
    "path": "path X.npy y.npy --out new --json r.json --plot path.png --full --tol 1e-5",
}
BARS = {"path": b"1/45 C"}  # what to wait for; the others count passes


def pressed(
    words: str, bar: bytes, again: bytes | None = None, sent: signal.Signals = signal.SIGINT
) -> bytes:
    """What a command says on a terminal: Ctrl-C once its bar says `bar`, once more at `again`."""
    n = 60_000
    np.save("X.npy", rng.standard_normal((n, 32), dtype=np.float32))
    np.save("y.npy", rng.integers(0, 500, n))
    master, terminal = pty.openpty()
    running = subprocess.Popen(
        [*SLENDER, *words.split()],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env={**os.environ, "TMPDIR": os.getcwd(), "TERM": "xterm"},
    )
    os.close(terminal)
    try:
        seen = b""
        for mark in filter(None, (bar, again)):
            while mark not in seen:
                seen += os.read(master, 4096)
            running.send_signal(sent)
        asked = time.monotonic()
        with contextlib.suppress(OSError):  # until the other end is closed
            while True:
                seen += os.read(master, 4096)
        assert running.wait(timeout=60) == 130
        assert again is None or time.monotonic() - asked < 20
    finally:
        running.kill()
        running.communicate()
        os.close(master)
    assert b"Traceback" not in seen
    return seen


@pytest.mark.parametrize(
    ("command", "sent"), [*((name, signal.SIGINT) for name in FITS), ("logistic", signal.SIGTERM)]
)
def test_ctrl_c_ends_a_fit_and_keeps_its_model(folder, command, sent):
    seen = pressed(FITS[command], BARS.get(command, b"passes  objective"), sent=sent)
    assert b"slender: interrupted; new holds the" in seen
    assert not json.loads(Path("r.json").read_text())["finished"]
    assert load_model("new").predict(np.load("X.npy")[:3]).shape == (3,)
    assert Path("path.png").exists() == (command == "path")


@pytest.mark.parametrize(
    ("words", "bar", "again", "records"),
    [
        ("path X.npy y.npy --out new --json r.json --full --tol 1e-9", b"1/45 C", b"interrupted:",
         {"r.jsonl"}),
        ("demo", b"passes", None, set()),
    ],
)  # fmt: skip
def test_ctrl_c_twice_or_in_the_demo_writes_no_result(folder, words, bar, again, records):
    before = {path.name for path in folder.iterdir()}
    seen = pressed(words, bar, again)
    assert b"slender: interrupted; no result was written" in seen
    assert {path.name for path in folder.iterdir()} == before | {"X.npy", "y.npy"} | records


def test_ctrl_c_in_a_run_keeps_the_passes_done_which_are_shown_as_they_end(folder):
    words = "run --opt bcfw --passes 100000 --json r.json --plot r.png"
    running = subprocess.Popen(
        [*SLENDER, *words.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        heading, names, first = (running.stdout.readline() for _ in range(3))
        running.send_signal(signal.SIGINT)
        out, err = running.stdout.read(), running.stderr.read()  # communicate() loses read lines
        assert running.wait(timeout=60) == 130
    finally:
        running.kill()
        running.communicate()
    assert heading.startswith("bcfw on digits")
    assert names.split()[:6] == ["pass", "seconds", "objective", "gap", "train", "validation"]
    assert first.split()[0] == "1"
    *others, _, last = out.splitlines()
    assert last.startswith("test error")
    results = json.loads(Path("r.json").read_text())
    assert not results["finished"]
    assert len(results["curve"]) == 1 + len(others)
    assert f"{1 + len(others)} of 100000 passes are done, and in r.json" in err
    assert Path("r.png").exists()


def test_a_log_has_a_line_now_and_then(folder, monkeypatch, capsys):
    with progress.progress_of_rows("compress", 9, quiet=False) as advance:
        advance(3, None)
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
        advance(6, None)
        assert capsys.readouterr().err == "slender: compress: 6/9 rows\n"
    with progress.progress_of_rows("compress", 9, quiet=True) as advance:
        advance(3, None)
    assert capsys.readouterr().err == ""


def test_ctrl_c_leaves_a_fit_that_has_nothing_to_keep_yet(monkeypatch):
    def press(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(interrupts, "wait", press)
    with pytest.raises(KeyboardInterrupt):
        interrupts.interruptible(lambda: time.sleep(1), interrupts.Ending())
