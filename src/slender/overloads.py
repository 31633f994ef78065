"""How a compiled kernel calls a method of a NamedTuple.

Losses, rows and labels are NamedTuples with ordinary methods.  numba does not see those methods.
So for each method that a kernel uses there is a module-level function with an `@overload`, which
gets the method of the given class from `method_of`.  We tried five ways to pass a loss to a kernel;
only with this one does numba find the machine code in its disk cache.

Note: numba's cache does not notice an edit in another file.  The tests set NUMBA_CACHE_DIR to a
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
