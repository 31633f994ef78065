"""The softmax of a block of rows on a device, and what a pass adds up of it (softmax.py).

The same sums as those of the kernels in residuals.py and doubts.py, from a few operations on whole
blocks.  Where rows are multiplied in half precision, and neither curvature nor doubts are wanted,
the residuals are written in half precision at once; they are in float32 first otherwise.
"""

from typing import Any

import numpy as np

from ..arrays import Array, astype, namespace, to_numpy, zeros
from ..data import Part
from .doubts import Collector, Doubts, Wanted, in_order
from .residuals import TINY

LEAST = 1e-37  # a smaller weight has no inverse in float32


def add_tensors(p: Any, sums: Any, part: Part) -> None:
    """Add one block to the SoftmaxSums of a SoftmaxPass."""
    from ..device.softmax import softmax_residuals  # noqa: PLC0415  (needs torch)
    from ..device.summing import summing_error, summing_of_float64  # noqa: PLC0415

    block: Any = part.block
    w: Array = part.w
    y: Array = part.y
    sizes = astype(part.columns["sizes"], np.float64)
    S, factor = p.tensor_scores(sums, part)
    s_y = S.gather(1, y[:, None])[:, 0]
    s_y = ((s_y if factor is None else s_y * factor) + p.b[y]).double()
    plain = p.A == "none" and p.wanted is None and p.with_gradient
    arithmetic = block.arithmetic
    halves = arithmetic.room(block.X, S.shape[1]) if plain else None
    # the largest weight becomes about 1: halves have few small numbers
    scale = _scale_of(w) if halves is not None else w.new_ones(())
    loss, doubt = softmax_residuals(S, p.b, y, (w * scale).to(S.dtype), halves, factor)
    loss, r = loss.double(), w * doubt.double()
    sums.own.index_add_(0, y, r)
    heavy = r * sizes
    figures = [w @ loss, w @ (loss + s_y), r.sum(), heavy.sum(), r @ r, heavy @ heavy]
    sums.sums += namespace(w).stack(figures)
    if halves is not None:
        for k, piece in enumerate(halves):
            sums.g += piece.sum(0, dtype=w.dtype) * (2.0 ** (-arithmetic.shift * k) / scale)
        sums.unit = arithmetic.unit
        pieces, scale = halves, scale.to(S.dtype)
    else:
        sums.g += S.sum(0, dtype=w.dtype)
        if p.A != "none":
            sums.a += _curvature(S, w).sum(0, dtype=w.dtype)
        if p.A == "matrix":
            roots = _roots(S.double(), w, y)
            sums.pp += roots.T @ roots
        if sums.collector is not None:
            sums.collector.add(S, w, sizes, part.first)
        if not p.with_gradient:
            return
        pieces, scale = arithmetic.residuals(S)
    sums.chunks += 1
    probes = part.columns.get("probes")
    if probes is None:
        arithmetic.add_product(block.X, pieces, scale, sums.G)
        if block.dtype == np.float64:
            sums.chunk_error = max(sums.chunk_error, summing_of_float64(block.shape[0]))
        return
    G = zeros(sums.G.shape, sums.G, block.dtype)
    arithmetic.add_product(block.X, pieces, scale, G)
    sums.G += G
    sums.chunk_error = summing_error(G, pieces, arithmetic.shift, scale, probes, heavy.sum())


def _scale_of(w: Array) -> Array:
    """A power of two near 1 / max w, as a tensor."""
    exponent = w.amax().frexp().exponent
    return w.new_ones(()).ldexp(1 - exponent)


def _curvature(R: Array, w: Array) -> Array:
    """w p (1 - p) of every pair, from the residuals R = w (p - e_y)."""
    share = (1.0 / w.clamp_min(LEAST)).to(R.dtype)[:, None]
    size = R.abs()
    return size * (1.0 - size * share).clamp_min(0.0)


def _roots(R: Array, w: Array, y: Array) -> Array:
    """sqrt(w) p, from the residuals in float64."""
    share = (w > TINY).to(w.dtype) / w.clamp_min(TINY).sqrt()
    P = R * share[:, None]
    own = (w + R.gather(1, y[:, None])[:, 0]) * share
    return P.scatter_(1, y[:, None], own[:, None])


class TensorCollector:
    """The pairs with the largest scores so far (doubts.py), on a device."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.a = zeros((len(wanted.scale),), wanted.scale, np.float64)
        self.found: tuple[Array, ...] | None = None  # score, place in rows x C, residual, h

    def add(self, R: Array, w: Array, sizes: Array, first: int) -> None:
        """Add the pairs of a block that begins at row `first`, from its residuals w (p - e_y)."""
        xp, C = namespace(R), R.shape[1]
        h = _curvature(R, w)
        self.a += h.sum(0, dtype=w.dtype)
        factor = (sizes * sizes).to(R.dtype)[:, None]
        score = (h * factor * self.wanted.scale.to(R.dtype)).reshape(-1)
        best, place = score.topk(min(self.wanted.most, len(score)), sorted=False)
        new = best, place + first * C, R.reshape(-1)[place], h.reshape(-1)[place]
        if self.found is not None:
            new = tuple(xp.concat([old, one]) for old, one in zip(self.found, new, strict=True))
            if len(new[0]) > self.wanted.most:
                _, kept = new[0].topk(self.wanted.most, sorted=False)
                new = tuple(one[kept] for one in new)
        self.found = new

    def at_home(self) -> Collector:
        """The same pairs on the host, where those of other parts of the rows are added."""
        home = Collector(self.wanted._replace(scale=to_numpy(self.wanted.scale)))
        home.a = to_numpy(self.a)
        if self.found is not None:
            score, place, r, h = map(to_numpy, self.found)
            found = *np.divmod(place, len(self.a)), r, h, score
            positive = score > 0
            home.filled = int(np.count_nonzero(positive))
            for room, values in zip(home.found, found, strict=True):
                room[: home.filled] = values[positive]
        return home

    def doubts(self) -> Doubts:
        """The pairs found, in order, on the host: there are few."""
        assert self.found is not None
        score, place, r, h = (to_numpy(each) for each in self.found)
        positive = score > 0
        row, of = np.divmod(place[positive], len(self.a))
        return in_order(row, of, r[positive], h[positive], to_numpy(self.a))
