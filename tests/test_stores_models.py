"""Models fitted to stores: the same as on the array; random orders that a file can be read in."""

import numpy as np
import pytest

from slender import (
    BCFWClassifier,
    LaRankClassifier,
    LinearProbe,
    LogisticClassifier,
    OLBFGSClassifier,
    SGDClassifier,
    SGDQNClassifier,
    SLNDClassifier,
    TraceNormClassifier,
    open_rows,
)
from slender.datasets import planted
from slender.rows import ChunkedRows, SubsetRows, as_rows, chunked, shuffling
from test_rows import Shard

DATA = planted(600, 16, 5, n_test=200, separation=1.0)


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Five shards of twenty chunks in all, of which four fit into the buffer."""
    X = np.asarray(DATA.X_train, np.float32)
    row = X[:1].nbytes
    monkeypatch.setattr(chunked, "PART_BYTES", 60 * row)
    monkeypatch.setattr(shuffling, "CHUNK_BYTES", 30 * row)
    monkeypatch.setattr(shuffling, "BUFFER_BYTES", 120 * row)
    for k, rows in enumerate(np.split(X, 5)):
        np.savez(tmp_path / f"part-{k}.npz", X=rows, y=np.split(DATA.y_train, 5)[k])
    return open_rows(tmp_path)


@pytest.mark.parametrize(
    "model",
    [
        LogisticClassifier(C=0.1, tol=1e-5),
        LinearProbe(Cs=[0.01, 0.1, 1.0], tol=1e-5, random_state=0),
        TraceNormClassifier(lambda1=1e-3, lambda2=1e-4, tol=1e-4),
        LaRankClassifier(C=0.01, tol=1e-3, random_state=0),
        BCFWClassifier(lam=0.1, passes=300, tol=1e-3, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_certified_models_agree_with_those_of_the_array(store, model):
    """Both are within their gaps of the same optimum."""
    X = np.asarray(DATA.X_train, np.float32)
    one = model.fit(X, DATA.y_train)
    objective, gap = one.trace_[-1]["objective"], one.trace_[-1]["gap"]
    other = model.fit(store, store.labels)
    last = other.trace_[-1]
    assert last["gap"] <= 2e-3 * last["objective"]
    assert last["objective"] - last["gap"] <= objective
    assert objective - gap <= last["objective"]
    assert np.array_equal(other.predict(store), other.predict(X))


@pytest.mark.parametrize(
    "model",
    [
        SLNDClassifier(random_state=0),
        SGDClassifier(random_state=0, objective="exact"),
        SGDClassifier(random_state=0, loss="cross_entropy", batch_size=16, objective="exact"),
        SGDQNClassifier(random_state=0, objective="exact"),
        OLBFGSClassifier(random_state=0, objective="exact"),
    ],
    ids=lambda model: f"{type(model).__name__} {model.loss}",
)
def test_stochastic_models_do_as_well_as_on_the_array(store, model):
    X = np.asarray(DATA.X_train, np.float32)
    one = model.fit(X, DATA.y_train)
    objective, accuracy = one.trace_[-1]["objective"], one.score(DATA.X_test, DATA.y_test)
    other = model.fit(store, store.labels)
    assert other.trace_[-1]["objective"] == pytest.approx(objective, rel=0.05)
    assert other.score(DATA.X_test, DATA.y_test) > accuracy - 0.05


# -- random orders ---------------------------------------------------------------------------------


def sources(n, chunk, shard):
    X = np.arange(n, dtype=np.float32)[:, None]
    return [Shard(X[lo : lo + shard], f"{lo // shard:02}", chunk) for lo in range(0, n, shard)]


@pytest.fixture
def rows(monkeypatch):
    """200 rows in four shards and twenty chunks of ten; three of them fit into the buffer."""
    monkeypatch.setattr(shuffling, "CHUNK_BYTES", 40)
    monkeypatch.setattr(shuffling, "BUFFER_BYTES", 120)
    return ChunkedRows(sources(200, 5, 50))


def test_a_random_order_is_a_permutation_that_goes_buffer_by_buffer(rows):
    rng = np.random.default_rng(0)
    index = np.flatnonzero(rng.random(200) < 0.9)
    order = rows.random_order(index, rng)
    assert np.array_equal(np.sort(order), np.arange(len(index)))
    chunks = index[order] // 10
    places = [np.flatnonzero(chunks == k) for k in range(20)]
    spans = [each.max() - each.min() + 1 for each in places]
    assert max(spans) <= 30  # a buffer
    assert np.median(spans) > 15  # and not one chunk after the other
    assert not np.array_equal(chunks, np.sort(chunks))
    again = rows.random_order(index, rng)
    assert not np.array_equal(again, order)


def test_rows_in_that_order_read_each_chunk_once(rows):
    rng = np.random.default_rng(1)
    order = rows.random_order(np.arange(200), rng)
    for lo in range(0, 200, 7):
        assert np.array_equal(rows.gather(order[lo : lo + 7]).toarray()[:, 0], order[lo : lo + 7])
    read = sum(hi - lo for source in rows.sources for lo, hi in source.seen)
    assert read == 200
    some = SubsetRows(rows, np.arange(0, 200, 2))  # a split, say, of which each row is read once
    chosen = some.random_order(np.arange(100), rng)
    assert np.array_equal(np.sort(chosen), np.arange(100))
    for source in rows.sources:
        source.seen.clear()
    for lo in range(0, 100, 7):
        some.gather(chosen[lo : lo + 7])
    assert sum(hi - lo for source in rows.sources for lo, hi in source.seen) <= 240


def test_rows_that_fit_into_the_buffer_are_shuffled_as_in_memory(monkeypatch):
    rows = ChunkedRows(sources(50, 5, 10))
    order = rows.random_order(np.arange(50), np.random.default_rng(3))
    assert np.array_equal(order, np.random.default_rng(3).permutation(50))


def test_every_position_is_equally_likely(rows):
    rng, places = np.random.default_rng(0), np.zeros(200)
    for _ in range(600):
        places[rows.random_order(np.arange(200), rng)] += np.arange(200)
    assert np.abs(places / 600 - 99.5).max() < 5 * 57.7 / np.sqrt(600)  # five standard errors


@pytest.mark.parametrize("estimator", [SGDClassifier, SGDQNClassifier, OLBFGSClassifier])
def test_streaming_solvers_read_each_chunk_once_a_pass(monkeypatch, estimator):
    """Of 400 rows sorted by class, in twenty chunks: a pass reads no chunk twice."""
    X, y = np.asarray(DATA.X_train[:400], np.float32), DATA.y_train[:400]
    by_class = np.argsort(y, kind="stable")
    monkeypatch.setattr(shuffling, "CHUNK_BYTES", 20 * X[:1].nbytes)
    monkeypatch.setattr(shuffling, "BUFFER_BYTES", 60 * X[:1].nbytes)
    shard = Shard(X[by_class], chunk=20)
    seen = []

    def passes(record, weights):
        seen.append(sum(hi - lo for lo, hi in shard.seen))

    estimator(passes=4, random_state=0, callbacks=[passes]).fit(ChunkedRowsOf(shard), y[by_class])
    kept = 60 + 20  # rows that are still in memory from the pass before
    assert (np.diff(seen) <= 400).all()
    assert (np.diff(seen) >= 400 - kept).all()


class ChunkedRowsOf:
    """A matrix whose rows are in one source."""

    def __init__(self, source):
        self.source, self.shape = source, source.shape

    def as_rows(self):
        return ChunkedRows([self.source])


def test_many_small_chunks_in_a_buffer_cost_little_on_rows_sorted_by_class(monkeypatch):
    """The worst case: a chunk has rows of one or two classes.

    A buffer of a quarter of the rows, in fifty chunks, ends near a full shuffle, while the same
    buffer in one chunk, so that few classes are seen at a time, does not.
    """
    X, y = np.asarray(DATA.X_train, np.float32), DATA.y_train
    by_class = np.argsort(y, kind="stable")
    X, y = X[by_class], y[by_class]

    def objective(chunk, buffer):
        monkeypatch.setattr(shuffling, "CHUNK_BYTES", chunk * X[:1].nbytes)
        monkeypatch.setattr(shuffling, "BUFFER_BYTES", buffer * X[:1].nbytes)
        made = [
            SGDClassifier(passes=5, random_state=seed, objective="exact")
            .fit(ChunkedRowsOf(Shard(X, chunk=chunk)), y)
            .trace_[-1]["objective"]
            for seed in range(3)
        ]
        return np.mean(made)

    full, many, one = objective(3, 600), objective(3, 150), objective(150, 150)
    assert many < 1.1 * full
    assert one > 1.2 * full


def test_where_rows_come_from(tmp_path):
    rows = ChunkedRows(sources(30, 5, 10))
    assert rows.where(17) == "01, row 7"
    assert SubsetRows(rows, np.array([29, 3])).where(0) == "02, row 9"
    assert rows.scaled(np.ones(1)).where(3) == "00, row 3"
    assert as_rows(np.zeros((3, 2))).where(2) == "row 2"
