"""How good linear scores are on rows with known classes, in one pass by row blocks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .rows import Block, Rows, map_blocks

TOP = 5
BINS = 15  # of confidence, as usual


class _Counts:
    """One thread's share."""

    def __init__(self, C: int) -> None:
        self.hits = np.zeros(C, np.int64)  # rows of each class that are right
        self.top = 0
        self.loss = 0.0
        self.squared_loss = 0.0


def measure(
    rows: Rows,
    codes: NDArray[np.int32],
    W: NDArray[Any],
    b: NDArray[Any],
    temperature: float = 1.0,
) -> dict[str, float]:
    """top1, top5 (from five classes on), mean_per_class and log_loss of softmax(W x + b).

    With the standard errors of top1 and log_loss, as means over these rows.
    """
    C = len(W)
    WT = np.ascontiguousarray(W.T)

    def work(mine: _Counts, lo: int, hi: int, block: Block) -> None:
        S = block @ WT + b.astype(WT.dtype)
        y = codes[lo:hi]
        own = S[np.arange(hi - lo), y][:, None]
        # a tie goes to the first class, as argmax has it
        earlier = np.arange(C) < y[:, None]
        rank = ((own < S) | ((own == S) & earlier)).sum(axis=1)
        mine.hits += np.bincount(y[rank == 0], minlength=C)
        mine.top += int((rank < TOP).sum())
        losses = _log_losses(S, own, temperature)
        mine.loss += float(losses.sum())
        mine.squared_loss += float(losses @ losses)

    parts = map_blocks(rows, lambda: _Counts(C), work, C * 8)
    n = rows.shape[0]
    hits = np.sum([part.hits for part in parts], axis=0)
    support = np.bincount(codes, minlength=C)
    top1, log_loss = float(hits.sum() / n), sum(part.loss for part in parts) / n
    variance = sum(part.squared_loss for part in parts) / n - log_loss**2
    found = {
        "top1": top1,
        "top1_error": float(np.sqrt(top1 * (1.0 - top1) / n)),
        "mean_per_class": float((hits[support > 0] / support[support > 0]).mean()),
        "log_loss": log_loss,
        "log_loss_error": float(np.sqrt(max(variance, 0.0) / n)),
    }
    if C >= TOP:
        found["top5"] = sum(part.top for part in parts) / n
    return found


def _log_losses(S: NDArray[Any], own: NDArray[Any], temperature: float) -> NDArray[np.float64]:
    largest = S.max(axis=1, keepdims=True)
    scale = S.dtype.type(1.0 / temperature)
    normaliser = np.exp((S - largest) * scale).sum(axis=1, keepdims=True)
    return (np.log(normaliser) + (largest - own) * scale)[:, 0].astype(np.float64)


def calibration_error(confidence: NDArray[Any], right: NDArray[Any], bins: int = BINS) -> float:
    """The expected calibration error: how far confidence lies from the share that is right.

    Rows are put into bins by the probability of their predicted class; in each bin the mean
    confidence is held against the share of right answers, and the bins are weighed by their rows.
    """
    place = np.minimum((confidence * bins).astype(np.intp), bins - 1)
    excess = np.bincount(place, confidence - right, minlength=bins)
    return float(np.abs(excess).sum() / len(confidence))
