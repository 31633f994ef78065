"""Pages of memory-mapped files."""

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray


def mapped_file(X: NDArray[Any]) -> mmap.mmap | None:
    """The mapping behind a view of np.memmap(mode="r"); any other mode may hold changes."""
    base: Any = X
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap) and base.mode != "r":
            return None
        base = base.base
    return base if isinstance(base, mmap.mmap) else None


def give_back(mapped: mmap.mmap | None) -> None:
    """Give the pages of a mapped file back.

    They count as this process's memory until then; the system keeps them in its cache, so that
    reading them again costs little.
    """
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
