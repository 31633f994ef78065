"""Errors of the sums of a device's products: measured in the pass, and within the bound."""

import numpy as np
import pytest

from slender.arrays import to_numpy
from slender.data import examples_of
from slender.problem import Multinomial
from slender.problem.rounding import rounding
from slender.rows import as_rows

torch = pytest.importorskip("torch")

from slender.data.tensors import TensorRows  # noqa: E402
from slender.rows import arithmetic as arithmetic_module  # noqa: E402
from slender.rows.arithmetic import Halves, Plain  # noqa: E402

n, d, C = 16384, 8, 12


def cut_off(a):
    """To float32, towards zero."""
    near = a.astype(np.float32)
    wide = near.astype(np.float64)
    return np.where(np.abs(wide) > np.abs(a), np.nextafter(near, np.float32(0)), wide)


def truncating(A, B, group=16):
    """A B as some tensor cores add it up: 16 products exactly, then cut off to float32."""
    A, B = A.double().numpy(), B.double().numpy()
    total = np.zeros((A.shape[0], B.shape[1]))
    for lo in range(0, A.shape[1], group):
        total = cut_off(total + A[:, lo : lo + group] @ B[lo : lo + group])
    return torch.from_numpy(total.astype(np.float32))


@pytest.fixture
def _truncates(monkeypatch):
    """Long sums of halves lose digits; short ones, over columns, do not matter here."""
    exact = arithmetic_module.multiply
    monkeypatch.setattr(
        arithmetic_module,
        "multiply",
        lambda A, B: truncating(A, B) if A.shape[1] > d else exact(A, B),
    )


def problem_of(rows, wide, y, w=None):
    w = np.full(len(y), 1 / len(y)) if w is None else w
    return Multinomial(examples_of(rows, y, w), C), Multinomial(examples_of(as_rows(wide), y, w), C)


def made(arranged, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((C, d))
    y = rng.integers(0, C, n).astype(np.int32)
    y[:C] = np.arange(C)
    y = np.sort(y) if arranged == "sorted" else y
    X = centres[y] + rng.standard_normal((n, d))
    if arranged == "positive":
        X = np.abs(X)
    if arranged == "zeros first":
        X[:5000] = 0.0
    X = torch.from_numpy(X.astype(np.float16))
    return X, X.double().numpy(), y, centres


def compared(problem, exact, theta):
    """The error of the gradient, and the bounds with and without the errors of sums."""
    point = problem.at(theta, 1e-3)
    W, b = problem.model(point.theta)
    true = exact.at(exact.theta(W.double().numpy(), b.double().numpy()), 1e-3)
    error = np.linalg.norm(to_numpy(point.gradient).astype(float)[:, :-1] - true.gradient[:, :-1])
    without = rounding(problem, point._replace(summing=0.0)).gradient
    return error, rounding(problem, point).gradient, without, point


@pytest.mark.usefixtures("_truncates")
@pytest.mark.parametrize("arranged", ["sorted", "shuffled", "positive", "zeros first"])
@pytest.mark.parametrize("near", [0.0, 0.3])
def test_sums_that_cut_digits_off_are_within_the_bound(arranged, near, monkeypatch):
    """Rows sorted by class, sums of one sign, and a first chunk that says nothing."""
    monkeypatch.setattr("slender.data.tensors.CPU_CHUNK_BYTES", 4096 * C * 4)
    X, wide, y, centres = made(arranged)
    problem, exact = problem_of(TensorRows(X, Halves("float16", 2)), wide, y)
    theta = problem.start()
    theta[:, :-1] = torch.from_numpy(near * centres)
    error, bound, without, point = compared(problem, exact, theta)
    assert error <= bound
    assert point.summing > 2.0**-24
    if arranged != "shuffled" or near == 0.0:
        assert point.summing * point.sums[3] > 0.3 * error  # it is what matters here
    assert error > without or arranged == "shuffled"


@pytest.mark.parametrize("arithmetic", [None, Halves("float16"), Halves("float16", 2)])
def test_sums_of_the_cpu_are_off_by_little(arithmetic):
    X, wide, y, centres = made("sorted")
    problem, exact = problem_of(TensorRows(X, arithmetic), wide, y)
    theta = problem.start()
    theta[:, :-1] = torch.from_numpy(0.3 * centres)
    error, bound, _, point = compared(problem, exact, theta)
    assert error <= bound
    assert 2.0**-25 < point.summing < 1e-6  # the rounding of residuals to halves is not counted


def test_zeros_are_not_taken_for_exact_sums():
    X, wide, y, _ = made("zeros first")
    problem, _ = problem_of(TensorRows(torch.zeros_like(X)), 0 * wide, y)
    assert problem.at(problem.start(), 1e-3).summing == 2.0**-24


def test_rows_of_no_weight_are_not_measured(monkeypatch):
    monkeypatch.setattr("slender.data.tensors.CPU_CHUNK_BYTES", 4096 * C * 4)
    X, wide, y, _ = made("shuffled")
    w = np.full(n, 1 / n)
    w[:9000] = 0.0
    problem, _ = problem_of(TensorRows(X), wide, y, w)
    problem.at(problem.start(), 1e-3)
    assert [*problem.examples.probes] == [(8192, 12288)]


def test_float64_counts_its_sums_too():
    X, wide, y, _ = made("shuffled")
    problem, _ = problem_of(TensorRows(X.double(), Plain(np.dtype(np.float64))), wide, y)
    point = problem.at(problem.start(), 1e-3)
    assert point.summing == pytest.approx(2.0**-52 * np.sqrt(n))
    assert rounding(problem, point).gradient > rounding(problem, point._replace(summing=0)).gradient
