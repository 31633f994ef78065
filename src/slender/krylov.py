"""Eigenpairs and singular vectors by products with blocks of vectors: block Krylov spaces.

`top_eigenpairs`: the k leading eigenpairs of SᵀS/m for m rows S, without forming d x d when d > m.

The method depends on the size.  With A = S (d <= m) or Sᵀ (d > m), AᵀA is the smaller Gram matrix:

* tiny: a singular value decomposition of S in float64.  It finds small eigenvalues even if the
  scales of the columns differ by many decades; a Gram matrix loses those that are smaller than a
  unit in the last place of the largest;
* small, or k is a large part of the size: form AᵀA and call LAPACK's divide and conquer;
* otherwise: block Lanczos with full reorthogonalisation.  All work is products with a block of
  vectors, so it runs at BLAS-3 speed; the basis Q has a few times k vectors, and

      H Q = Q T + Q_next R E_lastᵀ       gives for a Ritz pair (theta, Q u) of T
      ‖H p - theta p‖ = ‖R u_last‖       without another product with A.

`top_singular_vectors`: the leading ones of a matrix N (C, d) by a few products, warm-started.  The
basis Q of the row space's Krylov spaces {Q0, N Nᵀ Q0, ...} is kept orthonormal; T = Qᵀ N Nᵀ Q gives
the pairs.  A singular value found this way is never above the true one, so that it may start a step
but ends no proof.

`largest_eigenvalue`: an upper bound on lambda_max(M) for M >= 0.  Block Lanczos from a random block
gives an orthonormal K, T = KᵀM K and the residual R = M K - K T.  lambda_max(T) is a bound from
below; from above there are two, and the lesser is taken.

* For a unit vector K u + K⊥ v,  xᵀM x <= lambda_max(T) ‖u‖² + 2 ‖R‖ ‖u‖ ‖v‖ + (tr M - tr T) ‖v‖²:
  what K has not seen is positive semi-definite too, so none of its eigenvalues exceeds its trace.
  The largest eigenvalue of that 2 x 2 form is a proof; tight where few directions hold most of the
  trace, as in pixels and embeddings.
* A start drawn uniformly has something of every eigenvector.  After j products Lanczos from one
  vector misses lambda_max by more than a share eps with probability at most
  1.648 sqrt(d) exp(-sqrt(eps) (2j - 1))  (Kuczyński and Woźniakowski 1992, any spectrum); a block
  misses only where each of its vectors would.  eps is chosen so that this is FAILURE in all:
  lambda_max(T) / (1 - eps) is then a bound on every data set, for all but that share of seeds.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from .arrays import Array, astype, dtype_of, is_numpy, like, namespace

# top_eigenpairs
TINY_SIZE = 256  # up to here an SVD in float64 takes some hundredths of a second
DENSE_SIZE = 2048  # up to here LAPACK takes well under a second
DENSE_SHARE = 5  # and beyond it still wins when k is more than a fifth of the size
BLOCK = 64  # vectors per product: enough for BLAS-3
DEPENDENT = 1e-5  # ratio of two pivots of a Gram matrix's factor, which squares it
RESIDUAL = {"f": 1e-4, "d": 1e-8}  # ‖H p - theta p‖ <= this times the largest eigenvalue
# top_singular_vectors
STEPS = 12
FEW_BLOCKS = 3
EXTRA = 4  # columns beside those asked for: they take up what would slow the last ones down
GRAM_LOST = {"f": 3e-4, "d": 1e-7}  # of the largest singular value: a Gram matrix holds rounding
# largest_eigenvalue
FAILURE = 1e-9  # share of the seeds for which the second bound may fail
WIDTH, PRODUCTS = 8, 10  # vectors of a block, products at most
KEPT_BYTES = 64 * 2**20  # of K and of M K together; narrower blocks where rows are very wide
TIGHT = 1.01  # stop once a bound is within 1 % of the truth
LOST = 1e-6  # a direction this small beside its block is rounding


def orthonormal(Y: NDArray[Any], K: NDArray[Any], floor: float = 0.0) -> NDArray[Any]:
    """An orthonormal basis of what Y has beside an orthonormal K.

    Fewer columns where it has less: directions of a size up to `floor` are rounding.
    """
    for _ in range(2):  # twice is enough
        Y = Y - K @ (K.T @ Y)
    U, s, _ = np.linalg.svd(Y, full_matrices=False)
    U = U[:, s > floor]
    U = U - K @ (K.T @ U)  # a small direction's rounding is not small beside it
    return np.linalg.qr(U)[0] if U.shape[1] else U


def top_eigenpairs(S: Array, k: int, rng: np.random.Generator) -> tuple[Array, Array]:
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
        xp = namespace(S)
        Q = A @ Q
        tiniest = float(np.finfo(dtype_of(Q)).tiny)
        Q = Q / xp.clip(xp.sqrt(xp.sum(Q * Q, axis=0)), tiniest, None)
    return theta, Q


def tiny(S: Array, k: int) -> tuple[Array, Array]:
    dtype = dtype_of(S)
    wide = astype(S, np.float64)
    if is_numpy(wide):
        _, sigma, Vt = linalg.svd(wide, full_matrices=False, check_finite=False)
    else:
        _, sigma, Vt = namespace(S).linalg.svd(wide, full_matrices=False)
    theta = astype(sigma[:k] ** 2 / len(S), dtype)
    return theta, astype(namespace(S).asarray(Vt[:k].T, copy=True), dtype)


def eigh(G: Array, k: int) -> tuple[Array, Array]:
    """The k leading eigenpairs of a symmetric matrix, decreasing; G may be overwritten."""
    if is_numpy(G):
        theta, Q = linalg.eigh(G, overwrite_a=True, driver="evd", check_finite=False)
        return theta[::-1][:k], Q[:, ::-1][:, :k]
    xp = namespace(G)
    theta, Q = xp.linalg.eigh(G)
    return xp.flip(theta[-k:], axis=0), xp.flip(Q[:, -k:], axis=1)


def dense(A: Array, k: int, m: int) -> tuple[Array, Array]:
    G = A.T @ A
    G /= m
    return eigh(G, k)


def qr(W: Array) -> tuple[Array, Array]:
    """Q and R of W = Q R.

    On a device by the Cholesky factor of WᵀW in float64, a few products instead of a reflection for
    each column; if W has nearly dependent columns, as on this machine.
    """
    xp, dtype = namespace(W), dtype_of(W)
    if is_numpy(W) or dtype == np.float64:
        return xp.linalg.qr(W)  # type: ignore[no-any-return]
    import torch  # noqa: PLC0415

    wide = astype(W, np.float64)
    L, failed = torch.linalg.cholesky_ex(wide.T @ wide)
    pivots = L.diagonal()
    if not bool((failed == 0) & (pivots.amin() > DEPENDENT * pivots.amax())):
        return xp.linalg.qr(W)  # type: ignore[no-any-return]
    Q = torch.linalg.solve_triangular(L, wide.T, upper=False).T
    return astype(Q, dtype), astype(L.T, dtype)


def block_lanczos(A: Array, k: int, m: int, rng: np.random.Generator) -> tuple[Array, Array]:
    xp, dtype = namespace(A), dtype_of(A)
    size = A.shape[1]
    tol = RESIDUAL[dtype.char]
    start = like(rng.standard_normal((A.shape[0], BLOCK)), A, dtype)
    new = qr(A.T @ start)[0]
    Q = new[:, :0]
    T = Q[:0]
    check = k + BLOCK  # the next basis size at which to look at the Ritz pairs
    while True:
        Q = xp.concat([Q, new], axis=1)
        width = Q.shape[1]
        W = A.T @ (A @ new)
        W /= m
        column = Q.T @ W  # (width, BLOCK): the last block column of T
        W -= Q @ column
        W -= Q @ (Q.T @ W)  # twice is enough
        T = xp.concat([xp.concat([T, column[: len(T)].T], axis=0), column], axis=1)
        new, R = qr(W)
        # A direction lost to cancellation in W comes back as noise: make it orthogonal again.
        new = qr(new - Q @ (Q.T @ new))[0]
        exhausted = float(xp.max(xp.abs(R))) <= tol * float(xp.max(xp.abs(T)))  # all of H
        if width < check and not exhausted:
            continue
        theta, U = eigh((T + T.T) / 2, k)
        missed = R @ U[-BLOCK:]
        residual = float(xp.max(xp.sqrt(xp.sum(missed * missed, axis=0))))
        if exhausted or residual <= tol * float(theta[0]):
            return theta, Q @ U
        if 2 * width > size:  # a spectrum too flat for Lanczos to be worth it
            return dense(A, k, m)
        check = width + max(BLOCK, k // 4)


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
    lost = GRAM_LOST[N.dtype.char]
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
        new = orthonormal(Y, Q, lost * sigma[0] ** 2)[:, : C - Q.shape[1]]
        if new.shape[1] == 0:
            break
    keep = sigma > lost * max(sigma[0], 1e-30)
    U = NtV[:, keep]
    return SingularVectors(sigma[keep], V[:, keep], U / np.linalg.norm(U, axis=0))


def largest_eigenvalue(
    product: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    d: int,
    trace: float,
    rng: np.random.Generator,
) -> float:
    """An upper bound on the largest eigenvalue of M (d, d) >= 0 (see the top of this file).

    product(Q) is M Q for Q (d, m); `trace` is M's, or more.
    """
    width = int(np.clip(KEPT_BYTES // (16 * d * PRODUCTS), 1, WIDTH))
    K, MK = np.empty((d, 0)), np.empty((d, 0))
    new = orthonormal(rng.standard_normal((d, width)), K)
    bound = trace
    for products in range(1, PRODUCTS + 1):
        Y = product(new)
        K, MK = np.hstack([K, new]), np.hstack([MK, Y])
        T = K.T @ MK
        found = float(np.linalg.eigvalsh((T + T.T) / 2)[-1])
        unseen = max(trace - float(np.trace(T)), 0.0)
        residual = float(np.linalg.norm(MK - K @ T))
        proved = (found + unseen) / 2 + np.hypot((found - unseen) / 2, residual)
        log_odds = np.log(1.648 * np.sqrt(d)) - np.log(FAILURE / PRODUCTS) / width
        eps = (log_odds / (2 * products - 1)) ** 2
        bound = min(bound, proved, found / (1.0 - eps) if eps < 1.0 else np.inf)
        new = orthonormal(Y, K, LOST * float(np.linalg.norm(Y)))
        if new.shape[1] == 0:  # further products would change nothing: eps = 0
            bound = min(bound, TIGHT * found)
        if bound <= TIGHT * found:
            break
    return float(bound)
