"""The logger `slender` tells what a fit does, to those who listen."""

import logging

import numpy as np
import pytest

from slender import (
    BCFWClassifier,
    LinearProbe,
    LogisticClassifier,
    SLNDClassifier,
    TraceNormProbe,
)

X = np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32)
y = np.arange(40) % 3


@pytest.mark.parametrize(
    "model", [LogisticClassifier(), SLNDClassifier(), BCFWClassifier(passes=3, tol=None)]
)
def test_a_line_for_each_record(caplog, model):
    with caplog.at_level(logging.INFO, "slender"):
        model.fit(X, y)
    lines = [record.message for record in caplog.records]
    assert len(lines) == len(model.trace_)
    assert f"objective {model.trace_[-1]['objective']:.5g}" in lines[-1]
    assert ("gap " in lines[-1]) == hasattr(model, "gap_")


@pytest.mark.parametrize(
    "model", [LinearProbe([0.1, 1.0]), TraceNormProbe(lambda1s=[1e-3, 1e-2], lambda2s=[1e-3])]
)
def test_a_line_for_each_value_of_a_path(caplog, model):
    with caplog.at_level(logging.INFO, "slender"):
        model.fit(X, y)
    lines = [record.message for record in caplog.records if "log_loss" in record.message]
    assert len(lines) == len(model.path_) == 2
    assert f"log_loss {model.path_[-1]['log_loss']:.5g}" in lines[-1]


def test_nothing_unless_asked(capsys):
    LogisticClassifier().fit(X, y)
    assert capsys.readouterr() == ("", "")
