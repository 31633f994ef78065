"""The two protocols: settings that estimate, and the coordinates they give."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..rows import Rows

# Rows looked at for the size of a typical row, which sets the size of the constant column.
NORM_SAMPLES = 1000


class Sample(NamedTuple):
    """The rows a curvature may look at, and what it needs to know of the problem."""

    rows: Rows
    active: NDArray[np.intp]  # rows that take part (those of positive weight)
    intercept: bool
    curvature0: float  # F''(0)
    rng: np.random.Generator

    def draw(self, m: int) -> NDArray[np.intp]:
        """m rows without replacement, in increasing order (kind to memory maps)."""
        m = min(m, len(self.active))
        return self.active[np.sort(self.rng.choice(len(self.active), m, replace=False))]


class Coordinates(Protocol):
    """z = Bᵀ x, and the way back."""

    @property
    def dim(self) -> int:
        """Numbers in a row z."""

    @property
    def bias(self) -> float:
        """The constant coordinate the solver keeps itself; 0: it is inside z, or absent."""

    def rows(self, X: Rows) -> Rows:
        """The rows z."""

    def coef(self, V: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """(W, intercept) for the classes' v (C, dim) and the solver's own bias b (C,)."""


class Curvature(Protocol):
    """Settings of a curvature estimate."""

    def estimate(self, sample: Sample) -> Coordinates:
        """Look at some rows and return the coordinates they suggest."""


def constant_column(S: NDArray[Any]) -> float:
    """The value c of the constant column: the root mean square norm of the rows.

    A constant of the size of a row is always among the leading directions of [x, c], whatever
    the units of x, so that a low rank never loses the intercept.
    """
    c = float(np.sqrt(np.einsum("ij,ij->", S, S, dtype=np.float64) / len(S)))
    return c if c > 0 else 1.0
