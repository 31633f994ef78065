"""Row blocks on all cores: each thread has blocks of its own and a BLAS of one thread.

A block goes through product, kernel and product in the same thread and stays in its cache.  The
other way, BLAS's threads and a kernel's threads taking turns on one block, was measured to cost
milliseconds a turn: they wake and wait for each other.

    sums = map_blocks(rows, start, work)

calls `work(mine, lo, hi, block)` for every block, `mine` being what `start()` gave that thread, and
returns the threads' `mine`, in order.  Which thread gets which block is fixed, so that sums are the
same in every run with as many threads.
"""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from .base import Rows

Mine = TypeVar("Mine")

CACHE_BYTES = 2 * 2**20  # a block and what it is turned into: about a core's share of the caches
MAX_WORKERS = 8  # each keeps sums of its own; with more cores BLAS gets several threads a worker
RELEASE_EVERY = 8  # blocks between two calls of rows.release
WORTH_A_THREAD = 10**7  # multiply-adds: a tenth of a millisecond, which is what handing out costs


def map_blocks(
    rows: "Rows",
    start: Callable[[], Mine],
    work: Callable[[Mine, int, int, Any], None],
    out_bytes: int = 0,
) -> list[Mine]:
    """Every block of rows through `work`; `out_bytes` is the size of what a row is turned into.

    Of several errors the one of the lowest row is raised.
    """
    n = rows.shape[0]
    count = max(1, -(-n // rows.block_rows(out_bytes)))
    workers = min(get_num_threads(), MAX_WORKERS, count)
    count = -(-count // workers) * workers  # as many for each
    step = max(1, -(-n // count))
    firsts = range(0, n, step)
    errors: list[tuple[int, Exception]] = []
    given_up = threading.Event()

    def target(worker: int) -> Mine:
        mine = start()
        for done, lo in enumerate(firsts[worker::workers], start=1):
            if given_up.is_set():
                break
            hi = min(lo + step, n)
            try:
                work(mine, lo, hi, rows.block(lo, hi))
            except Exception as error:
                errors.append((lo, error))
                break
            if worker == 0 and done % RELEASE_EVERY == 0:
                rows.release()
        return mine

    if workers == 1:
        results = [target(0)]
    else:
        with _blas().limit(limits=max(1, get_num_threads() // workers), user_api="blas"):
            try:
                results = list(_pool(os.getpid(), workers).map(target, range(workers)))
            except BaseException:  # Ctrl-C: the pool's threads live on, and must not work on
                given_up.set()
                raise
    rows.release()
    if errors:
        raise min(errors, key=lambda entry: entry[0])[1]
    return results


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS on one thread, for work that alternates between small products and `map_blocks`.

    After a product on many threads OpenBLAS's threads spin for some 20 ms, waiting for the next
    one; blocks that start meanwhile share their cores with them and take twice as long.
    """
    with _blas().limit(limits=1, user_api="blas"):
        yield


def matmul(A: NDArray[Any], B: NDArray[Any]) -> NDArray[Any]:
    """A B on all cores by threads of our own, each with some rows of A."""
    m, n = len(A), B.shape[1]
    workers = min(get_num_threads(), MAX_WORKERS, m)
    if workers < 2 or m * n * A.shape[1] < WORTH_A_THREAD:
        return np.asarray(A @ B)
    out = np.empty((m, n), np.result_type(A, B))
    edges = np.linspace(0, m, workers + 1).astype(int)

    def target(part: tuple[int, int]) -> None:
        lo, hi = part
        np.matmul(A[lo:hi], B, out=out[lo:hi])

    with one_blas_thread():
        list(_pool(os.getpid(), workers).map(target, pairwise(edges)))
    return out


@cache
def _pool(process: int, workers: int) -> ThreadPoolExecutor:
    """One for each process: a forked one has none of its parent's threads."""
    return ThreadPoolExecutor(workers, thread_name_prefix="slender")


def look_again() -> None:
    """A library with threads of its own has been loaded."""
    _blas.cache_clear()


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()  # looks through the loaded libraries, so once
