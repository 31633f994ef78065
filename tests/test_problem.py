"""The objective is the sum it says it is."""

import numpy as np
import pytest
from scipy import sparse

import naive
from slender.labels import Codes, Indicator
from slender.losses import MARGIN_LOSSES
from slender.problem import Weights, one_vs_rest
from slender.rows import as_rows, threads


@pytest.mark.parametrize("name", ["logistic", "calibrated_hinge", "hinge"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_one_vs_rest(monkeypatch, name, form):
    monkeypatch.setattr(threads, "CACHE_BYTES", 200)
    rng = np.random.default_rng(0)
    X, W, b = rng.standard_normal((17, 4)), rng.standard_normal((3, 4)), rng.standard_normal(3)
    Y = rng.random((17, 3)) < 0.4
    weights = Weights(rng.integers(0, 3, 17).astype(float), np.array([1.0, 2.0, 3.0]), np.ones(3))
    c = weights.example[:, None] * np.where(Y, weights.positive, weights.negative)
    signs = np.where(Y, 1.0, -1.0)
    loss = MARGIN_LOSSES[name]
    want = naive.one_vs_rest_objective(loss, X, signs, W, b, c, 0.3)
    got = one_vs_rest(loss, as_rows(form(X)), Indicator(Y), W, b, weights, 0.3)
    assert got == pytest.approx(want, rel=1e-12)


def test_zero_weights_are_absent():
    rng = np.random.default_rng(1)
    X, W = rng.standard_normal((10, 4)), rng.standard_normal((1, 4))
    codes = rng.integers(0, 2, 10).astype(np.int32)
    loss, one = MARGIN_LOSSES["logistic"], np.ones(1)
    example = np.r_[np.ones(6), np.zeros(4)]
    kept = one_vs_rest(
        loss, as_rows(X[:6]), Codes(codes[:6], 1), W, np.zeros(1), Weights(np.ones(6), one, one)
    )
    weighted = one_vs_rest(
        loss, as_rows(X), Codes(codes, 1), W, np.zeros(1), Weights(example, one, one)
    )
    assert weighted == pytest.approx(kept, rel=1e-14)
