"""The logger `slender` tells what a fit does, to those who listen."""

import logging

import numpy as np
import pytest

from slender import BCFWClassifier, LogisticClassifier, SLNDClassifier

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


def test_nothing_unless_asked(capsys):
    LogisticClassifier().fit(X, y)
    assert capsys.readouterr() == ("", "")
