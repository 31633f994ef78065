"""The matrices of doubtful rows on a device (doubtful.py has the formulas).

Classes have different numbers of doubtful rows.  Those with about as many form a batch, in which
missing rows count with sqrt(h) = 0: they change nothing, since I + U B⁻¹ Uᵀ then has a row of the
identity there.
"""

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, dtype_of, like

BATCH_BYTES = 2**26  # of the rows of a batch of classes
STEPS = 2  # sizes of batches from K to 2K: more waste less memory, and take more launches


class Batch(NamedTuple):
    """Some classes with about as many doubtful rows, K at most."""

    classes: Array  # (b,)
    place: Array  # (b, K) of each pair's row in X
    root: Array  # (b, K) sqrt(h); 0 where there is no pair
    UU: Array  # (b, K, K)


class BatchedGram(NamedTuple):
    """U Uᵀ of every class, with rows centred at m_c."""

    X: Array  # (u, d)
    centres: Array  # (C, d)
    Z: Array  # (u, k) the rows in the basis P,
    within: Array  # (C, k) and the centres
    batches: list[Batch]


def batched_gram(rows: Any, centres: Array, P: Array) -> BatchedGram:
    X, counts = rows.X, rows.counts
    batches: list[Batch] = []
    steps = np.ceil(STEPS * np.log2(np.maximum(counts, 1))) / STEPS
    size = np.ceil(2.0**steps).astype(np.int64)
    for K in np.unique(size[counts > 0]).tolist():
        alike = np.flatnonzero((size == K) & (counts > 0))
        most = max(1, BATCH_BYTES // (K * X.shape[1] * X.element_size()))
        groups = (alike[lo : lo + most] for lo in range(0, len(alike), most))
        batches.extend(_batch(rows, group, K, centres) for group in groups)
    return BatchedGram(X, centres, X @ P, centres @ P, batches)


def _batch(rows: Any, classes: Any, K: int, centres: Array) -> Batch:
    X, dtype = rows.X, dtype_of(rows.X)
    pair = rows.starts[classes][:, None] + np.arange(K)
    there = np.arange(K) < rows.counts[classes][:, None]
    pair = np.where(there, pair, 0)
    place = like(rows.place[pair], X, np.int64)
    root = like(np.where(there, rows.root[pair], 0.0), X, dtype)
    which = like(classes, X, np.int64)
    U = seen_from(X, place, centres[which], root)
    return Batch(which, place, root, U @ U.mT)


def seen_from(X: Array, place: Array, centre: Array, root: Array) -> Array:
    """(b, K, d) the rows sqrt(h) (x - m_c) of each class."""
    return (X[place] - centre[:, None]) * root[..., None]


class BatchedCorrection:
    """I + U B⁻¹ Uᵀ = L Lᵀ, class by class."""

    def __init__(self, gram: BatchedGram, inside: Array, outside: Array) -> None:
        self.gram = gram
        self.factors: list[Array] = []
        self.good: list[Array] = []
        for batch in gram.batches:
            c = batch.classes
            Y = seen_from(gram.Z, batch.place, gram.within[c], batch.root)
            M = batch.UU * outside[c][:, :, None]
            M = M + (Y * (inside[c] - outside[c])[:, None]) @ Y.mT
            M.diagonal(dim1=1, dim2=2).add_(1.0)
            L, failed = _cholesky(M)
            self.factors.append(L)
            self.good.append(failed == 0)  # rounding may break one: its class has no correction

    def pull(self, V: Array) -> Array:
        """Uᵀ (I + U B⁻¹ Uᵀ)⁻¹ U V for V = B⁻¹ G, (C, d)."""
        gram, out = self.gram, V.new_zeros(V.shape)
        for batch, L, good in zip(gram.batches, self.factors, self.good, strict=True):
            c = batch.classes
            U = seen_from(gram.X, batch.place, gram.centres[c], batch.root)
            u = (U @ V[c][:, :, None]).cholesky_solve(L)
            out[c] = (U.mT @ u)[:, :, 0].masked_fill(~good[:, None], 0.0)
        return out


def _cholesky(M: Array) -> tuple[Array, Array]:
    import torch  # noqa: PLC0415

    L, failed = torch.linalg.cholesky_ex(M)
    return L, failed


def class_sums_there(X: Array, place: Any, of: Any, values: Any, C: int) -> Array:
    """(C, d) Σ values x over the pairs (row, class)."""
    import torch  # noqa: PLC0415

    where = like(np.stack([of, place]), X, np.int64)
    values = like(values, X, dtype_of(X))
    with torch.sparse.check_sparse_tensor_invariants(enable=False):  # torch warns if nobody says so
        return torch.sparse_coo_tensor(where, values, (C, len(X))) @ X
