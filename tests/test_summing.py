"""Errors of the sums of a device's products: measured in the pass, and within the bound."""

from itertools import pairwise

import numpy as np
import pytest

from slender.arrays import to_numpy
from slender.data import examples_of
from slender.data.dask import RemoteRows
from slender.data.shards import joined, shard_of
from slender.passes import SoftmaxPass
from slender.passes.residuals import R_X
from slender.problem import Multinomial
from slender.problem.rounding import rounding
from slender.rows import as_rows
from slender.rows.base import ProductError

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
    if arranged == "easy first":  # nothing is in doubt there but a single row
        X = np.abs(X)
        X[: n // 4] = 40.0 * centres[y[: n // 4]]
        y[: n // 4] = (X[: n // 4] @ centres.T).argmax(axis=1)
        X[0] = 1.0
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
@pytest.mark.parametrize(
    "arranged", ["sorted", "shuffled", "positive", "zeros first", "easy first"]
)
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
        assert point.summing * point.sums[R_X] > 0.3 * error  # it is what matters here
    if arranged in ("sorted", "positive"):
        assert error > without  # which would prove too much


@pytest.mark.parametrize("arithmetic", [None, Halves("float16"), Halves("float16", 2)])
def test_sums_of_the_cpu_are_off_by_little(arithmetic):
    X, wide, y, centres = made("sorted")
    problem, exact = problem_of(TensorRows(X, arithmetic), wide, y)
    theta = problem.start()
    theta[:, :-1] = torch.from_numpy(0.3 * centres)
    error, bound, _, point = compared(problem, exact, theta)
    assert error <= bound
    assert 2.0**-25 < point.summing < 1e-6  # the rounding of residuals to halves is not counted


def test_parts_of_a_pass_keep_the_largest_errors():
    X, _, y, _ = made("sorted")
    W, b = torch.ones((d, C)), torch.zeros(C)
    one, other = (
        examples_of(TensorRows(X[at], of), y[at], np.full(n // 2, 1 / n)).reduce(SoftmaxPass(W, b))
        for at, of in ((slice(n // 2), None), (slice(n // 2, n), Halves("float16")))
    )
    largest = max(one.chunk_error, other.chunk_error)
    one += other
    assert one.chunks == 2
    assert one.summing == pytest.approx(float(largest) + 2.0**-24 * np.sqrt(2))


class HereFleet:
    """A fleet without workers: the same work on the same shards, one after the other."""

    def __init__(self, shards, edges):
        self.shards, self.edges, self.count, self.recipes = shards, edges, len(shards), set()

    def each(self, work, common, own):
        return [work(self.shards[k], common, of) for k, of in own.items()]

    def sum(self, work, common, unknown):
        missing = unknown()
        parts = {(0, k): work(s, common, missing.get(k)) for k, s in enumerate(self.shards)}
        (total,) = joined(parts, self.count).values()
        return total


def test_a_client_knows_how_its_workers_compute(monkeypatch):
    """Their GPUs could multiply halves, of which nothing is known where the proof is made."""
    monkeypatch.setattr("slender.data.tensors.fastest", lambda store, dtype: Halves("float16"))
    X, wide, y, centres = made("sorted")
    edges = np.array([0, 5000, n])
    there = torch.device("cpu")
    shards = [shard_of([X[lo:hi].numpy()], there) for lo, hi in pairwise(edges)]
    remote = RemoteRows(HereFleet(shards, edges), (n, d), np.dtype(np.float32))
    problem, exact = problem_of(remote, wide, y)
    assert {problem.rows.product_error(), *(s.rows.product_error() for s in shards)} == {
        ProductError()
    }
    theta = problem.theta(0.3 * centres.astype(np.float32), np.zeros(C, np.float32))
    for one in (problem, problem.widened()):
        point = one.at(theta.astype(one.rows.dtype), 1e-3)
        off = rounding(one, point)
        true = exact.at(exact.theta(*map(np.float64, one.model(point.theta))), 1e-3)
        assert abs(point.objective - true.objective) <= off.objective + 1e-14
        error = (point.gradient - true.gradient)[:, :-1]
        assert np.linalg.norm(error) <= off.gradient + 1e-14
        assert (np.abs(point.g - true.g) <= off.g + 1e-14).all()
        assert point.summing > 0.0
    wide_there = shards[0].changed((("widened", ()),))
    assert wide_there.dtype == problem.widened().rows.dtype == np.float64


def test_zeros_are_not_taken_for_exact_sums():
    X, wide, y, _ = made("zeros first")
    problem, _ = problem_of(TensorRows(torch.zeros_like(X)), 0 * wide, y)
    assert problem.at(problem.start(), 1e-3).summing == 2.0**-24 + 2.0**-24  # and of one chunk


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
    assert point.summing == pytest.approx(2.0**-52 * (np.sqrt(n) + 0.5))
    assert rounding(problem, point).gradient > rounding(problem, point._replace(summing=0)).gradient


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_products_have_all_digits_whatever_torch_may_do(precision):
    """TF32 or bfloat16, if they are allowed, are not used; what was set is set again."""
    X, _, y, _ = made("shuffled")
    seen, real = [], Plain.product

    class Noting(Plain):
        def product(self, X, B):
            seen.append(torch.backends.cuda.matmul.fp32_precision)
            return real(self, X, B)

    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(precision)
        was = torch.backends.cuda.matmul.fp32_precision
        rows = TensorRows(X.float(), Noting(np.dtype(np.float32)))
        w = np.full(n, 1 / n)
        examples_of(rows, y, w).reduce(SoftmaxPass(torch.ones((d, C)), torch.zeros(C)))
        rows.matmat(torch.ones((d, C)))
        assert len(seen) >= 2
        assert set(seen) <= {"ieee", "none"}
        assert torch.backends.cuda.matmul.fp32_precision == was
        assert torch.get_float32_matmul_precision() == precision
        with pytest.raises(KeyError), arithmetic_module.ieee():
            raise KeyError
        assert torch.get_float32_matmul_precision() == precision
    finally:
        torch.set_float32_matmul_precision(before)
