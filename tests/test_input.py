"""What users bring to an estimator: read exactly as it was meant, or refused with a reason."""

import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import slender
from slender import (
    BCFWClassifier,
    LaRankClassifier,
    LogisticClassifier,
    ProductQuantizer,
    SGDClassifier,
    SLNDClassifier,
    UnitRows,
)
from slender.estimators import validation

# -- sparse matrices -------------------------------------------------------------------------------

N, D = 60, 8


def sparse_data():
    rng = np.random.default_rng(0)
    X = sparse.random_array((N, D), density=0.5, rng=rng, format="csr", dtype=np.float64)
    y = (X @ rng.standard_normal((D, 3))).argmax(axis=1)
    return X, y


def index_past_the_end(M):
    M.indices[3] = 10**6
    return M


def negative_index(M):
    M.indices[3] = -1
    return M


def decreasing_pointers(M):
    M.indptr[2] = M.indptr[1] - 1
    return M


def pointer_past_the_end(M):
    M.indptr[-1] += 10**6
    return M


def pointers_that_begin_late(M):
    M.indptr[0] = 1
    return M


def too_few_pointers(M):
    M.indptr = M.indptr[:-1]
    return M


def too_few_values(M):
    M.data = M.data[:-1]
    return M


def fractional_indices(M):
    M.indices = M.indices + 0.5
    return M


def coordinate_outside(M):
    M.coords = (M.coords[0], M.coords[1] + 10**6)
    return M


def coordinates_of_two_lengths(M):
    M.coords = (M.coords[0][:-1], M.coords[1])
    return M


def unequal_lists(M):
    M.data[0].append(1.0)
    return M


def list_outside(M):
    M.rows[0].append(10**6)
    M.data[0].append(1.0)
    return M


def missing_diagonal(M):
    M.offsets = M.offsets[:-1]
    return M


COMPRESSED = [
    index_past_the_end, negative_index, decreasing_pointers, pointer_past_the_end,
    pointers_that_begin_late, too_few_pointers, too_few_values, fractional_indices,
]  # fmt: skip
BROKEN = [
    *((form, how) for form in ("csr", "csc", "bsr") for how in COMPRESSED),
    ("coo", coordinate_outside),
    ("coo", coordinates_of_two_lengths),
    ("lil", unequal_lists),
    ("lil", list_outside),
    ("dia", missing_diagonal),
]


def bsr(X):
    return sparse.bsr_array(X, blocksize=(2, 2))


def broken(X, form, how):
    M = bsr(X) if form == "bsr" else X.asformat(form, copy=True)
    return how(M)


@pytest.mark.parametrize(("form", "how"), BROKEN)
def test_a_sparse_matrix_that_contradicts_itself_is_refused_wherever_it_enters(form, how):
    X, y = sparse_data()
    bad = broken(X, form, how)
    fitted = SGDClassifier(passes=1, random_state=0).fit(X, y)
    entries = (
        lambda: LogisticClassifier().fit(bad, y),
        lambda: SLNDClassifier().partial_fit(bad, y),
        lambda: LaRankClassifier().fit(bad, y),
        lambda: fitted.predict(bad),
        lambda: fitted.score(bad, y),
        lambda: UnitRows().fit(bad),
        lambda: ProductQuantizer(d_sq=2).fit(bad),
    )
    for enter in entries:
        with pytest.raises(ValueError, match="not a valid sparse matrix"):
            enter()


def test_an_error_in_a_sparse_matrix_says_where():
    X, y = sparse_data()
    X = sparse.csr_array(X)
    at = X.indptr[7]
    X.indices[at] = D
    with pytest.raises(ValueError, match=rf"row 7 has column index {D}, but there are {D} columns"):
        SGDClassifier().fit(X, y)
    X = sparse.csc_array(sparse_data()[0])
    X.indices[X.indptr[5]] = -2
    with pytest.raises(ValueError, match=rf"column 5 has row index -2, but there are {N} rows"):
        SGDClassifier().fit(X, y)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
def test_every_sparse_format_gives_the_same_model(form):
    X, y = sparse_data()
    given = bsr(X) if form == "bsr" else X.asformat(form)
    want = SGDClassifier(passes=2, random_state=0).fit(X, y)
    got = SGDClassifier(passes=2, random_state=0).fit(given, y)
    np.testing.assert_allclose(got.coef_, want.coef_, rtol=1e-9, atol=1e-12)


def shuffled_and_doubled(X):
    """The same matrix: indices of a row in no order, and every number in two halves."""
    twice = sparse.coo_array(X)
    order = np.random.default_rng(1).permutation(2 * twice.nnz)
    rows, columns = (np.tile(c, 2)[order] for c in twice.coords)
    data = np.tile(twice.data / 2, 2)[order]
    by_row = np.argsort(rows, kind="stable")
    indptr = np.r_[0, np.cumsum(np.bincount(rows, minlength=N))]
    return sparse.csr_array((data[by_row], columns[by_row], indptr), shape=X.shape)


@pytest.mark.parametrize("cls", [SGDClassifier, SLNDClassifier, LaRankClassifier])
def test_duplicates_add_up_and_order_does_not_matter(cls):
    X, y = sparse_data()
    given = shuffled_and_doubled(X)
    before = given.indices.copy()
    want = cls(passes=2, tol=None) if cls is LaRankClassifier else cls(passes=2)
    want = want.set_params(random_state=0).fit(X, y)
    got = cls(**want.get_params()).fit(given, y)
    np.testing.assert_allclose(got.coef_, want.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        UnitRows().fit_transform(given).toarray(), UnitRows().fit_transform(X).toarray()
    )
    np.testing.assert_array_equal(given.indices, before, "the caller's matrix is left as it was")


def test_room_that_a_sparse_matrix_does_not_use_is_not_read():
    X, y = sparse_data()
    M = sparse.csr_array(X)
    M.data, M.indices = np.r_[M.data, np.nan], np.r_[M.indices, 10**6]
    want = SGDClassifier(passes=1, random_state=0).fit(X, y)
    got = SGDClassifier(passes=1, random_state=0).fit(M, y)
    np.testing.assert_array_equal(got.coef_, want.coef_)


def test_a_sparse_indicator_that_contradicts_itself_is_refused():
    X, _ = sparse_data()
    Y = sparse.csr_array(np.tile([[1, 0, 1], [0, 1, 0]], (N // 2, 1)))
    Y.indices[3] = 10**6
    with pytest.raises(ValueError, match="y is not a valid sparse matrix"):
        SGDClassifier().fit(X, Y)


# -- indicator matrices ----------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [SGDClassifier, SLNDClassifier])
@pytest.mark.parametrize(("low", "high"), [(-1, 1), (1, 2), (0, 2), (-1.0, 1.0)])
@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
def test_an_indicator_of_other_numbers_than_0_and_1_is_refused(cls, low, high, verb):
    X, y = sparse_data()
    Y = np.where(y[:, None] == np.arange(3), high, low)
    with pytest.raises(ValueError, match=rf"y is a matrix of {low} and {high}; .* \(y == {high}\)"):
        getattr(cls(), verb)(X, Y)


def test_a_sparse_indicator_of_twos_is_refused():
    X, y = sparse_data()
    Y = sparse.csr_array(2 * (y[:, None] == np.arange(3)))
    with pytest.raises(ValueError, match="y is a matrix of 0 and 2"):
        SGDClassifier().fit(X, Y)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.float32])
def test_an_indicator_of_0_and_1_is_read_in_any_dtype(dtype):
    X, y = sparse_data()
    Y = y[:, None] == np.arange(3)
    want = SGDClassifier(passes=1, random_state=0).fit(X, Y.astype(np.int64))
    got = SGDClassifier(passes=1, random_state=0).fit(X, Y.astype(dtype))
    np.testing.assert_array_equal(got.coef_, want.coef_)


# -- what messages show ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        (SGDClassifier(np.str_("zebra")), "loss='zebra' must"),
        (SGDClassifier(lam=np.float64(-1.5)), r"lam=-1\.5 must"),
        (SGDClassifier(passes=np.int64(0)), "passes=0 must"),
        (SGDClassifier("hinge", negatives=np.float64(2.0)), r"negatives=2\.0 shifts"),
        (SGDClassifier(batch_size=2, negatives=np.float64(2.0)), r"negatives=2\.0 draws"),
        (SGDClassifier("cross_entropy", negatives=np.float64(2.0)), r"negatives=2\.0 belongs"),
        (LogisticClassifier(C=np.float32(-1)), r"C=-1\.0 must"),
    ],
)
def test_settings_are_shown_as_they_were_written(model, shown):
    X, y = sparse_data()
    with pytest.raises(ValueError, match=shown) as caught:
        model.fit(X, y)
    assert "np." not in str(caught.value)


# -- dtypes ----------------------------------------------------------------------------------------

NARROW = ["bool", "u1", "i1", "<u2", ">u2", "i2", "f2", ">f2", "f4", ">f4"]  # float32 holds them
WIDE = ["i4", "u4", "i8", ">i8", "u8", "f8", ">f8", "longdouble"]


def whole_numbers():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (40, 5))
    return X, (X @ [1, 2, 4, 0, 0]) % 3


def in_sparse(dtype):
    """Whole numbers as CSR; SciPy converts most dtypes when it makes a matrix."""
    X = sparse.csr_array(whole_numbers()[0])
    X.data = X.data.astype(dtype)
    return X


def computes_in(native, given):
    X, y = whole_numbers()
    want = X.astype(native)
    a, b = (SGDClassifier(passes=1, random_state=0).fit(rows, y) for rows in (want, given))
    assert a.coef_.dtype == b.coef_.dtype == native
    scores = b.decision_function(given)
    assert scores.dtype == native
    np.testing.assert_allclose(scores, a.decision_function(want), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", NARROW)
def test_what_float32_holds_computes_in_float32(dtype):
    computes_in(np.float32, whole_numbers()[0].astype(dtype))
    if "f2" not in dtype:  # SciPy has none
        computes_in(np.float32, in_sparse(dtype))


@pytest.mark.parametrize("dtype", WIDE)
def test_what_float32_cannot_hold_computes_in_float64(dtype):
    computes_in(np.float64, whole_numbers()[0].astype(dtype))
    computes_in(np.float64, in_sparse(dtype))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("size", [2**25, 2**40])
def test_large_integers_keep_their_last_digits(size):
    X, _ = whole_numbers()
    y = X[:, 0] + 2 * X[:, 1]
    model = LogisticClassifier(C=100.0, max_iter=100).fit(X + size, y)
    assert model.score(X + size, y) == 1.0


def of_ml_dtypes(X):
    return X.astype(pytest.importorskip("ml_dtypes").bfloat16)


def of_torch(X):
    torch = pytest.importorskip("torch")
    return torch.from_numpy(X).to(torch.bfloat16)


@pytest.mark.parametrize("convert", [of_ml_dtypes, of_torch])
@pytest.mark.parametrize(
    "model", [SGDClassifier(passes=1), LogisticClassifier(), LaRankClassifier(passes=2, tol=None)]
)
def test_bfloat16_is_read_as_float16_is(convert, model):
    X, y = whole_numbers()
    given = convert(X.astype(np.float32) - 0.625)  # exact in 8 bits
    X = X.astype(np.float16) - np.float16(0.625)
    a, b = (clone(model).set_params(random_state=0).fit(rows, y) for rows in (X, given))
    assert b.coef_.dtype == np.float32
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(b.predict(given), b.predict(X))
    np.testing.assert_array_equal(b.predict_top_k(given[::2], 2), b.predict_top_k(X[::2], 2))
    with pytest.raises(ValueError, match="4 features"):
        b.predict(given[:, :4])
    with pytest.raises(ValueError, match="Expected 2D"):
        b.predict(given[0])
    with pytest.raises(ValueError, match="0 sample"):
        b.predict(given[:0])


# -- memory ----------------------------------------------------------------------------------------


@contextmanager
def one_thread():
    slender.set_num_threads(1)
    try:
        yield
    finally:
        slender.set_num_threads(None)


@pytest.mark.parametrize(
    ("model", "kept"),
    [
        (SGDClassifier(passes=1), 0.0),
        (LaRankClassifier(passes=1, tol=None), 0.0),
        (BCFWClassifier(passes=1, tol=None), 0.0),
        (SLNDClassifier(passes=1), 1.0),  # as whitened rows: docs/solvers/slnd.md
        (SLNDClassifier(passes=1, rank=64), 0.25),
    ],
)
def test_a_memory_map_is_not_copied(tmp_path, model, kept):
    n, d = 60_000, 256
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (n, d))
    X[:] = np.tile(np.random.default_rng(0).standard_normal((1000, d), np.float32), (n // 1000, 1))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    X.flush()
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = clone(model).set_params(random_state=0)
    model.fit(X[:500], y[:500])  # compiles
    with one_thread():  # whose blocks are not as many as there are cores
        tracemalloc.start()
        try:
            model.fit(X, y)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert kept - 0.01 < peak / X.nbytes < kept + 0.4


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("shift", [0, -100, 2**63 + 5])
def test_many_integer_labels_are_counted(dtype, shift):
    """With the result of np.unique, which sorts them."""
    span = np.iinfo(dtype)
    if not span.min <= shift <= span.max - 120:
        shift = int(span.min)
    y = np.random.default_rng(0).choice([0, 3, 4, 90, 120], validation.MANY)
    y = np.array([int(v) + shift for v in y], dtype)
    assert validation._counted(y) is not None
    labels, names, rows = validation.read_labels(y, len(y))
    expected, index = np.unique(y, return_inverse=True)
    np.testing.assert_array_equal(names, expected)
    np.testing.assert_array_equal(labels.class_index, index)
    assert (names.dtype, labels.class_index.dtype, rows) == (dtype, np.int32, 5)


def test_labels_that_are_not_counted():
    n = validation.MANY
    for y in (np.zeros(n - 1, int), np.zeros(n), np.arange(n), np.zeros((n, 1), int)):
        assert validation._counted(y) is None
    assert validation._counted(np.where(np.arange(n) < 5, 0, 10**9)) is None
    with pytest.raises(ValueError, match="one class only"):
        validation.read_labels(np.full(n, 7), n)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        validation.read_labels(np.arange(n) % 3, n + 1)
