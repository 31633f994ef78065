"""The leading singular pairs of a matrix N (C, d) by a few products: block Krylov, warm-started.

The basis Q of the row space's Krylov spaces {Q0, N Nᵀ Q0, ...} is kept orthonormal; T = Qᵀ N Nᵀ Q
gives the pairs.  A singular value found this way is never above the true one, so that it may start
a step but ends no proof.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

STEPS = 12
FEW_BLOCKS = 3
EXTRA = 4  # columns beside those asked for: they take up what would slow the last ones down
# Of the largest singular value: below, a Gram matrix holds rounding.
LOST = {"f": 3e-4, "d": 1e-7}


class SingularVectors(NamedTuple):
    """N u_j = sigma_j v_j, approximately; the columns of U and V are orthonormal."""

    sigma: NDArray[np.float64]  # (k,) decreasing
    V: NDArray[Any]  # (C, k)
    U: NDArray[Any]  # (d, k)


def top_singular_vectors(
    N: NDArray[Any],
    k: int,
    start: NDArray[Any] | None,
    accuracy: float,
    rng: np.random.Generator,
) -> SingularVectors:
    """The k leading pairs, the first to `accuracy`; `start` (C, .) holds vectors near them."""
    C, d = N.shape
    lost = LOST[N.dtype.char]
    width = min(k + EXTRA, C, d)
    if FEW_BLOCKS * width >= C:  # all of the space, which a few blocks would fill
        new = np.eye(C, dtype=N.dtype)
    else:
        block = rng.standard_normal((C, width)).astype(N.dtype)
        if start is not None:
            near = min(width, start.shape[1])
            block[:, :near] = start[:, :near]
        new = np.linalg.qr(block)[0]
    Q, NtQ = np.empty((C, 0), N.dtype), np.empty((d, 0), N.dtype)
    for _ in range(STEPS):
        Q, NtQ = np.hstack([Q, new]), np.hstack([NtQ, N.T @ new])
        values, vectors = np.linalg.eigh((NtQ.T @ NtQ).astype(np.float64))
        sigma = np.sqrt(np.maximum(values[::-1][:k], 0.0))
        vectors = vectors[:, ::-1][:, :k].astype(N.dtype)
        V = Q @ vectors
        NtV = NtQ @ vectors
        residual = N @ NtV[:, :1] - V[:, :1] * N.dtype.type(sigma[0] ** 2)
        if np.linalg.norm(residual) <= accuracy * max(sigma[0], 1e-30) or Q.shape[1] >= C:
            break
        Y = N @ NtQ[:, -new.shape[1] :]
        for _ in range(2):  # twice is enough
            Y -= Q @ (Q.T @ Y)
        size = np.linalg.norm(Y, axis=0)
        Y = Y[:, size > lost * sigma[0] ** 2][:, : C - Q.shape[1]]
        if Y.shape[1] == 0:
            break
        new = np.linalg.qr(Y)[0]
        new -= Q @ (Q.T @ new)
        new = np.linalg.qr(new)[0]
    keep = sigma > lost * max(sigma[0], 1e-30)
    U = NtV[:, keep]
    return SingularVectors(sigma[keep], V[:, keep], U / np.linalg.norm(U, axis=0))
