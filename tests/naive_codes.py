"""Products in the compressed domain (seed 004, §4.2), line by line: what the kernels must equal.

The paper's shapes: X is d x n, the matrix of the reconstructed columns; I (n_sq, n) are the codes,
counted from 0 here; C (n_sq, d_sq, 256) are the centroids, one a column.
"""

import numpy as np


def algorithm_1(A, C, I):  # noqa: E741
    """A X for A (m, d)."""
    (m, _), (n_sq, d_sq, _), n = A.shape, C.shape, I.shape[1]
    D = [A[:, q * d_sq : (q + 1) * d_sq] @ C[q] for q in range(n_sq)]
    result = np.zeros((m, n), A.dtype)
    for i in range(m):
        for j in range(n):
            for q in range(n_sq):
                result[i, j] += D[q][i, I[q, j]]
    return result


def algorithm_2(B, C, I):  # noqa: E741
    """X B for B (n, m)."""
    (n, m), (n_sq, d_sq, k) = B.shape, C.shape
    D = [np.zeros((k, m), B.dtype) for _ in range(n_sq)]
    for j in range(m):
        for q in range(n_sq):
            for i in range(n):
                D[q][I[q, i], j] += B[i, j]
    result = np.empty((n_sq * d_sq, m), B.dtype)
    for q in range(n_sq):
        result[q * d_sq : (q + 1) * d_sq] = C[q] @ D[q]
    return result


# -- rows to try them on; sums of products of these numbers are exact in every dtype and order -----


def quarters(seed, *shape, dtype=np.float64):
    """Multiples of 1/4 between -2 and 2."""
    return (np.random.default_rng(seed).integers(-8, 9, shape) / 4).astype(dtype)


def coded(n=50, parts=3, d_sq=5, dtype=np.float64, seed=0):
    """Codes, their codebooks, and the rows they stand for as NumPy's indexing makes them."""
    numbers = np.random.default_rng(seed).integers(0, 256, (n, parts), np.uint8)
    books = quarters(seed + 1, parts, 256, d_sq, dtype=dtype)
    return numbers, books, books[np.arange(parts), numbers].reshape(n, parts * d_sq)
