"""Means and second moments of the rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Part, Pass


@dataclass(frozen=True)
class MomentsPass(Pass[NDArray[np.float64]]):
    """Σ w_i x_i / total (d,); writes the norms ‖x_i‖ to the column "sizes" of the examples."""

    total: float

    @property
    def readings(self) -> float:
        return 0.0  # it belongs to loading the data

    def start(self, d: int, dtype: Any) -> NDArray[np.float64]:
        return np.zeros(d)

    def add(self, sums: NDArray[np.float64], part: Part) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # the caller checks the result
            sums += (part.w / self.total).astype(part.block.dtype) @ part.block
            part.columns["sizes"][:] = np.sqrt(part.block.row_squares())


@dataclass(frozen=True)
class GramPass(Pass[NDArray[np.float64]]):
    """M Q for M = Σ w_i x̃_i x̃_iᵀ, where x̃ is x, or [x, 1] if Q has d + 1 rows."""

    Q: NDArray[np.float64]

    @property
    def readings(self) -> float:
        return 0.0  # made before the first step

    def start(self, d: int, dtype: Any) -> NDArray[np.float64]:
        return np.zeros(self.Q.shape)

    def add(self, sums: NDArray[np.float64], part: Part) -> None:
        d, dtype = part.block.shape[1], part.block.dtype
        S = part.block @ self.Q[:d].astype(dtype)
        S += self.Q[d:].sum(axis=0).astype(dtype)  # 0 without a constant column
        S *= part.w[:, None]
        sums[:d] += (S.T @ part.block).T
        sums[d:] += S.sum(axis=0, dtype=np.float64)

    def row_bytes(self, dtype: Any) -> int:
        return self.Q.shape[1] * int(dtype.itemsize)
