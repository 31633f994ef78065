"""Accuracies and log loss, by hand and by scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import log_loss as sklearn_log_loss

import naive
from slender.data import Examples
from slender.metrics import calibration_error, measure
from slender.rows import as_rows, threads


def examples(X, codes):
    return Examples(as_rows(X), codes, np.ones(len(codes)))


def test_three_rows_by_hand():
    """Scores are the rows themselves; a tie goes to the first class, as argmax has it."""
    X = np.array([[3.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    codes = np.array([0, 1, 0], np.int32)
    found = measure(examples(X, codes), np.eye(3), np.zeros(3))
    assert found["top1"] == pytest.approx(2 / 3)
    assert found["mean_per_class"] == pytest.approx((1.0 + 0.0) / 2)  # class 2 has no rows
    assert "top5" not in found
    P = naive.softmax(X)
    assert found["log_loss"] == pytest.approx(-np.log(P[[0, 1, 2], codes]).mean())


@pytest.mark.parametrize("temperature", [0.5, 1.0, 7.0])
def test_log_loss_is_sklearn_s(monkeypatch, temperature):
    monkeypatch.setattr(threads, "CACHE_BYTES", 500)
    rng = np.random.default_rng(0)
    X, W, b = rng.standard_normal((80, 4)), rng.standard_normal((6, 4)), rng.standard_normal(6)
    codes = rng.integers(0, 6, 80).astype(np.int32)
    S = X @ W.T + b
    P = naive.softmax(S / temperature)
    want = sklearn_log_loss(codes, P, labels=np.arange(6))
    tempered = measure(examples(X, codes), W, b, temperature)
    assert tempered["log_loss"] == pytest.approx(want)
    top5 = np.mean([codes[i] in np.argsort(-S[i])[:5] for i in range(80)])
    found = measure(examples(X, codes), W, b)
    assert found["top5"] == pytest.approx(top5)
    assert found["top1"] == pytest.approx(np.mean(S.argmax(axis=1) == codes))


def test_a_sure_and_wrong_model_has_a_finite_loss():
    X = np.array([[1e4, -1e4]], np.float32)
    found = measure(examples(X, np.array([1], np.int32)), np.eye(2, dtype=np.float32), np.zeros(2))
    assert found["log_loss"] == pytest.approx(2e4)


def test_calibration_error_by_hand():
    """Two bins: 0.3 sure and never right, two rows of 0.9 of which one is right."""
    confidence, right = np.array([0.3, 0.9, 0.9]), np.array([False, True, False])
    assert calibration_error(confidence, right, bins=2) == pytest.approx((0.3 + 0.8) / 3)
    assert calibration_error(np.ones(4), np.ones(4, bool)) == 0.0
