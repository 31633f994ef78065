"""The pairs of a row and a class that bend the objective most.

Where most rows are won, few pairs (i, c) hold most of the curvature h_ic = w_i p_ic (1 - p_ic).
A pass that is asked for them keeps those of the largest

    h_ic ‖x_i‖² / sqrt(a_c),        a_c = Σ_i h_ic

The root is between the pairs that matter most to all (none) and to each class (a_c).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import kernel
from .softmax import FAST, TINY


class Doubts(NamedTuple):
    """Pairs (row, class), ordered by class; `a` is the curvature of all pairs, kept or not."""

    row: NDArray[np.intp]
    of: NDArray[np.intp]  # the class
    h: NDArray[np.float64]
    a: NDArray[np.float64]  # (C,) Σ_i h_ic


class Collector:
    """The best pairs so far of one thread."""

    def __init__(self, scale: NDArray[np.float64], most: int) -> None:
        self.scale, self.most = scale, most  # (C,) 1 / sqrt(a_c)
        self.least = 0.0  # what a pair must exceed
        room = 2 * most + len(scale)
        self.row, self.of = np.empty(room, np.int64), np.empty(room, np.int32)
        self.h, self.score = np.empty(room), np.empty(room)
        self.filled = 0
        self.a = np.zeros(len(scale))

    def add(self, R: NDArray[Any], w: NDArray[np.float64], sizes: NDArray[Any], first: int) -> None:
        """A block's pairs, from its residuals R = w (p - e_y); its first row is row `first`."""
        done = 0
        while done < len(R):
            done, self.filled = pick(
                R, w, sizes, self.scale, self.least, first, done,
                self.row, self.of, self.h, self.score, self.filled, self.a,
            )  # fmt: skip
            if done < len(R):
                self._prune()

    def merge(self, other: "Collector") -> None:
        self.a += other.a
        for name in ("row", "of", "h", "score"):
            both = getattr(self, name)[: self.filled], getattr(other, name)[: other.filled]
            setattr(self, name, np.concatenate(both))
        self.filled += other.filled
        self._prune()

    def doubts(self) -> Doubts:
        self._prune()
        order = np.lexsort((self.row[: self.filled], self.of[: self.filled]))
        row, of = self.row[order].astype(np.intp), self.of[order].astype(np.intp)
        return Doubts(row, of, self.h[order], self.a)

    def _prune(self) -> None:
        if self.filled <= self.most:
            return
        best = np.argpartition(self.score[: self.filled], -self.most)[-self.most :]
        for array in (self.row, self.of, self.h, self.score):
            array[: self.most] = array[best]
        self.filled = self.most
        self.least = float(self.score[: self.most].min())


@kernel(fastmath=FAST)
def pick(R, w, sizes, scale, least, first, done, row, of, h, score, filled, a):  # type: ignore[no-untyped-def]
    """Pairs above `least` from row `done` of the block on, until there may be no room for more."""
    for i in range(done, R.shape[0]):
        if filled + R.shape[1] > len(row):
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
                row[filled], of[filled] = first + i, c
                h[filled], score[filled] = bend, value
                filled += 1
    return R.shape[0], filled
