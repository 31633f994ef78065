"""Means and second moments of the rows."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from ..arrays import Array, astype, is_numpy, is_tensor, largest, namespace, to_numpy, zeros
from ..data import Part, Pass

WIDENED = 8192  # rows of which columns' variances are computed at a time, in float64
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
        self.waiting: list[Any] = []  # on a device: what `enter` takes, of several blocks

    def __iadd__(self, other: "Moments") -> "Moments":
        self.mean += other.mean
        self.squares += other.squares
        self.reach += other.reach
        self.longest = max(self.longest, other.longest)
        self.weigh(other.heavy, other.heaviness)
        return self

    def enter(self, total: Array, squares: Array, w: Array, first: int) -> None:
        """Rows from number `first` on: Σ w_i x_i / total, ‖x_i‖² and w_i."""
        self.mean += to_numpy(total)
        sizes = astype(namespace(squares).sqrt(squares), np.float64)
        self.squares += float(w @ astype(squares, np.float64))
        heaviness = w * sizes
        self.reach += float(sizes.sum())
        self.longest = max(self.longest, float(sizes.max()) if len(sizes) else 0.0)
        heaviest = largest(heaviness, HEAVY)  # only these leave a device
        self.weigh(first + to_numpy(heaviest), to_numpy(heaviness[heaviest]))

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
            block, w = part.block, part.w / self.total
            if is_numpy(w):
                total, squares = w.astype(block.dtype) @ block, block.row_squares()
                sums.enter(total, squares, part.w, part.first)
            else:  # once for all blocks: a device is waited for
                total, squares = moments_there(block, w, part.columns["sizes"].dtype)
                sums.waiting.append((total, squares, part.w, part.first))
            part.columns["sizes"][:] = namespace(squares).sqrt(squares)

    def finish(self, sums: Moments) -> None:
        if sums.waiting:
            totals, squares, w, first = zip(*sums.waiting, strict=True)
            xp = namespace(totals[0])
            sums.enter(xp.stack(totals).sum(0), xp.concat(squares), xp.concat(w), first[0])
            sums.waiting.clear()


def moments_there(block: Any, w: Array, dtype: Any) -> tuple[Array, Array]:
    """Σ w_i x_i, and ‖x_i‖² of every row, on a device."""
    from ..device.row_sums import moments  # noqa: PLC0415  (needs torch)

    return moments(block.X, w, dtype)


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
        for lo in range(0, part.block.shape[0], WIDENED):
            X = part.block[lo : lo + WIDENED].matrix()
            mine = Spread(X.shape[1])
            mine.n = X.shape[0]
            if is_tensor(X):
                wide = astype(X, np.float64)
                mine.mean = to_numpy(wide.mean(0))
                mine.squares = to_numpy(wide.var(0, correction=0)) * mine.n
            else:
                scaler = StandardScaler(with_mean=False).fit(X)
                mine.mean, mine.squares = scaler.mean_, mine.n * scaler.var_
            sums += mine


@dataclass(frozen=True)
class GramPass(Pass[Array]):
    """M Q for M = Σ w_i x̃_i x̃_iᵀ, where x̃ is x, or [x, 1] if Q has d + 1 rows."""

    Q: Array

    @property
    def readings(self) -> float:
        return 0.0  # made before the first step

    def start(self, d: int, dtype: Any) -> Array:
        return zeros(self.Q.shape, self.Q, np.float64)

    def add(self, sums: Array, part: Part) -> None:
        d, dtype = part.block.shape[1], part.block.dtype
        S = part.block @ astype(self.Q[:d], dtype)
        S += astype(self.Q[d:].sum(0), dtype)  # 0 without a constant column
        S *= astype(part.w, dtype)[:, None]
        sums[:d] += (S.T @ part.block).T
        sums[d:] += astype(S, np.float64).sum(0)

    def row_bytes(self, dtype: Any) -> int:
        return self.Q.shape[1] * int(dtype.itemsize)
