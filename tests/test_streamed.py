"""Rows on the host, for a device: sent at once, or chunk by chunk in every pass."""

from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import pytest

from slender.data import examples_of
from slender.data.sending import half_of
from slender.passes import SoftmaxPass
from slender.rows import as_rows, some_of

torch = pytest.importorskip("torch")

from slender.data.tensors import TensorRows  # noqa: E402
from slender.rows.streamed import Streamed, as_array, fill  # noqa: E402


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


def test_bfloat16_is_sent_as_its_bits():
    """All rows and some of them, in memory of bfloat16 and, where it gains nothing, of float32."""
    X, _, _ = made()
    half = torch.from_numpy(X).to(torch.bfloat16)
    rows, index = as_rows(half), np.array([3, 17, 250])
    assert rows.to_send(0, 5).dtype == np.uint16
    for kept in ("bfloat16", None):
        store = Streamed(rows, torch.device("cpu"), kept)
        assert store.stored == getattr(torch, kept or "float32")
        assert torch.equal(store.block(5, 50).to(torch.bfloat16), half[5:50])
        assert torch.equal(store.gather(index).to(torch.bfloat16), half[index])
        for some in (None, index):
            found = torch.cat(
                [chunk for _, _, chunk in store.chunks(some, 2 if some is None else 9)]
            )
            assert torch.equal(found.to(torch.bfloat16), half if some is None else half[index])
    for given, expected in (
        (rows, half[10:60]),
        (some_of(rows, np.arange(100, 300)), half[110:160]),
    ):
        out = torch.empty((50, 20), dtype=torch.bfloat16)
        fill(given, 10, 60, as_array(out))
        assert torch.equal(out, expected)


def test_what_a_gpu_multiplies_in_half_precision():
    gpu, cpu = torch.device("cuda", 0), torch.device("cpu")
    assert half_of("torch.bfloat16", gpu) == half_of("bfloat16", gpu) == "bfloat16"
    assert half_of("float16", gpu) == half_of("uint8", gpu) == "float16"
    assert half_of("float32", gpu) is half_of("torch.bfloat16", cpu) is None
