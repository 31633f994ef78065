"""Pages of memory-mapped files."""

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray


def mapped_file(X: NDArray[Any]) -> mmap.mmap | None:
    """The mapping behind a view of np.memmap(mode="r"), else None: other modes may hold changes."""
    base: Any = X
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap) and base.mode != "r":
            return None
        base = base.base
    return base if isinstance(base, mmap.mmap) else None


def give_back(mapped: mmap.mmap | None) -> None:
    """Release the pages of a mapped file.

    Until then they count as memory of this process.  The system keeps them in its cache, so
    reading them again costs little.
    """
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
