"""No curvature: z = x.  The solver is then plain SGD."""

from dataclasses import dataclass

from ..arrays import Array
from ..rows import Rows
from .base import NORM_SAMPLES, CurvatureSample, constant_column


@dataclass(frozen=True)
class Identity:
    def estimate(self, sample: CurvatureSample) -> "IdentityCoordinates":
        if not sample.intercept:
            return IdentityCoordinates(sample.rows.shape[1], 0.0)
        S = sample.rows.gather(sample.draw(min(NORM_SAMPLES, len(sample.active))))
        return IdentityCoordinates(sample.rows.shape[1], constant_column(S))


@dataclass(frozen=True)
class IdentityCoordinates:
    dim: int
    bias: float

    def rows(self, X: Rows) -> Rows:
        return X

    def coef(self, V: Array, b: Array) -> tuple[Array, Array]:
        return V, b
