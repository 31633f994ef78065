"""The improved Fisher vector of Perronnin, Sánchez and Mensink 2010: descriptors -> one vector.

A mixture of K Gaussians with weights w, means μ and diagonal covariances σ² is given.  With
posteriors γ_i of n descriptors x_i, sums over i:

    mean part        1 / (n √w_k)     Σ γ_ik (x_i - μ_k) / σ_k
    deviation part   1 / (n √(2 w_k)) Σ γ_ik ( (x_i - μ_k)² / σ_k² - 1 )

Both are derivatives of the mean log-likelihood (by μ and by σ), times the usual diagonal
approximation of the inverse root of the Fisher information.  Those by w are left out.  The vector
has all mean parts (K x D, Gaussian by Gaussian), then all deviation parts; `improved` then takes
the signed square root of every number and divides by the L2 norm.

`skimage.feature.fisher_vector` returns K numbers for the weights first, and deviation parts of the
opposite sign; it agrees in all else.  Others divide by √n instead of n.

The sums are Σ γ_ik, Σ γ_ik x_i and Σ γ_ik x_i², so blocks of descriptors can be added one after
another.  With A = [x, x²], log-densities are one product of A with a matrix of the mixture, and the
last two sums are one product γᵀ A.  Products are in float32, sums of blocks and what follows in
float64.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import kernel
from ..passes.exponential import exp

BLOCK = 512  # descriptors at a time: they, their squares and posteriors stay in a core's cache
LINES = 16  # of P that are written at the same time
FAST = {"reassoc", "contract", "arcp", "nsz"}

Floats = NDArray[np.float32]


class Projection(NamedTuple):
    """A channel's principal components: z = components (x - mean)."""

    mean: Floats  # (d,)
    components: Floats  # (D, d)


class Mixture(NamedTuple):
    """Gaussians with diagonal covariances."""

    weights: NDArray[np.float64]  # (K,)
    means: NDArray[np.float64]  # (K, D)
    variances: NDArray[np.float64]  # (K, D)


class FisherSums:
    """The sums over descriptors that a Fisher vector is made from."""

    def __init__(self, mixture: Mixture) -> None:
        self.mixture = mixture
        w, m, v = mixture
        # ln w_k N(x; μ_k, σ_k) = [x, x²] · slopes_k + offset_k
        self._slopes = np.hstack([m / v, -0.5 / v]).astype(np.float32)  # (K, 2 D)
        squares = (m**2 / v + np.log(2 * np.pi * v)).sum(axis=1)
        self._offsets = (np.log(w) - 0.5 * squares).astype(np.float32)
        self.n = 0
        self.counts = np.zeros(len(w))  # Σ γ, (K,)
        self.moments = np.zeros((len(w), 2 * m.shape[1]))  # Σ γ [x, x²], (K, 2 D)
        self._both = np.empty((BLOCK, 2 * m.shape[1]), np.float32)
        self._densities, self._posteriors = np.empty((2, len(w) * BLOCK), np.float32)
        self._products = np.empty(self.moments.shape, np.float32)

    def add(self, X: Floats) -> None:
        """Descriptors (n, D)."""
        nothing = np.zeros(X.shape[1], np.float32)
        for low in range(0, len(X), BLOCK):
            part = X[low : low + BLOCK]
            both = self._both[: len(part)]
            with_squares(part, nothing, both)
            self._add(both)

    def add_projected(self, parts: Sequence[tuple[Floats, Projection]]) -> None:
        """Descriptors of one or more channels, each projected; side by side they are x."""
        offsets = np.concatenate([of.components @ of.mean for _, of in parts])
        n = len(parts[0][0])
        for low in range(0, n, BLOCK):
            both = self._both[: min(BLOCK, n - low)]
            first = 0
            for X, of in parts:
                D = len(of.components)
                np.matmul(X[low : low + BLOCK], of.components.T, out=both[:, first : first + D])
                first += D
            with_squares(both[:, :first], offsets, both)
            self._add(both)

    def _add(self, both: Floats) -> None:
        """A block of [x, x²]."""
        n, K = len(both), len(self.counts)
        densities = self._densities[: n * K].reshape(n, K)
        posteriors = self._posteriors[: n * K].reshape(K, n)
        np.matmul(both, self._slopes.T, out=densities)
        softmax(densities, self._offsets, posteriors, self.counts)
        self.moments += np.matmul(posteriors, both, out=self._products)
        self.n += n

    def gradients(self) -> NDArray[np.float64]:
        """The Fisher vector (2 K D,) before it is improved; zeros without descriptors."""
        w, m, v = self.mixture
        n, s0 = max(self.n, 1), self.counts[:, None]
        s1, s2 = np.hsplit(self.moments, 2)
        means = (s1 - s0 * m) / (n * np.sqrt(w[:, None] * v))
        deviations = (s2 - 2 * m * s1 + s0 * (m**2 - v)) / (n * np.sqrt(2 * w)[:, None] * v)
        return np.concatenate([means.ravel(), deviations.ravel()])


def improved(gradients: NDArray[np.float64]) -> Floats:
    """Signed square roots, divided by their L2 norm; zeros stay zeros."""
    roots = np.sign(gradients) * np.sqrt(abs(gradients))
    return (roots / (np.linalg.norm(roots) or 1.0)).astype(np.float32)


def fisher_vector(X: Floats, mixture: Mixture) -> Floats:
    """The improved Fisher vector of the rows of X."""
    sums = FisherSums(mixture)
    sums.add(X)
    return improved(sums.gradients())


@kernel(fastmath=FAST)
def with_squares(X, offsets, both):  # type: ignore[no-untyped-def]
    """both = [x, x²] with x = X - offsets; X may be the left half of `both`."""
    n, D = X.shape
    for i in range(n):
        for d in range(D):
            both[i, d] = X[i, d] - offsets[d]
        for d in range(D):
            both[i, D + d] = both[i, d] * both[i, d]


@kernel(fastmath=FAST, error_model="numpy")
def softmax(L, offsets, P, counts):  # type: ignore[no-untyped-def]
    """P (K, n) = posteriors of log-densities L (n, K), which lack the offsets; counts += sums of P.

    P is turned because loops over 16 Gaussians would be too short for vector instructions; L is
    not, because BLAS writes few columns faster than few rows.
    """
    n, K = L.shape
    for first in range(0, K, LINES):
        for i in range(n):
            for k in range(first, min(first + LINES, K)):
                P[k, i] = L[i, k] + offsets[k]
    most, total = P[0].copy(), np.zeros(n, np.float32)
    for k in range(1, K):
        for i in range(n):
            most[i] = max(most[i], P[k, i])
    for k in range(K):
        for i in range(n):
            e = exp(P[k, i] - most[i])
            P[k, i] = e
            total[i] += e
    for i in range(n):
        total[i] = np.float32(1) / total[i]
    for k in range(K):
        count = np.float32(0)
        for i in range(n):
            P[k, i] *= total[i]
            count += P[k, i]
        counts[k] += count
