"""A fit on a Dask cluster goes on when workers or the scheduler are lost, or says what is lost."""

import os
import signal
import subprocess
import time
from concurrent.futures import CancelledError
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
from benchmarks.kill_workers import disturbed_fits
from benchmarks.watched import watched
from distributed import Client
from sklearn.base import clone

import clusters
from processes import SLENDER
from slender import LogisticClassifier, SLNDClassifier, on_workers
from slender.data import examples_of, fleet, scheduler
from slender.data.dask import computed
from slender.data.scheduler import ClusterError
from slender.datasets import planted

N = 600
# Of distributed itself, when processes end while others still talk to them.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::RuntimeWarning")


@pytest.fixture(scope="module")
def data():
    return planted(N, 16, 5, n_test=200, separation=0.8)


@pytest.fixture(scope="module")
def processes():
    """Three workers and their scheduler; whichever of them ends is started again."""
    with dask.config.set(clusters.SETTINGS), watched(3) as processes:
        yield processes


@pytest.fixture
def client(processes):
    with Client(processes.address, timeout=60) as client:
        processes.wait_for_workers(client)
        yield client


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(fleet, "PATIENCE", 3.0)
    monkeypatch.setattr(fleet, "SLOWER", 2.0)
    monkeypatch.setattr(scheduler, "ANSWER", 5.0)


# -- workers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "act",
    [
        clusters.die,
        pytest.param(clusters.hang, marks=pytest.mark.slow),
        pytest.param(clusters.stop, marks=pytest.mark.slow),
    ],
)
def test_a_worker_is_lost_in_the_middle_of_a_pass(act, client, data, tmp_path, impatient):
    X, _ = clusters.chunked(data.X_train, data.y_train, 6)
    examples = examples_of(on_workers(X), np.zeros(N, np.int32), np.ones(N))
    workers = clusters.pids(client)
    asked = clusters.Once(tmp_path / "flag", act)
    assert examples.reduce(asked) == N
    assert examples.reduce(asked) == N  # and the pass after it
    lost = int((tmp_path / "flag").read_text())
    assert lost in workers.values()
    assert lost not in [workers.get(home) for home in examples.rows.fleet.homes]
    clusters.end(lost)


def test_a_worker_is_lost_in_the_middle_of_a_sweep(client, data, tmp_path, impatient, monkeypatch):
    """Its classes are visited again, by others, from the state before the pass: the same bits."""
    flag = tmp_path / "flag"
    X, y = clusters.chunked(data.X_train, data.y_train, 6)
    X = on_workers(X)  # the same shards for both fits, however many workers there are by then
    model = SLNDClassifier(random_state=0, passes=3, rank=6, negatives=2.0)
    undisturbed = model.fit(X, y).coef_.copy()
    workers = clusters.pids(client)
    dying = partial(clusters.SweepOnce, flag=flag, act=clusters.die)
    monkeypatch.setattr("slender.solvers.stochastic.Sweep", dying)
    assert np.array_equal(model.fit(X, y).coef_, undisturbed)
    assert int(flag.read_text()) in workers.values()


@pytest.mark.slow
def test_a_fit_goes_on_without_a_worker(client, data, impatient):
    X, y = clusters.chunked(data.X_train, data.y_train, 6)
    X = on_workers(X)  # the same shards for both fits
    undisturbed = LogisticClassifier(10.0, random_state=0, tol=1e-5).fit(X, y)
    steps = []

    def disturb(record, model):
        steps.append(record)
        if len(steps) == 2:
            clusters.kill(client)

    model = LogisticClassifier(10.0, random_state=0, tol=1e-5, callbacks=disturb).fit(X, y)
    assert len(steps) > 3
    assert model.gap_ <= 1e-5 * model.objective_
    assert np.array_equal(model.coef_, undisturbed.coef_)


@pytest.mark.slow
def test_five_kills_at_random_times():
    fits = disturbed_fits(5, 6000, seed=0)
    assert len(fits) == 5
    assert all(fit["proved"] and fit["same"] for fit in fits)


@pytest.mark.slow
def test_rows_that_only_the_lost_worker_had(client, data, impatient):
    homes = sorted(clusters.pids(client))[:2]
    halves = np.array_split(data.X_train, 2)
    held = [client.scatter(half, workers=[home]) for half, home in zip(halves, homes, strict=True)]
    X = da.concatenate(
        [da.from_delayed(f, half.shape, half.dtype) for f, half in zip(held, halves, strict=True)]
    )
    examples = examples_of(on_workers(X), np.zeros(N, np.int32), np.ones(N))
    processes = clusters.pids(client)
    for home in {homes[1], examples.rows.fleet.homes[1]}:  # Dask may have sent them on
        os.kill(processes[home], signal.SIGKILL)
    with pytest.raises(ClusterError, match="rows 300 to 599 of X are lost"):
        examples.reduce(clusters.COUNT)


@pytest.mark.slow
def test_a_worker_that_comes_late_gets_work(processes, client, data):
    X, _ = clusters.chunked(data.X_train, data.y_train, 6)
    examples = examples_of(on_workers(X), np.zeros(N, np.int32), np.ones(N))
    assert examples.reduce(clusters.COUNT) == N
    assert len(set(examples.rows.fleet.homes)) == 3
    processes.start_worker()
    processes.wait_for_workers(client)
    assert examples.reduce(clusters.COUNT) == N
    assert len(set(examples.rows.fleet.homes)) == 4


def _slow_disk(block):
    raise TimeoutError("the disk did not answer")


def test_a_worker_that_waits_in_vain_for_its_disk(client, data):
    """A TimeoutError of the task itself is told as it is: no worker is lost."""
    X, y = clusters.chunked(data.X_train, data.y_train, 6)
    slow = X.map_blocks(_slow_disk, dtype=X.dtype, meta=np.empty((0, 0)))
    told = r"rows .* could not be read on .*: TimeoutError: the disk did not answer"
    with pytest.raises(ValueError, match=told):
        LogisticClassifier().fit(slow, y)


def test_a_pass_that_waits_in_vain_for_a_disk(client, data, tmp_path):
    X, _ = clusters.chunked(data.X_train, data.y_train, 6)
    examples = examples_of(on_workers(X), np.zeros(N, np.int32), np.ones(N))
    asked = clusters.Once(tmp_path / "flag", partial(_slow_disk, None))
    with pytest.raises(ClusterError, match="a worker failed: TimeoutError: the disk did not answ"):
        examples.reduce(asked)
    assert examples.reduce(clusters.COUNT) == N


# -- the scheduler ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_scheduler_is_started_again_in_the_middle_of_a_pass(processes, client, data, tmp_path):
    X, _ = clusters.chunked(data.X_train, data.y_train, 6)
    examples = examples_of(on_workers(X), np.zeros(N, np.int32), np.ones(N))
    before = processes.scheduler
    kill = partial(os.kill, before, signal.SIGKILL)
    assert examples.reduce(clusters.Once(tmp_path / "flag", kill)) == N
    assert processes.scheduler != before
    assert examples.reduce(clusters.COUNT) == N


@pytest.mark.slow
def test_a_fit_goes_on_with_another_scheduler(processes, client, data):
    """And with other workers, since those of a scheduler end with it."""
    X, y = clusters.chunked(data.X_train, data.y_train, 6)
    X = on_workers(X)  # the same shards for both fits
    model = LogisticClassifier(10.0, random_state=0, tol=1e-5)
    undisturbed = clone(model).fit(X, y).coef_
    before, workers, steps = processes.scheduler, set(clusters.pids(client).values()), []

    def disturb(record, model):
        steps.append(record)
        if len(steps) == 2:
            os.kill(before, signal.SIGKILL)

    again = clone(model).set_params(callbacks=disturb).fit(X, y)
    assert len(steps) > 3
    assert again.gap_ <= 1e-5 * again.objective_
    assert np.array_equal(again.coef_, undisturbed)
    assert processes.scheduler != before
    assert workers.isdisjoint(clusters.pids(client).values())


@pytest.mark.slow
def test_a_scheduler_that_stays_away(processes, data):
    """The last test: nothing is started again."""
    with Client(processes.address, timeout=3) as client:
        processes.wait_for_workers(client)
        X, _ = clusters.chunked(data.X_train, data.y_train, 6)
        rows = on_workers(X)
        LogisticClassifier().fit(rows, data.y_train)
        processes.stop()
        os.kill(processes.scheduler, signal.SIGKILL)
        with pytest.raises(ClusterError, match=r"the scheduler at tcp:.* is gone: start it again"):
            LogisticClassifier().fit(rows, data.y_train)


@pytest.mark.slow
def test_the_command_waits_for_a_scheduler(data, tmp_path):
    np.save(tmp_path / "X.npy", data.X_train)
    np.save(tmp_path / "y.npy", data.y_train)
    log = tmp_path / "log.jsonl"
    words = "fit X.npy y.npy --method gd --passes 400 --out model --log log.jsonl -q --cluster"

    def lose_scheduler(processes, seconds):
        """In the middle of a fit that waits so long for it; what its command says then."""
        log.unlink(missing_ok=True)
        *python, program = SLENDER
        wait = f"import slender.data.scheduler as scheduler; scheduler.RETURN = {seconds}"
        running = subprocess.Popen(
            [*python, f"{wait}; {program}", *words.split(), processes.address],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        while not (log.exists() and log.stat().st_size) and running.poll() is None:
            time.sleep(0.05)
        os.kill(processes.scheduler, signal.SIGKILL)
        _, said = running.communicate(timeout=120)
        return running.returncode, said

    with watched(1) as processes:
        processes.pause = 8.0  # longer than the time for a first answer
        before = processes.scheduler
        assert lose_scheduler(processes, scheduler.RETURN) == (0, "")
        assert processes.scheduler != before
        processes.stop()
        code, said = lose_scheduler(processes, 3.0)
    assert code == 1
    assert said.count("\n") == 1, said
    assert "is gone: start it again, then give the same command once more" in said


def test_labels_that_a_lost_scheduler_was_to_compute(data, monkeypatch):
    _, y = clusters.chunked(data.X_train, data.y_train, 6)

    def cancelled(self):
        raise CancelledError

    monkeypatch.setattr(type(y), "compute", cancelled)
    with pytest.raises(ClusterError, match=r"went away while labels .*: repeat the fit, or give"):
        computed(y)
