"""How good linear scores are on rows with known classes, in one pass by row blocks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, astype, is_numpy, namespace, numbers, to_numpy
from .data import Examples, Part, Pass

TOP = 5
BINS = 15  # of confidence, as usual


class Counts:
    """Of some rows."""

    def __init__(self, C: int) -> None:
        self.hits = np.zeros(C, np.int64)  # rows of each class that are right
        self.rows = np.zeros(C, np.int64)  # and all of them
        self.top = 0
        self.loss = 0.0
        self.squared_loss = 0.0
        self.waiting: list[Any] = []  # on a device: what `enter` takes, of several blocks

    def enter(self, rank: NDArray[Any], losses: NDArray[Any], y: NDArray[Any]) -> None:
        """Rows of the classes y: how many classes have a larger score, and the losses."""
        C = len(self.hits)
        self.hits += np.bincount(y[rank == 0], minlength=C)
        self.rows += np.bincount(y, minlength=C)
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
        S = part.block @ self.WT
        S += astype(self.b, part.block.dtype)
        y = part.y
        own = _own(S, y)
        # a tie goes to the first class, as argmax has it
        earlier = numbers(S.shape[1], S) < y[:, None]
        rank = ((own < S) | ((own == S) & earlier)).sum(1)
        losses = _log_losses(S, own, self.temperature)
        if is_numpy(rank):
            sums.enter(rank, losses, y)
        else:  # once for all blocks: a device is waited for
            sums.waiting.append((rank, losses, y))

    def finish(self, sums: Counts) -> None:
        if sums.waiting:
            columns = zip(*sums.waiting, strict=True)
            sums.waiting = []
            sums.enter(*(to_numpy(namespace(rows[0]).concat(rows)) for rows in columns))

    def row_bytes(self, dtype: Any) -> int:
        return len(self.b) * 8


def _own(S: Array, y: Array) -> Array:
    """(rows, 1) the score of each row's own class."""
    if is_numpy(S):
        return S[np.arange(len(y)), y][:, None]
    return S.gather(1, y[:, None])


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


def _log_losses(S: Array, own: Array, temperature: float) -> Array:
    xp = namespace(S)
    largest = xp.max(S, axis=1, keepdims=True)
    scale = 1.0 / temperature
    normaliser = xp.sum(xp.exp((S - largest) * scale), axis=1, keepdims=True)
    return astype((xp.log(normaliser) + (largest - own) * scale)[:, 0], np.float64)


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
