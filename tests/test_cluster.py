"""Fits on a Dask cluster: the same results as here, whatever happens to its workers."""

import gc
import json
import pickle
import time

import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

import clusters
from slender import (
    GDClassifier,
    LinearProbe,
    LogisticClassifier,
    ProductQuantizer,
    SGDClassifier,
    SLNDClassifier,
    TraceNormClassifier,
    TraceNormProbe,
    on_workers,
    open_rows,
)
from slender.data import examples_of, fleet
from slender.data.shards import joined
from slender.datasets import planted
from slender.labels import ClassIndex, Indicator
from slender.losses import MARGIN_LOSSES
from slender.passes import SoftmaxPass
from slender.passes.doubts import Wanted
from slender.problem import Multinomial, Weights
from slender.rows import as_rows, rows_beside
from slender.solvers import sampling
from slender.solvers.stochastic import Stochastic, StochasticData

N, D, C = 600, 16, 5
# Of distributed itself, when processes end while others still talk to them.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::RuntimeWarning")


@pytest.fixture(scope="module")
def data():
    return planted(N, D, C, n_test=200, separation=0.8)


@pytest.fixture(scope="module")
def client(data):
    LogisticClassifier().fit(data.X_train, data.y_train)  # compiles what the workers will load
    with clusters.cluster() as client:
        yield client


@pytest.fixture
def rows(client, data):
    """X and y as Dask arrays of 8 chunks."""
    return clusters.chunked(data.X_train, data.y_train, 8)


def close_to(model, other):
    """Both are certified, so their objectives differ by less than their gaps."""
    return abs(model.objective_ - other.objective_) <= max(model.gap_, other.gap_)


# -- sums ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13])
def test_sums_do_not_depend_on_who_adds_them(count):
    """The tree over the shards is fixed: also float32 gives the same bits."""
    rng = np.random.default_rng(count)
    leaves = {(0, k): 10.0 ** rng.uniform(-4, 4, 7).astype(np.float32) for k in range(count)}

    def copies(numbers):
        return {(0, k): leaves[0, k].copy() for k in numbers}

    (expected,) = joined(copies(range(count)), count).values()
    for _ in range(5):
        owner = rng.integers(3, size=count)
        together = {}
        for worker in rng.permutation(3):
            mine = joined(copies(np.flatnonzero(owner == worker).tolist()), count)
            together = joined({**together, **mine}, count, keep=True)
        (total,) = together.values()
        assert total.tobytes() == expected.tobytes()


def test_joining_keeps_what_dask_may_need_again():
    parts = {(0, 0): np.ones(2), (0, 1): np.ones(2)}
    joined(parts, 2, keep=True)
    assert (parts[0, 0] == 1).all()


def test_sums_of_a_pass_survive_a_journey(data):
    """Without the memory of a block, and with the doubts that were found."""
    y = np.asarray(data.y_train, np.int32)
    problem = Multinomial(examples_of(as_rows(data.X_train), y, np.full(N, 1 / N)), C)
    wanted = Wanted(np.ones(C), 20)
    theta = np.random.default_rng(0).standard_normal((C, D + 1)).astype(problem.rows.dtype)
    W, b = problem.model(theta)
    asked = SoftmaxPass(np.ascontiguousarray(W.T), b, "matrix", wanted)
    here, there = problem.examples.reduce(asked), problem.examples.reduce(asked)
    there += pickle.loads(pickle.dumps(problem.examples.reduce(asked)))
    here += problem.examples.reduce(asked)
    assert np.array_equal(here.G, there.G)
    for mine, other in zip(here.doubts, there.doubts, strict=True):
        assert np.array_equal(mine, other)


def test_what_a_worker_is_given_is_aligned(client, rows):
    """Arrays of a message begin anywhere in it; kernels would be compiled for them once more."""
    X, _ = rows
    examples = examples_of(on_workers(X), np.zeros(N, np.int32), np.ones(N))
    for m in range(1, 4):
        arrays = np.ones(m, np.float32), clusters.Two(np.ones(3), m), np.ones(5)
        assert examples.reduce(clusters.Misaligned(*arrays)) == 0


def test_bytes_of_a_pass(client):
    """W comes to each worker once, one sum leaves it: 2 C d numbers, and little besides."""
    n, d, classes, passes = 300, 256, 64, 5
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)).astype(np.float32)
    y = rng.integers(classes, size=n).astype(np.int32)
    examples = examples_of(on_workers(clusters.chunked(X, y, 6)[0]), y, np.full(n, 1 / n))
    asked = SoftmaxPass(np.zeros((d, classes), np.float32), np.zeros(classes, np.float32))
    examples.reduce(asked)  # sends labels and weights, and reads the rows
    before = moved(client)
    for _ in range(passes):
        examples.reduce(asked)
    sent_here = passes * len(pickle.dumps(asked))  # by this process, to one of the workers
    numbers = (moved(client) - before + sent_here) / 4 / passes
    assert classes * d * 2 * 3 <= numbers * 1.1
    assert numbers <= 2.5 * classes * d * 3


def moved(client):
    """Bytes that workers sent so far."""
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


# -- estimators ------------------------------------------------------------------------------------


def test_the_same_fit_as_here(rows, data):
    here = LogisticClassifier(0.1, random_state=0).fit(data.X_train, data.y_train)
    model = LogisticClassifier(0.1, random_state=0).fit(*rows)
    assert model.gap_ <= model.tol * model.objective_
    assert close_to(model, here)
    assert model.n_iter_ == here.n_iter_
    again = LogisticClassifier(0.1, random_state=0).fit(*rows)
    assert np.array_equal(again.coef_, model.coef_)


@pytest.mark.slow
def test_the_same_partition_gives_the_same_bits(client, data):
    """Four chunks are four shards, on two workers as on three."""
    model = LogisticClassifier(random_state=0)
    X, y = clusters.chunked(data.X_train, data.y_train, 4)
    on_three = model.fit(X, y).coef_.copy()
    with clusters.cluster(2):
        assert np.array_equal(model.fit(X, y).coef_, on_three)
    client.as_current()


def slowly(*models):
    return [pytest.param(model, marks=pytest.mark.slow) for model in models]


@pytest.mark.parametrize(
    "model",
    [
        LinearProbe(3, random_state=0),
        TraceNormClassifier(random_state=0, fit_intercept=True),
        *slowly(
            LinearProbe(3, random_state=0, validation=3, scale="standard", class_weight="balanced"),
            LinearProbe(3, random_state=0, validation=0.3, scale="l2", calibrate=True, refit=False),
            LinearProbe([0.1, 1.0], random_state=0, shots=20, validation=StratifiedKFold(2)),
            GDClassifier(tol=0.5, lam=0.1, random_state=0),
            TraceNormProbe(3, 2, random_state=0),
        ),
    ],
    ids=lambda model: f"{type(model).__name__}-{getattr(model, 'validation', '')}"[:30],
)
def test_multinomial_estimators(model, rows, data):
    here = clone(model).fit(data.X_train, data.y_train)
    there = clone(model).fit(*rows)
    assert there.gap_ <= there.tol * there.objective_
    if getattr(here, "lambda1_", None) == getattr(there, "lambda1_", None):
        assert close_to(there, here)
    paths = (getattr(one, "path_", []) for one in (there, here))
    for record, other in zip(*paths, strict=False):
        if "C" in record:  # the same objective, up to what each is proved to be away from its least
            apart = abs(record["objective"] - other["objective"])
            assert apart <= 1.001 * max(record["gap"], other["gap"])


@pytest.mark.slow
def test_weights_and_held_out_rows(client, rows, data):
    """Labels and weights may be Dask arrays or not; validation rows stay on the workers, too."""
    X, y = rows
    weight = np.random.default_rng(0).uniform(0.5, 2.0, N)
    held_out = clusters.chunked(data.X_test, data.y_test, 3)
    probe = LinearProbe(3, validation=held_out, random_state=0)
    probe.fit(X, y, sample_weight=da.from_array(weight, chunks=100))
    path = probe.path_
    here = LinearProbe(3, validation=(data.X_test, data.y_test), random_state=0)
    here.fit(data.X_train, data.y_train, sample_weight=weight)
    assert close_to(probe, here)
    assert [r["top1"] for r in path] == pytest.approx([r["top1"] for r in here.path_], abs=0.02)
    series = pytest.importorskip("pandas").Series(data.y_train)
    assert close_to(
        LogisticClassifier(random_state=0).fit(X, series), LogisticClassifier().fit(X, y)
    )


@pytest.mark.parametrize("select", ["f1_macro", "roc_auc_ovr"])
def test_scorers_of_scikit_learn(rows, data, select):
    """By labels and by probabilities, which workers compute for the rows they hold."""
    probe = LinearProbe(3, select=select, validation=0.4, scale="standard", random_state=0)
    here = clone(probe).fit(data.X_train, data.y_train)
    there = clone(probe).fit(*rows)
    figures = [[record[select] for record in model.path_] for model in (here, there)]
    assert figures[0] == pytest.approx(figures[1], abs=0.01)
    assert 0.5 < max(figures[1]) < 1.0


@pytest.mark.slow
def test_slnd_makes_the_same_steps(rows, data):
    """Z = X B comes from the workers; then the order decides, which the seed gives."""
    settings = {"random_state": 0, "passes": 2, "objective": "exact", "rank": 8}
    here = SLNDClassifier(**settings).fit(data.X_train, data.y_train)
    there = SLNDClassifier(**settings).fit(*rows)
    assert there.coef_ == pytest.approx(here.coef_, rel=1e-3, abs=1e-4)
    assert there.trace_[-1]["objective"] == pytest.approx(here.trace_[-1]["objective"], rel=1e-4)


def stochastic(rows, y, loss="logistic", **settings):
    """A solver for these rows, with weights of all kinds, and its state at the beginning."""
    rng = np.random.default_rng(1)
    example = rng.uniform(0.5, 2.0, N).astype(np.float32)
    example[::7] = 0.0
    weights = Weights(example, *rng.uniform(0.5, 2.0, (2, C)))
    active = np.flatnonzero(example)
    data = StochasticData(rows, y, active, rows.sqnorms(), weights, C, coordinates=None)
    solver = Stochastic(data, MARGIN_LOSSES[loss], 0.02, beta=1.0, **settings)
    return solver, solver.init(np.random.default_rng(0))


@pytest.fixture
def beside(rows):
    """Z of the workers, as rows that they have and as rows that are only here."""
    X = on_workers(rows[0])
    Z = X.matmat(np.random.default_rng(0).standard_normal((D, 6)).astype(np.float32) / 4)
    return rows_beside(X, Z), as_rows(Z.copy())


@pytest.mark.parametrize(
    ("loss", "negatives", "average", "several"),
    [
        ("logistic", "all", True, False),
        ("logistic", 2.0, False, False),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("calibrated_hinge", 1.0, True, False),
                ("squared", "all", False, False),
                ("logistic", 1.0, True, True),
            )
        ),
    ],
)
def test_a_sweep_by_workers_has_the_same_bits(
    beside, data, loss, negatives, average, several, monkeypatch
):
    """Of every number of the state, and though portions and chunks are divided differently."""
    codes = np.asarray(data.y_train, np.int32)
    y = Indicator((codes[:, None] + np.arange(C)) % 3 == 0) if several else ClassIndex(codes, 0)
    for name in ("PORTION_BYTES", "FEW_PORTION_BYTES", "CHUNK_BYTES"):
        monkeypatch.setattr(sampling, name, 1000)
    settings = {"negatives": negatives, "average": average}
    here, expected = stochastic(beside[1], y, loss, **settings)
    reported = [here.step(expected) for _ in range(3)]
    assert all(expected.iterate.t > 0)

    def refuse(*arguments):
        raise AssertionError("visits made by this process")

    monkeypatch.setattr("slender.solvers.sweep.sweep", refuse)
    there, found = stochastic(beside[0], y, loss, **settings)
    assert [there.step(found) for _ in range(3)] == reported
    for name, values in found.iterate._asdict().items():
        assert np.array_equal(values, getattr(expected.iterate, name)), name


def test_projected_rows_are_sent_to_each_worker_once(client, beside, data):
    """Dask's own housekeeping between two passes does not remove them."""
    Z, y = beside[0], ClassIndex(np.asarray(data.y_train, np.int32), 0)
    solver, state = stochastic(Z, y)
    solver.step(state)
    sent = dict(Z._kept.at)
    assert sent.keys() == clusters.pids(client).keys()
    for _ in range(2):
        client.amm.run_once()
        solver.step(state)
    assert Z._kept.at == sent


@pytest.mark.parametrize("classes", [2, C])
def test_predictions_are_dask_arrays(client, data, classes):
    names = np.array([f"class {k}" for k in range(C)])
    y = names[data.y_train % classes]
    model = LogisticClassifier().fit(data.X_train, y)
    X = da.from_array(data.X_test, chunks=(70, 6))  # also cut along the columns
    for method in ("decision_function", "predict", "predict_proba", "predict_log_proba"):
        lazy, now = getattr(model, method)(X), getattr(model, method)(data.X_test)
        assert lazy.shape == now.shape
        assert lazy.dtype == now.dtype
        found = lazy.compute()
        same = np.array_equal(found, now) if found.dtype.kind == "U" else np.allclose(found, now)
        assert same, method
    assert (
        model.predict_top_k(X, 2).compute().tolist() == model.predict_top_k(data.X_test, 2).tolist()
    )
    y_test = names[data.y_test % classes]
    assert model.score(X, da.from_array(y_test, chunks=70)) == model.score(data.X_test, y_test)


def test_codes_are_made_where_the_rows_are(rows, data):
    pytest.importorskip("faiss")
    X, _ = rows
    quantizer = ProductQuantizer(d_sq=4, random_state=0).fit(X)
    here = ProductQuantizer(d_sq=4, random_state=0).fit(data.X_train)
    assert np.array_equal(quantizer.codebooks_, here.codebooks_)
    assert np.array_equal(quantizer.encode(X).codes, here.encode(data.X_train).codes)


def test_files_are_read_by_the_workers(client, data, tmp_path):
    """And what is on the workers serves several fits."""
    for k, part in enumerate(np.array_split(data.X_train, 4)):
        np.save(tmp_path / f"{k}.npy", part)
    X = on_workers(open_rows(tmp_path / "*.npy"))
    here = LogisticClassifier(random_state=0).fit(data.X_train, data.y_train)
    assert close_to(LogisticClassifier(random_state=0).fit(X, data.y_train), here)
    assert LinearProbe(3, random_state=0, validation=2).fit(X, data.y_train).gap_ < 1
    np.save(tmp_path / "all.npy", data.X_train)
    mapped = on_workers(np.load(tmp_path / "all.npy", mmap_mode="r"))
    assert np.array_equal(mapped.dense(np.array([0, 3, 599])), data.X_train[[0, 3, 599]])
    with pytest.raises(ValueError, match=r"SGDClassifier cannot .*; these can: LogisticClassifier"):
        SGDClassifier().fit(X, data.y_train)


@pytest.mark.parametrize("model", [LogisticClassifier(random_state=0), SLNDClassifier()], ids=str)
@pytest.mark.parametrize("tick", [1.0, 1e-3])
def test_memory_of_the_workers_is_freed(client, rows, model, tick, monkeypatch):
    """At once, also where a pass takes longer than the time between two looks at who answered."""
    monkeypatch.setattr(fleet, "TICK", tick)
    gc.collect()
    gc.disable()
    try:
        clone(model).fit(*rows)
        expect_nothing_held(client)
    finally:
        gc.enable()


def expect_nothing_held(client):
    for _ in range(50):
        held = client.run(lambda dask_worker: [k for k in dask_worker.data if "slender" in str(k)])
        if not any(held.values()):
            return
        time.sleep(0.1)
    raise AssertionError(held)


# -- the command -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_workers_of_the_command(slender, data, tmp_path):
    np.save(tmp_path / "X.npy", data.X_train)
    np.save(tmp_path / "y.npy", data.y_train)
    here = tmp_path / "X.npy", tmp_path / "y.npy", "--C", "0.1", "--seed", "0"
    printed = []
    for more in ((), ("--workers", 2)):
        out = tmp_path / f"model{len(printed)}"
        code, text, err = slender("fit", *here, "--out", out, "--json", "-", *more)
        assert code == 0, err
        printed.append(json.loads(text))
    assert printed[0]["objective"] == pytest.approx(printed[1]["objective"], rel=1e-3)
    assert printed[1]["relative_gap"] <= 1e-3


def test_what_the_command_refuses(slender, data, tmp_path):
    np.save(tmp_path / "X.npy", data.X_train)
    np.save(tmp_path / "y.npy", data.y_train)
    files = tmp_path / "X.npy", tmp_path / "y.npy"
    for words, expected in (
        ((*files, "--cluster", "tcp://127.0.0.1:9"), "no Dask scheduler answers there"),
        ((*files, "--cluster", "nowhere", "--workers", 2), "exclude each other"),
        ((*files, "--workers", 0), "--workers 0: give a number from 1 on"),
    ):
        started = time.perf_counter()
        code, _, err = slender("path", *words, "--out", tmp_path / "model")
        assert code == 2
        assert expected in err
        assert len(err.strip().splitlines()) == 1
        assert time.perf_counter() - started < 60
    assert not (tmp_path / "model").exists()


# -- what users get wrong --------------------------------------------------------------------------


def test_an_array_without_a_client(client, data, monkeypatch):
    def nobody():
        raise ValueError("No clients found")

    monkeypatch.setattr("distributed.default_client", nobody)
    X, y = clusters.chunked(data.X_train, data.y_train, 2)
    with pytest.raises(ValueError, match=r"no active Client .*: make one first"):
        LogisticClassifier().fit(X, y)


def test_bad_arrays(client, data):
    X, y = clusters.chunked(data.X_train, data.y_train, 4)
    model = LogisticClassifier()
    for bad, words in {
        "ndim": (X[:, 0], "Expected 2D array"),
        "unknown": (X[X[:, 0] > 0], r"unknown lengths: call X.compute_chunk_sizes\(\)"),
        "text": (X.astype(str), "NumPy arrays of numbers"),
        "none": (X[:0], "0 sample"),
        "here": (X[:100], "X has 100 rows but y has 600 labels"),
    }.values():
        with pytest.raises(ValueError, match=words):
            model.fit(bad, y)
    model.fit(X, y)
    with pytest.raises(ValueError, match="16 features"):
        model.predict(X[:, :3])
    with pytest.raises(ValueError, match="rows are in this process"):
        on_workers(data.X_train)


def test_nan_is_named_by_its_row(client, data):
    X = data.X_train.copy()
    X[437, 3] = np.nan
    X, y = clusters.chunked(X, data.y_train, 5)
    for model in (LogisticClassifier(), LinearProbe(3), SLNDClassifier()):
        with pytest.raises(ValueError, match="NaN at row 437, column 3"):
            model.fit(X, y)


def test_a_chunk_that_cannot_be_read(client, data):
    X, y = clusters.chunked(data.X_train, data.y_train, 6)
    X = X.map_blocks(_refuse_third, dtype=X.dtype)
    with pytest.raises(ValueError, match=r"rows 200 to 299 of X could not be read .*no such disk"):
        LogisticClassifier().fit(X, y)


def _refuse_third(block, block_info=None):
    if block_info and block_info[0]["chunk-location"][0] == 2:
        raise FileNotFoundError("no such disk")
    return block
