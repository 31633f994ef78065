"""Warnings point at the user's line, and speak the language of whoever reads them."""

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from slender import (
    BCFWClassifier,
    GDClassifier,
    LaRankClassifier,
    LinearProbe,
    LogisticClassifier,
    SGDClassifier,
    TraceNormClassifier,
    TraceNormProbe,
)
from slender.cli.wording import in_options

rng = np.random.default_rng(0)
X, y = rng.standard_normal((200, 6)), np.arange(200) % 3
TOO_SHORT = [
    LogisticClassifier(max_iter=1, tol=1e-9),
    GDClassifier(passes=1, tol=1e-9),
    BCFWClassifier(passes=1, tol=1e-9),
    LaRankClassifier(passes=1, tol=1e-9),
    SGDClassifier(step=1e6, passes=1),
    TraceNormClassifier(1e-4, passes=1, tol=1e-9),
    LinearProbe([0.1, 1.0], max_iter=1, tol=1e-9),
    TraceNormProbe(lambda1s=[1e-4, 1e-3], lambda2s=[1e-4], passes=1, tol=1e-9),
]


@pytest.mark.parametrize("model", TOO_SHORT, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("inside", [False, True])
def test_a_warning_points_at_the_line_that_called_fit(model, inside):
    whole = make_pipeline(StandardScaler(), model) if inside else model
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        whole.fit(X, y)
    assert said
    assert {each.filename for each in said} == {__file__}


@pytest.mark.parametrize(
    ("python", "command"),
    [
        ("raise max_iter=7, or tol=0.1: done", "raise --max-iter 7, or --tol 0.1: done"),
        ("give Cs=np.geomspace(1e-05, 0.1, 7)", "give --cs 1e-05:0.1:7"),
        ("Cs were sorted", "--cs were sorted"),
        ("scale='l2' is", "--scale l2 is"),
        ("(validation=0.3)", "(--validation 0.3)"),
        ("C=0.1 is no option here", "C=0.1 is no option here"),
    ],
)
def test_parameters_are_options_in_the_command(python, command):
    names = ("max_iter", "tol", "cs", "scale", "validation")
    options = {name: "--" + name.replace("_", "-") for name in names} | {"Cs": "--cs"}
    assert in_options(python, options) == command


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--cs 1e-5,1e-4", "give --cs 0.0001:0.1:7"),
        ("--cs 0.1 --max-iter 1 --tol 1e-9", "raise --max-iter 1, or --tol 1e-09"),
        ("--cs 0.1 --shots 500", "fewer than --shots 500 rows"),
        ("--cs 1,0.1 --full", "--cs were sorted"),
        ("--penalty trace --lambda1s 0.1,0.2 --lambda2s 1e-4", "give --lambda1s 0.0001:0.1:7"),
    ],
)
def test_warnings_of_the_command_speak_of_options(tmp_path, monkeypatch, slender, words, said):
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", X=X + y[:, None], y=y)
    code, _, err = slender("path", "data.npz", *words.split(), "--out", "probe", "-q")
    assert code == 0
    assert said in err
    assert "np." not in err
