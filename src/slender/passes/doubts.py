"""Doubts: the pairs of a row and a class with the largest curvature.

Once most rows are classified with certainty, a few pairs (i, c) hold most of the curvature
h_ic = w_i p_ic (1 - p_ic).  On request, a pass keeps the pairs with the largest score

    h_ic ‖x_i‖² / sqrt(a_c),        a_c = Σ_i h_ic

The square root is a compromise between the pairs that matter most overall (no divisor) and those
that matter most to their class (divisor a_c).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, astype, namespace
from ..kernels import kernel
from .residuals import FAST, TINY

ROW_BITS = 40  # of the number of a pair; the class is in the bits above those of the row
MORE = 4  # a part of the rows keeps up to this many times its share of the pairs: some have more


class Doubts(NamedTuple):
    """Pairs (row, class), ordered by class; `a` is the curvature of all pairs, kept or not.

    The arrays are where the rows are: a GPU would wait for this machine to sort so many pairs.
    """

    row: Array  # int64
    of: Array  # int64: the class
    r: Array  # float64: w (p - e_y), negative for a row of the class itself
    h: Array  # float64
    a: Array  # (C,) float64: Σ_i h_ic

    def only(self, kept: Array) -> "Doubts":
        """Some of the pairs."""
        return Doubts(self.row[kept], self.of[kept], self.r[kept], self.h[kept], self.a)


class Wanted(NamedTuple):
    """Request for the `most` pairs with the largest scores."""

    scale: Array  # (C,) 1 / sqrt(a_c), where the rows are
    most: int

    def of_part(self, parts: int) -> "Wanted":
        """What one of `parts` parts of the rows may keep: more than its share."""
        return self._replace(most=min(self.most, -(-MORE * self.most // parts)))


class Found(NamedTuple):
    """Arrays for pairs and their scores."""

    row: NDArray[Any]
    of: NDArray[Any]
    r: NDArray[Any]
    h: NDArray[Any]
    score: NDArray[Any]


class Collector:
    """The best pairs so far of one thread; a new pair must have a score above `least`."""

    def __init__(self, wanted: Wanted, least: float = 0.0) -> None:
        self.wanted, self.least = wanted, least
        self.found = self._room()
        self.filled = 0
        self.a = np.zeros(len(wanted.scale))

    def _room(self) -> Found:
        room = 2 * self.wanted.most + len(self.wanted.scale)
        return Found(
            np.empty(room, np.int64), np.empty(room, np.int32), *(np.empty(room) for _ in range(3))
        )

    def __getstate__(self) -> dict[str, Any]:
        """What travels from one machine to another: the pairs, without room for more."""
        state = self.__dict__.copy()
        state["found"] = Found(*(array[: self.filled] for array in self.found))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.found = self._room()
        for mine, kept in zip(self.found, state["found"], strict=True):
            mine[: self.filled] = kept

    def add(self, R: NDArray[Any], w: NDArray[np.float64], sizes: NDArray[Any], first: int) -> None:
        """Add the pairs of a block that begins at row `first`, from its residuals w (p - e_y)."""
        scale, done = self.wanted.scale, 0
        while done < len(R):
            done, self.filled = pick(
                R, w, sizes, scale, self.least, first, done, self.found, self.filled, self.a
            )
            if done < len(R):
                self._prune()

    def merge(self, other: "Collector") -> "Collector":
        """Add the pairs of another thread."""
        self.a += other.a
        left = other.filled
        while left:  # as much at a time as there is room for
            now = min(left, len(self.found.row) - self.filled)
            for name in Found._fields:
                room = getattr(self.found, name)[self.filled : self.filled + now]
                room[:] = getattr(other.found, name)[left - now : left]
            self.filled, left = self.filled + now, left - now
            self._prune()
        return self

    def doubts(self) -> Doubts:
        """The pairs found, in order."""
        self._prune()
        row, of, r, h, _ = (array[: self.filled] for array in self.found)
        return in_order(row, of, r, h, self.a)

    def _prune(self) -> None:
        most = self.wanted.most
        if self.filled <= most:
            return
        best = np.argpartition(self.found.score[: self.filled], -most)[-most:]
        for array in self.found:
            array[:most] = array[best]
        self.filled, self.least = most, float(self.found.score[:most].min())


def in_order(row: Array, of: Array, r: Array, h: Array, a: Array) -> Doubts:
    """Pairs, ordered by class and row."""
    row, of = astype(row, np.int64), astype(of, np.int64)
    # one key instead of two, which takes half the time
    order = namespace(row).argsort((of << ROW_BITS) + row, stable=False)
    wide = np.float64
    return Doubts(row[order], of[order], astype(r[order], wide), astype(h[order], wide), a)


@kernel(fastmath=FAST)
def pick(R, w, sizes, scale, least, first, done, found, filled, a):  # type: ignore[no-untyped-def]
    """Collect pairs above `least` from row `done` of the block on, until the arrays may be full.

    Returns the next row and the number of pairs in the arrays.
    """
    for i in range(done, R.shape[0]):
        if filled + R.shape[1] > len(found.row):
            return i, filled
        if w[i] < TINY:
            continue
        r, share, size = R[i], 1.0 / w[i], float(sizes[i]) ** 2
        for c in range(len(r)):  # -r is w (1 - p) for the own class, and r is w p for any other
            bend = float(abs(r[c]))
            bend *= max(0.0, 1.0 - bend * share)
            a[c] += bend
            value = bend * size * scale[c]
            if value > least:
                found.row[filled], found.of[filled] = first + i, c
                found.r[filled], found.h[filled], found.score[filled] = r[c], bend, value
                filled += 1
    return R.shape[0], filled
