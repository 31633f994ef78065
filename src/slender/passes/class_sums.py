"""Sums of the rows of each class: all that the softmax needs of the rows at W = 0.

There every row has the same p, so that with M_c = Σ w_i x_i over the rows of class c

    G = Σ w_i (p - e_y) x_iᵀ = p (Σ_c M_c)ᵀ - M

and the n x C scores with their two products become one addition per number of X.  M is summed in
float64: its rows, unlike residuals, do not cancel, and in float32 they would lose digits.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, astype, is_numpy, to_numpy, zeros
from ..data import Part
from ..data.examples import GradientPass, bytes_of
from .residuals import N_SUMS, R_X, RR, RR_X, R


class ClassSums:
    """M, and the sums over r = w (1 - p_y) among those named in residuals.py."""

    def __init__(self, like: Array, d: int) -> None:
        self.M = zeros((len(like), d), like, np.float64)
        self.sums = zeros((N_SUMS,), like, np.float64)

    def __iadd__(self, other: "ClassSums") -> "ClassSums":
        self.sums += other.sums
        if self.M.shape == other.M.shape:  # not one that all threads share
            self.M += other.M
        return self

    def __sizeof__(self) -> int:
        return bytes_of(vars(self))

    def at_home(self) -> "ClassSums":
        """The sums of a pass over tensors, as arrays of this machine."""
        self.M, self.sums = to_numpy(self.M), to_numpy(self.sums)
        return self


@dataclass(frozen=True)
class ClassSumsPass(GradientPass[ClassSums]):
    """At p, given as 1 - p (C,); the examples need a column "sizes", the row norms."""

    doubt: Array
    needs_sizes: ClassVar[bool] = True

    @property
    def residual_columns(self) -> int:
        return 0  # the class of a row determines its residual, w (p - e_y)

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        return len(self.doubt)

    def start_part(
        self, d: int, dtype: Any, parts: int, before: ClassSums | None = None
    ) -> ClassSums:
        return ClassSums(self.doubt, d)

    def add(self, sums: ClassSums, part: Part) -> None:
        self.residuals(sums, part)
        if is_numpy(part.w):
            part.block.add_by_class(part.w, part.y, sums.M)
        else:
            add_there(part, sums.M)

    def residuals(self, sums: ClassSums, part: Part, out: NDArray[Any] | None = None) -> None:
        r, size = part.w * self.doubt[part.y], astype(part.columns["sizes"], np.float64)
        sums.sums[R] += r.sum()
        sums.sums[R_X] += r @ size
        sums.sums[RR] += r @ r
        sums.sums[RR_X] += (r * size) @ (r * size)

    def add_gradient(
        self, part: Part, residuals: Any, first: int, G: NDArray[Any], scratch: NDArray[Any]
    ) -> None:
        part.block.add_by_class(part.w, part.y, G, first)

    def gradient(self, sums: ClassSums) -> NDArray[Any]:
        return sums.M

    def gradient_bytes(self, d: int, dtype: Any) -> int:
        return self.n_classes * d * 8


def add_there(part: Part, M: Array) -> None:
    """M += the sums of the rows of each class, on a device."""
    from ..device.row_sums import add_by_class  # noqa: PLC0415  (needs torch)

    block: Any = part.block
    add_by_class(block.X, part.w, part.y, M)
