"""Computing on codes: the kernels are the paper's products, and every estimator learns from codes
what it learns from the rows they stand for.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from scipy.sparse.linalg import lsmr, svds
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline

from naive_codes import algorithm_1, algorithm_2, coded, quarters
from slender import (
    BCFWClassifier,
    CompressedMatrix,
    GDClassifier,
    LaRankClassifier,
    LinearProbe,
    LogisticClassifier,
    OLBFGSClassifier,
    ProductQuantizer,
    SGDClassifier,
    SGDQNClassifier,
    SLNDClassifier,
    TraceNormClassifier,
    TraceNormProbe,
    UnitRows,
)
from slender.datasets import digits
from slender.rows import CodeRows, codes, threads
from slender.rows.kernel import Quantised
from slender.rows.lookup import accumulate, decode, look_up, multiply, squares
from slender.rows.simd import LANE_BYTES, load, nothing, plus, store, times_plus

same = np.testing.assert_array_equal
DTYPES = (np.float32, np.float64)


def products(numbers, books, X, m):
    """multiply and accumulate against the decoded rows; what they gave."""
    B = quarters(2, X.shape[1], m, dtype=X.dtype)
    G = quarters(3, len(X), m, dtype=X.dtype)
    out, start = np.full((len(X), m), np.nan, X.dtype), quarters(4, m, X.shape[1], dtype=X.dtype)
    multiply(numbers, books, B, out)
    same(out, X @ B)
    total = start.copy()  # it adds to what is there
    accumulate(numbers, books, G, total)
    same(total, start + G.T @ X)
    return B, G, out, total - start


# -- kernels ---------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    n=st.integers(0, 100),
    parts=st.integers(1, 5),
    d_sq=st.integers(1, 20),
    m=st.integers(0, 40),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 2**31),
)
def test_products_are_the_papers(n, parts, d_sq, m, dtype, seed):
    numbers, books, X = coded(n, parts, d_sq, dtype, seed)
    B, G, XB, GX = products(numbers, books, X, m)
    centroids = books.transpose(0, 2, 1)
    same(XB, algorithm_1(B.T, centroids, numbers.T).T)
    same(GX, algorithm_2(G, centroids, numbers.T).T)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("parts", [1, 63, 64, 65, 128, 131])
def test_groups_of_parts(parts, dtype):
    products(*coded(130, parts, 3, dtype), m=17)


@settings(max_examples=40)
@given(st.integers(0, 9), st.integers(1, 70), st.integers(1, 7), st.sampled_from(DTYPES))
def test_decoding_and_tables(n, parts, d_sq, dtype):
    numbers, books, X = coded(n, parts, d_sq, dtype)
    out = np.full(X.shape, np.nan, dtype)
    decode(numbers, books, out)
    same(out, X)
    sums = np.full(n, np.nan)
    look_up(numbers, squares(books), sums)
    same(sums, (X.astype(np.float64) ** 2).sum(axis=1))
    rows = Quantised(numbers, books)  # in plain Python; test_rows.py has them compiled
    w, W = quarters(2, X.shape[1], dtype=dtype), quarters(3, 3, X.shape[1], dtype=dtype)
    for i in range(n):
        s, plain, scaled = np.empty(3, dtype), w.copy(), w.copy()
        rows.scores(i, W, s)
        rows.axpy(0.5, i, plain)
        rows.axpy_scaled(0.5, i, W[0], scaled)
        assert rows.dot(i, w) == X[i] @ w
        same(s, W @ X[i])
        same(plain, w + X[i] / 2)
        same(scaled, w + W[0] * X[i] / 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding_is_that_of_a_sum(dtype):
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 256, (300, 9), np.uint8)
    M = CompressedMatrix(numbers, rng.standard_normal((9, 256, 6)).astype(dtype))
    X = M.toarray().astype(np.float64)
    B, G = (rng.standard_normal((k, 5)).astype(dtype) for k in M.shape[::-1])
    eps = 4 * np.finfo(dtype).eps
    assert np.all(abs(M @ B - X @ B) <= eps * (abs(X) @ abs(B)))
    assert np.all(abs(M.T @ G - X.T @ G) <= eps * (abs(X).T @ abs(G)))


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("block_rows", [1, 7, 50, 1000])
def test_blocks_and_threads(monkeypatch, block_rows, workers):
    monkeypatch.setattr(codes, "BLOCK_ROWS", block_rows)
    monkeypatch.setattr(threads, "num_threads", lambda: workers)
    numbers, books, X = coded()
    rows, B, G = CodeRows(numbers, books), quarters(1, 15, 4), quarters(2, 50, 4)
    seen = []
    rows.each_block(lambda lo, hi, block: seen.append(hi - lo))
    assert max(seen) <= block_rows
    assert sum(seen) == 50
    same(rows.matmat(B), X @ B)
    same(rows.rmatmat(G), X.T @ G)
    same(rows.sqnorms(), (X**2).sum(axis=1))


@njit
def with_lanes(A, B, x, index, out):
    for i in range(len(A)):
        k = index[i]
        store(out[0], k, load(A, i))
        store(out[1], k, plus(load(A, i), load(B, i)))
        store(out[2], k, times_plus(x, load(A, i), load(B, i)))
        store(out[3], k, nothing(A))


@pytest.mark.parametrize("shift", [0, 1])  # 1: not where cache lines begin
@pytest.mark.parametrize("dtype", DTYPES)
def test_lanes(dtype, shift):
    lanes, n = LANE_BYTES // np.dtype(dtype).itemsize, 9
    A, B = (quarters(k, n * lanes + 1, dtype=dtype)[shift:][: n * lanes] for k in (0, 1))
    A, B = A.reshape(n, lanes), B.reshape(n, lanes)
    order = np.random.default_rng(0).permutation(n).astype(np.uint8)  # codes are bytes
    out = np.full((4, n, lanes), np.nan, dtype)
    with_lanes(A, B, 0.75, order, out)  # a float64, whatever the lanes are
    same(out[:, order], [A, A + B, dtype(0.75) * A + B, np.zeros_like(A)])


# -- the matrix -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operand", [np.float32, np.float64, np.float16, np.int64, bool])
def test_products_of_a_matrix(dtype, operand):
    numbers, books, X = coded(dtype=dtype)
    M = CompressedMatrix(numbers, books)
    B, G = quarters(1, 15, 20, dtype=operand), quarters(2, 50, 3, dtype=operand)
    wide = np.result_type(dtype, operand)
    for left, right in ((M @ B, X @ B), (M.T @ G, X.T @ G), (G.T @ M, G.T @ X)):
        assert left.dtype == wide
        same(left, right)
    same(M @ B[:, 0], X @ B[:, 0])
    same(M @ B[:, :1], X @ B[:, :1])
    same(M.T @ G[:, 0], X.T @ G[:, 0])
    same(M.H @ G[:, :1], X.T @ G[:, :1])
    same(G[:, 0] @ M, G[:, 0] @ X)
    same(M @ np.asfortranarray(B)[:, ::2], X @ B[:, ::2])
    with pytest.raises(ValueError, match="dimension mismatch"):
        M @ B[1:]


def test_a_linear_operator_of_scipy():
    rng = np.random.default_rng(0)
    M = CompressedMatrix(
        rng.integers(0, 256, (80, 4), np.uint8), rng.standard_normal((4, 256, 3)).astype(np.float32)
    )
    X, b = M.toarray().astype(np.float64), rng.standard_normal(80)
    U, s, Vt = svds(M, k=3, rng=0)
    np.testing.assert_allclose(np.sort(s)[::-1], np.linalg.svd(X)[1][:3], rtol=1e-5)
    np.testing.assert_allclose(M @ Vt.T, U * s, atol=1e-4)
    found = lsmr(M, b, atol=1e-12, btol=1e-12)[0]
    np.testing.assert_allclose(found, np.linalg.lstsq(X, b)[0], atol=1e-8)
    same((2 * M - M) @ np.ones(12), M @ np.ones(12))
    with pytest.raises(TypeError, match="complex128 numbers; convert them to float"):
        M @ np.ones(12, complex)


# -- estimators ------------------------------------------------------------------------------------

# How far coefficients may lie apart, as a share of the largest.  Where steps are the same in both
# fits it is rounding.  A fit that ends by its certificate may take a step more or fewer: then the
# gap says how far objectives lie apart, and its square root how far coefficients do.
ROUNDING, CERTIFIED = 1e-10, 0.01
ESTIMATORS = {
    "logistic": (LogisticClassifier(tol=1e-8), CERTIFIED),
    "probe": (LinearProbe(5, tol=1e-8), CERTIFIED),
    "probe of unit rows": (LinearProbe(5, scale="l2", tol=1e-8), CERTIFIED),
    "probe of unit columns": (LinearProbe(5, scale="standard", tol=1e-8), CERTIFIED),
    "probe of a splitter": (LinearProbe(3, validation=StratifiedKFold(3), tol=1e-8), CERTIFIED),
    "slnd": (SLNDClassifier(), ROUNDING),
    "slnd of drawn negatives": (SLNDClassifier(rank=7, negatives=1), ROUNDING),
    "slnd, diagonal": (SLNDClassifier(curvature="diagonal"), ROUNDING),
    "slnd, identity": (SLNDClassifier(curvature="identity", objective="exact"), ROUNDING),
    "slnd by the theory": (SLNDClassifier(step="theory", passes=2), ROUNDING),
    "sgd": (SGDClassifier(), ROUNDING),
    "sgd of batches": (SGDClassifier("hinge", batch_size=16), ROUNDING),
    "sgd, cross-entropy": (SGDClassifier("cross_entropy", batch_size=16), ROUNDING),
    "sgdqn": (SGDQNClassifier(), ROUNDING),
    "olbfgs": (OLBFGSClassifier(), ROUNDING),
    "gd": (GDClassifier(), ROUNDING),
    "bcfw": (BCFWClassifier(tol=None, passes=20), ROUNDING),
    "bcfw of blocks": (BCFWClassifier(tol=None, passes=20, batch_size=16), ROUNDING),
    "trace norm": (TraceNormClassifier(tol=1e-6), CERTIFIED),
    "trace norm, intercepts": (TraceNormClassifier(fit_intercept=True, tol=1e-6), CERTIFIED),
    "trace norm's probe": (TraceNormProbe(3, 2, tol=1e-6), CERTIFIED),
}


def problem(n=400, parts=5, d_sq=4, n_classes=4):
    """Codes, the rows they stand for, labels that no model gets all right, weights with zeros."""
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 256, (n, parts), np.uint8)
    M = CompressedMatrix(numbers, rng.standard_normal((parts, 256, d_sq)))
    X = M.toarray()
    W = rng.standard_normal((X.shape[1], n_classes))
    y = (X @ W + 2 * rng.standard_normal((n, n_classes))).argmax(axis=1)
    return M, X, y, rng.integers(0, 4, n).astype(float)


M, X, Y, WEIGHTS = problem()


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    monkeypatch.setattr(codes, "BLOCK_ROWS", 97)


def both(estimator, y, weights=None):
    """The same fit on codes and on the rows they stand for."""
    estimator = clone(estimator).set_params(random_state=0)
    return [clone(estimator).fit(rows, y, sample_weight=weights) for rows in (M, X)]


def close(got, want, share):
    np.testing.assert_allclose(got, want, rtol=0, atol=share * abs(want).max())


def same_minimum(a, b):
    """Both are no further above it than they prove."""
    assert abs(a.objective_ - b.objective_) <= max(a.gap_, b.gap_) <= a.tol * a.objective_


def objective(model):
    return getattr(model, "objective_", model.trace_[-1]["objective"])


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_codes_train_as_the_rows_they_stand_for(name, weights):
    estimator, share = ESTIMATORS[name]
    on_codes, on_rows = both(estimator, Y, weights)
    assert on_codes.coef_.dtype == np.float64
    if share == CERTIFIED:
        same_minimum(on_codes, on_rows)
    else:
        assert objective(on_codes) == pytest.approx(objective(on_rows), rel=1e-9)
    close(on_codes.coef_, on_rows.coef_, share)
    close(on_codes.intercept_, on_rows.intercept_, share)
    if weights is not None:  # they count: without them it is another model
        other = clone(on_codes).fit(M, Y)
        assert abs(other.coef_ - on_codes.coef_).max() > 1e-3 * abs(other.coef_).max()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_codes_are_predicted_as_the_rows_they_stand_for(name):
    model = clone(ESTIMATORS[name][0]).set_params(random_state=0).fit(X, Y)
    close(model.decision_function(M), model.decision_function(X), 1e-12)
    same(model.predict(M), model.predict(X))
    same(model.predict_top_k(M, 3), model.predict_top_k(X, 3))
    assert model.score(M, Y) == model.score(X, Y) > 0.5
    if hasattr(model, "predict_proba"):
        close(model.predict_proba(M), model.predict_proba(X), 1e-12)
    narrow = CompressedMatrix(M.codes[:, :4], M.codebooks[:4])
    with pytest.raises(ValueError, match=r"16 features, but .* expecting 20"):
        model.predict(narrow)


@pytest.mark.parametrize("y", [Y, Y == 0], ids=["classes", "binary"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
def test_larank_reaches_the_same_minimum(y, weights):
    """A move makes two gradients equal and rounding says which is next: the way there differs."""
    a, b = both(LaRankClassifier(0.02, tol=1e-5, tau=1e-8), y, weights)
    same_minimum(a, b)
    close(a.coef_, b.coef_, CERTIFIED)
    close(a.decision_function(M), a.decision_function(X), 1e-12)


@pytest.mark.parametrize("name", ["logistic", "slnd"])
def test_two_classes(name):
    estimator, share = ESTIMATORS[name]
    a, b = both(estimator, Y == 0)
    close(a.coef_, b.coef_, share)
    close(a.predict_proba(M), b.predict_proba(X), share)


def test_several_labels_a_row():
    a, b = both(SLNDClassifier(), (Y[:, None] == [0, 1]) | (X[:, :2] > 1))
    close(a.coef_, b.coef_, ROUNDING)
    same(a.predict(M), b.predict(X))


def test_part_by_part():
    parts = (slice(0, 150), slice(150, 400))
    models = []
    for rows in (M, X):
        sgd, larank = SGDClassifier(random_state=0), LaRankClassifier(0.1, random_state=0)
        for part in parts:
            sgd.partial_fit(rows[part], Y[part])
            larank.partial_fit(rows[part], Y[part])
        assert larank.score(X, Y) > 0.6  # of one pass; its support patterns are kept as they are
        models.append(sgd)
    close(models[0].coef_, models[1].coef_, ROUNDING)


@pytest.mark.parametrize("scale", ["none", "l2", "standard"])
def test_a_probe_judged_on_other_codes(scale):
    probe = LinearProbe(5, scale=scale, tol=1e-8, random_state=0)
    a = clone(probe).set_params(validation=(M[300:], Y[300:])).fit(M[:300], Y[:300])
    b = clone(probe).set_params(validation=(X[300:], Y[300:])).fit(X[:300], Y[:300])
    one_row = pytest.approx([record["top1"] for record in b.path_], abs=0.011)
    assert [record["top1"] for record in a.path_] == one_row
    same_minimum(a, b)
    close(a.coef_, b.coef_, CERTIFIED)


def test_unit_rows():
    scaler = UnitRows().fit(M)
    close(scaler.scaler_.var_, UnitRows().fit(X).scaler_.var_, 1e-12)
    close(scaler.transform(M), UnitRows().fit_transform(X), 1e-12)
    assert scaler.transform(M[:7]).shape == (7, 20)


@pytest.mark.parametrize("estimator", [LogisticClassifier(), SGDClassifier()])
def test_codes_in_a_file_train_in_place(tmp_path, estimator):
    M.save(tmp_path / "X.pq")
    estimator.set_params(random_state=0)
    mapped = clone(estimator).fit(CompressedMatrix.load(tmp_path / "X.pq"), Y)
    same(mapped.coef_, clone(estimator).fit(M, Y).coef_)


def test_trained_on_codes_tested_without_compression():
    """As the paper does; and in a pipeline, where test rows are compressed as well."""
    pytest.importorskip("faiss")
    data = digits()
    model = make_pipeline(ProductQuantizer(d_sq=4, random_state=0), LogisticClassifier(C=100))
    model.fit(data.X_train, data.y_train)
    assert isinstance(model[0].transform(data.X_test), CompressedMatrix)
    plain = LogisticClassifier(C=100).fit(data.X_train, data.y_train)
    wanted = plain.score(data.X_test, data.y_test) - 0.02
    assert model.score(data.X_test, data.y_test) > wanted > 0.9
    assert model[-1].score(data.X_test, data.y_test) > wanted


def test_scikit_learn_can_split_codes():
    scores = [cross_val_score(LogisticClassifier(tol=1e-8), rows, Y, cv=3) for rows in (M, X)]
    np.testing.assert_allclose(*scores, atol=0.01)  # a row of a fold


def test_numpy_decodes():
    same(np.asarray(M), X)
