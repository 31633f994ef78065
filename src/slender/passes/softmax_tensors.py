"""The softmax of a block of rows on a device, and what a pass adds up of it (softmax.py).

The same sums as those of the kernels in residuals.py and doubts.py.  Weights are multiplied by a
power of two, `scale`, so that halves have digits for small residuals too; the sums are divided by
it at the end.  What a row adds to the objective is kept until there are many rows: a few
operations on a million numbers take as long as on one block.
"""

from typing import Any

import numpy as np

from ..arrays import Array, astype, dtype_of, namespace, to_numpy, zeros
from ..data import Part
from .doubts import Collector, Doubts, Wanted, in_order
from .residuals import TINY

WAITING = 2**22  # rows whose losses are not added up yet, at most
GROWTH = 2  # a threshold from some rows is applied to so many times as many
ROOM = 3  # pairs above the threshold for which there is room, times those wanted
FARTHEST = 1e25  # 1 / sqrt(a_c), at most: in float32 it would be infinite for a class without pairs


def add_tensors(p: Any, sums: Any, part: Part) -> None:
    """Add one block to the SoftmaxSums of a SoftmaxPass."""
    from ..device.softmax import column_sums, softmax_residuals  # noqa: PLC0415  (needs torch)
    from ..device.summing import summing_error, summing_of_float64  # noqa: PLC0415

    block: Any = part.block
    w, sizes, y = part.columns["scaled"], part.columns["sizes"], part.y
    sums.scale = part.columns["scale"]
    S, factor = p.tensor_scores(sums, part)
    arithmetic = block.arithmetic
    halves = arithmetic.room(block.ready, S.shape[1]) if p.A != "matrix" else None
    if halves is not None and not p.with_gradient:
        del halves[1:]
    if sums.columns is None:
        sums.columns = column_sums(S, p.A != "none" or sums.collector is not None)
    found = softmax_residuals(S, p.b, y, w, halves, factor, sums.columns)
    sums.waiting.append((*found, part.w, sizes, y))
    if sum(len(rows[0]) for rows in sums.waiting) > WAITING:
        _add_rows(sums)
    if p.A == "matrix":
        roots = _roots(S.double(), w.double(), y)
        sums.pp += roots.T @ roots
    if sums.collector is not None:
        sums.collector.add(S if halves is None else halves[0], w, sizes, part.first)
    if not p.with_gradient:
        return
    pieces, scale = (halves, None) if halves is not None else arithmetic.residuals(S)
    sums.chunks += 1
    probes = part.columns.get("probes")
    if probes is None:
        arithmetic.add_product(block.ready, pieces, scale, sums.G)
        if block.dtype == np.float64:
            sums.chunk_error = max(sums.chunk_error, summing_of_float64(block.shape[0]))
        return
    G = zeros(sums.G.shape, sums.G, block.dtype)
    arithmetic.add_product(block.ready, pieces, scale, G)
    sums.G += G
    heavy = (w.double() * found.doubt.double()) @ sizes.double()
    sums.chunk_error = summing_error(G, pieces, arithmetic.shift, scale, probes, heavy)


def finish_tensors(p: Any, sums: Any) -> None:
    """Once all blocks are added: add what waits, and divide by the scale of the weights."""
    _add_rows(sums)
    if sums.columns is not None:  # there are rows
        g, *bend = sums.columns.sum(0)
        sums.g += g
        if p.A != "none":
            sums.a += bend[0]
        if sums.collector is not None:
            sums.collector.a += bend[0]
        sums.columns = None
    for each in (sums.G, sums.g, sums.a, sums.pp):
        each /= sums.scale
    if sums.collector is not None:
        sums.collector.finish(sums.scale)
    sums.scale = 1.0


def _add_rows(sums: Any) -> None:
    """The figures of the rows that wait, in the order of residuals.py."""
    if not sums.waiting:
        return
    columns = zip(*sums.waiting, strict=True)
    *figures, y = (namespace(rows[0]).concat(rows) for rows in columns)
    loss, doubt, score, w, sizes = (each.double() for each in figures)
    sums.waiting.clear()
    r = w * doubt
    sums.own.index_add_(0, y, r)
    heavy = r * sizes
    figures = [w @ loss, w @ (loss + score), r.sum(), heavy.sum(), r @ r, heavy @ heavy]
    sums.sums += namespace(w).stack(figures)


def _roots(R: Array, w: Array, y: Array) -> Array:
    """sqrt(w) p, from the residuals in float64."""
    share = (w > TINY).to(w.dtype) / w.clamp_min(TINY).sqrt()
    P = R * share[:, None]
    own = (w + R.gather(1, y[:, None])[:, 0]) * share
    return P.scatter_(1, y[:, None], own[:, None])


class TensorCollector:
    """The pairs with the largest scores so far (doubts.py), on a device.

    A block is searched for scores above the least of the pairs kept so far.  The first block is
    read by parts that grow, so that few of its pairs are above that.
    """

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.a = zeros((len(wanted.scale),), wanted.scale, np.float64)
        self.room: Any = None  # of device/picking.py
        self.rows = 0  # seen so far

    def add(self, R: Array, w: Array, sizes: Array, first: int) -> None:
        """Add the pairs of a block that begins at row `first`, from its residuals w (p - e_y)."""
        from ..device.picking import Room, pick  # noqa: PLC0415  (needs torch)

        (m, C), most, lo = R.shape, self.wanted.most, 0
        scale = astype(self.wanted.scale.clamp_max(FARTHEST), dtype_of(w))
        if self.room is None:
            self.room = Room(most + max(C, ROOM * most), w)
        while lo < m:
            hi = min(m, lo + max(1, self.room.free // C, GROWTH * self.rows))
            least = self.room.least(most)
            pick(R[lo:hi], w[lo:hi], sizes[lo:hi], scale, least, first + lo, self.room)
            if self.room.free < max(C, GROWTH * most):
                self.room.prune(most)
            self.rows, lo = self.rows + hi - lo, hi

    def finish(self, scale: float) -> None:
        """Once all blocks are added, for weights that were multiplied by `scale`."""
        self.a /= scale
        if self.room is not None:
            self.room.prune(self.wanted.most)
            for each in (self.room.pairs.score, self.room.pairs.r, self.room.pairs.h):
                each /= scale

    def found(self) -> tuple[Array, ...]:
        """row, class, r, h and score of the pairs."""
        if self.room is None:
            return (self.a[:0].long(),) * 2 + (self.a[:0],) * 3
        score, place, r, h = (each[: self.room.filled] for each in self.room.pairs)
        kept = (score > 0).nonzero()[:, 0]
        score, place, r, h = (each[kept] for each in (score, place, r, h))
        return place // len(self.a), place % len(self.a), r, h, score

    def at_home(self) -> Collector:
        """The same pairs on the host, where those of other parts of the rows are added."""
        home = Collector(self.wanted._replace(scale=to_numpy(self.wanted.scale)))
        home.a = to_numpy(self.a)
        found = [to_numpy(each) for each in self.found()]
        home.filled = len(found[0])
        for room, values in zip(home.found, found, strict=True):
            room[: home.filled] = values
        return home

    def doubts(self) -> Doubts:
        """The pairs found, in order."""
        row, of, r, h, _ = self.found()
        return in_order(row, of, r, h, self.a)
