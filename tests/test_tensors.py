"""Rows on a device, as tensors: products, passes, fits and certificates against float64 and NumPy.

torch on the CPU runs the same code as on a GPU, except that products of halves are emulated there:
their factors are rounded as a GPU rounds them, and added up in float32.
"""

import json
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from slender import LinearProbe, LogisticClassifier, krylov
from slender.arrays import to_numpy
from slender.curvature.doubtful import numbered
from slender.data import examples_of
from slender.datasets import planted
from slender.metrics import measure
from slender.passes import ClassSumsPass, MomentsPass, SoftmaxPass
from slender.passes.doubts import Wanted
from slender.passes.residuals import R_X, R
from slender.problem import Multinomial
from slender.problem.certificate import certify
from slender.problem.intercepts import ClassSample, solve
from slender.problem.rounding import rounding
from slender.rows import as_rows
from slender.solvers.checkpoint import SavedRun
from slender.solvers.newton import Newton
from slender.solvers.packing import pack, restore

torch = pytest.importorskip("torch")

from slender.data import tensors as data_tensors  # noqa: E402
from slender.data.tensors import TensorRows  # noqa: E402
from slender.rows.arithmetic import Halves, Plain  # noqa: E402


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    """A tensor on a GPU does not become an array by itself, nor do these."""

    def refuse(self, *given, **named):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    monkeypatch.setattr(torch.Tensor, "__array__", refuse)


HALVES = [Halves("float16"), Halves("float16", 2), Halves("bfloat16"), Halves("bfloat16", 3)]
WIDE = [Halves("float16", wide=True), Halves("float16", 2, wide=True)]  # rows of float32


def made(n=400, d=20, C=7, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(dtype)
    y = rng.integers(0, C, n).astype(np.int32)
    y[:C] = np.arange(C)
    return X, y, rng


def tensor_rows(X, arithmetic=None):
    """The rows in the dtype that the arithmetic needs, and the same numbers in float64."""
    stored = torch.from_numpy(X)
    if isinstance(arithmetic, Halves) and not arithmetic.wide:
        stored = stored.to(getattr(torch, arithmetic.half))
    return TensorRows(stored, arithmetic), stored.double().numpy()


# -- products --------------------------------------------------------------------------------------


@pytest.mark.parametrize("arithmetic", HALVES)
@given(exponent=st.integers(-30, 30), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_products_of_halves_are_exact_for_rounded_weights(arithmetic, exponent, seed):
    X, _, rng = made(50, 30, seed=seed)
    rows, wide = tensor_rows(X, arithmetic)
    W = torch.from_numpy(rng.standard_normal((30, 6)).astype(np.float32)) * 2.0**exponent
    rounded = arithmetic.rounded(W)
    assert float((rounded - W).abs().max()) <= 2.0 * arithmetic.unit * float(W.abs().max())
    assert torch.equal(arithmetic.rounded(rounded), rounded)
    S = rows.block(0, 50) @ rounded
    true = wide @ rounded.double().numpy()
    # only the sums in float32 are rounded
    size = np.abs(wide) @ np.abs(rounded.double().numpy())
    assert (np.abs(S.double().numpy() - true) <= 30 * 2.0**-23 * size).all()


@pytest.mark.parametrize("arithmetic", HALVES)
def test_residuals_in_halves_are_off_by_what_is_said(arithmetic):
    X, _, rng = made(300, 10)
    rows, wide = tensor_rows(X, arithmetic)
    R = torch.from_numpy((rng.random((300, 4)) ** 8).astype(np.float32)) * 1e-6
    G = torch.zeros((4, 10))
    rows.block(0, 300).add_product(R, G)
    size = R.double().numpy().T @ np.abs(wide)
    lost = arithmetic.underflow * float(R.max()) * 2 * np.abs(wide).sum(axis=0)
    error = np.abs(G.double().numpy() - R.double().numpy().T @ wide)
    assert (error <= (arithmetic.unit + 300 * 2.0**-24) * size + lost).all()


def test_rows_of_a_tensor_have_the_verbs_of_rows():
    X, _, rng = made()
    here, there = as_rows(X), TensorRows(torch.from_numpy(X))
    B = rng.standard_normal((20, 3)).astype(np.float32)
    index, scale = np.array([5, 3, 300]), np.linspace(1, 2, 20).astype(np.float32)
    for change in (
        lambda rows: rows,
        lambda rows: rows.scaled(scale),
        lambda rows: rows.normalised(),
        lambda rows: rows.widened(),
        lambda rows: rows.part(10, 200),
    ):
        one, other = change(here), change(there)
        np.testing.assert_allclose(other.matmat(B).numpy(), one.matmat(B), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(other.sqnorms().numpy(), one.sqnorms(), rtol=1e-5)
        np.testing.assert_allclose(
            other.dense(index[:2]).numpy(), one.dense(index[:2]), rtol=1e-5, atol=1e-6
        )
    some = there.subset(index)
    assert some.shape == (3, 20)
    assert some.where(2) == "row 300"


def test_the_first_bad_number_is_named():
    X, _, _ = made()
    rows = TensorRows(torch.from_numpy(X).half())
    assert rows.first_bad() is None
    X[17, 4] = np.nan
    X[18, 0] = np.inf
    i, j, value = TensorRows(torch.from_numpy(X)).first_bad()
    assert (i, j, np.isnan(value)) == (17, 4, True)


# -- passes ----------------------------------------------------------------------------------------


def nasty_weights(n, rng):
    w = 10.0 ** rng.uniform(-6, 0, n)
    w[::7] = 0.0
    return w / np.count_nonzero(w)


@pytest.mark.parametrize("A", ["none", "diagonal", "matrix"])
@pytest.mark.parametrize(
    "arithmetic", [None, Halves("float16", 2), WIDE[1], Plain(np.dtype(np.float32))]
)
def test_a_softmax_pass_is_that_of_numpy(A, arithmetic):
    X, y, rng = made()
    rows, wide = tensor_rows(X, arithmetic)
    w = nasty_weights(len(y), rng)
    W, b = rng.standard_normal((20, 7)).astype(np.float32), np.linspace(-1, 1, 7, dtype=np.float32)
    W = rows.arithmetic.rounded(torch.from_numpy(W)).numpy()
    there = examples_of(rows, y, w)
    here = examples_of(as_rows(wide), y, w)
    wanted = Wanted(np.ones(7), 20)
    found = there.reduce(
        SoftmaxPass(torch.from_numpy(W), torch.from_numpy(b), A, Wanted(torch.ones(7), 20))
    )
    true = here.reduce(SoftmaxPass(W.astype(float), b.astype(float), A, wanted))
    for name in ("sums", "g", "own", "a", "pp", "G"):
        one, other = getattr(true, name), to_numpy(getattr(found, name))
        small = 1e-6 * np.abs(one).max(initial=0.0)
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=small)
    for mine, other in zip(found.doubts[:2], true.doubts[:2], strict=True):
        np.testing.assert_array_equal(to_numpy(mine), other)


def test_halves_have_digits_for_rows_that_are_won():
    """Residuals of 1e-7 of the weights, which is less than the smallest number of float16."""
    X, y, rng = made()
    W = rng.standard_normal((20, 7)).astype(np.float32)
    W *= 16.0 / np.abs(X @ W).max()
    y = (X @ W).argmax(1).astype(y.dtype)
    X *= (18.0 / np.ptp(np.sort(X @ W, axis=1)[:, -2:], axis=1, keepdims=True)).astype(np.float32)
    rows, wide = tensor_rows(X, Halves("float16"))
    WT, w, b = rows.arithmetic.rounded(torch.from_numpy(W)), np.full(400, 1 / 400), np.zeros(7)
    there = examples_of(rows, y, w).reduce(SoftmaxPass(WT, torch.zeros(7)))
    here = examples_of(as_rows(wide), y, w).reduce(SoftmaxPass(WT.double().numpy(), b))
    assert here.sums[R] < 1e-6
    np.testing.assert_allclose(there.G.numpy(), here.G, atol=2.0**-11 * here.sums[R_X])


@pytest.mark.parametrize("arithmetic", [None, Halves("float16", 2), Plain(np.dtype(np.float32))])
@pytest.mark.parametrize("sent", [True, False])
def test_sums_by_class_are_those_of_numpy(monkeypatch, arithmetic, sent):
    monkeypatch.setattr("slender.device.row_sums.WIDENED", 5)
    X, y, rng = made()
    rows, wide = tensor_rows(X, arithmetic)
    w, doubt = nasty_weights(len(y), rng), np.linspace(0.1, 1.0, 7)
    at = ClassSumsPass(doubt if sent else torch.from_numpy(doubt))
    found = examples_of(rows, y, w).reduce(at)
    true = examples_of(as_rows(wide), y, w).reduce(ClassSumsPass(doubt))
    assert isinstance(found.M, np.ndarray) == sent
    np.testing.assert_allclose(to_numpy(found.M), true.M, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(to_numpy(found.sums), true.sums, rtol=1e-5)


def test_a_pass_with_arrays_of_numpy_brings_its_sums_home():
    X, y, rng = made()
    w = nasty_weights(len(y), rng)
    W, b = rng.standard_normal((20, 7)).astype(np.float32), np.zeros(7, np.float32)
    found = examples_of(TensorRows(torch.from_numpy(X)), y, w).reduce(SoftmaxPass(W, b))
    true = examples_of(as_rows(X), y, w).reduce(SoftmaxPass(W, b))
    assert isinstance(found.G, np.ndarray)
    np.testing.assert_allclose(found.G, true.G, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_metrics_are_those_of_numpy(temperature):
    X, y, rng = made()
    w = np.ones(len(y)) / len(y)
    W, b = rng.standard_normal((7, 20)).astype(np.float32), rng.standard_normal(7)
    here = measure(examples_of(as_rows(X), y, w), W, b, temperature)
    there = examples_of(TensorRows(torch.from_numpy(X)), y, w)
    found = measure(there, torch.from_numpy(W), torch.from_numpy(b), temperature)
    assert found == pytest.approx(here, rel=1e-5)


def test_only_a_few_numbers_leave_the_device(monkeypatch):
    """Moments: the mean and the heaviest rows; labels and weights are sent once for all dtypes."""
    monkeypatch.setattr("slender.data.tensors.CPU_CHUNK_BYTES", 100 * 20 * 4)
    X, y, rng = made()
    w = nasty_weights(len(y), rng)
    seen = []
    for module in ("slender.passes.moments", "slender.arrays"):
        monkeypatch.setattr(
            f"{module}.to_numpy", lambda a: (seen.append(np.shape(a)), to_numpy(a))[1]
        )
    there = examples_of(TensorRows(torch.from_numpy(X)), y, w)
    found, true = (
        each.reduce(MomentsPass(float(w.sum()))) for each in (there, examples_of(as_rows(X), y, w))
    )
    assert max(shape[0] for shape in seen if shape) <= 20
    assert found.heavy.tolist() == true.heavy.tolist()
    for name in ("squares", "reach", "longest"):
        assert getattr(found, name) == pytest.approx(getattr(true, name), rel=1e-5)
    wide = there.widened()
    assert wide.rows.dtype == np.float64
    assert wide.there["w"] is there.there["w"]
    assert wide.read is there.read


def test_weights_are_split_into_halves_once_for_a_pass(monkeypatch):
    monkeypatch.setattr("slender.data.tensors.CPU_CHUNK_BYTES", 100 * 20 * 4)
    X, y, _ = made()
    rows, _ = tensor_rows(X, Halves("float16", 2))
    seen, split = [], Halves.split
    monkeypatch.setattr(Halves, "split", lambda self, B: (seen.append(1), split(self, B))[1])
    asked = SoftmaxPass(torch.ones((20, 7)), torch.zeros(7))
    sums = examples_of(rows, y, np.full(400, 1 / 400)).reduce(asked)
    assert len(seen) == 1
    assert pickle.loads(pickle.dumps(sums)).split is None


# -- certificates ----------------------------------------------------------------------------------


@pytest.mark.parametrize("arithmetic", [None, *HALVES, *WIDE])
@given(seed=st.integers(0, 10**6), size=st.floats(-3, 1), spread=st.floats(0, 4))
@settings(max_examples=25, deadline=None)
def test_rounding_is_within_its_bound(arithmetic, seed, size, spread):
    """Objective and gradient of a pass, against float64, for weights and rows of many sizes."""
    X, y, rng = made(200, 15, 5, seed)
    X *= 10.0 ** rng.uniform(-spread / 2, 0, 15).astype(np.float32)
    rows, wide = tensor_rows(X, arithmetic)
    w = 10.0 ** rng.uniform(-spread, 0, 200)
    w /= len(w)
    problem = Multinomial(examples_of(rows, y, w), 5)
    exact = Multinomial(examples_of(as_rows(wide), y, w), 5)
    theta = problem.start()
    theta[:, :-1] = torch.from_numpy(rng.standard_normal((5, 15)) * 10.0**size)
    for second in (False, True):
        point = problem.at(theta, 1e-3, second)
        off = rounding(problem, point)
        W, b = problem.model(point.theta)
        true = exact.at(exact.theta(W.double().numpy(), b.double().numpy()), 1e-3)
        assert abs(point.objective - true.objective) <= off.objective + 1e-7 * true.objective
        error = point.gradient.double().numpy() - true.gradient
        assert np.linalg.norm(error[:, :-1]) <= off.gradient + 1e-6 * np.linalg.norm(true.gradient)
        assert (np.abs(to_numpy(point.g) - true.g) <= off.g + 1e-12).all()


@pytest.mark.parametrize("arithmetic", [None, *HALVES, *WIDE])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_certificate_holds_at_any_point(arithmetic, intercept):
    X, y, rng = made(300, 12, 6)
    rows, wide = tensor_rows(X, arithmetic)
    w = nasty_weights(300, rng)
    problem = Multinomial(examples_of(rows, y, w), 6, intercept)
    C = 1.0
    lam = problem.lam_of(C)
    weights = w * np.count_nonzero(w)  # the problem's are c_i / n
    best = LogisticClassifier(C=C, tol=1e-9, fit_intercept=intercept).fit(wide, y, weights)
    theta = problem.start()
    theta[:, :-1] += torch.from_numpy(0.1 * rng.standard_normal((6, 12)))
    point = problem.at(theta, lam, second=True)
    certificate = certify(problem, point)
    assert point.objective + certificate.objective - certificate.gap <= best.objective_ * (1 + 1e-9)


# -- fits ------------------------------------------------------------------------------------------


def agree(one, other):
    """Two certified fits of the same objective."""
    slack = one.gap_ + other.gap_ + 1e-6 * one.objective_
    assert abs(one.objective_ - other.objective_) <= slack


PROBLEMS = {
    "digits": lambda: (load_digits().data.astype(np.float32) / 16, load_digits().target),
    "binary": lambda: (load_digits().data.astype(np.float32) / 16, load_digits().target > 4),
    "many classes": lambda: planted(1800, 24, 300, separation=1.0)[:2],
    "wide": lambda: (made(60, 900, 4)[0], made(60, 900, 4)[1]),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("C", [0.01, 100.0])
def test_a_fit_to_tensors_is_that_to_arrays(name, C):
    X, y = PROBLEMS[name]()
    here = LogisticClassifier(C=C, random_state=0).fit(X, y)
    for stored in (torch.float32, torch.float64):
        there = LogisticClassifier(C=C, random_state=0).fit(
            TensorRows(torch.from_numpy(X).to(stored)), y
        )
        assert there.gap_ <= 1e-3 * there.objective_
        agree(here, there)
        assert isinstance(there.coef_, np.ndarray)


@pytest.mark.parametrize("arithmetic", [Halves("float16"), Halves("bfloat16"), WIDE[0]])
@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-7])
def test_a_fit_in_halves_refines_its_arithmetic_until_it_proves_tol(arithmetic, tol):
    X, y = PROBLEMS["digits"]()
    rows, wide = tensor_rows(X, arithmetic)
    found = LogisticClassifier(C=0.1, tol=tol, random_state=0).fit(rows, y)
    assert found.gap_ <= tol * found.objective_
    best = LogisticClassifier(C=0.1, tol=1e-10).fit(wide, y)
    assert best.objective_ * (1 - 1e-9) <= found.objective_ <= best.objective_ + found.gap_
    # the reported objective is that of the weights that are kept
    w = np.full(len(y), 1 / len(y))
    problem = Multinomial(examples_of(as_rows(wide), y.astype(np.int32), w), 10)
    theta = problem.theta(found.coef_.astype(float), found.intercept_.astype(float))
    true = problem.at(theta, problem.lam_of(0.1)).objective
    assert found.objective_ == pytest.approx(true, rel=1e-5)


def test_rows_far_from_zero_begin_with_more_digits():
    """One piece would lose what tells them apart."""
    X, y, _ = made(300, 10, 3)
    of = {}
    for offset in (0.0, 3.0, 1e3):
        rows = TensorRows(torch.from_numpy(X.astype(np.float64) + offset).float(), WIDE[0])
        of[offset] = LogisticClassifier()._read_problem(rows, y, None).rows.arithmetic
    assert of[0.0] == of[3.0] == WIDE[0]
    assert of[1e3] == WIDE[1]


@pytest.mark.parametrize("arithmetic", WIDE)
def test_numbers_that_are_tiny_beside_others_are_counted(arithmetic, monkeypatch):
    """A row of no weight is so long that those of its block vanish, and none is measured."""
    monkeypatch.setattr("slender.data.tensors.CPU_CHUNK_BYTES", 64 * 20 * 4)
    X, y, rng = made(6000, 20, 4)
    X[1000] *= np.float32(1e11)
    W, b = rng.standard_normal((4, 20)).astype(np.float32), np.zeros(4)
    w = np.full(6000, 1 / 5999)
    w[1000] = 0.0
    problem = Multinomial(examples_of(TensorRows(torch.from_numpy(X), arithmetic), y, w), 4, False)
    point = problem.at(problem.theta(torch.from_numpy(W), torch.from_numpy(b)), 1e-3)
    exact = Multinomial(examples_of(as_rows(X.astype(np.float64)), y, w), 4, False)
    W, b = (to_numpy(each).astype(np.float64) for each in problem.model(point.theta))
    true, off = exact.at(exact.theta(W, b), 1e-3), rounding(problem, point)
    error = (to_numpy(point.gradient).astype(np.float64) - true.gradient)[:, :-1]
    assert np.linalg.norm(error) <= off.gradient
    assert abs(point.objective - true.objective) <= off.objective


def test_halves_of_float32_serve_passes_alone():
    """Products that a user gets have all digits."""
    X, _, rng = made(50, 30)
    W = torch.from_numpy(rng.standard_normal((30, 6)).astype(np.float32))
    rows, wide = tensor_rows(X, WIDE[0])
    true = wide @ W.double().numpy()
    for found in (rows.block(0, 50) @ W, rows.matmat(W)):
        np.testing.assert_allclose(found.numpy(), true, rtol=1e-5, atol=1e-5)
    rough = rows.block(0, 50).scores(W).numpy()
    assert 1e-5 < np.abs(rough - true).max() < 1e-2


@pytest.mark.parametrize("arithmetic", [None, WIDE[0]])
def test_nasty_float32_tensors(arithmetic):
    """Column scales over twelve decades, weights over eight: proved, or said with a warning."""
    for seed in range(12):
        X, y, rng = made(120, 8, 4, seed)
        X *= (10.0 ** rng.uniform(-6, 6, 8)).astype(np.float32)
        w = 10.0 ** rng.uniform(-8, 0, 120)
        C = 10.0 ** rng.uniform(-4, 4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            best = LogisticClassifier(C=C, tol=1e-9, max_iter=3000).fit(X.astype(float), y, w)
            found = LogisticClassifier(C=C, random_state=0).fit(
                TensorRows(torch.from_numpy(X), arithmetic), y, w
            )
        assert found.gap_ >= 0
        assert found.objective_ - found.gap_ <= best.objective_ * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize("scale", ["none", "l2", "standard"])
def test_a_probe_on_tensors_chooses_as_on_arrays(scale):
    X, y = PROBLEMS["digits"]()
    settings = {"Cs": np.geomspace(1e-3, 10, 5), "scale": scale, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        here = LinearProbe(**settings).fit(X, y)
        there = LinearProbe(**settings).fit(TensorRows(torch.from_numpy(X)), y)
        half = LinearProbe(**settings).fit(
            TensorRows(torch.from_numpy(X).half(), Halves("float16")), y
        )
    for found in (there, half):
        assert found.gap_ <= 1e-3 * found.objective_
        if found.C_ == here.C_:
            agree(here, found)
        for one, other in zip(here.path_, found.path_, strict=False):
            assert abs(one["objective"] - other["objective"]) <= one["gap"] + other["gap"] + 1e-6


def noting(write, seen):
    """`write`, which also keeps the document of what is written."""

    def both(self, saved, *given):
        seen.append(json.dumps(pack(saved.tree, saved.kinds)[0]))
        write(self, saved, *given)

    return both


def test_a_killed_fit_on_tensors_continues(tmp_path, monkeypatch):
    X, y = PROBLEMS["many classes"]()
    rows = TensorRows(torch.from_numpy(X))
    settings = {"C": 10.0, "tol": 1e-6, "random_state": 0}
    whole = LogisticClassifier(**settings).fit(rows, y)
    part = LogisticClassifier(**settings, checkpoint=tmp_path, checkpoint_every=0.0)

    def kill(record, model):
        if len(part.trace_) == 10:  # there are doubtful rows, in batches
            raise KeyError

    part.set_params(callbacks=kill)
    seen = []
    monkeypatch.setattr(SavedRun, "write", noting(SavedRun.write, seen))
    with pytest.raises(KeyError):
        part.fit(rows, y)
    assert '"BatchedCorrection"' in seen[-1]
    again = LogisticClassifier(**settings, checkpoint=tmp_path, checkpoint_every=0.0).fit(rows, y)
    assert len(again.trace_) == len(whole.trace_)
    agree(whole, again)


def test_a_fit_continues_where_its_rows_are(tmp_path):
    """device=None and device="cpu" are one place for an array; a tensor is at another."""
    X, y = PROBLEMS["digits"]()

    def fit(rows, device=None, **more):
        settings = {"C": 1.0, "tol": 1e-6, "checkpoint": tmp_path, "checkpoint_every": 0.0, **more}
        return LogisticClassifier(random_state=0, device=device, **settings).fit(rows, y)

    def kill(record, model):
        if record["passes"] > 3:
            raise KeyError

    with pytest.raises(KeyError):
        fit(X, callbacks=kill)
    with pytest.raises(ValueError, match="made with device=cpu, this fit has device=torch:cpu"):
        fit(torch.from_numpy(X))
    agree(fit(X, "cpu"), fit(X, checkpoint=None, checkpoint_every=60.0))


def test_tensors_of_a_checkpoint_go_to_the_device_of_the_fit():
    state = {"a": [torch.ones(3)], "b": np.ones(2)}
    document, arrays = pack(state, ())
    elsewhere = {"a": [torch.ones(3, device="meta")], "b": np.ones(2)}
    assert restore(elsewhere, document, arrays, ())["a"][0].device.type == "meta"
    assert restore({}, document, arrays, ())["a"][0].device.type == "cpu"


# -- what a device computes otherwise --------------------------------------------------------------


@pytest.mark.parametrize("dependent", [False, True])
def test_orthonormal_columns_by_a_cholesky_factor(dependent):
    """Of nearly dependent columns by reflections."""
    rng = np.random.default_rng(0)
    W = rng.standard_normal((300, 12)).astype(np.float32)
    if dependent:
        W[:, 5] = W[:, 4] * np.float32(1 + 1e-7)
    Q, R = (each.double().numpy() for each in krylov.qr(torch.from_numpy(W)))
    np.testing.assert_allclose(Q.T @ Q, np.eye(12), atol=1e-5)
    np.testing.assert_allclose(Q @ R, W, atol=1e-4)


def test_without_a_penalty_a_fit_goes_to_the_next_arithmetic():
    """There is no proof, and so no goal, that could tell which arithmetic suffices."""
    X, y, _ = made()
    rows, _ = tensor_rows(X, Halves("float16"))
    problem = Multinomial(examples_of(rows, y, np.full(400, 1 / 400)), 7)
    solver = Newton(problem, 0.0, 1e-3)
    state = solver.init(np.random.default_rng(0))
    solver.step(state)
    solver.widen(state)
    assert solver.at_work(state).rows.arithmetic.pieces == 2


def test_intercepts_are_solved_by_a_factor():
    """As by conjugate gradients with the same A."""
    rng = np.random.default_rng(0)
    S = 3.0 * rng.standard_normal((600, 300))
    P = np.exp(S - S.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    w, g = rng.uniform(0.5, 1.0, 600) / 600, rng.standard_normal(300)
    sums = w @ P, w @ (P * (1 - P))
    here, narrow = ClassSample(P, w, *sums), (P.astype(np.float32), w.astype(np.float32))
    there = ClassSample(*map(torch.from_numpy, (*narrow, *sums)))
    assert here.inverse_factor is None
    assert there.inverse_factor is not None
    by_steps = solve(here, g, 1e-8)
    at_once = solve(there, torch.from_numpy(g), there.tol).numpy()
    np.testing.assert_allclose(at_once, by_steps, atol=2e-3 * np.abs(by_steps).max())


def test_rows_are_numbered_as_by_numpy():
    row = np.random.default_rng(0).integers(0, 50, 400)
    for found, true in zip(numbered(row), np.unique(row, return_inverse=True), strict=True):
        np.testing.assert_array_equal(found, true)
    assert [len(each) for each in numbered(row[:0])] == [0, 0]


def test_a_chunk_of_gathered_rows_is_smaller(monkeypatch):
    """Its rows are copies, which need room beside what is computed from them."""
    monkeypatch.setattr(data_tensors, "CPU_CHUNK_BYTES", 6000)
    X, _, _ = made(400, 20)  # float32: 80 bytes a row
    rows = TensorRows(torch.from_numpy(X))
    assert max(hi - lo for lo, hi, _ in rows.chunks(100)) == 60
    some = rows.subset(np.arange(0, 400, 2))
    assert max(hi - lo for lo, hi, _ in some.chunks(100)) == 6000 // 180
