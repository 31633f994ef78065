"""Work on all cores, by our own threads, each with a single-threaded BLAS.

A block goes through product, kernel and product in the same thread and stays in its cache.  The
alternative, BLAS's threads and a kernel's threads taking turns on one block, was measured to cost
milliseconds per turn, since they wake and wait for each other.  (OpenMP's threads, which numba's
parallel kernels use, also do not survive a fork.)

    sums = map_blocks(rows, start, work)

calls `work(mine, lo, hi, block)` for every block, where `mine` is the result of `start()` for that
thread, and returns the `mine` of all threads, in order.  Which thread gets which block is fixed, so
that sums are the same in every run with the same number of threads.

    each_part(costs, work)

calls `work(lo, hi)` for parts of a range whose results are independent: any thread may take any
part.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from .blas import one_blas_thread, start_thread
from .block import Block
from .cores import num_threads

Mine = TypeVar("Mine")

CACHE_BYTES = 2 * 2**20  # a block, and its output: about a core's share of the caches
RELEASE_EVERY = 8  # blocks between two calls of rows.release
WORTH_A_THREAD = 10**7  # multiply-adds of BLAS: a tenth of a millisecond, the cost of a hand-over
WORTH_A_PART = 10**6  # the same for those of a kernel that reads from memory
PARTS_A_THREAD = 4  # several, so that the others need not wait long for a thread on a busy core


class HasBlocks(Protocol):
    """What `map_blocks` needs of rows (base.Rows)."""

    shape: tuple[int, int]

    def block(self, lo: int, hi: int) -> Block:
        """Rows lo..hi."""

    def block_rows(self, out_bytes: int) -> int:
        """Largest number of rows in a block."""

    def release(self) -> None:
        """Release memory that only speeds up the next read."""


def map_blocks(
    rows: HasBlocks,
    start: Callable[[], Mine],
    work: Callable[[Mine, int, int, Block], None],
    out_bytes: int = 0,
) -> list[Mine]:
    """Call `work` on every block of rows; `out_bytes` is the size of the output per row.

    If there are several errors, the one with the lowest row is raised.
    """
    n = rows.shape[0]
    count = max(1, -(-n // rows.block_rows(out_bytes)))
    workers = min(num_threads(), count)
    count = -(-count // workers) * workers  # the same number for each
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

    with one_blas_thread():
        if workers == 1:
            results = [target(0)]
        else:
            try:
                results = list(_pool(os.getpid(), num_threads()).map(target, range(workers)))
            except BaseException:  # Ctrl-C: the threads of the pool still exist, and must stop
                given_up.set()
                raise
    rows.release()
    if errors:
        raise min(errors, key=lambda entry: entry[0])[1]
    return results


def each_part(
    costs: NDArray[Any], work: Callable[[int, int], None], a_thread: int = PARTS_A_THREAD
) -> None:
    """Call work(lo, hi) for parts of range(len(costs)) of about the same cost, on all cores.

    `costs` are in multiply-adds, `a_thread` is the number of parts per thread.  The parts depend on
    the number of threads, so the result for an index must not depend on where its part begins.
    """
    total = float(costs.sum())
    workers = num_threads()
    parts = int(min(a_thread * workers, total // WORTH_A_PART)) if workers > 1 else 1
    if parts < 2:
        work(0, len(costs))
        return
    part = (np.cumsum(costs) - costs / 2) * parts // total  # part of each index, by its midpoint
    edges = [*np.searchsorted(part, np.arange(parts)).tolist(), len(costs)]
    _all(work, [(lo, hi) for lo, hi in pairwise(edges) if lo < hi], workers)


def matmul(A: NDArray[Any], B: NDArray[Any]) -> NDArray[Any]:
    """A B on all cores by our own threads, each with some rows of A."""
    m, n = len(A), B.shape[1]
    workers = min(num_threads(), m)
    if workers < 2 or m * n * A.shape[1] < WORTH_A_THREAD:
        return np.asarray(A @ B)
    out = np.empty((m, n), np.result_type(A, B))
    edges = np.linspace(0, m, workers + 1).astype(int)

    def part(lo: int, hi: int) -> None:
        np.matmul(A[lo:hi], B, out=out[lo:hi])

    with one_blas_thread():
        _all(part, list(pairwise(edges)), workers)
    return out


def _all(work: Callable[[int, int], None], parts: list[tuple[int, int]], workers: int) -> None:
    """Work on all parts, in this thread and others; each takes the next part when it is done.

    After Ctrl-C or an error all threads stop: the arrays that they write to may still be in use.
    """
    lock, left = threading.Lock(), iter(parts)

    def take() -> None:
        nonlocal left
        try:
            while True:
                with lock:
                    part = next(left, None)
                if part is None:
                    return
                work(*part)
        except BaseException:
            left = iter(())
            raise

    pool = _pool(os.getpid(), num_threads())
    others = [pool.submit(take) for _ in range(min(workers, len(parts)) - 1)]
    try:
        take()
    finally:
        running = [other for other in others if not other.cancel()]
        wait(running)
    for other in running:
        other.result()


@cache
def _pool(process: int, workers: int) -> ThreadPoolExecutor:
    """One pool per process: a forked process has none of its parent's threads."""
    return ThreadPoolExecutor(workers, "slender", initializer=start_thread)
