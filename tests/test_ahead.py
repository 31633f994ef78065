"""Rows of files: every part is read once, ahead of its use, and not too far ahead."""

import threading

import numpy as np
import pytest

from slender import LinearProbe, LogisticClassifier, SGDClassifier
from slender.rows import ChunkedRows, SubsetRows, ahead, chunked, map_blocks, threads
from slender.rows.ahead import AHEAD, ReadAhead
from slender.rows.mapped import mapped_pages
from test_rows import Shard, memory_map

N, D = 60, 4


class Slow:
    """Parts that are read when the test allows it; notes the order of events."""

    on_disk = True

    def __init__(self, bad=None):
        self.bad, self.events, self.released = bad, [], []

    def part(self, lo, hi):
        self.events.append(lo)
        if lo == self.bad:
            raise OSError("cannot be read")
        return Released(self, lo)


class Released:
    def __init__(self, of, lo):
        self.of, self.lo = of, lo

    def release(self):
        self.of.released.append(self.lo)


def wait_until(condition):
    for _ in range(2000):
        if condition():
            return
        threading.Event().wait(0.005)
    raise AssertionError("waited ten seconds")


CUTS = [(k, k + 1) for k in range(8)]


def test_it_reads_ahead_but_not_far():
    rows = Slow()
    with ReadAhead(rows, CUTS, users=2) as parts:
        wait_until(lambda: len(rows.events) == AHEAD + 1)
        assert parts.enter(0).lo == 0
        parts.leave(0)
        threading.Event().wait(0.05)
        assert len(rows.events) == AHEAD + 1  # the other user is still at the first
        assert rows.released == []
        parts.leave(0)
        wait_until(lambda: len(rows.events) == AHEAD + 2)
        assert rows.released == [0]
    assert rows.events == list(range(AHEAD + 2))


def test_what_cannot_be_read_is_raised_where_it_is_needed():
    with ReadAhead(Slow(bad=1), CUTS) as parts:
        parts.enter(0)
        parts.leave(0)
        with pytest.raises(OSError, match="cannot be read"):
            parts.enter(1)


def test_who_waits_is_told_of_the_end():
    rows, got = Slow(), []
    parts = ReadAhead(rows, CUTS)
    with parts:
        waiting = threading.Thread(target=lambda: got.append(parts.enter(7)))
        waiting.start()
    waiting.join(10)
    assert got == [None]


@pytest.fixture
def small(monkeypatch):
    for module in (ahead, chunked, threads):
        monkeypatch.setattr(module, "PART_BYTES", 10 * D * 8)
    monkeypatch.setattr(threads, "CACHE_BYTES", 2 * D * 8)


def three_files(X):
    return [Shard(part, name, chunk=7) for part, name in zip(np.split(X, 3), "abc", strict=True)]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_a_pass_reads_every_row_once(small, monkeypatch, workers):
    monkeypatch.setattr(threads, "num_threads", lambda: workers)
    X = np.random.default_rng(0).standard_normal((N, D))
    sources = three_files(X)
    rows, seen = ChunkedRows(sources), []
    borders = set(rows.borders())

    def work(_, lo, hi, block):
        np.testing.assert_array_equal(block.toarray(), X[lo:hi])
        assert not borders & set(range(lo + 1, hi))  # no block crosses one
        seen.append((lo, hi))

    map_blocks(rows, lambda: None, work)
    assert sorted(i for lo, hi in seen for i in range(lo, hi)) == list(range(N))
    for source in sources:
        assert source.seen == [(0, 7), (7, 14), (14, 20)]  # in order, cut at edges


def test_a_subset_is_read_once_and_in_order(small):
    X = np.random.default_rng(0).standard_normal((N, D))
    sources = three_files(X)
    index = np.delete(np.arange(N), [0, 8, 9, 33, 59])  # three of them at the end of a part
    some = SubsetRows(ChunkedRows(sources), index)
    np.testing.assert_allclose(some.matmat(np.eye(D)), X[index])
    assert sources[0].seen == [(1, 7), (7, 14), (14, 20)]
    assert sum(hi - lo for source in sources for lo, hi in source.seen) == N - 3


@pytest.mark.parametrize("workers", [1, 3])
def test_the_lowest_of_several_errors_is_raised_and_reading_ends(small, monkeypatch, workers):
    monkeypatch.setattr(threads, "num_threads", lambda: workers)
    sources = three_files(np.zeros((N, D)))

    def work(_, lo, hi, block):
        if lo >= 5:
            raise ValueError(f"row {lo}")

    with pytest.raises(ValueError, match=r"row [5-9]$"):
        map_blocks(ChunkedRows(sources), lambda: None, work)
    assert sources[2].seen == []


@pytest.mark.timeout(60)
@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_thread_without_memory_for_its_sums_ends_the_pass(small, monkeypatch, late):
    """The others waited for ever: for parts that were not read because it had not left its own."""
    monkeypatch.setattr(threads, "num_threads", lambda: 3)
    sources = three_files(np.zeros((N, D)))
    turn = iter(range(3))

    def start():
        if next(turn) == late:
            raise MemoryError("no memory for sums")

    with pytest.raises(MemoryError, match="for sums"):
        map_blocks(ChunkedRows(sources), start, lambda *_: None)


def test_a_file_that_cannot_be_read_is_an_error(small, monkeypatch):
    monkeypatch.setattr(threads, "num_threads", lambda: 3)
    sources = three_files(np.zeros((N, D)))
    sources[1].read = None
    with pytest.raises(TypeError):
        ChunkedRows(sources).sqnorms()


def test_ctrl_c_ends_the_reading(small, monkeypatch):
    monkeypatch.setattr(threads, "num_threads", lambda: 1)
    sources = three_files(np.zeros((N, D)))

    def work(_, lo, hi, block):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        map_blocks(ChunkedRows(sources), lambda: None, work)
    assert not [each for each in threading.enumerate() if each.name == "slender-read"]


def test_pages_are_those_of_the_rows(tmp_path, small):
    X = memory_map(np.zeros((5000, 256)), tmp_path)
    whole, some = mapped_pages(X), mapped_pages(X[2000:2100])
    assert whole.start == 0
    assert whole.length == len(whole.mapping)
    assert some.start % 4096 == 0
    assert 128 + 2000 * 2048 - 4096 < some.start <= 128 + 2000 * 2048
    assert 100 * 2048 <= some.length <= 100 * 2048 + 4096
    assert mapped_pages(X[:, ::2]).length == len(whole.mapping)


def test_the_trace_tells_what_was_read(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 20)).astype(np.float32), rng.integers(0, 3, 300)
    mapped = memory_map(X, tmp_path)
    model = LogisticClassifier(random_state=0).fit(mapped, y)
    for record in model.trace_:
        assert record["bytes_read"] >= record["passes"] * X.nbytes  # half a pass reads all rows
        assert record["bytes_read"] % X.nbytes == 0
    probe = LinearProbe(Cs=[0.1, 1.0, 10.0], validation=2, random_state=0).fit(mapped, y)
    assert all(record["bytes_read"] >= 0 for record in probe.trace_)
    assert sum(record.get("bytes_read", 0) for record in probe.path_) > 0
    for model in (LogisticClassifier(), SGDClassifier(passes=2)):
        assert not any("bytes_read" in record for record in model.fit(X, y).trace_)
