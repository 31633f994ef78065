"""Means and second moments of the rows."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from ..data import Part, Pass

HEAVY = 16  # rows whose rounding errors are measured because they weigh most


class Moments:
    """Of some rows."""

    def __init__(self, d: int) -> None:
        self.mean = np.zeros(d)  # Σ w_i x_i / total
        self.squares = 0.0  # Σ w_i ‖x_i‖²; NaN if a row has one
        self.reach = 0.0  # Σ ‖x_i‖
        self.longest = 0.0  # the largest ‖x_i‖
        self.heavy = np.empty(0, np.intp)  # the rows with the largest w_i ‖x_i‖, increasing,
        self.heaviness = np.empty(0)  # and these numbers

    def __iadd__(self, other: "Moments") -> "Moments":
        self.mean += other.mean
        self.squares += other.squares
        self.reach += other.reach
        self.longest = max(self.longest, other.longest)
        self.weigh(other.heavy, other.heaviness)
        return self

    def weigh(self, row: NDArray[np.intp], heaviness: NDArray[np.float64]) -> None:
        """Keep the HEAVY heaviest of those known and these."""
        row, heaviness = np.append(self.heavy, row), np.append(self.heaviness, heaviness)
        order = np.lexsort((row, heaviness))[-HEAVY:]
        self.heavy, self.heaviness = row[order], heaviness[order]


@dataclass(frozen=True)
class MomentsPass(Pass[Moments]):
    """Mean and squares of the rows; the norms ‖x_i‖ become the column "sizes" of the examples."""

    total: float
    writes_sizes: ClassVar[bool] = True

    @property
    def readings(self) -> float:
        return 0.0  # it belongs to loading the data

    def start(self, d: int, dtype: Any) -> Moments:
        return Moments(d)

    def add(self, sums: Moments, part: Part) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # the caller checks the result
            sums.mean += (part.w / self.total).astype(part.block.dtype) @ part.block
            squares = part.block.row_squares()
            sizes = np.sqrt(squares, out=part.columns["sizes"]).astype(np.float64)
            sums.squares += float(part.w @ squares.astype(np.float64))
            heaviness = part.w * sizes
        sums.reach += float(sizes.sum())
        sums.longest = max(sums.longest, float(sizes.max(initial=0.0)))
        few = min(HEAVY, len(sizes))
        heaviest = np.argpartition(heaviness, len(sizes) - few)[len(sizes) - few :]
        sums.weigh(part.first + heaviest, heaviness[heaviest])


class Spread:
    """Number, mean and variance of the columns of some rows."""

    def __init__(self, d: int) -> None:
        self.n = 0
        self.mean, self.squares = np.zeros(d), np.zeros(d)  # Σ (x - mean)²

    def __iadd__(self, other: "Spread") -> "Spread":
        """Chan, Golub and LeVeque 1979, eq. 2.1."""
        n, apart = max(1, self.n + other.n), other.mean - self.mean
        self.squares += other.squares + apart**2 * (self.n * other.n / n)
        self.mean += apart * (other.n / n)
        self.n += other.n
        return self

    @property
    def deviation(self) -> NDArray[np.float64]:
        """The standard deviation of each column; 1 for a constant one, as in scikit-learn."""
        eps, variance = np.finfo(np.float64).eps, self.squares / self.n
        rounding = self.n * eps * variance + (self.n * self.mean * eps) ** 2
        return np.where(variance <= rounding, 1.0, np.sqrt(variance))


@dataclass(frozen=True)
class SpreadPass(Pass[Spread]):
    """Mean and variance of the columns, without weights."""

    def start(self, d: int, dtype: Any) -> Spread:
        return Spread(d)

    def add(self, sums: Spread, part: Part) -> None:
        scaler = StandardScaler(with_mean=False).fit(part.block.matrix())
        mine = Spread(part.block.shape[1])
        mine.n, mine.mean = part.block.shape[0], scaler.mean_
        mine.squares = mine.n * scaler.var_
        sums += mine


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
