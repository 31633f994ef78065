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

    def least(self, most: int) -> Any:
        """The least score, as a tensor of no dimension; 0 if there are fewer pairs than `most`."""
        return self.score.min() if len(self.score) >= most else self.score.new_zeros(())

    def best(self, most: int) -> "Pairs":
        """Those with the largest scores, in any order."""
        if len(self.score) <= most:
            return self
        _, kept = self.score.topk(most, sorted=False)
        return Pairs(*(each[kept] for each in self))


def pick(R: Any, w: Any, sizes: Any, scale: Any, least: Any, first: int, room: int) -> Pairs:
    """At most `room` pairs of these rows with a score above `least`, a tensor of no dimension.

    R (m, C): residuals, or the first of their pieces; rows contiguous.  w (m,), sizes (m,) ‖x_i‖
    and scale (C,) are float32, or float64 for such residuals.  `first` is the number of the first
    row.
    """
    if R.element_size() <= 4 and runs_triton(R):
        from .picking_kernel import launch  # noqa: PLC0415  (imports Triton)

        return Pairs(*launch(R, w, sizes, scale, least, first, room))
    return twin(R, w, sizes, scale, least, first, room)


def twin(R: Any, w: Any, sizes: Any, scale: Any, least: Any, first: int, room: int) -> Pairs:
    """The same in plain torch: the best ones, if there is no room for all."""
    C = R.shape[1]
    h = curvature(R.to(w.dtype), w)
    score = (h * (sizes * sizes)[:, None] * scale).reshape(-1)
    best, place = score.topk(min(room, len(score)), sorted=False)
    best = best.where(best > least, 0.0)
    return Pairs(best, place + first * C, R.reshape(-1)[place].to(w.dtype), h.reshape(-1)[place])
