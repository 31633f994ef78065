"""The kernels of slender.device between two passes: Triton's, interpreted, and their twins."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from compiling import compiled

torch = pytest.importorskip("torch")
from slender.device.factors import inverse_factor  # noqa: E402
from slender.device.line import line_moments  # noqa: E402
from slender.device.pairs import dots  # noqa: E402
from slender.device.ranks import ranks_and_losses  # noqa: E402


def dots_of(X, place, V, of, padding):
    wide = torch.zeros((len(X), X.shape[1] + padding), dtype=torch.from_numpy(X).dtype)
    wide[:, : X.shape[1]] = torch.from_numpy(X)
    given = (torch.from_numpy(each) for each in (place, V, of))
    return dots(wide[:, : X.shape[1]], *given).numpy()


@pytest.mark.parametrize(
    ("k", "u", "C", "d"),
    [(1, 1, 1, 1), (9, 5, 3, 7), (300, 40, 11, 130), (6, 4, 2, 2050), (0, 3, 2, 4)],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("padding", [0, 3])
def test_dots_of_pairs(call, monkeypatch, k, u, C, d, dtype, padding):
    monkeypatch.setattr("slender.device.pairs.TWIN_BYTES", 1000)
    rng = np.random.default_rng(0)
    X, V = (rng.standard_normal((rows, d)).astype(dtype) for rows in (u, C))
    place, of = rng.integers(0, u, k), rng.integers(0, C, k)
    true = np.einsum("kd,kd->k", X[place].astype(float), V[of].astype(float))
    found = call(dots_of, X, place, V, of, padding)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, true, rtol=1e-5, atol=1e-5 * np.sqrt(d))


def ranks_of(S, b, y, temperature):
    S, b, y = (torch.from_numpy(each.copy()) for each in (S, b, y))
    return [each.numpy() for each in ranks_and_losses(S, b, y, temperature)]


@pytest.mark.parametrize(("m", "C"), [(7, 1), (5, 2), (40, 100), (3, 5000), (2, 8192), (0, 3)])
@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_ranks_and_losses(call, m, C, temperature, spread):
    rng = np.random.default_rng(0)
    # multiples of 1/4, of which some are equal: a tie goes to the first class
    S, b = (np.rint(4 * spread * rng.standard_normal(s)) / 4 for s in ((m, C), C))
    y = rng.integers(0, C, m)
    rank, loss = call(ranks_of, S.astype(np.float32), b.astype(np.float32), y, temperature)
    scores = S + b
    order = np.argsort(-scores, axis=1, kind="stable")
    np.testing.assert_array_equal(rank, (order == y[:, None]).argmax(axis=1) if m else [])
    true = -(scores - logsumexp(scores / temperature, axis=1, keepdims=True) * temperature)
    own = true[np.arange(m), y] / temperature
    np.testing.assert_allclose(loss, own, rtol=1e-5, atol=1e-5 * spread)


def test_scores_that_are_not_numbers_make_the_loss_so(call):
    S, b, y = np.zeros((3, 4), np.float32), np.zeros(4, np.float32), np.array([1, 1, 2])
    S[0, 1], S[1, 0] = np.nan, np.nan
    _, loss = call(ranks_of, S, b, y, 1.0)
    assert np.isnan(loss).tolist() == [True, True, False]


def line_of(s, d, rest, w, t):
    given = (torch.from_numpy(each) for each in (s, d, rest, w))
    return line_moments(*given, t).numpy()


@pytest.mark.parametrize(("m", "K"), [(5, 1), (30, 64), (9, 1000), (2, 8192), (2, 8200)])
@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("t", [0.0, 0.7, 30.0])
def test_moments_along_a_line(call, m, K, others, t):
    rng = np.random.default_rng(0)
    s, d = (3 * rng.standard_normal((m, K)) for _ in range(2))
    w = rng.uniform(0, 1, m)
    rest = np.zeros((0, 3))
    S, D, within = s + t * d, d, np.zeros(m)
    if others:
        rest = np.column_stack([rng.standard_normal((m, 2)), rng.uniform(0, 2, m)])
        mass, mean, within = rest.T
        S = np.column_stack([S, mass + t * mean + t * t * within / 2])
        D = np.column_stack([d, mean + t * within])
    P = softmax(S, axis=1)
    first = (P * D).sum(axis=1)
    second = (P * (D - first[:, None]) ** 2).sum(axis=1) + P[:, -1] * within
    found = call(line_of, *(each.astype(np.float32) for each in (s, d, rest, w)), t)
    assert found.dtype == np.float64
    size = w @ abs(first), w @ second
    np.testing.assert_allclose(found, (w @ first, w @ second), atol=3e-4 * max(size))


def test_a_factor_that_breaks_is_zero():
    rng = np.random.default_rng(0)
    U = torch.from_numpy(rng.standard_normal((3, 4, 6)))
    M = U @ U.mT
    M[1] -= 100.0 * torch.eye(4)
    inverse = inverse_factor(M)
    assert not inverse[1].any()
    for k in (0, 2):
        np.testing.assert_allclose(inverse[k].T @ inverse[k] @ M[k], np.eye(4), atol=1e-10)
    assert not inverse_factor(M[1]).any()


@pytest.mark.usefixtures("_compiler")
@pytest.mark.parametrize("dtype", ["*fp32", "*fp64"])
def test_dots_compile(dtype):
    from slender.device import pairs_kernel

    of = dict.fromkeys(["place", "of"], "*i64")
    of |= dict.fromkeys(["x_stride", "v_stride", "d", "k"], "i32")
    fixed = {"PAIRS": 4, "WIDTH": 1024}
    assert compiled(pairs_kernel.dots_kernel, lambda name: of.get(name, dtype), fixed, 4)


@pytest.mark.usefixtures("_compiler")
@pytest.mark.parametrize("width", [16, 4096])
def test_ranks_compile(width):
    from slender.device import ranks_kernel

    of = {"y": "*i64", "rank": "*i32", "stride": "i32", "C": "i32", "scale": "fp32"}
    fixed = {"WIDTH": width}
    assert compiled(ranks_kernel.ranks_kernel, lambda name: of.get(name, "*fp32"), fixed, 4)


@pytest.mark.usefixtures("_compiler")
@pytest.mark.parametrize("width", [64, 8192])
@pytest.mark.parametrize("others", [False, True])
def test_the_line_compiles(width, others):
    from slender.device import line_kernel

    of = {"t": "fp32", **dict.fromkeys(["s_stride", "d_stride", "K", "m"], "i32")}
    fixed = {"REST": others, "WIDTH": width}
    warps = max(1, width // 512)
    assert compiled(line_kernel.line_kernel, lambda name: of.get(name, "*fp32"), fixed, warps)
