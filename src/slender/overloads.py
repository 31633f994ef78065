"""How a compiled kernel calls a method of a NamedTuple.

Losses, rows and labels are NamedTuples with plain methods.  numba does not see those methods, so
each verb a kernel uses is a module-level function with an `@overload` that asks `method_of` for the
method of the class it was given.  Of five ways to hand a kernel its loss, this is the one whose
machine code numba finds again in its disk cache.

Trap: numba's cache does not notice an edit in another file.  The tests point NUMBA_CACHE_DIR at a
folder named after a hash of the sources.
"""

from typing import Any

from numba import types
from numba.extending import register_jitable


def method_of(numba_type: Any, name: str) -> Any:
    """The jittable method `name` of the NamedTuple class behind a numba type; None if no match."""
    if not isinstance(numba_type, types.BaseNamedTuple):
        return None
    return register_jitable(getattr(numba_type.instance_class, name))  # type: ignore[attr-defined]
