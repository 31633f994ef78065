"""The examples run, with a folder and without, and print what the scripts they stand for print."""

import json
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from slender.datasets import planted

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture
def run(monkeypatch, capsys):
    """What an example prints, started as a script."""

    def start(name, *words):
        monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return start


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    data = planted(600, 16, 4, n_test=200, separation=1.0)  # too few classes for a top-5
    for part, array in data._asdict().items():
        np.save(folder / f"{part}.npy", array)
    return folder


def test_every_example_has_a_test():
    tested = set(re.findall(r'run\("(\w+\.py)"', Path(__file__).read_text()))
    assert tested == {path.name for path in EXAMPLES.glob("*.py")}


def test_clip_probe(run, folder):
    from sklearn.linear_model import LogisticRegression

    assert re.fullmatch(r"Accuracy = \d+\.\d{3}\n", run("clip_probe.py"))
    accuracy = float(run("clip_probe.py", folder).split()[-1])
    data = planted(600, 16, 4, n_test=200, separation=1.0)
    theirs = LogisticRegression(C=0.316, max_iter=1000).fit(data.X_train, data.y_train)
    assert accuracy == pytest.approx(100 * theirs.score(data.X_test, data.y_test), abs=1.0)


def test_dino_sweep(run, folder):
    results = json.loads(run("dino_sweep.py"))
    assert set(results) == {"top-1", "top-5", "best_C"}
    assert 50 < results["top-1"] <= results["top-5"] <= 100
    assert 1e-6 <= results["best_C"] <= 1e5
    first, second = run("dino_sweep.py", folder, folder).splitlines()
    assert first == second


def test_shards(run, tmp_path):
    printed = run("shards.py")
    assert "<4000x64 RowStore of 8 files, dtype float16>" in printed
    assert float(re.search(r"top-1 = ([\d.]+) %", printed)[1]) > 80
    data = planted(600, 16, 4, n_test=1, separation=1.0)
    for k in range(3):
        part = slice(200 * k, 200 * k + 200)
        np.savez(tmp_path / f"{k}.npz", X=data.X_train[part], where=data.y_train[part])
    assert "600x16 RowStore of 3 files" in run("shards.py", tmp_path, "where")


def test_clip_benchmark_probe(run, folder):
    report, line = run("clip_benchmark_probe.py").rsplit("\n", 2)[:2]
    assert re.search(r"precision +recall +f1-score +support", report)
    assert "macro avg" in report
    results = json.loads(line)
    assert set(results) == {
        "lp_acc1",
        "lp_acc5",
        "lp_mean_per_class_recall",
        "weight_decay",
        "epochs",
        "seed",
        "fewshot_k",
        "normalized",
    }
    assert 0.5 < results["lp_acc1"] <= results["lp_acc5"] <= 1
    assert 1e-6 * 0.999 <= results["weight_decay"] <= 1e2 * 1.001
    assert json.loads(run("clip_benchmark_probe.py", folder).splitlines()[-1])["lp_acc5"] is None


def test_cluster(run):
    printed = run("cluster.py")
    assert "2 workers, 8 chunks" in printed
    assert float(re.search(r"top-1 (\S+)", printed)[1]) > 0.9
