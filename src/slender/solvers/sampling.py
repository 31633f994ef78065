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

from ..rows import Rows

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


class AllVisits(NamedTuple):
    """A pass in which every class visits all examples."""

    order: NDArray[np.intp]  # (n,) examples
    n_classes: int

    def counts(self) -> NDArray[np.intp]:
        """The number of visits of each class."""
        return np.full(self.n_classes, len(self.order))

    def listed(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """index, first and last: class c visits the examples index[first[c] : last[c]]."""
        first = np.zeros(self.n_classes, np.intp)
        return self.order, first, first + len(self.order)

    def of_classes(self, lo: int, hi: int) -> "AllVisits":
        """The visits of classes lo, ..., hi - 1."""
        return self._replace(n_classes=hi - lo)

    def portions(self, row_bytes: int) -> Iterator[Visits]:
        """The pass by portions, for rows of this size."""
        n, C = len(self.order), self.n_classes
        size = max(1, min(n, PORTION_BYTES // row_bytes))
        for lo in range(0, n, size):
            order = self.order[lo : lo + size]
            edges = np.append(
                np.arange(0, len(order), max(1, CHUNK_BYTES // row_bytes)), len(order)
            )
            first, last = np.repeat(edges[:-1, None], C, 1), np.repeat(edges[1:, None], C, 1)
            yield Visits(order, first, last, np.arange(len(order), dtype=np.int32))


class DrawnVisits(NamedTuple):
    """A pass in which class c visits order[where[ptr[c] : ptr[c + 1]]]."""

    order: NDArray[np.intp]  # (n,) examples
    where: NDArray[np.intp]  # positions in order, increasing within a class
    ptr: NDArray[np.intp]  # (C + 1,)

    def counts(self) -> NDArray[np.intp]:
        """The number of visits of each class."""
        return np.diff(self.ptr)

    def listed(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """index, first and last: class c visits the examples index[first[c] : last[c]]."""
        return self.order[self.where], self.ptr[:-1], self.ptr[1:]

    def of_classes(self, lo: int, hi: int) -> "DrawnVisits":
        """The visits of classes lo, ..., hi - 1."""
        ptr = self.ptr[lo : hi + 1]
        return DrawnVisits(self.order, self.where[ptr[0] : ptr[-1]], ptr - ptr[0])

    def portions(self, row_bytes: int) -> Iterator[Visits]:
        """The pass by portions, for rows of this size."""
        n, C = len(self.order), len(self.ptr) - 1
        owner = np.repeat(np.arange(C), self.counts())
        size = max(1, min(n, FEW_PORTION_BYTES // row_bytes))
        portion = self.where // size
        by_portion = np.argsort(portion, kind="stable")  # keeps (class, place) order within each
        bounds = np.searchsorted(portion[by_portion], np.arange((n - 1) // size + 2))
        for number, (lo, hi) in enumerate(pairwise(bounds)):
            mine = by_portion[lo:hi]
            start = number * size
            ptr = np.searchsorted(owner[mine], np.arange(C + 1))
            pos = (self.where[mine] - start).astype(np.int32)
            order = self.order[start : start + size]
            yield Visits(order, ptr[None, :-1].copy(), ptr[None, 1:].copy(), pos)


PassVisits = AllVisits | DrawnVisits


class Draws(NamedTuple):
    """What the passes of a fit draw their visits from."""

    rows: Rows
    active: NDArray[np.intp]
    positives: list[NDArray[np.intp]]  # of each class, positions in `active`
    negatives: float | str

    def visits(self, rng: np.random.Generator) -> PassVisits:
        """Those of a new pass."""
        permutation = self.rows.random_order(self.active, rng)
        return pass_over(self.active, permutation, self.positives, self.negatives, rng)


def pass_over(
    active: NDArray[np.intp],
    permutation: NDArray[np.intp],
    positives: list[NDArray[np.intp]],
    negatives: float | str,
    rng: np.random.Generator,
) -> PassVisits:
    """The visits of one pass over the examples `active`.

    The permutation and the positives are positions in `active`.
    """
    n, order = len(active), active[permutation]
    if negatives == "all":
        return AllVisits(order, len(positives))
    place = np.empty(n, np.intp)  # position of an example in the permutation
    place[permutation] = np.arange(n)
    M = negatives_used(negatives, np.array([len(p) for p in positives]), n)
    visited = []
    for c, mine in enumerate(positives):
        drawn = rng.choice(n - len(mine), M[c], replace=False, shuffle=False)
        # from the j-th negative to its position: skip the positives that come before it
        drawn += np.searchsorted(mine - np.arange(len(mine)), drawn, side="right")
        visited.append(np.sort(place[np.concatenate([mine, drawn])]))
    ptr = np.concatenate([[0], np.cumsum([len(v) for v in visited])])
    return DrawnVisits(order, np.concatenate(visited), ptr)
