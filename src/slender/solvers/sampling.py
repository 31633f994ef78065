"""Which examples each class visits in a pass, and in what order (SLND, §3.2).

Every pass draws one fresh permutation of the examples, shared by all classes.  Class c visits, in
that order, all its positives and M_c = min(r n_c, N_c) of its N_c others, drawn anew each pass:
per class that is the paper's "positives and as many negatives, shuffled together" (r = 1).
`negatives="all"` visits everything.

A pass is handed out in portions of the permutation, and a portion goes chunk by chunk: a chunk's
rows stay in cache while the classes of a thread go over them one after the other.  Threads meet
only at the end of a portion.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CHUNK_BYTES = 512 * 2**10  # half of a usual second-level cache
PORTION_BYTES = 64 * 2**20  # rows that are gathered at a time, where a kernel cannot read them
FEW_PORTION_BYTES = 16 * 2**20  # sampled negatives reuse a row too seldom to keep it in cache


class Visits(NamedTuple):
    """A portion of a pass: in chunk k class c visits order[pos[first[k, c] : last[k, c]]]."""

    order: NDArray[np.intp]  # (b,) examples
    first: NDArray[np.intp]  # (chunks, C)
    last: NDArray[np.intp]  # (chunks, C)
    pos: NDArray[np.int32]  # places in order, increasing within a class and chunk

    def of_class(self, c: int) -> NDArray[np.intp]:
        """The examples class c visits, in its order."""
        chunks = zip(self.first[:, c], self.last[:, c], strict=True)
        return self.order[np.concatenate([self.pos[lo:hi] for lo, hi in chunks])]


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
    """The portions of one pass over the examples `active` (positives are places in `active`)."""
    n, C = len(active), len(positives)
    permutation = rng.permutation(n)
    if negatives == "all":
        size = max(1, min(n, PORTION_BYTES // row_bytes))
        for lo in range(0, n, size):
            order = active[permutation[lo : lo + size]]
            edges = np.append(
                np.arange(0, len(order), max(1, CHUNK_BYTES // row_bytes)), len(order)
            )
            first, last = np.repeat(edges[:-1, None], C, 1), np.repeat(edges[1:, None], C, 1)
            yield Visits(order, first, last, np.arange(len(order), dtype=np.int32))
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

    size = max(1, min(n, FEW_PORTION_BYTES // row_bytes))
    portion = where // size
    by_portion = np.argsort(portion, kind="stable")  # keeps (class, place) order within a portion
    bounds = np.searchsorted(portion[by_portion], np.arange((n - 1) // size + 2))
    for number, (lo, hi) in enumerate(pairwise(bounds)):
        mine = by_portion[lo:hi]
        start = number * size
        ptr = np.searchsorted(owner[mine], np.arange(C + 1))
        pos = (where[mine] - start).astype(np.int32)
        order = active[permutation[start : start + size]]
        yield Visits(order, ptr[None, :-1].copy(), ptr[None, 1:].copy(), pos)
