"""How good linear scores are on rows with known classes, in one pass by row blocks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    WT: NDArray[Any]  # (d, C)
    b: NDArray[Any]
    temperature: float = 1.0

    def start(self, d: int, dtype: Any) -> Counts:
        return Counts(len(self.b))

    def add(self, sums: Counts, part: Part) -> None:
        S = part.block @ self.WT + self.b.astype(self.WT.dtype)
        y, C = part.y, len(self.b)
        own = S[np.arange(len(y)), y][:, None]
        # a tie goes to the first class, as argmax has it
        earlier = np.arange(C) < y[:, None]
        rank = ((own < S) | ((own == S) & earlier)).sum(axis=1)
        sums.hits += np.bincount(y[rank == 0], minlength=C)
        sums.rows += np.bincount(y, minlength=C)
        sums.top += int((rank < TOP).sum())
        losses = _log_losses(S, own, self.temperature)
        sums.loss += float(losses.sum())
        sums.squared_loss += float(losses @ losses)

    def row_bytes(self, dtype: Any) -> int:
        return len(self.b) * 8


def measure(
    examples: Examples, W: NDArray[Any], b: NDArray[Any], temperature: float = 1.0
) -> dict[str, float]:
    """top1, top5 (from five classes on), mean_per_class and log_loss of softmax(W x + b).

    With the standard errors of top1 and log_loss, as means over these rows; all count the same.
    """
    n = len(examples.y)
    sums = examples.reduce(MetricsPass(np.ascontiguousarray(W.T), b, temperature))
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


def _log_losses(S: NDArray[Any], own: NDArray[Any], temperature: float) -> NDArray[np.float64]:
    largest = S.max(axis=1, keepdims=True)
    scale = S.dtype.type(1.0 / temperature)
    normaliser = np.exp((S - largest) * scale).sum(axis=1, keepdims=True)
    return (np.log(normaliser) + (largest - own) * scale)[:, 0].astype(np.float64)


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
