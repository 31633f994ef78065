"""Compiled kernels: numba's, with machine code kept on disk where that can be done.

    @kernel(fastmath=FAST)
    def f(...): ...

A disk that cannot be written, or is full, must not stop a fit, and damaged files must not either:
a kernel is then compiled in every process anew, and a warning says so once.  numba itself raises,
and looks for a place on disk while a module is imported, even by someone who only predicts.
"""

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache, NullCache
from numba.extending import is_jitted

from .notices import warn

_warned = False  # in this process


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: compiled at the first call, without the interpreter's lock, with a cache."""

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = njit(nogil=True, **options)(function)
        if is_jitted(dispatcher):  # not with NUMBA_DISABLE_JIT.  As njit(cache=True) does:
            dispatcher._cache = _Cache(function)  # type: ignore[attr-defined]
        return dispatcher

    return compiled


class _Cache(NullCache):  # type: ignore[misc]
    """numba's cache of one function, opened when it is first compiled, and none if it fails."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._opened: Any = None

    @property
    def cache_path(self) -> Any:
        return self._opened and self._opened.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            if self._opened is None:
                self._opened = FunctionCache(self._function)
            return self._opened.load_overload(sig, target_context)
        except (OSError, RuntimeError) as error:  # RuntimeError: nowhere to write
            self._give_up(error)
        except Exception:  # whatever reading a damaged file leads to
            self._flush()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            self._opened.save_overload(sig, data)
        except OSError as error:
            self._give_up(error)

    def _flush(self) -> None:
        """Begin anew."""
        try:
            self._opened.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        global _warned  # noqa: PLW0603
        self._opened = NullCache()
        if not _warned:
            _warned = True
            warn(
                f"compiled code cannot be kept ({error}), so that every process compiles it anew, "
                "in seconds; set NUMBA_CACHE_DIR to a folder that can be written"
            )
