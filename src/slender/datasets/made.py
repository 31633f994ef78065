"""Data sets that need no files: scikit-learn's digits, and rows made by a formula."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .known import Report, VectorSet
from .vectors import Dataset

TEMPERATURE = 8.0  # norm of a class's row of scores in `low_rank`: sets the Bayes accuracy


@dataclass(frozen=True, kw_only=True)
class Made(VectorSet):
    """A data set that a function makes."""

    make: Callable[[], Dataset]

    def check(self, folder: Path) -> Report:
        return Report(folder, [], {})

    def read(self, folder: Path) -> Dataset:
        return self.make()


def digits() -> Dataset:
    """scikit-learn's digits, each row of norm 1, permuted: 1,300 to train on, 497 to test on."""
    from sklearn.datasets import load_digits  # noqa: PLC0415  (a second to import)

    X, y = load_digits(return_X_y=True)
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    order = np.random.RandomState(0).permutation(len(y))  # a fixed, known split
    X, y = X[order], y[order]
    return Dataset(X[:1300], y[:1300], X[1300:], y[1300:])


def planted(
    n: int,
    d: int,
    n_classes: int,
    n_test: int = 5000,
    separation: float = 0.15,
    decay: float = 0.5,
    seed: int = 0,
) -> Dataset:
    """A Gaussian mixture, as badly conditioned as real embeddings.

    x = Q diag(j^-decay) (m + μ_y + ε),  ε ~ N(0, I),  μ_c ~ N(0, separation² I),  m ~ N(0, 4 I),
    Q a random rotation: the classes differ by as much, in units of the noise, in every direction,
    strong or weak, and the mean is not zero.  The best classifier is linear.
    """
    rng = np.random.default_rng(seed)
    scale = np.arange(1, d + 1, dtype=np.float32) ** np.float32(-decay)
    rotation = np.linalg.qr(rng.standard_normal((d, d), dtype=np.float32))[0]
    means = rng.standard_normal((n_classes, d), dtype=np.float32) * np.float32(separation)
    means += 2 * rng.standard_normal(d, dtype=np.float32)
    y = rng.integers(0, n_classes, n + n_test)
    X = rng.standard_normal((n + n_test, d), dtype=np.float32)
    X += means[y]
    X *= scale
    X = X @ rotation.T
    return Dataset(X[:n], y[:n], X[n:], y[n:])


def low_rank(
    n: int, d: int, n_classes: int, rank: int, n_test: int = 2000, decay: float = 0.5, seed: int = 0
) -> Dataset:
    """Labels drawn from softmax(W x), W of this rank.

    x = Q diag(j^-decay) ε,  ε ~ N(0, I),  Q a random rotation: the spectrum of `planted`, but
    centred, for those who fit no intercept.  W x = A Bᵀ ε: the columns of B are
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
