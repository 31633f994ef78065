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

import numpy as np
import pytest

from slender import SLNDClassifier, save_model

SLENDER = [sys.executable, "-c", "from slender.cli import main; main()"]

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


WORDS = {
    "slnd": "fit X.npy y.npy --out new --method slnd --passes 100000",
    "logistic": "fit X.npy y.npy --out new --C 1e5 --tol 1e-15 --val X.npy --val-y y.npy",
    "path": "path X.npy y.npy --out new --plot path.png --json r.json --full --tol 1e-9",
    "demo": "demo",
}
BARS = {"path": b"/45 C"}  # what to wait for; the others count passes


@pytest.mark.parametrize("command", WORDS)
def test_ctrl_c(folder, command):
    """Interrupt a fit that runs in compiled code; its progress bar, on a terminal, says when."""
    n = 60_000
    np.save("X.npy", rng.standard_normal((n, 32), dtype=np.float32))
    np.save("y.npy", rng.integers(0, 500, n))
    before = sorted(folder.iterdir())
    master, terminal = pty.openpty()
    running = subprocess.Popen(
        [*SLENDER, *WORDS[command].split()],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env={**os.environ, "TMPDIR": str(folder), "TERM": "xterm"},
    )
    os.close(terminal)
    try:
        seen = b""
        while BARS.get(command, b"passes") not in seen:
            seen += os.read(master, 4096)
        time.sleep(1.0)
        asked = time.monotonic()
        running.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # until the other end is closed
            while True:
                seen += os.read(master, 4096)
        assert running.wait(timeout=20) == 130
        assert time.monotonic() - asked < 5
    finally:
        running.kill()
        running.communicate()
        os.close(master)
    assert b"slender: interrupted; nothing was written" in seen
    assert b"Traceback" not in seen
    assert sorted(folder.iterdir()) == before
