"""The matrices of doubtful rows on a device (doubtful.py has the formulas).

Pairs of a row and a class are numbered; number k, beyond the last one, is no pair and has
sqrt(h) = 0.  Classes have different numbers of pairs.  Those with about as many form a batch, in
which number k fills the missing places: it changes nothing, since I + U B⁻¹ Uᵀ then has a row of
the identity there.  Only these small matrices are batched.  U itself, much larger, is never stored:
its products with vectors read the rows of X.
"""

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, astype, bincount, dtype_of, like, numbers, to_numpy
from ..device import pairs
from ..device.factors import inverse_factor

BATCH_BYTES = 2**26  # of the rows that a batch of classes, or a part of one, reads at a time
STEPS, SMALL = 2, 16  # sizes of batches from K to 2K, from SMALL on: more waste less, launch more


class Batch(NamedTuple):
    """Some classes with about as many doubtful rows, K at most."""

    classes: Array  # (b,)
    pair: Array  # (b, K) numbers of their pairs; k where there is none
    UU: Array  # (b, K, K)


class BatchedGram(NamedTuple):
    """U Uᵀ of every class, with rows centred at m_c."""

    X: Array  # (u, d)
    centres: Array  # (C, d)
    Z: Array  # (u, kept) the rows in the basis P,
    within: Array  # (C, kept) and the centres
    starts: Array  # (C + 1,) where a class's pairs begin
    of: Array  # (k,) the class of each pair,
    place: Array  # (k + 1,) its row in X
    root: Array  # (k + 1,) and sqrt(h)
    batches: list[Batch]


def batched_gram(rows: Any, centres: Array, P: Array) -> BatchedGram:
    import torch  # noqa: PLC0415

    X, C, k = rows.X, len(rows.a), len(rows.place)
    counts = to_numpy(rows.counts)
    of = torch.repeat_interleave(numbers(C, X), rows.counts, output_size=k)
    place = torch.cat([rows.place, rows.place.new_zeros(1)])
    root = torch.cat([rows.root, rows.root.new_zeros(1)])
    gram = BatchedGram(X, centres, X @ P, centres @ P, rows.starts, of, place, root, [])
    steps = np.ceil(STEPS * np.log2(np.maximum(counts, SMALL))) / STEPS
    size = np.ceil(2.0**steps).astype(np.int64)
    for K in np.unique(size[counts > 0]).tolist():
        alike = np.flatnonzero((size == K) & (counts > 0))
        most = classes_at_once(K, gram.Z)
        groups = (alike[lo : lo + most] for lo in range(0, len(alike), most))
        gram.batches.extend(_batch(gram, group, K, k) for group in groups)
    return gram


def classes_at_once(K: int, X: Array) -> int:
    """How many classes with K rows of X each may be read together."""
    return max(1, int(BATCH_BYTES // (K * X.shape[1] * X.element_size())))


def _batch(gram: BatchedGram, classes: Any, K: int, k: int) -> Batch:
    which = like(classes, gram.X, np.int64)
    pair = gram.starts[which][:, None] + numbers(K, gram.X)
    pair = pair.where(pair < gram.starts[which + 1][:, None], k)
    UU = gram.X.new_empty((len(classes), K, K))
    most = classes_at_once(K, gram.X)
    for lo in range(0, len(classes), most):
        some = slice(lo, lo + most)
        U = seen_from(gram, gram.X, pair[some], gram.centres[which[some]])
        UU[some] = U @ U.mT
    return Batch(which, pair, UU)


def seen_from(gram: BatchedGram, X: Array, pair: Array, centre: Array) -> Array:
    """(b, K, d) the rows sqrt(h) (x - m_c) of each class, for rows X of any kind."""
    return (X[gram.place[pair]] - centre[:, None]) * gram.root[pair][..., None]


class BatchedCorrection:
    """I + U B⁻¹ Uᵀ = L Lᵀ, class by class; a class whose factor rounding breaks does without."""

    def __init__(self, gram: BatchedGram, inside: Array, outside: Array) -> None:
        self.gram = gram
        self.inverses: list[Array] = []  # of the L of each batch
        for batch in gram.batches:
            c = batch.classes
            Y = seen_from(gram, gram.Z, batch.pair, gram.within[c])
            M = batch.UU * outside[c][:, :, None]
            M += (Y * (inside[c] - outside[c])[:, None]) @ Y.mT
            del Y
            M.diagonal(dim1=1, dim2=2).add_(1.0)
            self.inverses.append(inverse_factor(M))

    def pull(self, V: Array) -> Array:
        """Uᵀ (I + U B⁻¹ Uᵀ)⁻¹ U V for V = B⁻¹ G, (C, d)."""
        gram = self.gram
        root, of, place = gram.root[:-1], gram.of, gram.place[:-1]
        at_centre = (V * gram.centres).sum(1)
        t = V.new_zeros(len(gram.root))
        t[:-1] = root * (pairs.dots(gram.X, place, V, of) - at_centre[of])
        u = t.clone()
        for batch, inverse in zip(gram.batches, self.inverses, strict=True):
            mine = inverse @ t[batch.pair][:, :, None]
            u[batch.pair] = (inverse.mT @ mine)[:, :, 0]
        u = root * u[:-1]
        shift = astype(bincount(of, u, len(V)), dtype_of(u))
        return sums_of_pairs(gram.X, place, gram.starts, u) - shift[:, None] * gram.centres


def sums_of_pairs(X: Array, place: Array, starts: Array, values: Array) -> Array:
    """(C, d) Σ values x over the pairs of each class, always in the same order."""
    import torch  # noqa: PLC0415

    weights = values.to(X.dtype)
    return torch.nn.functional.embedding_bag(
        place, X, starts, mode="sum", per_sample_weights=weights, include_last_offset=True
    )
