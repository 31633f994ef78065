"""UnitRows: scikit-learn's scalers and normaliser in one, block by block."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from slender import SGDQNClassifier, UnitRows
from slender.rows import base


@parametrize_with_checks([UnitRows()])
def test_scikit_learns_contract(estimator, check):
    check(estimator)


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 6)) * 10.0 ** np.arange(-3, 3) + 5
    X[:, 2] = 4.0
    X[rng.random(X.shape) < 0.3] = 0
    X[11] = 0
    return X


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(base, "BLOCK_BYTES", 7 * 6 * 8)


def test_dense_rows_are_standardised_then_of_norm_one(X, small_blocks):
    wanted = make_pipeline(StandardScaler(), Normalizer()).fit_transform(X)
    np.testing.assert_allclose(UnitRows().fit_transform(X), wanted, atol=1e-12)


def test_sparse_rows_are_divided_by_their_largest_and_stay_sparse(X, small_blocks):
    S = sparse.csr_array(X)
    Z = UnitRows().fit_transform(S)
    assert sparse.issparse(Z)
    assert Z.nnz == S.nnz
    wanted = make_pipeline(MaxAbsScaler(), Normalizer()).fit_transform(S)
    np.testing.assert_allclose(Z.toarray(), wanted.toarray(), atol=1e-15)
    np.testing.assert_array_equal(S.toarray(), X)  # not in place


@settings(max_examples=40)
@given(
    st.integers(2, 30), st.integers(1, 5), st.integers(-6, 6), st.booleans(), st.integers(0, 2**31)
)
def test_norms_are_one_or_zero(n, d, power, as_sparse, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10.0**power
    X[rng.random((n, d)) < 0.4] = 0
    Z = UnitRows().fit_transform(sparse.csr_array(X) if as_sparse else X)
    Z = Z.toarray() if as_sparse else Z
    norms = np.linalg.norm(Z, axis=1)
    assert np.isfinite(Z).all()
    np.testing.assert_allclose(norms[norms > 0], 1)
    if as_sparse:
        np.testing.assert_array_equal(norms > 0, X.any(axis=1))


def test_constant_columns_and_zero_rows():
    X = np.array([[1.0, 7.0], [1.0, 9.0], [1.0, 8.0]])
    np.testing.assert_array_equal(UnitRows().fit_transform(X), [[0, -1], [0, 1], [0, 0]])
    S = sparse.csr_array([[2.0, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(UnitRows().fit_transform(S).toarray(), [[1, 0], [0, 0]])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_part_by_part_is_the_whole(X, form):
    whole = UnitRows().fit(form(X))
    parts = UnitRows()
    for lo in range(0, 200, 37):
        parts.partial_fit(form(X[lo : lo + 37]))
    a, b = (model.transform(form(X)) for model in (whole, parts))
    if sparse.issparse(a):
        a, b = a.toarray(), b.toarray()
    np.testing.assert_allclose(a, b, atol=1e-12)
    again = parts.fit(form(X[:50])).scaler_.n_samples_seen_
    assert np.all(again == 50), "fit starts anew"


def test_narrow_and_mapped_rows(X, tmp_path):
    half = X.astype(np.float16)
    np.save(tmp_path / "X.npy", half)
    model = UnitRows().fit(np.load(tmp_path / "X.npy", mmap_mode="r"))
    Z = model.transform(half)
    assert Z.dtype == np.float32
    wanted = UnitRows().fit_transform(half.astype(np.float32))
    np.testing.assert_allclose(Z, wanted, atol=1e-5)
    assert UnitRows().fit_transform(X.astype(np.float32)).dtype == np.float32


def test_names_of_features(X):
    model = UnitRows().fit(X)
    assert list(model.get_feature_names_out()) == [f"x{j}" for j in range(6)]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    out = UnitRows().set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == list("abcdef")


def test_one_kind_of_rows(X):
    model = UnitRows().fit(X)
    with pytest.raises(ValueError, match=r"fitted to dense rows.*X.toarray\(\)"):
        model.transform(sparse.csr_array(X))
    with pytest.raises(ValueError, match="dense in all calls"):
        model.partial_fit(sparse.csr_array(X))
    scaled = UnitRows().fit(sparse.csr_array(X))
    np.testing.assert_allclose(scaled.transform(X), scaled.transform(sparse.csr_array(X)).toarray())
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN at row 3, column 1"):
        UnitRows().fit(X)


def test_in_a_pipeline():
    from slender.datasets import digits

    data = digits()
    units = 10.0 ** np.arange(-32, 32)
    model = make_pipeline(UnitRows(), SGDQNClassifier(random_state=0))
    model.fit(data.X_train * units, data.y_train)
    assert model.score(data.X_test * units, data.y_test) > 0.9
