"""The objective is the sum it says it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from scipy import sparse

import naive
import naive_batch
from slender.data import Examples
from slender.labels import ClassIndex, Indicator
from slender.losses import MARGIN_LOSSES, MULTICLASS_LOSSES, row_slope, row_value
from slender.problem import Multinomial, Weights, multiclass, one_vs_rest
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
        loss,
        as_rows(X[:6]),
        ClassIndex(codes[:6], 1),
        W,
        np.zeros(1),
        Weights(np.ones(6), one, one),
    )
    weighted = one_vs_rest(
        loss, as_rows(X), ClassIndex(codes, 1), W, np.zeros(1), Weights(example, one, one)
    )
    assert weighted == pytest.approx(kept, rel=1e-14)


@pytest.mark.parametrize("name", MULTICLASS_LOSSES)
@pytest.mark.parametrize("form", [np.asarray, np.float32, sparse.csr_array])
@pytest.mark.parametrize("C", [2, 5])
def test_multiclass(monkeypatch, name, form, C):
    monkeypatch.setattr(threads, "CACHE_BYTES", 200)
    rng = np.random.default_rng(C)
    X, W = form(rng.standard_normal((17, 4))), rng.standard_normal((C, 4))
    b = rng.standard_normal(C)
    codes = rng.integers(0, C, 17).astype(np.int32)
    weight = rng.integers(0, 3, 17).astype(float)
    dense = X.toarray() if sparse.issparse(X) else X.astype(float)
    want = naive_batch.multiclass_objective(
        naive_batch.MULTICLASS[name], dense, codes, W, b, weight, 0.3
    )
    got = multiclass(MULTICLASS_LOSSES[name], as_rows(X), codes, W, b, weight, 0.3)
    assert got == pytest.approx(want, rel=1e-12 if X.dtype == np.float64 else 1e-6)


def test_cross_entropy_is_the_multinomial_objective():
    rng = np.random.default_rng(0)
    X, W, b = rng.standard_normal((40, 4)), rng.standard_normal((3, 4)), rng.standard_normal(3)
    codes = rng.integers(0, 3, 40).astype(np.int32)
    weight = rng.uniform(0, 2, 40)
    problem = Multinomial(Examples(as_rows(X), codes, weight / 40), 3)
    want = problem.at(problem.theta(W, b), 0.2).objective
    got = multiclass(MULTICLASS_LOSSES["cross_entropy"], as_rows(X), codes, W, b, weight, 0.2)
    assert got == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("name", MULTICLASS_LOSSES)
def test_compiled_rows_equal_the_methods_and_may_be_overwritten(name):
    """`row_value` and `row_slope` inside a kernel, the slope written over its own scores."""
    loss = MULTICLASS_LOSSES[name]

    @njit
    def both(loss, s, y):
        value = row_value(loss, s, y)
        row_slope(loss, s, y, s)
        return value

    rng = np.random.default_rng(0)
    for scale in (0.1, 3.0, 1e20):
        s, y, out = scale * rng.standard_normal(6), int(rng.integers(6)), np.empty(6)
        row_slope(loss, s, y, out)
        value = row_value(loss, s, y)
        assert both(loss, s, y) == pytest.approx(value, rel=1e-14)
        np.testing.assert_allclose(s, out, rtol=1e-14, atol=1e-300)


@given(st.lists(st.floats(-30, 30), min_size=2, max_size=6), st.integers(0, 5))
def test_smoothness_bounds_the_curvature(s, y):
    loss = MULTICLASS_LOSSES["cross_entropy"]
    H = np.empty((len(s), len(s)))
    loss.curvature(np.array(s), y % len(s), H)
    assert np.linalg.eigvalsh(H)[-1] <= loss.smoothness() + 1e-15
