"""Pairs of a row and a class that bend the objective most, and the blocks that hold them."""

import weakref
from dataclasses import replace
from time import monotonic, sleep

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from slender import LogisticClassifier
from slender.curvature import doubtful
from slender.curvature.classwise import Classwise
from slender.data import Examples
from slender.datasets import planted
from slender.passes.doubts import Collector, Doubts, Wanted
from slender.problem import Multinomial
from slender.problem.intercepts import ClassDiagonal
from slender.problem.rounding import rounding
from slender.rows import as_rows
from slender.solvers import quasinewton
from slender.solvers.secant_pairs import SecantPairs


def drawn(seed, n=60, d=5, C=4, intercept=True):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, d)) + 1.0, rng.integers(0, C, n).astype(np.int32)
    w = rng.uniform(0.5, 2.0, n) / n
    w[: n // 10] = 0.0
    problem = Multinomial(Examples(as_rows(X), y, w), C, intercept)
    theta = rng.standard_normal((C, d + 1))
    if not intercept:
        theta[:, -1] = 0.0
    return problem, X, theta


def curvatures(problem, X, theta):
    """h (n, C), by the definition."""
    W, b = problem.model(theta)
    P = naive.softmax(X @ W.T + b)
    return problem.w[:, None] * P * (1 - P)


@given(seed=st.integers(0, 10**6), most=st.integers(1, 200), parts=st.integers(1, 5))
def test_the_pairs_kept_are_those_that_bend_most(seed, most, parts):
    problem, X, theta = drawn(seed)
    W, b = problem.model(theta)
    P, w = naive.softmax(X @ W.T + b), problem.w
    R = w[:, None] * (P - np.eye(4)[problem.y])
    scale = np.array([1.0, 2.0, 0.5, 3.0])
    collectors = [Collector(Wanted(scale, most)) for _ in range(parts)]
    for lo in range(0, 60, 7):
        rows = slice(lo, lo + 7)
        collectors[lo // 7 % parts].add(R[rows], w[rows], problem.sizes[rows], lo)
    for other in collectors[1:]:
        collectors[0].merge(other)
    found = collectors[0].doubts()
    h = curvatures(problem, X, theta)
    score = h * (X**2).sum(axis=1)[:, None] * scale
    least = np.sort(score.ravel())[-most] if most < score.size else 0.0
    want = {pair for pair in zip(*np.nonzero(score >= least), strict=True) if h[pair] > 0}
    assert {*zip(found.row, found.of, strict=True)} == want
    np.testing.assert_allclose(found.h, h[found.row, found.of], rtol=1e-9)
    np.testing.assert_array_equal(found.r, R[found.row, found.of])
    np.testing.assert_allclose(found.a, h.sum(axis=0), rtol=1e-9)
    assert (np.diff(found.of) >= 0).all()


@pytest.mark.parametrize("intercept", [True, False])
def test_a_pass_finds_them_and_most_of_them_where_threads_share_one_gradient(
    monkeypatch, intercept
):
    problem, X, theta = drawn(3, n=900, intercept=intercept)

    def found():
        return problem.at(theta, 0.1, wanted=Wanted(np.ones(4), 50)).doubts

    alone, h = found(), curvatures(problem, X, theta)
    np.testing.assert_allclose(alone.h, h[alone.row, alone.of], rtol=1e-9)
    monkeypatch.setattr("slender.data.examples.SUMS_BYTES", 0)
    monkeypatch.setattr("slender.data.examples.SHARED_BYTES", 10_000)
    together = found()
    np.testing.assert_allclose(together.h, h[together.row, together.of], rtol=1e-9)
    both = {*zip(alone.row, alone.of, strict=True)} & {*zip(together.row, together.of, strict=True)}
    assert len(both) > len(together.row) // 2  # a part of a block keeps its best few
    np.testing.assert_allclose(together.a, h.sum(axis=0), rtol=1e-9)


def blocks_of(problem, theta, rows, lam):
    """(inverse, centres, classwise) with the sample being all rows."""
    X, y, w, _ = problem.sample(problem.examples.n_active, np.random.default_rng(0))
    sample = Classwise(X, w, y, problem.intercept, np.random.default_rng(0))
    blocks = sample.blocks(theta, doubtful=rows)
    inverse = blocks.inverse(lam)
    return replace(inverse, A=ClassDiagonal(blocks.A.diagonal)), blocks, sample


@pytest.mark.parametrize("few", [10**9, 20 * 5 * 8])  # bytes of rows: all, or twenty of them
def test_the_inverse_is_that_of_the_blocks_with_their_doubtful_rows(monkeypatch, few):
    monkeypatch.setattr(doubtful, "ROW_BYTES", few)
    problem, X, theta = drawn(5, n=200)
    point = problem.at(theta, 0.1, wanted=Wanted(np.ones(4), 90))
    rows = doubtful.rows_of(problem, point)
    assert len(rows.X) == (20 if few < 10**9 else len(np.unique(point.doubts.row)))
    h = curvatures(problem, X, theta)
    lam, centred = 1e-3, X - problem.mean
    inverse, blocks, sample = blocks_of(problem, theta, rows, lam)
    sigma = sample.P @ np.diag(sample.s) @ sample.P.T
    gradient = np.random.default_rng(0).standard_normal((4, 6))
    gradient[:, -1] = 0.0
    got = (inverse @ gradient)[:, :-1]
    for c in range(4):
        mine = slice(rows.starts[c], rows.starts[c + 1])
        U = rows.root[mine, None] * (rows.X[rows.place[mine]] - blocks.centres[c])
        doubts = rows.root[mine] ** 2
        assert rows.rest[c] == pytest.approx(h[:, c].sum() - doubts.sum())
        H = rows.rest[c] * sigma + lam * np.eye(5) + U.T @ U
        np.testing.assert_allclose(H @ got[c], gradient[c, :-1], atol=1e-9)
        in_X = [np.flatnonzero((centred == x).all(axis=1))[0] for x in rows.X[rows.place[mine]]]
        np.testing.assert_allclose(doubts, h[in_X, c], rtol=1e-9)


def test_a_class_whose_factor_rounding_spoils_does_without():
    problem, _, theta = drawn(6, n=200)
    point = problem.at(theta, 0.1, wanted=Wanted(np.ones(4), 90))
    rows = doubtful.rows_of(problem, point)
    _, blocks, _ = blocks_of(problem, theta, rows, 0.1)
    inside, outside = np.ones((4, 5)), np.ones((4, 1))
    inside[2] = -1e6  # no B⁻¹, but what differences of large numbers may look like
    correction = doubtful.Correction(blocks.gram, inside, outside)
    assert correction.good.tolist() == [True, True, False, True]
    pulled = correction.pull(theta[:, :-1].copy())
    assert np.isfinite(pulled).all()
    assert pulled[1].any()
    assert not pulled[2].any()


def test_doubts_make_the_blocks_a_better_picture_of_the_hessian():
    """How far the eigenvalues of H0 times the Hessian are spread, near an optimum."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(8), 10).astype(np.int32)
    X = rng.standard_normal((8, 6))[y] + rng.standard_normal((80, 6))
    problem = Multinomial(Examples(as_rows(X), y, np.full(80, 1 / 80)), 8, intercept=False)
    W = LogisticClassifier(C=10.0, fit_intercept=False).fit(X, y).coef_
    theta, lam = np.column_stack([W, np.zeros(8)]), 1 / 800
    P = naive.softmax(X @ W.T)
    H = np.einsum("i,ic,ie,ij,ik->cjek", problem.w, P, -P, X, X)
    for c in range(8):
        H[c, :, c] += (X * (problem.w * P[:, c])[:, None]).T @ X + lam * np.eye(6)
    H = H.reshape(48, 48)
    point = problem.at(theta, lam, wanted=Wanted(np.ones(8), 160))
    spreads = []
    for rows in (None, doubtful.rows_of(problem, point)):
        inverse, _, _ = blocks_of(problem, theta, rows, lam)
        units = np.pad(np.eye(48).reshape(48, 8, 6), ((0, 0), (0, 0), (0, 1)))
        M = np.array([(inverse @ unit)[:, :-1].ravel() for unit in units])
        values = np.sort(np.linalg.eigvals(M @ H).real)
        spreads.append(values[-1] / values[0])
    assert spreads[1] < 0.5 * spreads[0]


def test_a_class_that_very_many_rows_doubt_keeps_the_worst_of_them():
    """Else its matrix would take the square of their number, its factor the cube."""
    rng = np.random.default_rng(0)
    of = np.sort(np.concatenate([np.full(5000, 3), rng.integers(0, 50, 200)]))
    h = rng.random(len(of))
    doubts = Doubts(rng.integers(0, 9000, len(of)), of, -h, h, np.full(50, 1e4))
    kept = doubtful.without_crowds(doubts)
    most = doubtful.CROWD * (1 + len(of) // 50)
    counts = np.bincount(kept.of, minlength=50)
    assert counts[3] == most
    assert counts.sum() == most + (of != 3).sum()
    np.testing.assert_array_equal(np.sort(kept.h[kept.of == 3]), np.sort(h[of == 3])[-most:])
    assert (np.diff(kept.of) >= 0).all()


# -- the pairs that are not doubtful ---------------------------------------------------------------


def blobs(C, rows, d, seed=0):
    """Unit noise around centres drawn from N(0, I)."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(C), rows).astype(np.int32)
    return rng.standard_normal((C, d))[y] + rng.standard_normal((len(y), d)), y


@pytest.mark.parametrize("intercept", [True, False])
def test_the_means_of_the_classes_come_with_the_first_gradient(intercept):
    problem, X, _ = drawn(8, intercept=intercept)
    point = problem.at(problem.start(), 0.1)
    want = [np.average(X[problem.y == c], 0, problem.w[problem.y == c]) for c in range(4)]
    np.testing.assert_allclose(problem.class_means(point), want - problem.mean, atol=1e-12)


def fitted(C, rows, d):
    """A problem at nearly its optimum, its curvature h and its residuals."""
    X, y = blobs(C, rows, d)
    problem = Multinomial(Examples(as_rows(X), y, np.full(len(y), 1 / len(y))), C)
    model = LogisticClassifier(C=1.0, tol=1e-2).fit(X, y)
    theta = problem.theta(model.coef_, model.intercept_)
    P = naive.softmax(X @ model.coef_.T + model.intercept_)
    R = problem.w[:, None] * (P - np.eye(C)[y])
    means = np.array([X[y == c].mean(0) for c in range(C)]) - problem.mean
    return problem, X - problem.mean, theta, R, means


def test_other_classes_rows_have_the_mean_that_the_gradient_tells():
    """Exactly, if all rows of a class are doubtful for it and those of others are not."""
    problem, X, theta, R, means = fitted(12, 15, 20)
    C, n, lam = 12, len(X), problem.lam_of(1.0)
    own = problem.y[:, None] == np.arange(C)
    of, row = (where.astype(np.intp) for where in np.nonzero(own.T))
    h = np.abs(R) * (1 - np.abs(R) * n)
    doubts = Doubts(row, of, R[row, of], h[row, of], h.sum(axis=0))
    rows = doubtful.rows_of(problem, problem.at(theta, lam)._replace(doubts=doubts), means)
    others = np.where(own, 0.0, R)
    want = (others.T @ X) / others.sum(axis=0)[:, None]
    last = rows.place[rows.starts[1:] - 1]  # each class's last row is the mean of others
    np.testing.assert_allclose(rows.X[last], want, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(rows.root[rows.starts[1:] - 2], 0.0, atol=1e-6)  # no own row is left
    np.testing.assert_allclose(rows.root[rows.starts[1:] - 1] ** 2, rows.rest, rtol=1e-6)
    centres = (h.T @ X) / h.sum(axis=0)[:, None]
    assert rows.sure.all()
    close = np.linalg.norm(rows.centres - centres, axis=1)
    assert (close < 0.05 * np.linalg.norm(centres, axis=1)).all()  # h is not quite |r|


def test_means_are_not_trusted_where_residuals_are_no_curvature():
    """Rows of random classes are misclassified: |r| is large where h is small."""
    problem, _, theta = drawn(3, n=900)
    point = problem.at(3.0 * theta, 0.1, wanted=Wanted(np.ones(4), 20))
    rows = doubtful.rows_of(problem, point, problem.class_means(problem.at(problem.start(), 0.1)))
    assert not rows.sure.any()
    assert not rows.root[np.concatenate([rows.starts[1:] - 1, rows.starts[1:] - 2])].any()
    _, blocks, sample = blocks_of(problem, 3.0 * theta, rows, 0.1)
    np.testing.assert_allclose(blocks.centres, sample.classes(3.0 * theta)[1])


def test_means_make_the_blocks_a_better_picture_of_the_hessian():
    problem, X, theta, R, means = fitted(15, 20, 40)
    C, d, n, lam = 15, 40, len(X), problem.lam_of(1.0)
    P = n * R + np.eye(C)[problem.y]
    H = np.einsum("ic,ie,ij,ik->cjek", P, -P, X, X, optimize=True) / n
    for c in range(C):
        H[c, :, c] += (X * P[:, [c]]).T @ X / n + lam * np.eye(d)
    point = problem.at(theta, lam, wanted=Wanted(np.ones(C), 6 * C))
    spreads = []
    for known in (None, means):
        inverse, _, _ = blocks_of(problem, theta, doubtful.rows_of(problem, point, known), lam)
        units = np.pad(np.eye(C * d).reshape(C * d, C, d), ((0, 0), (0, 0), (0, 1)))
        M = np.array([(inverse @ unit)[:, :-1].ravel() for unit in units])
        values = np.sort(np.linalg.eigvals(M @ H.reshape(C * d, C * d)).real)
        spreads.append(values[-1] / values[0])
    assert spreads[1] < 0.8 * spreads[0]


def test_pairs_from_points_of_another_curvature_are_forgotten():
    pairs = SecantPairs(10, np.float64)
    for doubt in (1.0, 0.5, 0.45, 0.4):
        pairs.add(np.ones((2, 3)), np.ones((2, 3)), 0.1, doubt)
    pairs.forget(0.4, 1.2)
    assert [doubt for *_, doubt in pairs.kept] == [0.45, 0.4]


def test_many_classes_with_many_rows_take_few_passes():
    X, y = blobs(300, 20, 128)
    model = LogisticClassifier(C=1.0, random_state=0).fit(X.astype(np.float32), y)
    assert model.gap_ <= 1e-3 * model.objective_
    assert model.n_iter_ <= 18  # 24 when pairs of other curvatures were kept


def test_old_rows_are_gone_before_new_ones_are_read(monkeypatch):
    """Of many features they take as much memory as everything else."""
    held = []

    def rows_of(*of):
        end = monotonic() + 5.0  # a thread may be about to let go of its last piece of work
        while any(ref() is not None for ref in held) and monotonic() < end:
            sleep(0.001)
        assert all(ref() is None for ref in held)
        rows = doubtful.rows_of(*of)
        held.append(weakref.ref(rows.X))
        return rows

    monkeypatch.setattr(quasinewton, "rows_of", rows_of)
    data = planted(600, 40, 6)
    LogisticClassifier(C=100.0, random_state=0, tol=1e-6).fit(data.X_train, data.y_train)
    assert len(held) > 1


def test_no_point_is_kept_for_its_rounding():
    problem, _, theta = drawn(1)
    point = problem.at(theta, 0.1)
    first = rounding(problem, point)
    assert rounding(problem, point) is first
    assert rounding(problem, point._replace(summing=1.0)).gradient > first.gradient
    gone = weakref.ref(point.gradient)
    point = problem.at(2.0 * theta, 0.1)
    assert gone() is None
    assert rounding(problem, point) is not first
