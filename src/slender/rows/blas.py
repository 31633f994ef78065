"""A single-threaded BLAS while our own threads work (threads.py).

After a product on many threads, OpenBLAS's threads spin for about 20 ms, waiting for the next one.
Work that starts in the meantime shares the cores with them and takes twice as long.

The number of threads of a library is a setting of the whole process.  So if several threads fit
models at the same time, the first sets it and the last restores the previous value.  For a library
that uses OpenMP, each thread has its own setting and restores it itself.

NumPy's warnings of invalid values in products are suppressed too.  With AVX-512, OpenBLAS 0.3.31's
float32 product of a matrix with five columns and a vector also computes on what a register held
before: its result is correct, but the processor's flag is set, and NumPy would warn of an invalid
value in matmul.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from .cores import num_threads

Numbers = list[tuple[Any, int]]  # libraries and their numbers of threads


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread, for work that alternates small products and `map_blocks`."""
    before = _numbers(_libraries(openmp=True))
    limit_this_thread()
    _limit.enter()
    try:
        with np.errstate(invalid="ignore"):
            yield
    finally:
        _limit.leave()
        _set(before)


def start_thread() -> None:
    """The same for one of our own threads, for its whole life."""
    np.seterr(invalid="ignore")
    limit_this_thread()


def limit_this_thread() -> None:
    """Set one thread for the libraries that have a separate setting in each thread."""
    _set([(library, 1) for library in _libraries(openmp=True)])


def openmp_threads() -> int:
    """Number of threads for a library that uses OpenMP; 1 after a fork, where GNU's would hang."""
    return 1 if _limit.forked else num_threads()


def look_again() -> None:
    """To be called after a library with its own threads was loaded."""
    _libraries.cache_clear()


class _Limit:
    """The threads that require a single-threaded BLAS, and the numbers of threads before."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside: list[int] = []  # threads, each as many times as it entered
        self.before: Numbers = []
        self.forked = False

    def enter(self) -> None:
        with self.lock:
            if not self.inside:
                self.before = _numbers(_libraries(openmp=False))
                _set([(library, 1) for library, _ in self.before])
            self.inside.append(threading.get_ident())

    def leave(self) -> None:
        with self.lock:
            self.inside.remove(threading.get_ident())
            if not self.inside:
                _set(self.before)

    def after_fork(self) -> None:
        """In the child only this thread exists; another may have held the lock in the parent."""
        self.lock, self.forked = threading.Lock(), True
        entered, self.inside = self.inside, [i for i in self.inside if i == threading.get_ident()]
        if entered and not self.inside:
            _set(self.before)


def _numbers(libraries: list[Any]) -> Numbers:
    return [(library, library.get_num_threads()) for library in libraries]


def _set(numbers: Numbers) -> None:
    for library, number in numbers:
        _for_any_thread(library)
        library.set_num_threads(number)
        _for_any_thread(library)


def _for_any_thread(library: Any) -> None:
    """Let any thread set a number: in threadpoolctl >= 3.8 only the one that set the last may."""
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread(force=True)


@cache
def _libraries(openmp: bool) -> list[Any]:
    """BLAS libraries that use OpenMP, or the others.  Searches all loaded libraries, so cached."""
    found = ThreadpoolController().select(user_api="blas").lib_controllers
    return [
        library
        for library in found
        if (getattr(library, "threading_layer", None) == "openmp") == openmp
    ]


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.after_fork)
