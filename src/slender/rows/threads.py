"""Work on all cores, by our own threads, each with a single-threaded BLAS.

A block goes through product, kernel and product in the same thread and stays in its cache.  The
alternative, BLAS's threads and a kernel's threads taking turns on one block, was measured to cost
milliseconds per turn, since they wake and wait for each other.  (OpenMP's threads, which numba's
parallel kernels use, also do not survive a fork.)

    sums = map_blocks(rows, start, work)

calls `work(mine, lo, hi, block)` for every block, where `mine` is the result of `start()` for that
thread, and returns the `mine` of all threads, in order.  Which thread gets which block is fixed, so
that sums are the same in every run with the same number of threads.  Rows of a file are read ahead
(ahead.py), and no block crosses a border of the store.

    each_part(costs, work)

calls `work(lo, hi)` for parts of a range whose results are independent: any thread may take any
part.
"""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, is_numpy
from .ahead import PART_BYTES, Cut, Readable, reading
from .blas import one_blas_thread, start_thread
from .block import Block
from .cores import num_threads

Mine = TypeVar("Mine")

CACHE_BYTES = 2 * 2**20  # a block, and its output: about a core's share of the caches
WORTH_A_THREAD = 10**7  # multiply-adds of BLAS: a tenth of a millisecond, the cost of a hand-over
WORTH_A_PART = 10**6  # the same for those of a kernel that reads from memory
PARTS_A_THREAD = 4  # several, so that the others need not wait long for a thread on a busy core


class HasBlocks(Readable, Protocol):
    """What `map_blocks` needs of rows (base.Rows)."""

    shape: tuple[int, int]

    def borders(self) -> Sequence[int]:
        """Row numbers, from 0 to n, that no block may cross."""

    def block_rows(self, out_bytes: int) -> int:
        """Largest number of rows in a block."""

    @property
    def stored_row_bytes(self) -> int:
        """Bytes of a row as it is stored."""


def map_blocks(
    rows: HasBlocks,
    start: Callable[[], Mine],
    work: Callable[[Mine, int, int, Block], None],
    out_bytes: int = 0,
) -> list[Mine]:
    """Call `work` on every block of rows; `out_bytes` is the size of the output per row.

    If there are several errors, the one with the lowest row is raised.
    """
    workers, spans = _spans(rows, rows.block_rows(out_bytes))
    portions = _portions(rows, spans, workers)
    errors: list[tuple[int, Exception]] = []
    given_up = threading.Event()

    def target(worker: int) -> Mine | None:
        lo = 0
        try:
            mine = start()
            for k, portion in enumerate(portions):
                lo = portion[0][0]
                part = parts.enter(k)
                if part is None:
                    return mine
                for lo, hi in portion[worker::workers]:
                    # after an error, only the rows before it may still have another
                    if given_up.is_set() or any(lo > bad for bad, _ in errors):
                        return mine
                    work(mine, lo, hi, part.block(lo - portion[0][0], hi - portion[0][0]))
                parts.leave(k)
        except Exception as error:  # also of `start`: the others must not wait for this thread
            errors.append((lo, error))
            parts.stop()  # what was read until now has all rows before this one
            return None
        return mine

    cuts = [(portion[0][0], portion[-1][1]) for portion in portions]
    with one_blas_thread(), reading(rows, cuts, workers) as parts:
        if workers == 1:
            results = [target(0)]
        else:
            running = [_pool(os.getpid(), num_threads()).submit(target, k) for k in range(workers)]
            try:
                results = [each.result() for each in running]
            except BaseException:  # Ctrl-C: the threads of the pool still exist, and must stop
                given_up.set()
                raise
    rows.release()
    if errors:
        raise min(errors, key=lambda entry: entry[0])[1]
    return results  # type: ignore[return-value]  # None only beside an error


def _spans(rows: HasBlocks, most: int) -> tuple[int, list[Cut]]:
    """The number of threads, and blocks of at most `most` rows, as many for each thread."""
    pieces = [(lo, hi) for lo, hi in pairwise(rows.borders()) if lo < hi]
    counts = [max(1, -(-(hi - lo) // most)) for lo, hi in pieces]
    workers = max(1, min(num_threads(), sum(counts)))
    spans = []
    for (first, last), count in zip(pieces, counts, strict=True):
        step = max(1, -(-(last - first) // (-(-count // workers) * workers)))
        spans += [(lo, min(lo + step, last)) for lo in range(first, last, step)]
    return workers, spans


def _portions(rows: HasBlocks, spans: list[Cut], workers: int) -> list[list[Cut]]:
    """Consecutive blocks that are read together; all of them if nothing has to be read."""
    if not spans or not rows.on_disk:
        return [spans] if spans else []
    borders = set(rows.borders())
    portions: list[list[Cut]] = [[]]
    for lo, hi in spans:
        now = portions[-1]
        whole = len(now) % workers == 0  # each thread has as many blocks of it
        full = bool(now) and (hi - now[0][0]) * rows.stored_row_bytes > PART_BYTES
        if now and (lo in borders or (full and whole)):
            portions.append(now := [])
        now.append((lo, hi))
    return portions


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
    _all(work, even_parts(costs, parts), workers)


def even_parts(costs: NDArray[Any], parts: int) -> list[Cut]:
    """At most `parts` parts of range(len(costs)), of about the same cost, none of them empty."""
    total = max(float(costs.sum()), 1.0)
    part = (np.cumsum(costs) - costs / 2) * parts // total  # part of each index, by its midpoint
    edges = [*np.searchsorted(part, np.arange(parts)).tolist(), len(costs)]
    return [(lo, hi) for lo, hi in pairwise(edges) if lo < hi]


def matmul(A: Array, B: Array) -> Array:
    """A B on all cores by our own threads, each with some rows of A; of tensors, where they are."""
    if not is_numpy(A):
        return A @ B
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
