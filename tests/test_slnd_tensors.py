"""SLND on tensors: the sweep equals that of the CPU, the draws are fair, the estimator works.

The kernel is interpreted by Triton on the CPU, its twin is plain torch.  Both make the visits that
the compiled kernel of solvers/sweep.py makes, in the same order.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from sklearn.datasets import load_digits

from slender import SLNDClassifier
from slender.curvature.metric import FIXED
from slender.data.replicas import Replica, _packed, run
from slender.data.shards import Shard
from slender.labels import ClassIndex, Indicator, positives
from slender.losses import MARGIN_LOSSES
from slender.problem import Weights, one_vs_rest
from slender.rows import as_rows
from slender.solvers.sampling import AllVisits, pass_over
from slender.solvers.sweep import Iterate, Lengths, Sweep

torch = pytest.importorskip("torch")
from slender.data.tensors import TensorRows  # noqa: E402
from slender.device import draws as device_draws  # noqa: E402
from slender.device import margins  # noqa: E402
from slender.device.draws import TensorDraws, positives_of  # noqa: E402
from slender.device.visits import TensorVisits  # noqa: E402
from slender.rows.arithmetic import Halves  # noqa: E402

N, K, C = 60, 13, 4


def iterate_at(rng, dtype, average):
    """An iterate in the middle of a fit."""
    return Iterate(
        V=rng.standard_normal((C, K)).astype(dtype),
        scale=np.full(C, 0.5),
        b=rng.standard_normal(C),
        A=rng.standard_normal((C, K if average else 0)).astype(dtype),
        a=rng.standard_normal(C),
        m=np.full(C, 3),
        t=rng.integers(20, size=C),
        total=np.zeros(C),
        seen=np.zeros(C, np.int64),
        squares=np.zeros(C),
        looks=np.zeros(C, np.int64),
    )


def work(
    loss="logistic",
    negatives="all",
    average=True,
    weighted=False,
    beta=0.0,
    lam=0.0,
    decay=0.0,
    indicator=False,
    dtype=np.float32,
    capped=True,
    eta=0.3,
):
    """Rows and a sweep over them."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((N, K)).astype(dtype)
    if indicator:
        y = Indicator(rng.random((N, C)) < 0.3)
    else:
        y = ClassIndex(rng.integers(C, size=N).astype(np.int32), 0)
    example, positive, negative = np.ones(N, dtype), np.ones(C), np.ones(C)
    if weighted:
        example = rng.uniform(0.0, 2.0, N).astype(dtype)
        positive, negative = rng.uniform(0.5, 2.0, (2, C))
    active = np.sort(rng.choice(N, N - 7, replace=False))
    visits = pass_over(
        active, rng.permutation(len(active)), positives(y, C, active), negatives, rng
    )
    cap = 4.0 / (Z * Z).sum(axis=1) if capped else np.full(N, np.inf, dtype)
    never = np.full(C, -1)
    step = Lengths(
        eta=eta,
        decay=decay,
        power=0.75,
        lam=lam,
        beta=beta,
        every=np.array([3, 0, 7, 1]) if average else never,
        report=1,
        look=np.array([3, 1, 0, 7]),
        cap=cap,
    )
    weights = Weights(example, positive, negative)
    state = iterate_at(rng, dtype, average)
    return Z, Sweep(MARGIN_LOSSES[loss], y, visits, step, weights, FIXED, state)


def on_tensors(Z, sweep):
    """The iterate after the sweep on tensors, as arrays."""
    there = torch.from_numpy
    visits = sweep.visits
    if isinstance(visits, AllVisits):
        first = torch.zeros(C, dtype=torch.int64)
        given = TensorVisits(
            there(visits.order), first, first + len(visits.order), len(visits.order)
        )
    else:
        index = there(visits.order[visits.where].astype(np.int32))
        ptr = there(visits.ptr)
        given = TensorVisits(index, ptr[:-1], ptr[1:], int(visits.counts().max()))
    step = sweep.step._replace(
        every=there(sweep.step.every), look=there(sweep.step.look), cap=there(sweep.step.cap)
    )
    Sweep(
        sweep.loss,
        sweep.y._replace(**{sweep.y._fields[0]: there(sweep.y[0])}),
        given,
        step,
        Weights(*map(there, sweep.weights)),
        sweep.metric,
        Iterate(*(there(values) for values in sweep.iterate)),
    ).run_on_device(there(Z))
    return sweep.iterate


def on_cpu(Z, sweep):
    sweep.run(as_rows(Z))
    return sweep.iterate


def check_equal(call, tolerance=1e-5, **settings):
    found = call(on_tensors, *work(**settings))
    expected = on_cpu(*work(**settings))
    before = work(**settings)[1].iterate
    assert not np.allclose(expected.V, before.V, rtol=0.01)  # the visits change something
    for name, mine, theirs in zip(Iterate._fields, found, expected, strict=True):
        if mine.dtype.kind == "i":
            np.testing.assert_array_equal(mine, theirs, err_msg=name)
        else:
            size = tolerance * max(1.0, np.abs(theirs).max(initial=0.0))
            np.testing.assert_allclose(mine, theirs, rtol=0.0, atol=size, err_msg=name)


@pytest.mark.parametrize(
    ("loss", "negatives", "average"),
    [*product(["logistic", "calibrated_hinge", "squared"], ["all", 1.0], [True, False])],
)
def test_a_sweep_equals_that_of_the_cpu(call, loss, negatives, average):
    settings = {"loss": loss, "negatives": negatives, "average": average}
    if negatives == 1.0:
        check_equal(call, **settings)
    check_equal(call, **settings, weighted=True, beta=0.7)


@pytest.mark.parametrize(
    "settings",
    [
        {"indicator": True, "negatives": 1.0},
        {"indicator": True},
        {"negatives": 0.2, "capped": False},
        {"loss": "hinge"},
        {"loss": "exponential", "eta": 1e-4},
    ],
)
def test_other_settings(call, settings):
    check_equal(call, **settings)


def turned(of):
    """The same numbers, column after column."""
    return np.asfortranarray(of)


def on_columns(Z, sweep):
    return on_tensors(turned(Z), sweep)


@pytest.mark.parametrize("negatives", ["all", 1.0])
def test_a_sweep_of_arrays_is_sent_and_comes_back(negatives):
    """As on a worker with a GPU, for a fit whose state is elsewhere."""
    settings = {"negatives": negatives, "weighted": True, "beta": 0.7}
    (Z, sweep), expected = work(**settings), on_tensors(*work(**settings))
    sweep.run_on_device(torch.from_numpy(Z))
    for mine, theirs in zip(sweep.iterate, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_workers_sweep_where_they_compute(monkeypatch):
    """And on their cores, what has no form for a device."""
    seen = []
    real = Sweep.run_on_device
    monkeypatch.setattr(Sweep, "run_on_device", lambda self, Z: (seen.append(Z), real(self, Z)))
    for settings, places in (({}, 1), ({"lam": 0.1}, 0)):
        Z, sweep = work(**settings)
        for rows in (TensorRows(torch.from_numpy(Z)), as_rows(Z)):
            replica = Replica(Z, sweep.lasting)
            message = _packed(sweep, (*sweep.lasting, sweep.order))
            state = run(Shard(rows), (replica, sweep.order), message)
            expected = on_cpu(*work(**settings))
            np.testing.assert_allclose(state[0], expected.V, rtol=1e-4, atol=1e-5)
        assert len(seen) == places
        seen.clear()


def test_rows_may_be_stored_by_columns(call):
    """A row's numbers are then not side by side, where the kernel would read them."""
    found, expected = call(on_columns, *work()), call(on_tensors, *work())
    np.testing.assert_array_equal(found.V, expected.V)


def with_devices(Z, sweep):
    """The tensors for whose devices the kernel was launched."""
    seen, real = [], torch.cuda.device_of
    torch.cuda.device_of = lambda tensor: (seen.append(tensor.shape), real(tensor))[1]
    try:
        on_tensors(Z, sweep)
    finally:
        torch.cuda.device_of = real
    return seen


def test_the_kernel_runs_on_the_device_of_its_rows(interpreter):
    """Triton launches on torch's current device, which may be another one."""
    assert interpreter(with_devices, *work()) == [(N, K)]


def test_in_float64(call):
    check_equal(call, 1e-13, dtype=np.float64, weighted=True, beta=0.3)


@pytest.mark.parametrize("name", MARGIN_LOSSES)
def test_losses_on_tensors(name):
    loss, there = MARGIN_LOSSES[name], margins.on_tensors(MARGIN_LOSSES[name])
    z = np.concatenate([np.linspace(-30, 30, 101), [0.0, 1.0, -1.0, 0.999, 1e-12]])
    for verb in ("value", "slope", "logit"):
        formula = getattr(loss, verb, lambda s: s)  # the hinge has no logit
        found = getattr(there, verb)(torch.from_numpy(z)).numpy()
        np.testing.assert_allclose(found, [*map(formula, z)], rtol=1e-13, atol=1e-15)


# -- draws -----------------------------------------------------------------------------------------


def drawn(Y, M, passes, active=None):
    """The visits of each pass, as lists of examples by class, for an indicator Y (n, C)."""
    n, n_classes = Y.shape
    active = np.arange(n) if active is None else active
    there = torch.from_numpy(active)
    mine = positives_of(torch.from_numpy(Y), 0, n_classes, there)
    draws = TensorDraws(there, mine, Y[active].sum(axis=0), M)
    rng = np.random.default_rng(1)
    for _ in range(passes):
        index, first, last, most = draws.visits(rng)
        assert most == (last - first).max()
        yield [index[lo:hi].numpy() for lo, hi in zip(first, last, strict=True)]


def check_drawn(Y, M, passes, active=None):
    """Every class visits its positives and M_c of its other examples, each once."""
    active = np.arange(len(Y)) if active is None else active
    found = [*drawn(Y, M, passes, active)]
    for visits in found:
        for c, mine in enumerate(visits):
            assert len({*mine}) == len(mine)
            assert {*mine} <= {*active}
            assert {*mine[Y[mine, c]]} == {*active[Y[active, c]]}
            assert (~Y[mine, c]).sum() == M[c]
    return found


@pytest.mark.parametrize("few", [True, False], ids=["drawn", "listed"])
def test_all_sets_of_negatives_are_equally_likely(few):
    """And so are all orders: frequencies of examples, pairs and places within 5 deviations."""
    n, n_classes, passes = (24, 500, 40) if few else (9, 500, 40)
    Y = np.zeros((n, n_classes), bool)
    Y[[1, 4, 5]] = True
    M = np.full(n_classes, 3)
    assert (4 * 3 <= n - 3) == few  # draws.LISTED
    total, trials = n - 3, passes * n_classes
    alone, pairs, place = np.zeros(n), np.zeros((n, n)), np.zeros((n, 6))
    for visits in check_drawn(Y, M, passes):
        for mine in visits:
            alone[mine] += 1
            pairs[np.ix_(mine, mine)] += 1
            place[mine, np.arange(6)] += 1
    others = np.setdiff1d(np.arange(n), [1, 4, 5])

    def check(counts, p):
        assert np.abs(counts - trials * p).max() < 5 * np.sqrt(trials * p * (1 - p))

    check(alone[others], 3 / total)
    both = pairs[np.ix_(others, others)][~np.eye(total, dtype=bool)]
    check(both, 6 / (total * (total - 1)))
    check(place[[1, 4, 5]], 1 / 6)
    check(place[others], 3 / total / 6)


def test_draws_of_some_examples_in_groups_and_again(monkeypatch):
    """Classes of all sizes, few at a time, and so few numbers that some must be drawn again."""
    monkeypatch.setattr(device_draws, "GROUP", 30)
    monkeypatch.setattr(device_draws, "MORE", 0.0)
    monkeypatch.setattr(device_draws, "LEAST", 0)
    rng = np.random.default_rng(0)
    Y = rng.random((80, 12)) < np.linspace(0.0, 1.0, 12)  # from no positives to no negatives
    active = np.sort(rng.choice(80, 60, replace=False))
    N = (~Y[active]).sum(axis=0)
    for share in (0.1, 0.25, 0.7, 1.0):
        check_drawn(Y, np.ceil(share * N).astype(int), 3, active)


def test_draws_of_all_examples():
    Y = np.random.default_rng(0).random((30, 3)) < 0.5
    a, b = drawn(Y, None, 2, np.arange(3, 30))
    for visits in (a, b):
        for mine in visits:
            np.testing.assert_array_equal(np.sort(mine), np.arange(3, 30))
    assert (a[0] != b[0]).any()


def test_positives_of_a_binary_problem():
    y = torch.tensor([0, 1, 1, 0, 1])
    np.testing.assert_array_equal(positives_of(y, 1, 1, torch.tensor([0, 1, 3, 4])), [1, 3])


# -- the estimator ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600].astype(np.float32), y[:600]


@pytest.fixture
def _as_on_a_gpu(monkeypatch):
    """A tensor on a GPU does not become an array by itself."""

    def refuse(self, *given, **named):
        raise TypeError("a tensor becomes an array only by to_numpy")

    monkeypatch.setattr(torch.Tensor, "__array__", refuse)


def fitted(rows, y, **settings):
    return SLNDClassifier(random_state=0, passes=2, **settings).fit(rows, y)


@pytest.mark.usefixtures("_as_on_a_gpu")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"negatives": 1.0, "loss": "calibrated_hinge"},
        {"curvature": "diagonal", "loss": "squared"},
        {"curvature": "identity"},
        {"rank": 20, "average": False, "fit_intercept": False, "class_weight": "balanced"},
    ],
)
def test_a_fit_on_tensors_is_as_good(digits, settings):
    """Only the order of the visits differs; so the exact objective is nearly the same."""
    X, y = digits
    here = fitted(X, y, objective="exact", **settings)
    there = fitted(TensorRows(torch.from_numpy(X)), y, objective="exact", **settings)
    assert there.coef_.dtype == here.coef_.dtype == np.float32
    assert there.rank_ == here.rank_
    np.testing.assert_allclose(there.step_, here.step_, rtol=1e-3)
    at_zero = MARGIN_LOSSES[here.loss].value(0.0)
    gain = at_zero - here.trace_[-1]["objective"]
    assert gain > 0.1
    assert abs(here.trace_[-1]["objective"] - there.trace_[-1]["objective"]) < 0.05 * gain
    assert there.score(X, y) > here.score(X, y) - 0.02


def test_the_exact_objective_on_tensors(digits):
    """That of the same weights on the CPU, for one class a row and for several."""
    X, y = digits
    rng = np.random.default_rng(0)
    W, b = rng.standard_normal((10, 64)).astype(np.float32) / 30, rng.standard_normal(10)
    weights = Weights(rng.uniform(0, 2, len(y)), *rng.uniform(0.5, 2.0, (2, 10)))
    for labels in (ClassIndex(y.astype(np.int32), 0), Indicator(rng.random((len(y), 10)) < 0.3)):
        for loss in MARGIN_LOSSES.values():
            here = one_vs_rest(loss, as_rows(X), labels, W, b, weights, 0.1)
            there = one_vs_rest(loss, TensorRows(torch.from_numpy(X)), labels, W, b, weights, 0.1)
            np.testing.assert_allclose(there, here, rtol=1e-5)


@pytest.mark.usefixtures("_as_on_a_gpu")
def test_the_same_seed_gives_the_same_fit_and_partial_fit_continues(digits):
    X, y = digits
    rows = TensorRows(torch.from_numpy(X))
    a, b = fitted(rows, y, negatives=1.0), fitted(rows, y, negatives=1.0)
    np.testing.assert_array_equal(a.coef_, b.coef_)
    for _ in range(2):
        b.partial_fit(rows, y)
    assert b.n_iter_ == 4
    assert b.trace_[-1]["objective"] < a.trace_[-1]["objective"]


def test_rows_of_one_fit_are_in_one_place(digits):
    X, y = digits
    model = fitted(X, y)
    with pytest.raises(ValueError, match="first rows were in memory, these are on cpu"):
        model.partial_fit(TensorRows(torch.from_numpy(X)), y)


def test_a_fit_on_tensors_is_continued(digits, tmp_path):
    X, y = digits
    rows = TensorRows(torch.from_numpy(X))

    def run(passes, **more):
        model = SLNDClassifier(random_state=0, passes=passes, negatives=1.0, **more)
        return model.fit(rows, y)

    run(1, checkpoint=tmp_path / "fit", checkpoint_every=0.0)
    continued = run(3, checkpoint=tmp_path / "fit", checkpoint_every=0.0)
    assert continued.n_iter_ == 3
    np.testing.assert_array_equal(continued.coef_, run(3).coef_)


@pytest.mark.usefixtures("_as_on_a_gpu")
def test_several_classes_a_row_and_two_classes(digits):
    X, y = digits
    rows = TensorRows(torch.from_numpy(X))
    Y = np.column_stack([y % 2 == 0, y % 3 == 0, y < 5]).astype(int)
    assert fitted(rows, Y).score(X, Y) > 0.7
    assert fitted(rows, y == 0).score(X, y == 0) > 0.97


def test_scores_are_calibrated_on_tensors(digits):
    X, y = digits
    for loss in ("logistic", "calibrated_hinge", "squared"):
        model = fitted(X, y, loss=loss, negatives=1.0)
        S = X @ model.coef_.T + model.intercept_
        expected = model._calibrate(S.copy())
        found = model._calibrate(torch.from_numpy(S.copy()))
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)
        for apart in (True, False):
            decomposition = model._decomposition()
            P = decomposition.probabilities(expected.astype(float), apart)
            of_tensor = decomposition.probabilities(torch.from_numpy(expected).double(), apart)
            np.testing.assert_allclose(of_tensor.numpy(), P, rtol=1e-12)


def test_halves_are_read_as_they_are(digits):
    """Digits are exact in float16: the fit is that of float32."""
    X, y = digits
    wide, half = (fitted(TensorRows(torch.from_numpy(X).to(dtype)), y, curvature="identity")
                  for dtype in (torch.float32, torch.float16))  # fmt: skip
    np.testing.assert_array_equal(wide.coef_, half.coef_)


@pytest.mark.usefixtures("_as_on_a_gpu")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_rows_of_other_dtypes(digits, dtype):
    """Halves are multiplied as such: coef_ must be of the B that their product uses."""
    X, y = digits
    X = torch.from_numpy(X / 7.0).to(getattr(torch, dtype))
    wide = dtype == "float64"
    rows = TensorRows(X, None if wide else Halves(dtype))
    model = fitted(rows, y, negatives=1.0)
    exact = X.double().numpy()
    assert model.coef_.dtype == (np.float64 if wide else np.float32)
    assert model.score(exact, y) > 0.9
    coordinates = model._coordinates
    V = torch.ones((3, coordinates.dim), dtype=torch.float64 if wide else torch.float32)
    W, b = coordinates.coef(V, torch.zeros(3, dtype=torch.float64))
    scores = exact @ W.double().numpy().T + b.numpy()
    Z = rows.matmat(coordinates.B) + coordinates.offset
    size = np.abs(scores).max()
    np.testing.assert_allclose(
        (Z @ V.T).numpy(), scores, rtol=0, atol=(1e-12 if wide else 1e-5) * size
    )
    kept = coordinates.rows(rows)
    assert kept.store.stored == (torch.float64 if wide else torch.float16)
    assert torch.equal(kept.dense(np.arange(len(y))), Z if wide else Z.half().float())


def test_numbers_too_large_for_halves_are_kept_in_float32():
    X = torch.from_numpy(np.random.default_rng(0).standard_normal((90, 5))).half()
    X[70] *= 300.0  # one row far from all others
    B, offset = 200.0 * torch.eye(5)[:, :3], torch.ones(3)
    kept = TensorRows(X).projected(B, offset)
    assert kept.store.stored == torch.float32
    assert torch.equal(kept.dense(np.arange(90)), X.float() @ B + offset)
    assert TensorRows(X[:70]).projected(B, offset).store.stored == torch.float16


def test_what_has_no_form_for_tensors_says_so(digits):
    X, y = digits
    rows = TensorRows(torch.from_numpy(X))
    with pytest.raises(ValueError, match="step='theory' is computed on the CPU"):
        fitted(rows, y, step="theory")
    Z, sweep = work()
    with pytest.raises(
        ValueError,
        match="no form for rows on a device; these estimators have one: LogisticClassifier, SLND",
    ):
        replace(sweep, metric=(1,)).run_on_device(torch.from_numpy(Z))
    for settings in ({"lam": 0.1}, {"decay": 0.05}):
        Z, sweep = work(**settings)
        with pytest.raises(ValueError, match="a step that decays, or a penalty, has no form"):
            sweep.run_on_device(torch.from_numpy(Z))
