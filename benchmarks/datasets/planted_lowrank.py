"""Classes that share 20 directions: 20,000 + 2,000 x 4,096, 400 classes, Bayes accuracy 65 %."""

import numpy as np

from slender.lab.datasets import Dataset

TEMPERATURE = 8.0  # norm of a class's row of scores: sets the Bayes accuracy


def load() -> Dataset:
    return make(20_000, 4096, 400, 20)


def make(
    n: int, d: int, n_classes: int, rank: int, n_test: int = 2000, decay: float = 0.5, seed: int = 0
) -> Dataset:
    """Labels drawn from softmax(W x), W of this rank.

    x = Q diag(j^-decay) ε,  ε ~ N(0, I),  Q a random rotation: the spectrum of `planted`, but
    centred, as the trace-norm benchmarks fit no intercept.  W x = A Bᵀ ε: the columns of B are
    orthonormal and lean towards the strong directions, so that the data shows all of them, and the
    rows of A are of one length, so that no class is rare.
    """
    rng = np.random.default_rng(seed)
    j = np.arange(1, d + 1, dtype=np.float32)[:, None]
    rotation = np.linalg.qr(rng.standard_normal((d, d), dtype=np.float32))[0]
    B = np.linalg.qr(rng.standard_normal((d, rank), dtype=np.float32) / j)[0]
    A = rng.standard_normal((n_classes, rank), dtype=np.float32)
    A *= np.float32(TEMPERATURE) / np.linalg.norm(A, axis=1, keepdims=True)
    X = rng.standard_normal((n + n_test, d), dtype=np.float32)
    scores = (X @ B) @ A.T
    # the largest of scores plus Gumbel noise is a draw from their softmax
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    X *= j[:, 0] ** np.float32(-decay)
    X = X @ rotation.T
    return Dataset(X[:n], y[:n], X[n:], y[n:])
