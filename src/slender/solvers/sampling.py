"""Which examples each class visits in a pass, and in what order (seed 000, §3.2).

Every pass draws one fresh permutation of the examples, shared by all classes.  Class c visits, in
that order, all its positives and M_c = min(r n_c, N_c) of its N_c others, drawn anew each pass:
per class that is the paper's "positives and as many negatives, shuffled together" (r = 1).
`negatives="all"` visits everything.

A pass is handed out in chunks of the permutation, so that a chunk's rows stay in cache while the
classes go over them one after the other.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CHUNK_BYTES = 512 * 2**10  # half of a usual second-level cache
FEW_CHUNK_BYTES = 16 * 2**20  # sampled negatives reuse a row too seldom to keep it in cache


class Visits(NamedTuple):
    """A chunk of a pass: class c visits order[pos[p]] for p in ptr[c]..ptr[c+1]."""

    order: NDArray[np.intp]  # (b,) examples
    ptr: NDArray[np.intp]  # (C + 1,)
    pos: NDArray[np.int32]  # (visits,) places in order, increasing within a class


def negatives_used(
    negatives: float | str, n_positives: NDArray[np.intp], n: int
) -> NDArray[np.intp]:
    """M_c for each class.  A class without positives still sees a negative, if there is one."""
    rest = n - n_positives
    if negatives == "all":
        return rest
    wanted = np.maximum(1, np.rint(float(negatives) * n_positives)).astype(np.intp)
    return np.minimum(rest, wanted)


def pass_over(
    active: NDArray[np.intp],
    positives: list[NDArray[np.intp]],
    negatives: float | str,
    row_bytes: int,
    rng: np.random.Generator,
) -> Iterator[Visits]:
    """The chunks of one pass over the examples `active` (positives are places in `active`)."""
    n, C = len(active), len(positives)
    permutation = rng.permutation(n)
    if negatives == "all":
        size = max(1, min(n, CHUNK_BYTES // row_bytes))
        for lo in range(0, n, size):
            order = active[permutation[lo : lo + size]]
            b = len(order)
            yield Visits(order, np.arange(C + 1) * b, np.tile(np.arange(b, dtype=np.int32), C))
        return

    place = np.empty(n, np.intp)  # of an example in the permutation
    place[permutation] = np.arange(n)
    M = negatives_used(negatives, np.array([len(p) for p in positives]), n)
    visited = []
    for c, mine in enumerate(positives):
        drawn = rng.choice(n - len(mine), M[c], replace=False, shuffle=False)
        # the j-th example that is not mine: skip as many of mine as come before it
        drawn += np.searchsorted(mine - np.arange(len(mine)), drawn, side="right")
        visited.append(np.sort(place[np.concatenate([mine, drawn])]))
    where = np.concatenate(visited)
    owner = np.repeat(np.arange(C), [len(v) for v in visited])

    size = max(1, min(n, FEW_CHUNK_BYTES // row_bytes))
    chunk = where // size
    by_chunk = np.argsort(chunk, kind="stable")  # keeps (class, place) order within a chunk
    bounds = np.searchsorted(chunk[by_chunk], np.arange((n - 1) // size + 2))
    for number, (lo, hi) in enumerate(pairwise(bounds)):
        mine = by_chunk[lo:hi]
        start = number * size
        ptr = np.searchsorted(owner[mine], np.arange(C + 1))
        pos = (where[mine] - start).astype(np.int32)
        yield Visits(active[permutation[start : start + size]], ptr, pos)
