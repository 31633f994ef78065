"""The multinomial pass, its certificate and its curvature equal their definitions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from scipy import sparse

import naive
from slender.curvature import classwise
from slender.curvature.classwise import Classwise
from slender.data import Examples
from slender.passes.exponential import exp
from slender.problem import Multinomial
from slender.problem.certificate import certify, hopeful
from slender.problem.intercepts import ClassDiagonal, solve
from slender.problem.rounding import rounding
from slender.rows import as_rows, threads
from slender.solvers import linesearch
from slender.solvers.secant_pairs import SecantPairs


def drawn(seed, n=60, d=5, C=4, weights=True, intercept=True, form=np.asarray):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ np.diag(2.0 ** -np.arange(d)) + rng.standard_normal(d)
    y = rng.permutation(np.arange(n) % C).astype(np.int32)
    w = (rng.random(n) if weights else np.ones(n)) / n
    w[y == 0] *= 3
    rows = as_rows(form(X))
    problem = Multinomial(Examples(rows, y, w.astype(rows.dtype)), C, intercept)
    theta = problem.start() + 0.3 * rng.standard_normal((C, d + 1)).astype(problem.rows.dtype)
    if not intercept:
        theta[:, -1] = 0
    return X, y, w, problem, theta


@pytest.mark.parametrize("form", [np.asarray, np.float32, sparse.csr_array])
@pytest.mark.parametrize("intercept", [True, False])
def test_one_pass_gives_objective_gradient_and_class_curvature(monkeypatch, form, intercept):
    monkeypatch.setattr(threads, "CACHE_BYTES", 400)  # several blocks
    X, y, w, problem, theta = drawn(0, intercept=intercept, form=form)
    lam = 0.1
    tol = 1e-5 if problem.rows.dtype == np.float32 else 1e-12
    point = problem.at(theta, lam, second=True)
    W, b = problem.model(theta)
    assert point.objective == pytest.approx(naive.multinomial(X, y, w, W, b, lam), rel=tol)
    P = naive.softmax(X @ W.T + b)
    A = np.diag(w @ P) - (P * w[:, None]).T @ P
    np.testing.assert_allclose(point.A.A, A, atol=tol)
    # the gradient in the coordinates (W, b'), by differences of the objective
    h = 1e-6
    for c, j in [(0, 0), (1, 2), (3, 4)] + ([(0, 5), (2, 5)] if intercept else []):
        moved = theta.astype(float)
        moved[c, j] += h
        up = naive.multinomial(X, y, w, *problem.model(moved), lam)
        moved[c, j] -= 2 * h
        down = naive.multinomial(X, y, w, *problem.model(moved), lam)
        assert point.gradient[c, j] == pytest.approx((up - down) / (2 * h), abs=1e-6)
    assert problem.passes == 1
    if intercept:
        np.testing.assert_allclose(problem.theta(W, b), theta, atol=1e-5)


@pytest.mark.parametrize("form", [np.asarray, np.float32, sparse.csr_array])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("dense", [True, False])
def test_the_point_at_zero_is_that_of_a_softmax_pass(monkeypatch, form, intercept, shared, dense):
    monkeypatch.setattr(threads, "CACHE_BYTES", 400)
    if shared:  # by all threads: one gradient
        monkeypatch.setattr("slender.data.examples.SUMS_BYTES", 0)
        monkeypatch.setattr("slender.data.examples.SHARED_BYTES", 1000)
        monkeypatch.setattr("slender.rows.threads.WORTH_A_PART", 10)
    if not dense:
        monkeypatch.setattr("slender.problem.multinomial.DENSE", 2)
    problem, theta = drawn(2, C=5, intercept=intercept, form=form)[3:]
    theta[:, :-1] = 0
    same_point(problem.at_zero(theta, 0.1, second=True), problem.at(theta, 0.1, second=True))
    assert problem.passes == 2


@given(st.integers(0, 10**6), st.floats(0, 300))
def test_the_point_at_zero_with_wild_intercepts(seed, spread):
    problem, theta = drawn(seed, n=20, d=3)[3:]
    theta[:, :-1] = 0
    theta[:, -1] *= spread
    same_point(problem.at_zero(theta, 0.1, second=True), problem.at(theta, 0.1, second=True))


def same_point(got, want):
    """Equal, up to the rounding of the second in its dtype; small numbers have all digits."""
    tol = 2e-6 if got.gradient.dtype == np.float32 else 1e-10  # exp of a hundred
    assert got.gradient.dtype == want.gradient.dtype
    np.testing.assert_allclose(got.sums, want.sums, rtol=tol)
    assert got.objective == pytest.approx(want.objective, rel=tol)
    np.testing.assert_allclose(
        got.own, want.own, rtol=tol, atol=1e-80
    )  # exp(-200) is little enough for a pass
    size = abs(want.gradient).max()
    np.testing.assert_allclose(got.gradient, want.gradient, rtol=tol, atol=10 * tol * size)
    np.testing.assert_allclose(got.g, want.g, atol=tol)
    assert type(got.A) is type(want.A)
    np.testing.assert_allclose(got.A.diagonal, want.A.diagonal, rtol=tol, atol=tol)
    if got.A.complete:
        np.testing.assert_allclose(got.A.A, want.A.A, atol=tol)


def test_no_thread_count_changes_the_objective(monkeypatch):
    _, _, _, problem, theta = drawn(1, n=500)
    monkeypatch.setattr(threads, "CACHE_BYTES", 2000)
    values = []
    for count in (1, 2, 5):
        monkeypatch.setattr(threads, "num_threads", lambda count=count: count)
        values.append(problem.at(theta, 0.1).objective)
    assert np.ptp(values) < 1e-13


@given(st.integers(0, 10**6), st.floats(-4, 2), st.booleans(), st.floats(0, 1))
def test_the_certificate_is_never_below_the_truth(seed, log_lam, intercept, far):
    X, y, w, problem, theta = drawn(seed, n=30, d=3, C=3, intercept=intercept)
    lam = 10.0**log_lam
    optimum, W, b = naive.multinomial_optimum(X, y, w, lam, intercept)
    theta = (1 - far) * problem.theta(W, b) + far * theta
    point = problem.at(theta, lam, second=True)
    certificate = certify(problem, point)
    assert certificate.gap >= point.objective - optimum - 1e-12
    assert certificate.gap <= point.objective * (1 + 1e-12)
    if intercept:  # the step it proposes tightens it: the intercepts' part is quadratically small
        theta = theta.copy()
        theta[:, -1] -= solve(point.A, point.g)
        point = problem.at(theta, lam, second=True)
        assert certify(problem, point).gap >= point.objective - optimum - 1e-12


@given(st.integers(0, 10**6), st.booleans(), st.lists(st.floats(-8, 2), min_size=1, max_size=4))
def test_rounding_of_the_penalty_is_within_its_bound(seed, intercept, log_lams):
    """Won rows leave lam W alone; along a path the rounding of earlier lam W stays."""
    X, y, w, problem, _ = drawn(seed, n=30, d=8, C=3, intercept=intercept, form=np.float32)
    centres = 8 * np.random.default_rng(seed).standard_normal((3, 8))
    X = (X + centres[y]).astype(np.float32)
    problem = Multinomial(Examples(as_rows(X), y, w), 3, intercept)
    theta = problem.theta(centres.astype(np.float32), np.zeros(3, np.float32))
    point = problem.at(theta, 10.0 ** log_lams[0], second=True)
    wide = problem.widened()
    for log_lam in log_lams[1:]:
        point = point.at_lam(10.0**log_lam)
    true = wide.at(theta.astype(np.float64), point.lam)
    # the two problems are centred at means that differ by rounding
    moved = np.outer(true.g, wide.mean - problem.mean.astype(np.float64))
    off = point.gradient[:, :-1] - (true.gradient[:, :-1] + moved)
    assert np.linalg.norm(off) <= rounding(problem, point).gradient


def test_the_certificate_vanishes_at_the_optimum():
    X, y, w, problem, _ = drawn(3)
    optimum, W, b = naive.multinomial_optimum(X, y, w, 0.01)
    point = problem.at(problem.theta(W, b), 0.01, second=True)
    assert certify(problem, point).gap <= 1e-9
    assert hopeful(point) <= 1e-9
    assert point.objective == pytest.approx(optimum, rel=1e-12)


def test_the_gradient_alone_is_no_bound_with_free_intercepts():
    """Why the certificate is more than ‖∇‖²/(2 lam)."""
    X, y, w, problem, _ = drawn(5)
    lam = 10.0
    optimum, W, b = naive.multinomial_optimum(X, y, w, lam)
    theta = problem.theta(W, b + np.array([1.0, -1.0, 0.0, 0.0]))
    point = problem.at(theta, lam, second=True)
    naive_bound = (point.gradient**2).sum() / (2 * lam)
    assert naive_bound < point.objective - optimum <= certify(problem, point).gap


def test_without_penalty_the_objective_is_the_bound():
    _, _, _, problem, theta = drawn(6)
    point = problem.at(theta, 0.0, second=True)
    assert certify(problem, point).gap == pytest.approx(point.objective)
    assert hopeful(point) == np.inf


def classwise_of(problem, X, y, w):
    """The curvature that looks at all rows."""
    rng = np.random.default_rng(0)
    centred, y, weights, _ = problem.sample(len(y), rng)
    return Classwise(centred, weights, y, problem.intercept, rng)


def test_the_classes_of_a_sample_of_all_rows_are_exact():
    X, y, w, problem, theta = drawn(7, n=200, d=5, C=3)
    A, centres = classwise_of(problem, X, y, w).classes(theta)
    W, b = problem.model(theta)
    P = naive.softmax(X @ W.T + b)
    np.testing.assert_allclose(A.A, problem.at(theta, 0.1, second=True).A.A, atol=1e-12)
    for c in range(3):
        h = w * P[:, c] * (1 - P[:, c])
        np.testing.assert_allclose(centres[c] + problem.mean, h @ X / h.sum(), rtol=1e-10)


def test_the_classwise_inverse_is_the_inverse_of_its_blocks():
    """Against the dense matrix of one class's weights and intercept, A being diagonal for once."""
    X, y, w, problem, theta = drawn(7, n=200, d=5, C=3)
    curvature = classwise_of(problem, X, y, w)
    A, centres = curvature.classes(theta)
    sigma = curvature.P @ np.diag(curvature.s) @ curvature.P.T
    within = np.concatenate(
        [X[y == c] - X[y == c].mean(axis=0) for c in range(3)]
    )  # up to weights and n/(n-1), what Σ is made of
    assert np.trace(sigma) == pytest.approx((within**2).sum() / 200, rel=0.1)
    lam = 0.1
    a = A.diagonal
    inverse = replace(curvature.blocks(theta).inverse(lam), A=ClassDiagonal(a))
    gradient = np.random.default_rng(0).standard_normal((3, 6))
    gradient[:, -1] -= gradient[:, -1].mean()  # as the intercepts' gradient is
    got = inverse @ gradient
    got[:, -1] += (gradient[:, -1] / a - (got[:, :-1] * centres).sum(1)).mean()  # a shift
    for c in range(3):
        a, m = A.diagonal[c], centres[c]
        block = a * np.block([[sigma + np.outer(m, m), m[:, None]], [m, np.ones((1, 1))]])
        block[:5, :5] += lam * np.eye(5)
        np.testing.assert_allclose(block @ got[c], gradient[c], atol=1e-9)


def test_a_few_eigenpairs_and_one_number_for_the_rest(monkeypatch):
    monkeypatch.setattr(classwise, "MAX_RANK", 3)
    X, y, w, problem, theta = drawn(8, n=300, d=8, C=3)
    few = classwise_of(problem, X, y, w)
    assert few.P.shape == (8, 3)
    A, centres = few.classes(theta)
    rng = np.random.default_rng(0)
    off = rng.standard_normal(8)
    off -= few.P @ (few.P.T @ off)
    inverse = replace(few.blocks(theta).inverse(0.1), centres=0 * centres)
    for direction, s in ((few.P[:, 1], few.s[1]), (off, few.rest)):
        gradient = np.column_stack([np.outer([1.0, 2.0, 3.0], direction), np.zeros(3)])
        want = gradient[:, :-1] / (A.diagonal[:, None] * s + 0.1)
        np.testing.assert_allclose((inverse @ gradient)[:, :-1], want, atol=1e-10)
    assert few.rest < few.s[-1]


@pytest.mark.parametrize("intercept", [True, False])
def test_the_classwise_inverse_is_symmetric_and_positive(intercept):
    X, y, w, problem, theta = drawn(10, n=100, d=4, C=3, intercept=intercept)
    inverse = classwise_of(problem, X, y, w).blocks(theta).inverse(0.01)
    size = 3 * 5
    M = np.array([(inverse @ np.eye(size)[i].reshape(3, 5)).ravel() for i in range(size)])
    shift = np.zeros((3, 5))  # of all intercepts alike: no gradient has it, no step makes it
    shift[:, -1] = 1 / np.sqrt(3)
    project = np.eye(size) - np.outer(shift, shift)
    M = project @ M @ project
    np.testing.assert_allclose(M, M.T, atol=1e-9)
    values = np.linalg.eigvalsh(M)
    assert values.min() > -1e-9
    assert np.sum(values < 1e-9) <= 1  # equal shifts of all intercepts change nothing


@pytest.mark.parametrize("lam", [0.0, 1e-3, 10.0])
def test_the_line_search_finds_the_minimum_along_a_direction(lam):
    _, _, _, problem, theta = drawn(9)
    sample = linesearch.draw(problem, np.random.default_rng(0))  # all rows: there are few
    sample.move_to(theta)
    point = problem.at(theta, lam)
    D = -point.gradient
    slope = float((point.gradient * D).sum())
    t = sample.root(sample.along(theta, D), slope, lam * float((D[:, :-1] ** 2).sum()))
    end = problem.at(theta + t * D, lam)
    assert abs((end.gradient * D).sum()) < 0.08 * abs(slope)  # short of the root by 0.05
    assert end.objective < point.objective


def test_of_many_classes_only_contenders_are_looked_at(monkeypatch):
    """The rest of them, merged into one, moves the root by less than the search asks for."""
    rng = np.random.default_rng(0)
    C, n, d = 300, 900, 12
    centres = rng.standard_normal((C, d))
    y = (np.arange(n) % C).astype(np.int32)
    X = centres[y] + 0.5 * rng.standard_normal((n, d))
    problem = Multinomial(Examples(as_rows(X), y, np.full(n, 1 / n)), C)
    whole = linesearch.draw(problem, np.random.default_rng(0))
    monkeypatch.setattr(linesearch, "BYTES", 8 * 50 * C)
    monkeypatch.setattr(linesearch, "CONTENDERS", 16)
    some = linesearch.ContenderSample(whole.X, whole.w, whole.row)
    for theta in (problem.start(), 2.0 * np.column_stack([centres, -((centres**2).sum(1)) / 2])):
        point = problem.at(theta, 1e-3)
        D = -point.gradient / np.sqrt((point.gradient**2).sum())
        slope, ridge = float((point.gradient * D).sum()), 1e-3
        whole.move_to(theta)
        exact = whole.root(whole.along(theta, D), slope, ridge)
        assert some.root(some.along(theta, D), slope, ridge) == pytest.approx(exact, rel=0.1)
    assert isinstance(linesearch.draw(problem, rng), linesearch.ContenderSample)


def test_two_loops_are_bfgs():
    """On the same pairs, the recursion equals the product form of BFGS."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((6, 6))
    H = M @ M.T + np.eye(6)
    pairs = SecantPairs(3, np.float64)
    H0 = np.diag(rng.random(6) + 0.5)
    made = []
    for _ in range(3):
        s = rng.standard_normal((2, 3))
        y = (H @ s.ravel()).reshape(2, 3)
        pairs.add(s, y, 0.0, 1.0)
        made.append((s.ravel(), y.ravel()))
    B = H0 * (s.ravel() @ y.ravel()) / (y.ravel() @ H0 @ y.ravel())  # scaled by the last pair
    for s, y in made:
        V = np.eye(6) - np.outer(y, s) / (s @ y)
        B = V.T @ B @ V + np.outer(s, s) / (s @ y)

    class Inverse:
        def __matmul__(self, G):
            return (H0 @ G.ravel()).reshape(2, 3)

    g = rng.standard_normal((2, 3))
    np.testing.assert_allclose(
        pairs.direction(g, Inverse(), pairs.scale(Inverse())).ravel(), -B @ g.ravel(), rtol=1e-10
    )
    pairs.change_lam(0.5)  # the last column is the intercept's and has no penalty
    s, y, *_ = pairs.kept[0]
    np.testing.assert_allclose(y[:, -1], (H @ s.ravel()).reshape(2, 3)[:, -1])
    assert pairs.kept[0].sy == pytest.approx((s * y).sum())
    want = (H @ s.ravel()).reshape(2, 3)[:, :-1] + 0.5 * s[:, :-1]
    np.testing.assert_allclose(y[:, :-1], want)


@njit
def _exp_all(x):
    out = np.empty_like(x)
    for i in range(len(x)):
        out[i] = exp(x[i])
    return out


def test_the_fast_exponential_is_exact_to_rounding():
    x = -np.concatenate([np.linspace(0, 87, 200_001), [0.0, 1e-8, 86.9999]]).astype(np.float32)
    want = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(_exp_all(x), want, rtol=2.5e-7)
    assert _exp_all(np.float32([-1e30, -100.0])).max() < 1e-37
    assert _exp_all(np.float32([0.0]))[0] == 1.0
    np.testing.assert_allclose(_exp_all(x.astype(np.float64)), want, rtol=1e-15)


def test_another_penalty_at_the_same_theta_needs_no_pass():
    _, _, _, problem, theta = drawn(11)
    moved = problem.at(theta, 0.3, second=True).at_lam(0.02)
    fresh = problem.at(theta, 0.02, second=True)
    assert moved.objective == pytest.approx(fresh.objective, rel=1e-13)
    np.testing.assert_allclose(moved.gradient, fresh.gradient, atol=1e-13)
    assert certify(problem, moved).gap == pytest.approx(certify(problem, fresh).gap, rel=1e-9)


def test_the_trace_is_never_below_the_truth_far_from_zero():
    """In float32 the squares of rows at 1,000 swallow a spread of 0.01; a bound must not."""
    rng = np.random.default_rng(0)
    X = (1e3 + 0.01 * rng.standard_normal((200, 5))).astype(np.float32)
    y = (np.arange(200) % 2).astype(np.int32)
    problem = Multinomial(Examples(as_rows(X), y, np.full(200, 1 / 200, np.float32)), 2)
    exact = ((X.astype(float) - X.astype(float).mean(axis=0)) ** 2).sum() / 200
    assert problem.trace >= exact
