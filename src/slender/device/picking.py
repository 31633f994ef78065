"""The pairs of a row and a class with the largest curvature, from residuals on the device.

From a residual r = w (p - e_y) follow the pair's curvature h = |r| (1 - |r| / w) = w p (1 - p), and
its score h ‖x‖² scale_c (passes/doubts.py).  Few pairs are wanted of a billion: the kernel reads
every residual once and writes the pairs whose score is above `least`, in any order, until the
room is full.
"""

from typing import Any, NamedTuple

from .compiled import runs_triton
from .softmax import curvature


class Pairs(NamedTuple):
    """Pairs and their scores; a pair with score 0 is none."""

    score: Any  # (k,) float32
    place: Any  # (k,) int64: row * C + class
    r: Any  # (k,) float32
    h: Any  # (k,) float32


class Room:
    """Room for `size` pairs, of which the first `filled` places may be in use."""

    def __init__(self, size: int, w: Any) -> None:
        """Where w is, and in its dtype."""
        score, r, h = w.new_zeros((3, size))
        self.pairs = Pairs(score, w.new_zeros(size).long(), r, h)
        self.size, self.filled = size, 0

    @property
    def free(self) -> int:
        return self.size - self.filled

    def least(self, most: int) -> Any:
        """The least score, as a tensor of no dimension; 0 if there are fewer pairs than `most`."""
        score = self.pairs.score
        return score[: self.filled].min() if self.filled >= most else score.new_zeros(())

    def prune(self, most: int) -> None:
        """Keep the pairs with the largest scores, in any order."""
        if self.filled <= most:
            return
        _, kept = self.pairs.score[: self.filled].topk(most, sorted=False)
        for each in self.pairs:
            each[:most] = each[kept]
        self.pairs.score[most:] = 0.0
        self.filled = most


def pick(R: Any, w: Any, sizes: Any, scale: Any, least: Any, first: int, room: Room) -> None:
    """Add the pairs of these rows with a score above `least`, a tensor of no dimension, to a room.

    R (m, C): residuals, or the first of their pieces; rows contiguous.  w (m,), sizes (m,) ‖x_i‖
    and scale (C,) are float32, or float64 for such residuals.  `first` is the number of the first
    row.  If there is no room for all pairs, some are lost.  The device is waited for.
    """
    if R.element_size() <= 4 and runs_triton(R):
        from .picking_kernel import launch  # noqa: PLC0415  (imports Triton)

        found = launch(R, w, sizes, scale, least, first, *room.pairs, room.filled)
        room.filled = min(room.size, int(found))
    else:
        twin(R, w, sizes, scale, least, first, room)


def twin(R: Any, w: Any, sizes: Any, scale: Any, least: Any, first: int, room: Room) -> None:
    """The same in plain torch: the best ones, if there is no room for all."""
    C, lo = R.shape[1], room.filled
    h = curvature(R.to(w.dtype), w)
    score = (h * (sizes * sizes)[:, None] * scale).reshape(-1)
    best, place = score.topk(min(room.free, len(score)), sorted=False)
    kept = (best > least).nonzero()[:, 0]
    best, place = best[kept], place[kept]
    room.filled += len(place)
    found = best, place + first * C, R.reshape(-1)[place].to(w.dtype), h.reshape(-1)[place]
    for mine, new in zip(room.pairs, found, strict=True):
        mine[lo : room.filled] = new
