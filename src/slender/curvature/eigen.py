"""The k leading eigenpairs of SᵀS/m for m rows S, without forming d x d when d > m.

Three ways, by size.  With A = S (d <= m) or Sᵀ (d > m), AᵀA is the smaller Gram matrix:

* tiny: the singular values of A itself, in float64.  Columns whose scales differ by many decades
  keep their eigenvalues, which a Gram matrix loses below a unit in the last place of the largest;
* small, or k a large part of it: form AᵀA and call LAPACK's divide and conquer;
* else: block Lanczos with full reorthogonalisation.  Everything is a product with a block of
  vectors, so it runs at BLAS-3 speed; the basis Q holds a few times k vectors, and

      H Q = Q T + Q_next R E_lastᵀ       gives for a Ritz pair (theta, Q u) of T
      ‖H p - theta p‖ = ‖R u_last‖       without touching A again.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

TINY_SIZE = 256  # up to here an SVD in float64 takes some hundredths of a second
DENSE_SIZE = 2048  # up to here LAPACK takes well under a second
DENSE_SHARE = 5  # and beyond it still wins when k is more than a fifth of the size
BLOCK = 64  # vectors a product: enough for BLAS-3
RESIDUAL = {"f": 1e-4, "d": 1e-8}  # ‖H p - theta p‖ <= this times the largest eigenvalue


def top_eigenpairs(
    S: NDArray[Any], k: int, rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Eigenvalues, decreasing, and orthonormal eigenvectors (d, k) of SᵀS/m.

    Fewer than k are returned only where the rank of S is less than k.
    """
    m, d = S.shape
    A = S if d <= m else S.T
    size = A.shape[1]
    if size <= TINY_SIZE:
        return tiny(S, k)
    if size <= DENSE_SIZE or DENSE_SHARE * k > size:
        theta, Q = dense(A, k, m)
    else:
        theta, Q = block_lanczos(A, k, m, rng)
    if d > m:  # from eigenvectors u of S Sᵀ/m to those of SᵀS/m, p = Sᵀu / ‖Sᵀu‖
        Q = A @ Q
        Q /= np.maximum(np.linalg.norm(Q, axis=0), np.finfo(Q.dtype).tiny)
    return theta, Q


def tiny(S: NDArray[Any], k: int) -> tuple[NDArray[Any], NDArray[Any]]:
    _, sigma, Vt = linalg.svd(S.astype(np.float64), full_matrices=False, check_finite=False)
    theta = (sigma[:k] ** 2 / len(S)).astype(S.dtype)
    return theta, np.ascontiguousarray(Vt[:k].T, S.dtype)


def dense(A: NDArray[Any], k: int, m: int) -> tuple[NDArray[Any], NDArray[Any]]:
    G = A.T @ A
    G /= m
    theta, Q = linalg.eigh(G, overwrite_a=True, driver="evd", check_finite=False)
    return theta[::-1][:k], Q[:, ::-1][:, :k]


def block_lanczos(
    A: NDArray[Any], k: int, m: int, rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any]]:
    size = A.shape[1]
    tol = RESIDUAL[A.dtype.char]
    Q = np.empty((size, 0), A.dtype)
    T = np.empty((0, 0), A.dtype)
    new = np.linalg.qr(A.T @ rng.standard_normal((A.shape[0], BLOCK)).astype(A.dtype))[0]
    check = k + BLOCK  # the next basis size at which to look at the Ritz pairs
    while True:
        Q = np.hstack([Q, new])
        width = Q.shape[1]
        W = A.T @ (A @ new)
        W /= m
        column = Q.T @ W  # (width, BLOCK): the last block column of T
        W -= Q @ column
        W -= Q @ (Q.T @ W)  # twice is enough
        T = np.block([[T, column[: len(T)]], [column[: len(T)].T, column[len(T) :]]])
        new, R = np.linalg.qr(W)
        # A direction lost to cancellation in W comes back as noise: make it orthogonal again.
        new = np.linalg.qr(new - Q @ (Q.T @ new))[0]
        exhausted = np.abs(R).max() <= tol * np.abs(T).max()  # the basis holds all of H
        if width < check and not exhausted:
            continue
        theta, U = linalg.eigh((T + T.T) / 2, driver="evd", check_finite=False)
        theta, U = theta[::-1][:k], U[:, ::-1][:, :k]
        residual = np.linalg.norm(R @ U[-BLOCK:], axis=0).max()
        if exhausted or residual <= tol * theta[0]:
            return theta, Q @ U
        if 2 * width > size:  # a spectrum too flat for Lanczos to be worth it
            return dense(A, k, m)
        check = width + max(BLOCK, k // 4)
