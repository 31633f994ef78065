"""The two protocols of a static curvature: settings that estimate it, and its coordinates."""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, to_numpy
from ..rows import Block, Rows

# Rows looked at for the size of a typical row, which sets the size of the constant column.
NORM_SAMPLES = 1000

SAMPLE_BYTES = 64 * 2**20  # a curvature's own choice of rows fills at most this much memory,
MIN_SAMPLES, MAX_SAMPLES = 512, 4096  # and lies between these

# Eigenvalues below this share of the largest are rounding noise: the Gram matrix of float32 rows
# was seen to err by 5e-8 of the largest eigenvalue (20,000 x 1,280 embeddings).
EIGENVALUE_FLOOR = {"f": 1e-6, "d": 1e-13}


class CurvatureSample(NamedTuple):
    """The rows that a curvature may use, and what it needs to know of the problem."""

    rows: Rows
    active: NDArray[np.intp]  # rows that take part (those of positive weight)
    intercept: bool
    curvature0: float  # F''(0)
    rng: np.random.Generator

    def draw(self, m: int | None) -> NDArray[np.intp]:
        """m rows without replacement; None: as many as fit in SAMPLE_BYTES, within limits."""
        n = len(self.active)
        if m is None:
            fits = SAMPLE_BYTES // (self.rows.shape[1] * self.rows.dtype.itemsize)
            m = min(n, int(np.clip(fits, MIN_SAMPLES, MAX_SAMPLES)))
        if m > n:
            raise ValueError(
                f"hessian_samples={m} is more than the {n} training rows; use at most {n}, or None"
            )
        index = np.sort(self.rng.choice(n, m, replace=False))  # in order: kind to memory maps
        return self.active[index]


class Coordinates(Protocol):
    """z = Bᵀ x, and the way back."""

    @property
    def dim(self) -> int:
        """Length of a row z."""

    @property
    def bias(self) -> float:
        """The constant coordinate that the solver adds; 0 if it is part of z, or absent."""

    def rows(self, X: Rows) -> Rows:
        """The rows z."""

    def coef(self, V: Array, b: Array) -> tuple[Array, Array]:
        """(W, intercept) from V (C, dim) and the solver's intercepts b (C,)."""


class Curvature(Protocol):
    """Settings of a curvature estimate."""

    def estimate(self, sample: CurvatureSample) -> Coordinates:
        """The coordinates, estimated from a sample of rows."""


def constant_column(S: Block) -> float:
    """The value c of the constant column: the root mean square norm of the rows of a block.

    A constant as large as a typical row is always among the leading directions of [x, c], for any
    units of x.  So a low rank never loses the intercept.
    """
    c = float(np.sqrt(to_numpy(S.row_squares()).mean(dtype=np.float64)))
    return c if c > 0 else 1.0
