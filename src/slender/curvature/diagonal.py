"""The diagonal of H: z_j = x_j / sqrt(H_jj + delta); rows are scaled when they are read."""

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, to_numpy
from ..rows import Rows
from .base import EIGENVALUE_FLOOR, CurvatureSample, constant_column


@dataclass(frozen=True)
class Diagonal:
    samples: int | None = None
    damping: float = 0.0

    def estimate(self, sample: CurvatureSample) -> "DiagonalCoordinates":
        S = sample.rows.gather(sample.draw(self.samples))
        H = sample.curvature0 * to_numpy(S.column_squares()).astype(np.float64) / S.shape[0]  # (d,)
        c = constant_column(S) if sample.intercept else 0.0
        H_c = sample.curvature0 * c**2
        delta = self.damping * (H.sum() + H_c) / (len(H) + bool(c))
        # A column that is zero in the sample says nothing of its curvature: it is left out.
        known = H > EIGENVALUE_FLOOR[S.dtype.char] * max(H.max(initial=0.0), H_c)
        scale = np.zeros_like(H)
        scale[known] = (H[known] + delta) ** -0.5
        bias = c * (H_c + delta) ** -0.5 if c else 0.0
        scale = sample.rows.placed(scale.astype(S.dtype))
        return DiagonalCoordinates(len(H), float(bias), scale)


@dataclass(frozen=True)
class DiagonalCoordinates:
    dim: int
    bias: float
    scale: Array  # (d,)

    def rows(self, X: Rows) -> Rows:
        return X.scaled(self.scale)

    def coef(self, V: Array, b: Array) -> tuple[Array, Array]:
        return V * self.scale, b
