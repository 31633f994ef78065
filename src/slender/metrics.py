"""How good linear scores are on rows with known classes, in one pass by row blocks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, astype, bincount, is_numpy, namespace, to_numpy
from .data import Examples, Part, Pass
from .device.ranks import ranks_and_losses

TOP = 5
BINS = 15  # of confidence, as usual


class Counts:
    """Of some rows."""

    def __init__(self, C: int) -> None:
        self.hits = np.zeros(C)  # rows of each class that are right
        self.rows = np.zeros(C)  # and all of them
        self.top = 0
        self.loss = 0.0
        self.squared_loss = 0.0
        self.waiting: list[Any] = []  # on a device: what `enter` takes, of several blocks

    def enter(self, rank: Array, losses: Array, y: Array) -> None:
        """Rows of the classes y: how many classes have a larger score, and the losses."""
        C, losses = len(self.hits), astype(losses, np.float64)
        for mine, rows in (self.hits, rank == 0), (self.rows, rank >= 0):
            mine += to_numpy(bincount(y, astype(rows, np.float64), C))
        self.top += int((rank < TOP).sum())
        self.loss += float(losses.sum())
        self.squared_loss += float(losses @ losses)

    def __iadd__(self, other: "Counts") -> "Counts":
        self.hits += other.hits
        self.rows += other.rows
        self.top += other.top
        self.loss += other.loss
        self.squared_loss += other.squared_loss
        return self


@dataclass(frozen=True)
class MetricsPass(Pass[Counts]):
    """How often softmax((W x + b) / temperature) is right, and what it loses."""

    WT: Array  # (d, C)
    b: Array
    temperature: float = 1.0

    def start(self, d: int, dtype: Any) -> Counts:
        return Counts(len(self.b))

    def add(self, sums: Counts, part: Part) -> None:
        S, y = part.block @ self.WT, part.y
        if not is_numpy(S):  # counted once for all blocks: a device is waited for
            b = astype(self.b, part.block.dtype)
            sums.waiting.append((*ranks_and_losses(S, b, y, self.temperature), y))
            return
        S += self.b.astype(part.block.dtype)
        own = S[np.arange(len(y)), y][:, None]
        # a tie goes to the first class, as argmax has it
        rank = ((own < S) | ((own == S) & (np.arange(S.shape[1]) < y[:, None]))).sum(1)
        sums.enter(rank, _log_losses(S, own, self.temperature), y)

    def finish(self, sums: Counts) -> None:
        if sums.waiting:
            columns = zip(*sums.waiting, strict=True)
            sums.waiting = []
            sums.enter(*(namespace(rows[0]).concat(rows) for rows in columns))

    def row_bytes(self, dtype: Any) -> int:
        return len(self.b) * 8


def measure(examples: Examples, W: Array, b: Array, temperature: float = 1.0) -> dict[str, float]:
    """top1, top5 (from five classes on), mean_per_class and log_loss of softmax(W x + b).

    With the standard errors of top1 and log_loss, as means over these rows; all count the same.
    """
    n = len(examples.y)
    WT = np.ascontiguousarray(W.T) if is_numpy(W) else W.T.contiguous()
    sums = examples.reduce(MetricsPass(WT, b, temperature))
    top1, log_loss = float(sums.hits.sum() / n), sums.loss / n
    variance = sums.squared_loss / n - log_loss**2
    seen = sums.rows > 0
    found = {
        "top1": top1,
        "top1_error": float(np.sqrt(top1 * (1.0 - top1) / n)),
        "mean_per_class": float((sums.hits[seen] / sums.rows[seen]).mean()),
        "log_loss": log_loss,
        "log_loss_error": float(np.sqrt(max(variance, 0.0) / n)),
    }
    if len(W) >= TOP:
        found["top5"] = sums.top / n
    return found


def _log_losses(S: NDArray[Any], own: NDArray[Any], temperature: float) -> NDArray[Any]:
    largest, scale = S.max(axis=1, keepdims=True), 1.0 / temperature
    normaliser = np.exp((S - largest) * scale).sum(axis=1, keepdims=True)
    return (np.log(normaliser) + (largest - own) * scale)[:, 0]


def reliability(
    confidence: NDArray[Any], right: NDArray[Any], bins: int = BINS
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Rows, the sum of their confidence and the number of right answers, in bins of confidence."""
    place = np.minimum((confidence * bins).astype(np.intp), bins - 1)
    sums = (np.bincount(place, of, minlength=bins) for of in (confidence, right))
    return np.bincount(place, minlength=bins), *sums  # type: ignore[return-value]


def calibration_error(confidence: NDArray[Any], right: NDArray[Any], bins: int = BINS) -> float:
    """The expected calibration error: how far confidence lies from the share that is right.

    Rows are put into bins by the probability of their predicted class; in each bin the mean
    confidence is held against the share of right answers, and the bins are weighed by their rows.
    """
    _, expected, found = reliability(confidence, right, bins)
    return float(np.abs(expected - found).sum() / len(confidence))
