"""Compiled numba kernels, whose machine code is cached on disk if possible.

    @kernel(fastmath=FAST)
    def f(...): ...

A full or read-only disk, or a damaged cache file, must not stop a fit: the kernel is then compiled
again in every process, with one warning.  numba's own cache raises an error instead, and looks for
a folder as soon as a module is imported, even if the program only predicts.
"""

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache, NullCache
from numba.extending import is_jitted

from .notices import warn

_warned = False  # in this process


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: compile at the first call, release the interpreter's lock, use the cache."""

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = njit(nogil=True, **options)(function)
        if is_jitted(dispatcher):  # not with NUMBA_DISABLE_JIT.  As njit(cache=True) does:
            dispatcher._cache = _Cache(function)  # type: ignore[attr-defined]
        return dispatcher

    return compiled


class _Cache(NullCache):  # type: ignore[misc]
    """numba's cache of one function, opened at the first compilation; no cache if that fails."""

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
        """Delete the damaged cache."""
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
                f"compiled code cannot be saved ({error}), so every process compiles it again, "
                "which takes seconds; set NUMBA_CACHE_DIR to a writable folder"
            )
