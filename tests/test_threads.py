"""Threads of our own: how many, who takes what, what BLAS has meanwhile, and after a fork."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_info, threadpool_limits

import slender
from slender.rows import as_rows, blas, cores, one_blas_thread, threads

SOURCES = Path(slender.__file__).parent


# -- how many --------------------------------------------------------------------------------------


@pytest.fixture
def free(monkeypatch):
    """Nothing says how many, and a machine of 16 cores."""
    for name in ("SLENDER_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cores, "_cpus", lambda: 16)
    cores._quota.cache_clear()
    yield monkeypatch
    slender.set_num_threads(None)
    cores._quota.cache_clear()


def test_as_many_as_this_process_may_run_on(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 6}, raising=False)
    assert cores._cpus() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores._cpus() == os.cpu_count()


@pytest.mark.parametrize(
    ("quota", "count"),
    [("max 100000", 16), ("250000 100000", 3), ("1000 100000", 1), ("9900000 100000", 16)],
)
def test_a_container_has_its_share(free, tmp_path, quota, count):
    (tmp_path / "cpu.max").write_text(quota + "\n")
    free.setattr(cores, "QUOTA", tmp_path / "cpu.max")
    assert slender.num_threads() == count


def test_who_says_how_many(free, tmp_path):
    free.setattr(cores, "QUOTA", tmp_path / "none")
    assert slender.num_threads() == threads.num_threads() == 16
    free.setenv("NUMBA_NUM_THREADS", "5")  # what joblib gives its processes
    assert slender.num_threads() == 5
    free.setenv("SLENDER_NUM_THREADS", " 20 ")  # more than there are, if someone wants it
    assert slender.num_threads() == 20
    slender.set_num_threads(3)
    assert slender.num_threads() == 3
    slender.set_num_threads(None)
    assert slender.num_threads() == 20


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_a_bad_number_is_named(free, text):
    free.setenv("SLENDER_NUM_THREADS", text)
    with pytest.raises(ValueError, match=f"SLENDER_NUM_THREADS='{text}' must be a whole number"):
        as_rows(np.ones((3, 2))).sqnorms()
    for count in (0, -1, 1.5, "2"):
        with pytest.raises(ValueError, match=r"num_threads=.* must be a whole number"):
            slender.set_num_threads(count)


# -- who takes what --------------------------------------------------------------------------------


@pytest.fixture
def four(monkeypatch):
    monkeypatch.setattr(threads, "num_threads", lambda: 4)
    monkeypatch.setattr(threads, "WORTH_A_PART", 1)


@pytest.mark.parametrize(
    "costs",
    [[], [0, 0], [5], [1] * 100, [1000, *[1] * 50], [*[1] * 50, 1000], [0, 9, 0, 0, 7, 0]],
)
def test_every_index_is_in_one_part(four, costs):
    seen = []
    threads.each_part(np.array(costs, int), lambda lo, hi: seen.extend(range(lo, hi)))
    assert sorted(seen) == list(range(len(costs)))


def test_parts_cost_the_same(four):
    costs, parts = np.random.default_rng(0).integers(0, 100, 1000), []
    threads.each_part(costs, lambda lo, hi: parts.append(costs[lo:hi].sum()))
    assert len(parts) == 4 * threads.PARTS_A_THREAD
    assert np.ptp(parts) <= 200  # one more or one less at each end


def test_little_work_is_done_at_once(monkeypatch):
    monkeypatch.setattr(threads, "num_threads", lambda: 4)
    seen = []
    threads.each_part(np.ones(100), lambda lo, hi: seen.append((lo, hi)))
    assert seen == [(0, 100)]


def test_four_threads_work_at_once(four):
    meet = threading.Barrier(4, timeout=60)
    firsts = {}

    def work(lo, hi):
        if firsts.setdefault(threading.get_ident(), lo) == lo:
            meet.wait()  # of each thread's first part

    threads.each_part(np.ones(100), work)
    assert len(firsts) == 4


@pytest.mark.parametrize("error", [IndexError, KeyboardInterrupt])
def test_after_an_error_nobody_works_on(four, error):
    working = []

    def work(lo, hi):
        if lo == 0:
            raise error("the first")
        working.append(lo)
        time.sleep(0.02)
        working.remove(lo)

    with pytest.raises(error, match="the first"):
        threads.each_part(np.ones(100), work)
    assert working == []


@pytest.mark.parametrize("shape", [(1, 5, 3), (7, 5, 3), (64, 33, 20)])
def test_matmul(four, monkeypatch, shape):
    monkeypatch.setattr(threads, "WORTH_A_THREAD", 0)
    m, k, n = shape
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((m, k)), rng.standard_normal((n, k)).T
    np.testing.assert_allclose(threads.matmul(A, B), A @ B, atol=1e-12)
    assert threads.matmul(A.astype(np.float32), B.astype(np.float32)).dtype == np.float32


def test_all_threads_are_our_own():
    """Those of numba's parallel kernels are often OpenMP's, with which a forked process dies."""
    for path in SOURCES.rglob("*.py"):
        assert "parallel=True" not in path.read_text(encoding="utf-8"), path


# -- BLAS ------------------------------------------------------------------------------------------


def blas_threads():
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


@pytest.fixture
def two():
    """BLAS has two threads, on a machine of one core too; other tests may have loaded another."""
    blas.look_again()
    with threadpool_limits(2, "blas"):
        yield
        assert set(blas_threads()) == {2}


def test_one_blas_thread_gives_the_others_back(two):
    with one_blas_thread():
        assert set(blas_threads()) == {1}
        as_rows(np.ones((10, 3))).matmat(np.ones((3, 2)))
        assert set(blas_threads()) == {1}


def test_a_block_has_one_blas_thread(two, monkeypatch):
    monkeypatch.setattr(threads, "num_threads", lambda: 1)
    seen = []
    as_rows(np.ones((10, 3))).each_block(lambda *_: seen.extend(blas_threads()))
    assert set(seen) == {1}


def test_a_callback_has_one_blas_thread(two):
    """After a product on many, their waiting would slow down the next pass."""
    seen, (X, y) = [], load_digits(return_X_y=True)

    def look(record, linear):
        seen.extend(blas_threads())

    slender.LogisticClassifier(callbacks=look).fit(X[:200], y[:200])
    assert set(seen) == {1}


@pytest.mark.parametrize("workers", [1, 2])
def test_the_flag_of_an_invalid_value_is_not_believed(monkeypatch, workers):
    """Some kernels of OpenBLAS set it though the result is correct; here inf - inf sets it."""
    monkeypatch.setattr(threads, "num_threads", lambda: workers)
    with pytest.warns(RuntimeWarning, match="invalid value encountered in matmul"):
        raises_it = np.array([[np.inf, -np.inf]]) @ np.ones(2)
    with one_blas_thread():
        np.array([[np.inf, -np.inf]]) @ np.ones(2)
    rows, seen = as_rows(np.tile([np.inf, -np.inf], (400, 1))), []

    def work(_, lo, hi, block):
        seen.append((threading.get_ident(), block.toarray() @ np.ones(2)))
        time.sleep(0.01)

    threads.map_blocks(rows, lambda: None, work, out_bytes=threads.CACHE_BYTES // 10)
    assert len({thread for thread, _ in seen}) == workers
    assert np.isnan([*raises_it, *np.concatenate([product for _, product in seen])]).all()


def test_the_last_one_out_gives_the_others_back(two):
    """Whoever came in first, and whichever thread it is."""
    inside, leave = threading.Event(), threading.Event()

    def other():
        with one_blas_thread():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    with one_blas_thread():
        thread.start()
        assert inside.wait(60)
    shared = blas._libraries(openmp=False)  # of the others each thread has a number of its own
    assert {library.get_num_threads() for library in shared} == {1}  # the other still works
    leave.set()
    thread.join()


def test_fits_side_by_side(two):
    X, y = np.random.default_rng(0).standard_normal((120, 5)), np.arange(120) % 3
    search = GridSearchCV(slender.LogisticClassifier(), {"C": np.geomspace(0.01, 10, 12)}, cv=2)
    with joblib.parallel_backend("threading", n_jobs=4):
        search.fit(X, y)


# -- fork ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only there is fork the way to new processes")
def test_forked_processes_fit():
    assert "fork" in multiprocessing.get_all_start_methods()
    script = Path(__file__).with_name("forking.py")
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
