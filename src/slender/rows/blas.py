"""A BLAS of one thread, while threads of our own work (threads.py).

After a product on many threads OpenBLAS's threads spin for some 20 ms, waiting for the next one;
work that starts meanwhile shares its cores with them and takes twice as long.

A library's number of threads is one for the whole process.  So threads that fit models side by side
count: the first sets it, the last gives back what was there before.  Where a library stands on
OpenMP each thread has a number of its own, and gives it back itself.

Nor is BLAS's alarm about invalid values believed.  OpenBLAS 0.3.31's float32 product of a matrix of
five columns and a vector computes, with AVX-512, also on what a register held before: its result is
correct, but the processor's flag is set, and NumPy would warn of an invalid value in matmul.
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

Numbers = list[tuple[Any, int]]  # of threads that libraries have


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS on one thread, for work that alternates between small products and `map_blocks`."""
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
    """The same for a thread of our own, from its first work to its end."""
    np.seterr(invalid="ignore")
    limit_this_thread()


def limit_this_thread() -> None:
    """One thread for the libraries of which each thread has a number of its own."""
    _set([(library, 1) for library in _libraries(openmp=True)])


def openmp_threads() -> int:
    """For a library that has OpenMP's threads.  GNU's do not survive a fork: it would hang."""
    return 1 if _limit.forked else num_threads()


def look_again() -> None:
    """A library with threads of its own has been loaded."""
    _libraries.cache_clear()


class _Limit:
    """Who asks for one thread, and the numbers before."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside: list[int] = []  # threads, each as often as it entered
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
        """Of all threads only this one is here; another may have held the lock."""
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
    """From threadpoolctl 3.8 on only the thread that set a number may set the next one."""
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread(force=True)


@cache
def _libraries(openmp: bool) -> list[Any]:
    """BLAS on OpenMP, or other.  Means looking through all that is loaded, so once."""
    found = ThreadpoolController().select(user_api="blas").lib_controllers
    return [
        library
        for library in found
        if (getattr(library, "threading_layer", None) == "openmp") == openmp
    ]


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.after_fork)
