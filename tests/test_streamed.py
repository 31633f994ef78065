"""Rows on the host, for a device: sent at once, or chunk by chunk in every pass."""

from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import pytest

from slender.data import examples_of
from slender.passes import SoftmaxPass
from slender.rows import as_rows

torch = pytest.importorskip("torch")

from slender.data.tensors import TensorRows  # noqa: E402
from slender.rows.streamed import Streamed, fill  # noqa: E402


def made(n=400, d=20, C=7):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)).astype(np.float32), rng.integers(0, C, n), rng


def test_rows_are_sent_as_they_are_stored():
    X, _, _ = made(5000)
    for stored in (X, X.astype(np.float16), X.astype(np.float64)):
        rows, out = as_rows(stored), np.empty((3000, 20), stored.dtype)
        fill(rows, 1000, 4000, out)
        assert np.array_equal(out, stored[1000:4000])
        assert rows.to_send(0, 5).dtype == stored.dtype


def test_streamed_rows_give_the_same_sums():
    X, y, rng = made()
    w = rng.random(len(y)) / len(y)
    W, b = rng.standard_normal((20, 7)).astype(np.float32), np.zeros(7, np.float32)
    streamed = TensorRows(Streamed(as_rows(X), torch.device("cpu")))
    index = np.sort(rng.choice(400, 150, replace=False))
    for some in (slice(None), index):
        rows = streamed if isinstance(some, slice) else streamed.subset(index)
        found = examples_of(rows, y[some], w[some]).reduce(SoftmaxPass(W, b))
        true = examples_of(as_rows(X[some]), y[some], w[some]).reduce(SoftmaxPass(W, b))
        np.testing.assert_allclose(found.G, true.G, rtol=1e-4, atol=1e-7)


class FakeStream:
    """A stream that keeps a log of what it waits for, instead of waiting."""

    def __init__(self, name, log):
        self.name, self.log = name, log

    def wait_stream(self, other):
        self.log.append(f"{self.name} waits for {other.name}")

    def wait_event(self, event):
        self.log.append(f"{self.name} waits for {event.of}")


class FakeEvent:
    of = "nothing"

    def record(self, stream):
        self.of = stream.name

    def synchronize(self):
        pass


@pytest.mark.parametrize("taken", [1, 4])
def test_streams_wait_for_each_other(taken, monkeypatch):
    """Copies start after what their memory was used for, and end before it is used again."""
    log = []
    side, now = FakeStream("side", log), FakeStream("now", log)
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *size, pin_memory=None, **of: empty(*size, **of))
    for name, fake in {
        "Stream": lambda device: side,
        "current_stream": lambda device: now,
        "Event": FakeEvent,
        "stream": nullcontext,
        "device": nullcontext,
    }.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    X, _, _ = made()
    rows = as_rows(X)
    chunks = Streamed(rows, torch.device("cpu"))._ahead(rows, [*pairwise(range(0, 401, 100))], 100)
    for _, (lo, hi, chunk) in zip(range(taken), chunks, strict=False):
        np.testing.assert_array_equal(chunk.numpy(), X[lo:hi])
    chunks.close()
    assert log[0] == "side waits for now"
    assert log[-1] == "now waits for side"
    assert "side waits for now" in log[3:] or taken == 1  # for what the chunk before was used for
