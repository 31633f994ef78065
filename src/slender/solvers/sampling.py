"""Which examples each class visits in a pass, and in what order (SLND, §3.2).

Every pass has a new permutation of the examples, shared by all classes, in which the row store can
read them (rows/shuffling.py).  Class c visits, in that
order, all its positives and M_c = min(r n_c, N_c) of its N_c negatives, drawn again in each pass:
for each class these are the paper's "positives and as many negatives, shuffled together" (r = 1).
`negatives="all"` visits all examples.

A pass is divided into portions of the permutation, and a portion into chunks: the rows of a chunk
stay in cache while the classes of a thread visit them, one class after the other.  Threads wait for
each other only at the end of a portion.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CHUNK_BYTES = 512 * 2**10  # half of a usual second-level cache
PORTION_BYTES = 64 * 2**20  # of rows gathered at a time, if a kernel cannot read them in place
FEW_PORTION_BYTES = 16 * 2**20  # the same with sampled negatives, which seldom use a row again


class Visits(NamedTuple):
    """A portion of a pass: in chunk k class c visits order[pos[first[k, c] : last[k, c]]]."""

    order: NDArray[np.intp]  # (b,) examples
    first: NDArray[np.intp]  # (chunks, C)
    last: NDArray[np.intp]  # (chunks, C)
    pos: NDArray[np.int32]  # positions in order, increasing within a class and chunk

    def of_class(self, c: int) -> NDArray[np.intp]:
        """The examples that class c visits, in order."""
        chunks = zip(self.first[:, c], self.last[:, c], strict=True)
        return self.order[np.concatenate([self.pos[lo:hi] for lo, hi in chunks])]


def negatives_used(
    negatives: float | str, n_positives: NDArray[np.intp], n: int
) -> NDArray[np.intp]:
    """M_c for each class.  A class without positives still visits a negative, if there is one."""
    rest = n - n_positives
    if negatives == "all":
        return rest
    wanted = np.maximum(1, np.rint(float(negatives) * n_positives)).astype(np.intp)
    return np.minimum(rest, wanted)


def pass_over(
    active: NDArray[np.intp],
    permutation: NDArray[np.intp],
    positives: list[NDArray[np.intp]],
    negatives: float | str,
    row_bytes: int,
    rng: np.random.Generator,
) -> Iterator[Visits]:
    """The portions of one pass over the examples `active`.

    The permutation and the positives are positions in `active`.
    """
    n, C = len(active), len(positives)
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

    place = np.empty(n, np.intp)  # position of an example in the permutation
    place[permutation] = np.arange(n)
    M = negatives_used(negatives, np.array([len(p) for p in positives]), n)
    visited = []
    for c, mine in enumerate(positives):
        drawn = rng.choice(n - len(mine), M[c], replace=False, shuffle=False)
        # from the j-th negative to its position: skip the positives that come before it
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
