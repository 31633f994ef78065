"""Every store equals its dense self, verb by verb."""

from pathlib import Path

import numpy as np
import pytest
from numba import njit
from scipy import sparse

from slender.rows import (
    ChunkedRows,
    CodeRows,
    NormalisedRows,
    SubsetRows,
    as_rows,
    base,
    chunked,
    codes,
    map_blocks,
    threads,
)
from slender.rows.bfloat import BFloatRows
from slender.rows.half import TABLE, widen
from slender.rows.kernel import axpy, axpy_scaled, dot, scores

N, D = 23, 6


def truth():
    rng = np.random.default_rng(0)
    X = rng.integers(-8, 9, (N, D)) / 4  # exact in every dtype
    X[rng.random((N, D)) < 0.4] = 0
    X[5] = 0  # an empty row
    return X


def memory_map(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


class Shard:
    """Rows of an array as the source of a chunked store, which notes what is read."""

    def __init__(self, X, name="shard", chunk=3):
        self.X, self.name, self.shape, self.dtype = X, name, X.shape, X.dtype
        self.edges = [*range(0, len(X), chunk), len(X)]
        self.seen = []

    def read(self, lo, hi):
        self.seen.append((lo, hi))
        return self.X[lo:hi]

    def where(self, i):
        return f"{self.name}, row {i}"


def shards(X, chunk=3):
    """The same rows in three files, one of them empty."""
    return ChunkedRows([Shard(X[:9], chunk=chunk), Shard(X[9:9]), Shard(X[9:], chunk=chunk)])


def coded(X, dtype=np.float64, parts=3):
    """X as codes, exactly: its own pieces are the centroids."""
    pieces = X.reshape(len(X), parts, -1)
    codebooks = np.zeros((parts, 256, pieces.shape[2]), dtype)
    numbers = np.empty((len(X), parts), np.uint8)
    for q in range(parts):
        found, numbers[:, q] = np.unique(pieces[:, q], axis=0, return_inverse=True)
        codebooks[q, : len(found)] = found
    return CodeRows(numbers, codebooks)


STORES = {
    "float64": lambda X, _: X,
    "float32": lambda X, _: X.astype(np.float32),
    "float16": lambda X, _: X.astype(np.float16),
    "int8": lambda X, _: (X * 4).astype(np.int8),
    "fortran": lambda X, _: np.asfortranarray(X),
    "strided": lambda X, _: np.repeat(X, 2, axis=1)[:, ::2],
    "memory map float32": lambda X, folder: memory_map(X.astype(np.float32), folder),
    "memory map float16": lambda X, folder: memory_map(X.astype(np.float16), folder),
    "bfloat16": lambda X, _: BFloatRows((X.astype(np.float32).view(np.uint32) >> 16).astype("u2")),
    "csr": lambda X, _: sparse.csr_array(X),
    "csr float32": lambda X, _: sparse.csr_matrix(X.astype(np.float32)),
    "scaled": lambda X, _: as_rows(X * 2).scaled(np.full(D, 0.5)),
    "scaled csr": lambda X, _: as_rows(sparse.csr_array(X * 2)).scaled(np.full(D, 0.5)),
    "scaled float16": lambda X, _: as_rows(X.astype(np.float16)).scaled(np.ones(D)),
    "subset": lambda X, _: SubsetRows(as_rows(np.repeat(X, 3, axis=0)), np.arange(0, 3 * N, 3)),
    "codes": lambda X, _: coded(X),
    "codes float32": lambda X, _: coded(X, np.float32),
    "codes of one part": lambda X, _: coded(X, parts=1),
    "scaled codes": lambda X, _: coded(X * 2).scaled(np.full(D, 0.5)),
    "subset codes": lambda X, _: SubsetRows(coded(X[::-1]), np.arange(N)[::-1]),
    "widened": lambda X, _: as_rows(X.astype(np.float32)).widened(),
    "widened csr": lambda X, _: as_rows(sparse.csr_array(X.astype(np.float32))).widened(),
    "widened codes": lambda X, _: coded(X, np.float32).widened(),
    "scaled widened codes": lambda X, _: coded(X * 2, np.float32).widened().scaled(np.full(D, 0.5)),
    "scaled subset codes": lambda X, _: SubsetRows(coded(X[::-1] * 2), np.arange(N)[::-1]).scaled(
        np.full(D, 0.5)
    ),
    "chunks": lambda X, _: shards(X),
    "chunks float16": lambda X, _: shards(X.astype(np.float16)),
    "mapped chunks": lambda X, folder: shards(memory_map(X.astype(np.float16), folder)),
    "chunks scaled": lambda X, _: shards(X * 2).scaled(np.full(D, 0.5)),
    "chunks widened": lambda X, _: shards(X.astype(np.float32)).widened(),
    "subset of chunks": lambda X, _: SubsetRows(
        shards(np.repeat(X, 3, axis=0)), np.arange(0, 3 * N, 3)
    ),
    "few of chunks": lambda X, _: SubsetRows(
        shards(np.repeat(X, 10, axis=0)), np.arange(0, 10 * N, 10)
    ),
    "chunks backwards": lambda X, _: SubsetRows(shards(X[::-1]), np.arange(N)[::-1]),
    "subset csr": lambda X, _: SubsetRows(as_rows(sparse.csr_array(X[::-1])), np.arange(N)[::-1]),
}


@pytest.fixture(params=STORES)
def store(request, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "BLOCK_BYTES", 100)  # several blocks even here
    monkeypatch.setattr(threads, "CACHE_BYTES", 100)
    monkeypatch.setattr(codes, "BLOCK_ROWS", 5)
    monkeypatch.setattr(chunked, "PART_BYTES", 100)
    monkeypatch.setattr(threads, "PART_BYTES", 100)
    X = truth() * (4 if request.param == "int8" else 1)
    return as_rows(STORES[request.param](truth(), tmp_path)), X


@njit
def read(X, index, w):
    out = np.empty(len(index), w.dtype)
    for j in range(len(index)):
        out[j] = dot(X, index[j], w)
    return out


@njit
def add(X, index, a, w):
    for j in range(len(index)):
        axpy(X, a[j], index[j], w)


@njit
def add_scaled(X, index, a, D, w):
    for j in range(len(index)):
        axpy_scaled(X, a[j], index[j], D, w)


@njit
def all_scores(X, index, W, S):
    for j in range(len(index)):
        scores(X, index[j], W, S[j])


def test_kernel_verbs(store):
    rows, X = store
    order = np.random.default_rng(1).permutation(N)[:10]
    w = np.linspace(-1, 1, D).astype(rows.dtype)
    a = np.linspace(0, 1, 10)
    taken, index = rows.take(order)
    np.testing.assert_allclose(read(taken, index, w), X[order] @ w, rtol=1e-6, atol=1e-6)
    got, want = w.copy(), w + a @ X[order]
    add(taken, index, a, got)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    diagonal = np.linspace(1, 2, D).astype(rows.dtype)
    got, want = w.copy(), w + diagonal * (a @ X[order])
    add_scaled(taken, index, a, diagonal, got)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    for C in (1, 4, 7):  # fours, and what is left of them
        W = np.random.default_rng(C).standard_normal((C, D)).astype(rows.dtype)
        S = np.empty((10, C))
        all_scores(taken, index, W, S)
        np.testing.assert_allclose(S, X[order] @ W.T, rtol=1e-5, atol=1e-5)
    # and the plain Python of the same verbs
    assert dot(taken, index[0], w) == pytest.approx(X[order[0]] @ w, rel=1e-6, abs=1e-6)


def test_blocks_and_products(store):
    rows, X = store
    rng = np.random.default_rng(2)
    B = rng.standard_normal((D, 4)).astype(rows.dtype)
    G = rng.standard_normal((N, 3)).astype(rows.dtype)
    assert rows.shape == (N, D)
    assert rows.dtype in (np.float32, np.float64)
    np.testing.assert_allclose(rows.matmat(B), X @ B, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(rows.rmatmat(G), X.T @ G, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(rows.sqnorms(), (X**2).sum(axis=1), rtol=1e-6)
    index = np.array([3, 3, 0, 5])
    np.testing.assert_array_equal(rows.dense(index), X[index])
    assert rows.matmat(B).dtype == rows.dense(index).dtype == rows.dtype


def test_parts_are_stores_of_their_own(store):
    rows, X = store
    for lo, hi in ((0, N), (2, 11), (8, 10), (N - 1, N)):
        part = rows.part(lo, hi)
        assert part.shape == (hi - lo, D)
        np.testing.assert_array_equal(part.dense(np.arange(hi - lo)), X[lo:hi])
        np.testing.assert_array_equal(part.block(1, hi - lo).toarray(), X[lo + 1 : hi])
    cuts = [(lo, hi) for lo, hi, _ in rows.parts()]
    assert [lo for lo, _ in cuts] == [0, *(hi for _, hi in cuts[:-1])]
    assert cuts[-1][1] == N
    for lo, hi, part in rows.parts():
        np.testing.assert_array_equal(part.dense(np.arange(hi - lo)), X[lo:hi])


def test_float32_rows_are_read_in_place():
    X = truth().astype(np.float32)
    taken, _ = as_rows(X).take(np.arange(3))
    assert np.shares_memory(taken.data, X)


def test_a_memory_map_is_never_copied_whole(tmp_path):
    X = memory_map(truth().astype(np.float16), tmp_path)
    assert np.shares_memory(as_rows(X).X, X)


def test_every_float16_widens_exactly():
    half = np.arange(2**16, dtype=np.uint16).view(np.float16).reshape(256, 256)
    wide = widen(half)
    np.testing.assert_array_equal(wide, half.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(wide), np.signbit(half))
    assert TABLE.dtype == np.float32


def test_blocks_cover_all_rows_once():
    spans = list(base.blocks(10, row_bytes=30, block_bytes=100))
    assert spans == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert list(base.blocks(2, row_bytes=10**9, block_bytes=100)) == [(0, 1), (1, 2)]


def test_pages_of_a_mapped_file_are_given_back(tmp_path):
    """Reading a map by blocks must not leave the whole file in this process's memory."""
    if not Path("/proc/self/smaps").exists():
        pytest.skip("resident pages of one mapping are read from /proc")
    X = memory_map(np.ones((2000, 1000), np.float16), tmp_path)  # 4 MB

    def resident():
        mappings = Path("/proc/self/smaps").read_text().split(str(tmp_path / "X.npy"))
        return int(mappings[1].split("Rss:")[1].split()[0])  # kB

    rows = as_rows(np.asarray(X))
    assert total(rows) == 2_000_000
    assert resident() == 0
    rows.take(np.arange(500))
    assert resident() == 0


def total(rows):
    sums = []
    rows.each_block(lambda lo, hi, block: sums.append(float(block.toarray().sum())))
    return sum(sums)


def test_blocks_are_bounded_by_what_they_are_turned_into(monkeypatch):
    monkeypatch.setattr(threads, "CACHE_BYTES", 1000)
    spans = []
    as_rows(np.ones((50, 1))).each_block(lambda lo, hi, block: spans.append((lo, hi)), 500)
    assert sorted(spans) == [(lo, lo + 2) for lo in range(0, 50, 2)]


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_every_block_is_worked_on_once_by_as_many_threads(monkeypatch, workers):
    monkeypatch.setattr(threads, "CACHE_BYTES", 3 * 8)
    monkeypatch.setattr(threads, "num_threads", lambda: workers)
    X = np.arange(20.0)[:, None]
    mine = map_blocks(
        as_rows(X), list, lambda seen, lo, hi, block: seen.extend(block.toarray()[:, 0])
    )
    assert len(mine) == min(workers, 7)
    assert sorted(np.concatenate(mine)) == X[:, 0].tolist()


def test_of_several_errors_the_lowest_row_speaks(monkeypatch):
    monkeypatch.setattr(threads, "CACHE_BYTES", 8)
    monkeypatch.setattr(threads, "num_threads", lambda: 3)

    def work(lo, hi, block):
        if lo in (4, 5, 9):
            raise ValueError(f"row {lo}")

    with pytest.raises(ValueError, match="row 4"):
        as_rows(np.ones((20, 1))).each_block(work)


def test_a_map_that_may_hold_changes_is_left_alone(tmp_path):
    np.save(tmp_path / "X.npy", np.zeros((100, 100), np.float16))
    X = np.load(tmp_path / "X.npy", mmap_mode="c")
    X[3, 4] = 1
    X.flags.writeable = False
    rows = as_rows(X)
    for _ in range(2):
        assert total(rows) == 1


def test_rows_with_hardly_a_number_still_have_a_size():
    assert as_rows(sparse.csr_array((1000, 5))).row_bytes > 0


@pytest.mark.parametrize("form", [np.asarray, np.float32, sparse.csr_array, coded])
def test_normalised_rows_have_norm_1_and_zeros_stay(form):
    X = truth()
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    want = np.divide(X, norms, out=np.zeros_like(X), where=norms > 0)
    rows = NormalisedRows(as_rows(form(X)))
    np.testing.assert_allclose(rows.dense(np.arange(N)), want, rtol=1e-6)
    B = np.random.default_rng(3).standard_normal((D, 2)).astype(rows.dtype)
    np.testing.assert_allclose(rows.matmat(B), want @ B, rtol=1e-5, atol=1e-6)
    G = np.random.default_rng(4).standard_normal((N, 2)).astype(rows.dtype)
    np.testing.assert_allclose(rows.rmatmat(G), want.T @ G, rtol=1e-5, atol=1e-6)
