"""The compiled loop equals the papers' recursions, step by step."""

import shutil
from functools import partial

import numpy as np
import pytest
from scipy import sparse

import naive
from slender import SGDClassifier
from slender.curvature import LowRank
from slender.curvature.base import CurvatureSample
from slender.curvature.lbfgs import LBFGS
from slender.curvature.metric import FIXED
from slender.labels import ClassIndex, Indicator
from slender.losses import MARGIN_LOSSES, fit_for, peaked_at_zero
from slender.problem import Weights
from slender.rows import DenseRows, as_rows, threads
from slender.solvers.sampling import Visits
from slender.solvers.stochastic import Stochastic, StochasticData
from slender.solvers.sweep import sweep, visit

D = 7


@pytest.fixture
def problem():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, D)) @ rng.standard_normal((D, D)) + 0.3
    codes = rng.integers(0, 3, 60).astype(np.int32)
    return X, codes, rng.permutation(np.tile(np.arange(60), 2))


def visit_all(order, n_classes):
    """In two chunks of unequal size."""
    edges = np.array([0, len(order) // 3, len(order)])
    first, last = (np.repeat(edge[:, None], n_classes, 1) for edge in (edges[:-1], edges[1:]))
    return Visits(order, first, last, np.arange(len(order), dtype=np.int32))


def run_kernel(descent, rows, labels, order, weights, n_classes, every=8, go=sweep):
    """One sweep in exactly this order."""
    solver = descent(data_of(rows, labels, weights, n_classes))
    state = solver.init(np.random.default_rng(0))
    lengths = solver._lengths
    if solver.average:
        lengths = lengths._replace(every=np.full(n_classes, every - 1))
    X, index = rows.take(order)
    visits = visit_all(order, n_classes)
    go(solver.loss, X, index, labels, visits, lengths, weights, state.metric, state.iterate)
    return state, solver.weights(state)


def data_of(rows, labels, weights, n_classes):
    active = np.flatnonzero(weights.example)
    return StochasticData(rows, labels, active, rows.sqnorms(), weights, n_classes, None)


def in_python(*args):
    """A sweep that is not compiled at all."""
    with np.errstate(all="ignore"):  # as compiled code does
        for k in range(len(args[4].first)):
            for c in range(len(args[-1].t)):
                visit.py_func(k, c, *args)


def unit_weights(n, n_classes):
    return Weights(np.ones(n), np.ones(n_classes), np.ones(n_classes))


@pytest.mark.parametrize("name", fit_for(peaked_at_zero, MARGIN_LOSSES))
@pytest.mark.parametrize("k", range(1, D + 1))
def test_whitened_descent_is_the_papers_update(problem, name, k):
    X, codes, order = problem
    loss = MARGIN_LOSSES[name]
    sample = CurvatureSample(
        as_rows(X), np.arange(len(X)), False, loss.curvature(0.0), np.random.default_rng(0)
    )
    coordinates = LowRank(rank=k).estimate(sample)
    eta = 0.3 / k
    descent = partial(Stochastic, loss=loss, eta=eta, cap=np.inf, average=False)
    _, weights = run_kernel(
        descent, coordinates.rows(as_rows(X)), ClassIndex(codes, 0), order, unit_weights(60, 3), 3
    )
    W, _ = coordinates.coef(*weights)
    H_star = naive.low_rank_pseudo_inverse(naive.hessian_at_zero(X, loss.curvature(0.0)), k)
    for c in range(3):
        w = naive.slnd(loss, X, np.where(codes == c, 1.0, -1.0), H_star, order, eta)
        np.testing.assert_allclose(W[c], w, rtol=0, atol=1e-10 * np.abs(w).max())


@pytest.mark.parametrize("name", MARGIN_LOSSES)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_every_option_of_the_loop_equals_the_naive_recursion(problem, name, form):
    X, codes, order = problem
    X = np.where(np.abs(X) < 0.5, 0.0, X) / 10
    loss = MARGIN_LOSSES[name]
    rng = np.random.default_rng(5)
    weights = Weights(rng.uniform(0.5, 3, 60), np.array([1.0, 2.0, 0.5]), np.array([1.0, 0.7, 1.0]))
    options = {"decay": 0.01, "power": 0.75, "lam": 0.05, "beta": 0.6}
    descent = partial(Stochastic, loss=loss, eta=0.4, **options)
    rows = as_rows(form(X))
    state, (V, b) = run_kernel(descent, rows, ClassIndex(codes, 0), order, weights, 3, every=4)
    curvature0 = loss.curvature(0.0)
    sq = (X**2).sum(axis=1) + options["beta"] ** 2
    cap = 1 / (curvature0 * sq) if curvature0 else np.full(60, np.inf)
    for c in range(3):
        y = np.where(codes == c, 1.0, -1.0)
        weight = weights.example * np.where(y > 0, weights.positive[c], weights.negative[c])
        w, bias, mean_w, mean_b = naive.stochastic(
            loss, X, y, order, weight, cap, naive.Descent(0.4, **options, every=4)
        )
        v = state.iterate.V[c] * state.iterate.scale[c]
        np.testing.assert_allclose(v, w, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(state.iterate.b[c], bias, rtol=1e-10)
        np.testing.assert_allclose(V[c], mean_w, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(b[c], mean_b, rtol=1e-10)


def test_a_strong_penalty_folds_its_scale_and_stays_exact(problem):
    X, codes, order = problem
    loss = MARGIN_LOSSES["logistic"]
    settings = {"eta": 0.5, "lam": 1.5, "cap": np.inf, "average": False}  # shrinks by 4 a step
    descent = partial(Stochastic, loss=loss, **settings)
    _, (V, _) = run_kernel(descent, as_rows(X), ClassIndex(codes, 0), order, unit_weights(60, 3), 3)
    y = np.where(codes == 0, 1.0, -1.0)
    w, *_ = naive.stochastic(
        loss, X, y, order, np.ones(60), np.full(60, np.inf), naive.Descent(0.5, lam=1.5)
    )
    np.testing.assert_allclose(V[0], w, rtol=1e-10)


def test_indicator_and_codes_are_the_same_problem(problem):
    X, codes, order = problem
    descent = partial(Stochastic, loss=MARGIN_LOSSES["logistic"], eta=0.1)
    Y = codes[:, None] == np.arange(3)
    by_code, _ = run_kernel(
        descent, as_rows(X), ClassIndex(codes, 0), order, unit_weights(60, 3), 3
    )
    by_indicator, _ = run_kernel(descent, as_rows(X), Indicator(Y), order, unit_weights(60, 3), 3)
    np.testing.assert_array_equal(by_code.iterate.V, by_indicator.iterate.V)


class ByHalves(DenseRows):
    """Rows whose classes are visited in two parts, each on its own."""

    def each_class(self, work):
        for lo, hi in ((1, 3), (0, 1)):
            work.of_classes(lo, hi).run(self)


@pytest.mark.parametrize("negatives", ["all", 1.0])
@pytest.mark.parametrize("metric", [FIXED, LBFGS(3, 0.1)], ids=["fixed", "lbfgs"])
def test_classes_can_be_divided(problem, metric, negatives):
    """Also the state of a metric has one row per class."""
    X, codes, _ = problem
    settings = {"lam": 1e-3, "metric": metric, "negatives": negatives}
    states = []
    for rows in (as_rows(X), ByHalves(X)):
        data = data_of(rows, ClassIndex(codes, 0), unit_weights(60, 3), 3)
        solver = Stochastic(data, MARGIN_LOSSES["logistic"], 0.05, **settings)
        state = solver.init(np.random.default_rng(0))
        states.append((state, [solver.step(state) for _ in range(2)]))
    (whole, records), (divided, others) = states
    assert records == others
    for mine, theirs in zip(
        (*whole.iterate, *whole.metric), (*divided.iterate, *divided.metric), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


def test_the_result_does_not_depend_on_the_number_of_threads(problem, monkeypatch):
    X, codes, order = problem
    X = X.astype(np.float32)
    descent = partial(Stochastic, loss=MARGIN_LOSSES["logistic"], eta=0.1)
    weights = Weights(np.ones(60, np.float32), np.ones(3), np.ones(3))
    monkeypatch.setattr(threads, "WORTH_A_PART", 1)
    runs = []
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "num_threads", lambda count=count: count)
        state, _ = run_kernel(descent, as_rows(X), ClassIndex(codes, 0), order, weights, 3)
        runs.append(state.iterate.V)
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2])


@pytest.mark.parametrize("negatives", ["all", 1, 2.5])
def test_chunks_do_not_change_the_arithmetic(problem, monkeypatch, negatives):
    X, codes, _ = problem
    rows, labels = as_rows(X), ClassIndex(codes, 0)
    data = data_of(rows, labels, unit_weights(60, 3), 3)
    solver = Stochastic(data, MARGIN_LOSSES["logistic"], 0.1, negatives=negatives)
    results = []
    for size in (1, 5, 1000):  # rows a chunk
        for name in ("CHUNK_BYTES", "FEW_PORTION_BYTES"):
            monkeypatch.setattr(f"slender.solvers.sampling.{name}", size * rows.row_bytes)
        state = solver.init(np.random.default_rng(0))
        for _ in range(2):
            solver.step(state)
        results.append(solver.weights(state)[0])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("n", [24, 200])
def test_the_running_objective_has_the_penalty_before_the_updates(n):
    """Rows ±x of classes ±1: whatever the order, the t-th visit meets the same w."""
    lam, eta, x = 0.3, 0.2, np.array([1.0, -0.5, 2.0])
    y = np.arange(n) % 2
    X = np.where(y == 1, 1.0, -1.0)[:, None] * x
    model = SGDClassifier(
        lam=lam, step=eta, schedule="constant", average=False, passes=1, fit_intercept=False,
        random_state=0,
    ).fit(X, y)  # fmt: skip
    w, losses, penalties = np.zeros(3), [], []
    for _ in range(n):
        losses.append(np.log1p(np.exp(-w @ x)))
        penalties.append(lam / 2 * (w @ w))
        w = (1 - eta * lam) * w + eta / (1 + np.exp(w @ x)) * x
    every = 2 ** int(np.log2(max(1, min(32, n // 32))))  # so often at least 32 times a pass
    want = np.mean(losses) + np.mean(penalties[::every])
    assert model.trace_[0]["objective"] == pytest.approx(want, rel=1e-9)


def test_the_running_objective_is_the_mean_loss_before_the_updates(problem):
    X, codes, _ = problem
    loss = MARGIN_LOSSES["logistic"]
    data = data_of(as_rows(X), ClassIndex(codes, 0), unit_weights(60, 3), 3)
    solver = Stochastic(data, loss, 1e-12, average=False)  # too small to move: the loss stays F(0)
    state = solver.init(np.random.default_rng(0))
    assert solver.step(state)["objective"] == pytest.approx(np.log(2))


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ here")
@pytest.mark.parametrize("name", ["sgd", "sgdqn", "olbfgs"])
def test_the_loops_in_cpp_are_the_same_loops(name, tmp_path):
    from benchmarks import native

    assert native.disagreement(name, tmp_path) < native.AGREE
