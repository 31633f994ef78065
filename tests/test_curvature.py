"""Curvatures: eigenpairs, Lemma 1 in its true form, the rank guard, the change of coordinates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import naive
from slender import krylov
from slender.curvature import Diagonal, Identity, LowRank, lowrank
from slender.curvature.base import CurvatureSample
from slender.rows import as_rows


def sample(X, intercept=False, curvature0=0.25):
    rows = as_rows(X)
    active = np.arange(rows.shape[0])
    return CurvatureSample(rows, active, intercept, curvature0, np.random.default_rng(0))


def skewed(n, d, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -0.7 + 0.1
    return (X @ np.linalg.qr(rng.standard_normal((d, d)))[0]).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "d"), [(900, 400), (300, 1200)], ids=["tall", "wide"])
@pytest.mark.parametrize("way", ["dense", "block_lanczos"])
def test_both_eigensolvers_equal_lapack(monkeypatch, way, m, d, dtype):
    if way == "block_lanczos":
        monkeypatch.setattr(krylov, "DENSE_SIZE", 0)
    k, S = 40, skewed(m, d, dtype=dtype)
    theta, Q = krylov.top_eigenpairs(S, k, np.random.default_rng(0))
    want = np.linalg.eigvalsh(S.astype(float).T @ S / m)[::-1][:k]
    tol = 1e-3 if dtype == np.float32 else 1e-6
    np.testing.assert_allclose(theta, want, rtol=tol)
    np.testing.assert_allclose(Q.T @ Q, np.eye(k), atol=200 * np.finfo(dtype).eps * np.sqrt(d))
    residual = S.T @ (S @ Q) / m - Q * theta
    assert np.linalg.norm(residual, axis=0).max() <= 2 * krylov.RESIDUAL[S.dtype.char] * theta[0]


def test_block_lanczos_survives_a_sample_of_low_rank(monkeypatch):
    monkeypatch.setattr(krylov, "DENSE_SIZE", 0)
    rng = np.random.default_rng(0)
    S = rng.standard_normal((800, 20)) @ rng.standard_normal((20, 700))
    theta, Q = krylov.top_eigenpairs(S, 60, rng)
    want = np.linalg.eigvalsh(S.T @ S / 800)[::-1][:60]
    np.testing.assert_allclose(theta, want, atol=1e-8 * want[0])
    np.testing.assert_allclose(Q[:, :20].T @ Q[:, :20], np.eye(20), atol=1e-8)


def test_wide_samples_never_form_d_by_d():
    """60 rows of 100,000 features: d x d would be 80 GB."""
    X = np.random.default_rng(0).standard_normal((60, 100_000))
    coordinates = LowRank(rank=10).estimate(sample(X))
    assert coordinates.B.shape == (100_000, 10)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 8), st.integers(0, 10_000))
def test_lemma_1_in_its_true_form(d, seed):
    """min over rank k of ‖I - H H'‖² is d - k, attained by any k eigenvectors; H* is the one of
    least norm, and it minimises ‖H - H H' H‖ over rank <= k."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((3 * d, d)) * np.arange(1, d + 1)
    H = naive.hessian_at_zero(X, 0.25)
    k = int(rng.integers(1, d))
    coordinates = LowRank(rank=k).estimate(sample(X))
    H_star = coordinates.B @ coordinates.B.T
    np.testing.assert_allclose(H_star, naive.low_rank_pseudo_inverse(H, k), rtol=1e-6, atol=1e-9)

    def distance(candidate):
        return np.linalg.norm(np.eye(d) - H @ candidate) ** 2

    assert distance(H_star) == pytest.approx(d - k, rel=1e-8)
    D, P = np.linalg.eigh(H)
    others = rng.choice(d, k, replace=False)
    other = P[:, others] @ np.diag(1 / D[others]) @ P[:, others].T
    assert distance(other) == pytest.approx(d - k, rel=1e-8)
    assert np.linalg.norm(H_star) <= np.linalg.norm(other) * (1 + 1e-9)
    best = np.linalg.norm(H - H @ H_star @ H)
    for _ in range(5):
        rival = rng.standard_normal((d, k)) @ rng.standard_normal((k, d))
        assert distance(rival) >= d - k - 1e-8
        rival = other + 0.1 * rival if rng.random() < 0.5 else other
        U, s, Vt = np.linalg.svd(rival)
        rival = U[:, :k] * s[:k] @ Vt[:k]
        assert np.linalg.norm(H - H @ rival @ H) >= best * (1 - 1e-9)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "curvature",
    [
        LowRank(rank=4),
        LowRank(),
        LowRank(damping=1.0),
        Diagonal(),
        Diagonal(damping=1.0),
        Identity(),
    ],
    ids=str,
)
def test_scores_are_the_same_in_both_coordinates(curvature, intercept, form):
    X = skewed(200, 8)
    rows = as_rows(form(X))
    coordinates = curvature.estimate(sample(form(X), intercept))
    rng = np.random.default_rng(0)
    V, b = (
        rng.standard_normal((3, coordinates.dim)),
        rng.standard_normal(3) * bool(coordinates.bias),
    )
    Z = coordinates.rows(rows).dense(np.arange(200))
    W, intercepts = coordinates.coef(V, b)
    np.testing.assert_allclose(Z @ V.T + b, X @ W.T + intercepts, atol=1e-10)
    if not intercept:
        np.testing.assert_array_equal(intercepts, 0)


def test_whitened_rows_have_second_moment_one_over_curvature():
    X = skewed(500, 12)
    Z = LowRank(rank=12).estimate(sample(X)).rows(as_rows(X)).dense(np.arange(500))
    np.testing.assert_allclose(Z.T @ Z / 500, 4 * np.eye(12), atol=1e-9)


def test_damping_shrinks_the_weak_directions():
    X = skewed(500, 12)
    free, damped = (LowRank(rank=12, damping=t).estimate(sample(X)) for t in (0.0, 1.0))
    D, mean = free.eigenvalues, (X**2).sum() / 500 / 12
    share = np.linalg.norm(damped.B, axis=0) ** 2 / np.linalg.norm(free.B, axis=0) ** 2
    np.testing.assert_allclose(share, D / (D + mean), rtol=1e-6)


def test_the_intercept_survives_any_units():
    for units in (1e-4, 1.0, 1e4):
        coordinates = LowRank(rank=2).estimate(sample(skewed(300, 20) * units, intercept=True))
        assert np.linalg.norm(coordinates.offset) > 0.1


def test_rank_none_keeps_what_carries_variance_and_no_more():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5)) @ rng.standard_normal((5, 30))
    assert LowRank().estimate(sample(X)).dim == 5
    assert LowRank().estimate(sample(rng.standard_normal((3000, 1200)))).dim == lowrank.MAX_RANK


def test_an_explicit_rank_beyond_the_data_warns_and_says_how_many_were_kept():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5)) @ rng.standard_normal((5, 30))
    with pytest.warns(UserWarning, match="rank used is 5"):
        assert LowRank(rank=10).estimate(sample(X)).dim == 5


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (LowRank(rank=21), "rank=21 is too large"),
        (LowRank(rank=11, samples=10), "at most 10"),
        (LowRank(samples=51), "more than the 50 training rows"),
    ],
)
def test_settings_too_large_raise(settings, words):
    with pytest.raises(ValueError, match=words):
        settings.estimate(sample(skewed(50, 20)))


def test_float32_noise_never_becomes_a_direction():
    """A rank-deficient float32 sample has tiny, even negative, computed eigenvalues."""
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((2000, 10)) @ rng.standard_normal((10, 300))).astype(np.float32) * 100
    coordinates = LowRank().estimate(sample(X))
    assert coordinates.dim == 10
    assert np.isfinite(coordinates.B).all()


def test_all_zero_rows_say_so():
    with pytest.raises(ValueError, match="every feature is zero"):
        LowRank().estimate(sample(np.zeros((10, 3))))


def test_a_column_unseen_in_the_sample_is_left_out_of_the_diagonal():
    X = skewed(50, 4)
    X[:, 2] = 0
    scale = Diagonal().estimate(sample(X)).scale
    assert scale[2] == 0
    assert (scale[[0, 1, 3]] > 0).all()
