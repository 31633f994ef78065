"""Trace-norm fits to rows that are tensors: the minimum, the proof and the path of NumPy's rows.

torch on the CPU runs the same code as on a GPU.  Products of halves are emulated there: factors are
rounded as a GPU rounds them.
"""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import naive_trace
from naive_trace import blobs, stated
from slender import TraceNormClassifier, TraceNormProbe
from slender.arrays import is_numpy, is_tensor
from slender.data import examples_of
from slender.datasets import planted
from slender.problem import Multinomial
from slender.problem.tracenorm import Factors, look
from slender.rows import as_rows, one_blas_thread
from slender.rows.base import ProductError
from slender.solvers.rankone import RankOne

torch = pytest.importorskip("torch")

from slender.data.tensors import TensorRows  # noqa: E402
from slender.rows.arithmetic import Halves  # noqa: E402
from slender.rows.streamed import Streamed  # noqa: E402

KINDS = {  # as stored, and how it is multiplied
    "float64": (torch.float64, None),
    "float32": (torch.float32, None),
    "float16": (torch.float16, None),
    "bfloat16": (torch.bfloat16, None),
    "float16 in halves": (torch.float16, Halves("float16")),
    "bfloat16 in halves": (torch.bfloat16, Halves("bfloat16")),
}
HALVED = [name for name in KINDS if "halves" in name]


@pytest.fixture(autouse=True)
def _one_thread():
    """Products this small lose more than they gain by threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with one_blas_thread():
        yield
    torch.set_num_threads(threads)


def stored_as(kind, X):
    """Rows on a device, and the same numbers in NumPy: in their own dtype, and in float64."""
    dtype, arithmetic = KINDS[kind]
    T = torch.from_numpy(np.asarray(X)).to(dtype)
    own = T.float().numpy() if dtype == torch.bfloat16 else T.numpy()
    return TensorRows(T, arithmetic), own, T.double().numpy()


def fitted(problem, X, weight=None, **options):
    own = {"fit_intercept": problem.intercept, "random_state": 0, **options}
    model = TraceNormClassifier(problem.lambda1, problem.lambda2, **own)
    return model.fit(X, problem.y, sample_weight=weight)


def reached(model, problem):
    """The objective of the factors that are kept, in float64."""
    W = (np.float64(model.U_) * model.theta_) @ np.float64(model.V_).T
    b = np.float64(model.intercept_)
    return problem.objective(W, np.append(0.0, b) if len(b) == 1 else b)


def beyond_the_gap(model, problem, best):
    """How much further above the minimum than its gap an objective of the trace is, if positive."""
    true = reached(model, problem)
    best = min(best, true)
    claims = [record["objective"] - best - record["gap"] for record in model.trace_]
    return max(*claims, true - best - model.gap_)


def agree(one, other):
    """Both objectives lie between the minimum and the minimum plus their gap, up to rounding."""
    apart = abs(one.objective_ - other.objective_)
    assert apart <= one.gap_ + other.gap_ + 1e-6 * one.objective_


# -- one fit ---------------------------------------------------------------------------------------

ROWS = {
    "few classes": lambda: blobs(C=3),
    "two classes": lambda: blobs(C=2),
    "more classes than columns": lambda: blobs(n=150, d=5, C=12),
    "more columns than rows": lambda: blobs(n=40, d=60),
    "far from zero": lambda: (blobs()[0] + 8.0, blobs()[1]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", ROWS)
def test_a_fit_to_tensors_is_that_to_arrays(name, intercept, kind):
    X, y = ROWS[name]()
    rows, own, wide = stored_as(kind, X)
    problem = stated(wide, y, 0.1, 1e-3, intercept)
    there, here = fitted(problem, rows), fitted(problem, own)
    assert there.gap_ <= there.tol * there.objective_
    agree(here, there)
    assert there.objective_ == pytest.approx(reached(there, problem), rel=1e-6)
    best, *_ = naive_trace.fista(problem)
    assert beyond_the_gap(there, problem, best) <= 0.0
    assert there.lambda1_max_ == pytest.approx(here.lambda1_max_, rel=1e-2)
    for array in (there.U_, there.theta_, there.V_, there.intercept_, there.coef_):
        assert is_numpy(array)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intercept", [False, True])
def test_weights_of_rows(kind, intercept):
    X, y = blobs()
    y = np.where(np.arange(90) < 30, 0, y)  # classes of unequal size
    weight = 10.0 ** np.random.default_rng(1).uniform(-3, 1, 90)
    weight[::5] = 0.0
    rows, own, wide = stored_as(kind, X)
    problem = stated(wide, y, 0.1, intercept=intercept, weight=weight)
    there = fitted(problem, rows, weight)
    assert there.gap_ <= there.tol * there.objective_
    agree(fitted(problem, own, weight), there)
    best, *_ = naive_trace.fista(problem)
    assert beyond_the_gap(there, problem, best) <= 0.0


@settings(max_examples=15)
@pytest.mark.parametrize("kind", KINDS)
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(np.log(0.003), np.log(0.9)).map(np.exp),
    lambda2=st.sampled_from([0.0, 1e-6, 1e-3, 0.1]),
    tol=st.sampled_from([1e-2, 1e-3, 1e-5]),
    intercept=st.booleans(),
)
def test_the_certificate_is_the_truth(kind, seed, share, lambda2, tol, intercept):
    """objective - minimum <= gap at every step, rounding included."""
    rng = np.random.default_rng(seed)
    C, d = rng.integers(2, 7), rng.integers(1, 13)
    X, y = blobs(rng.integers(C, 50), d, C, seed)
    rows, _, wide = stored_as(kind, X * rng.choice([0.1, 1.0, 10.0]) + rng.choice([0.0, 1.0]))
    problem = stated(wide, y, share, lambda2, intercept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = fitted(problem, rows, tol=tol, passes=60)
    best, *_ = naive_trace.fista(problem, steps=3000)
    assert beyond_the_gap(model, problem, best) <= 0.0


@pytest.mark.parametrize("kind", HALVED)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("share", "lambda2"), [(0.1, 1e-3), (0.01, 1e-5)])
@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_halves_are_refined_until_tol_is_proved(kind, intercept, share, lambda2, tol):
    """The weaker the penalties, the more digits of the gradient a proof needs."""
    data = planted(500, 16, 8, separation=0.5)
    rows, _, wide = stored_as(kind, data.X_train)
    problem = stated(wide, data.y_train, share, lambda2, intercept)
    model = fitted(problem, rows, tol=tol)
    assert model.gap_ <= tol * model.objective_
    best = fitted(problem, wide, tol=1e-9)
    assert model.objective_ - model.gap_ <= best.objective_
    assert best.objective_ - best.gap_ <= reached(model, problem)


def test_the_paper_s_algorithm():
    X, y = blobs(C=5)
    rows, _, wide = stored_as("float32", X)
    problem = stated(wide, y, 0.05)
    epsilon = 0.01 * problem.lambda1
    there = fitted(problem, rows, epsilon=epsilon, turn=False, pairs=1)
    here = fitted(problem, wide, epsilon=epsilon, turn=False, pairs=1)
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-3)
    best, *_ = naive_trace.fista(problem)
    assert beyond_the_gap(there, problem, best) <= 0.0


def test_more_classes_than_a_matrix_of_classes_is_formed_for():
    data = planted(1200, 24, 300, separation=1.0)
    rows, own, _ = stored_as("float16 in halves", data.X_train)
    settings = {"fit_intercept": True, "random_state": 0, "lambda1": 1e-3}
    there = TraceNormClassifier(**settings).fit(rows, data.y_train)
    here = TraceNormClassifier(**settings).fit(own, data.y_train)
    assert there.gap_ <= there.tol * there.objective_
    agree(here, there)


def test_rows_that_are_sent_chunk_by_chunk():
    X, y = blobs(C=5)
    X = X.astype(np.float32)
    problem = stated(X, y, 0.05, intercept=True)
    streamed = TensorRows(Streamed(as_rows(X), torch.device("cpu")))
    there = fitted(problem, streamed)
    assert there.gap_ <= there.tol * there.objective_
    agree(fitted(problem, X), there)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_fit_that_rounding_stops_says_in_which_dtype(kind):
    rows, _, wide = stored_as(kind, blobs(C=3)[0])
    problem = stated(wide, blobs(C=3)[1], 0.1)
    with pytest.warns(ConvergenceWarning, match=f": {kind} allows no further step") as caught:
        fitted(problem, rows, tol=1e-18)
    assert ("fit float64 features" in str(caught[0].message)) == (kind == "float32")


# -- what a step computes --------------------------------------------------------------------------


def multinomial(rows, y, intercept):
    w = np.full(len(y), 1.0 / len(y))
    return Multinomial(examples_of(rows, np.int32(y), w), int(y.max()) + 1, intercept)


def some_factors(d, C, dtype, rank=3, seed=0):
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((m, rank)))[0].astype(dtype) for m in (d, C))
    return Factors(U, np.geomspace(2.0, 0.5, rank), V, np.zeros(C))


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_as_near_to_float64_s_as_the_proof_says(kind, monkeypatch):
    """Without an intercept, e of the bound is nothing but the rounding of the gradient."""
    X, y = blobs(300, 20, 6)
    rows, _, wide = stored_as(kind, X)
    there, true = multinomial(rows, y, False), multinomial(as_rows(wide), y, False)
    at = some_factors(20, 6, rows.dtype)
    found = look(there, there.examples.times(at.U), at)
    exact = at._replace(U=np.float64(at.U), V=np.float64(at.V))
    expected = look(true, wide @ exact.U, exact)
    error = np.linalg.norm(found.G - expected.G)
    assert error <= found.cost.e + expected.cost.e
    assert abs(found.risk - expected.risk) <= found.cost.own + expected.cost.own
    np.testing.assert_allclose(found.a, expected.a, rtol=1e-4)
    if kind in HALVED:  # and it would not be without the rounding of halves
        monkeypatch.setattr(TensorRows, "product_error", lambda self: ProductError())
        assert error > look(there, there.examples.times(at.U), at).cost.e


@pytest.mark.parametrize("kind", KINDS)
def test_products_that_are_kept_have_all_digits(kind):
    """Z = X U is what all later steps start from: U is not rounded to halves for it."""
    X, y = blobs(200, 30, 5)
    rows, _, wide = stored_as(kind, X)
    examples = multinomial(rows, y, True).examples
    U = some_factors(30, 5, rows.dtype).U
    Z = examples.times(U).numpy()
    eps = np.finfo(rows.dtype).eps
    size = np.abs(wide) @ np.abs(np.float64(U))
    assert (np.abs(Z - wide @ np.float64(U)) <= 30 * eps * size).all()


def test_only_what_is_small_comes_home():
    """X and Z stay tensors; the point, its gradient and the atoms are NumPy's."""
    X, y = blobs(n=200, C=5)
    rows, _, wide = stored_as("float16 in halves", X)
    problem = multinomial(rows, y, True)
    solver = RankOne(problem, 1e-3, 0.1 * stated(wide, y, 1.0, intercept=True).lambda1, 1e-3)
    state = solver.init(np.random.default_rng(0))
    while not solver.finished(state):
        solver.step(state)
    assert is_tensor(state.Z)
    assert state.Z.shape == (200, state.basis.shape[1])
    for array in (state.basis, state.here.G, *state.here.at, *state.atoms):
        assert is_numpy(array)
        assert 200 not in array.shape
    np.testing.assert_allclose(state.Z.numpy(), wide @ state.basis, atol=1e-5)


@pytest.mark.parametrize("kind", HALVED)
def test_once_a_step_gains_nothing_gradients_have_more_digits(kind):
    data = planted(500, 16, 8, separation=0.5)
    rows, _, wide = stored_as(kind, data.X_train)
    lambda1 = stated(wide, data.y_train, 0.01).lambda1
    solver = RankOne(multinomial(rows, data.y_train, False), 1e-12, lambda1, 1e-5)
    state = solver.init(np.random.default_rng(0))
    while not solver.finished(state):
        solver.step(state)
    assert state.fine
    at = state.here.at
    coarse = look(solver.problem, state.Z, at)
    at = at._replace(U=np.float64(at.U), V=np.float64(at.V))
    true = look(multinomial(as_rows(wide), data.y_train, False), wide @ at.U, at)
    errors = [np.linalg.norm(found.G - true.G) for found in (state.here, coarse)]
    assert 10.0 * errors[0] < errors[1]


@pytest.mark.parametrize("kind", ["array", "float32", "float16 in halves"])
def test_a_fit_that_rounding_stops_ends_with_a_proof_in_float64(kind):
    X, y = blobs(n=300, d=12, C=6)
    rows, own, wide = stored_as(kind.replace("array", "float32"), X)
    problem = multinomial(as_rows(own) if kind == "array" else rows, y, True)
    lambda1 = stated(wide, y, 0.01, intercept=True).lambda1
    solver = RankOne(problem, 1e-12, lambda1, 1e-5)  # a tol that float32 cannot reach
    state = solver.init(np.random.default_rng(0))
    while not solver.finished(state):
        solver.step(state)
    assert state.stalled
    at = state.here.at
    at = at._replace(U=np.float64(at.U), V=np.float64(at.V))
    found = look(multinomial(as_rows(wide), y, True), wide @ at.U, at)
    gap = solver._gap_of(found, found.cost)
    assert solver.gap(state) <= gap + 3e-6 * solver.objective(state)


# -- a path ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    return planted(600, 20, 6, n_test=300, separation=0.5)


@pytest.mark.filterwarnings("ignore::UserWarning")  # small grids: the best value is at an edge
@pytest.mark.parametrize("kind", ["float32", "float64", "float16 in halves", "bfloat16 in halves"])
@pytest.mark.parametrize("validation", [0.25, 3])
def test_a_path_on_tensors_is_that_on_arrays(data, kind, validation):
    rows, own, wide = stored_as(kind, data.X_train)
    settings = {
        "lambda1s": [0.02, 0.005, 0.001],
        "lambda2s": [1e-3, 1e-5],
        "fit_intercept": True,
        "random_state": 0,
        "validation": validation,
    }
    here = TraceNormProbe(**settings).fit(own, data.y_train)
    there = TraceNormProbe(**settings).fit(rows, data.y_train)
    assert len(there.path_) == len(here.path_) == 6
    for one, other in zip(here.path_, there.path_, strict=True):
        assert (one["lambda1"], one["lambda2"]) == (other["lambda1"], other["lambda2"])
        assert other["gap"] <= 3 * there.tol * other["objective"]
        apart = abs(one["objective"] - other["objective"])
        assert apart <= one["gap"] + other["gap"] + 1e-6 * one["objective"]
        # fits within a gap of each other may differ on held-out rows, but not by much
        assert other["log_loss"] == pytest.approx(one["log_loss"], rel=0.02)
    assert there.gap_ <= there.tol * there.objective_
    problem = stated(wide, data.y_train, 1.0, there.lambda2_, intercept=True)
    problem = problem._replace(lambda1=there.lambda1_)
    best = fitted(problem, wide, tol=1e-6)
    assert best.objective_ - best.gap_ <= reached(there, problem) <= best.objective_ + there.gap_


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_held_out_rows_on_the_device(data):
    """The figures of a path are those of the same models on the same rows in NumPy."""
    y, y_val = data.y_train, data.y_test
    rows, own, _ = stored_as("float32", data.X_train)
    held_out, own_val, _ = stored_as("float32", data.X_test)
    settings = {"lambda1s": [0.01], "lambda2s": [1e-4], "random_state": 0, "tol": 1e-6}
    there = TraceNormProbe(**settings, validation=(held_out, y_val)).fit(rows, y)
    here = TraceNormProbe(**settings, validation=(own_val, y_val)).fit(own, y)
    for name in ("top1", "top5", "mean_per_class", "log_loss", "log_loss_error", "trace_norm"):
        assert there.path_[0][name] == pytest.approx(here.path_[0][name], rel=1e-2)


def test_a_killed_fit_continues(tmp_path):
    X, y = blobs(300, 12, 6)
    rows, _, wide = stored_as("float16 in halves", X)
    problem = stated(wide, y, 0.02, 1e-3, intercept=True)
    whole = fitted(problem, rows, tol=1e-5)
    again = {"tol": 1e-5, "checkpoint": tmp_path, "checkpoint_every": 0.0}

    def kill(record, weights):
        if record["passes"] > 4:
            raise KeyError

    with pytest.raises(KeyError):
        fitted(problem, rows, **again, callbacks=kill)
    model = fitted(problem, rows, **again)
    assert [r["passes"] for r in model.trace_] == [r["passes"] for r in whole.trace_]
    agree(whole, model)
