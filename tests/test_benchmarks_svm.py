"""The SVM's benchmarks run, and the dual kernels are the same loops as in C++."""

import shutil

import pytest

from slender.datasets import digits


def test_the_race_runs():
    pytest.importorskip("liblinear", reason="pip install liblinear-official")
    from benchmarks import svm

    result = svm.race(digits(), 1.0, {"larank": svm.larank}, 1, lambda line: None)
    assert result["figures"]["larank"]["above"] < svm.TOL
    assert result["ladder"][-1]["objective"] * (1 - svm.TOL) <= result["best_dual"]
    assert abs(result["figures"]["larank"]["top1"] - result["figures"]["LIBLINEAR"]["top1"]) < 0.02


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ here")
@pytest.mark.parametrize("name", ["bcfw", "larank"])
def test_the_loops_in_cpp_are_the_same_loops(name, tmp_path):
    from benchmarks import native

    assert native.disagreement(name, tmp_path) < native.AGREE
