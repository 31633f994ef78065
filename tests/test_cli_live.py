"""The table that `slender compare` shows on a terminal while it runs."""

import contextlib
import io
import os
import pty
import subprocess

from rich.console import Console

from processes import SLENDER
from slender.cli import live

EVENT = {"dataset": "digits", "size": None, "opt": "sgd", "obj": "svm", "seed": 0, "step": 0.01}
RECORD = {"passes": 2.0, "seconds": 0.25, "exact": 1.5, "gap": 1e-3, "validation_accuracy": 0.9}


def drawn(board):
    """The lines of its table, as words."""
    console = Console(width=160, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(board.table())
    return [line.split() for line in console.file.getvalue().splitlines()]


def test_a_line_for_each_contender_has_its_newest_figures():
    board = live.Board(4)
    board.add({**EVENT, "record": None, "ended": False, "done": 0})
    title, heading, first = drawn(board)
    assert title == ["0", "of", "4", "fits"]
    assert heading == ["seed", "step", "pass", "seconds", "objective", "gap", "validation"]
    assert first == [">", "digits", "sgd", "svm", "0", "0.01", "-", "-", "-", "-", "-"]
    board.add({**EVENT, "record": RECORD, "ended": False, "done": 0})
    figures = ["2", "0.250", "1.5", "1.0e-03", "0.9000"]
    assert drawn(board)[2] == [">", "digits", "sgd", "svm", "0", "0.01", *figures]
    board.add({**EVENT, "record": RECORD, "ended": True, "done": 1})
    other = {**EVENT, "opt": "bcfw", "size": 1000, "step": None}
    board.add({**other, "record": {**RECORD, "gap": None}, "ended": False, "done": 1})
    title, _, first, second = drawn(board)
    assert title == ["1", "of", "4", "fits"]
    assert first[:2] == ["digits", "sgd"]  # it has ended
    assert second[:6] == [">", "digits", "1,000", "rows", "bcfw", "svm"]
    assert second[7:] == ["-", "2", "0.250", "1.5", "-", "0.9000"]


def test_elsewhere_there_is_no_table(monkeypatch, capsys):
    monkeypatch.setattr(live, "Board", None)
    with live.progress_of_comparison(1, quiet=False) as advance:
        advance({**EVENT, "record": RECORD, "ended": True, "done": 1}, None)
    assert capsys.readouterr().err == ""  # the log has a line every half minute
    with live.progress_of_comparison(1, quiet=True) as advance:
        advance({**EVENT, "record": RECORD, "ended": True, "done": 1}, None)
    assert capsys.readouterr().err == ""


def test_compare_shows_it_on_a_terminal(tmp_path):
    words = "compare --dataset digits --opt sgd,bcfw --obj svm --passes 2 --json r.json"
    master, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160"}
    running = subprocess.Popen(
        [*SLENDER, *words.split()], cwd=tmp_path, env=environment, stdout=subprocess.PIPE,
        stderr=terminal,
    )  # fmt: skip
    os.close(terminal)
    seen = b""
    try:
        with contextlib.suppress(OSError):  # until the other end is closed
            while part := os.read(master, 4096):
                seen += part
        out, _ = running.communicate(timeout=60)
    finally:
        running.kill()
        os.close(master)
    assert running.returncode == 0, seen
    for text in (b"of 2 fits", b"digits sgd svm", b"digits bcfw svm", b"validation"):
        assert text in seen
    assert b"bcfw" in out  # and the summary, where it belongs
