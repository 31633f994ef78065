"""Pages of memory-mapped files."""

import mmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Pages(NamedTuple):
    """The pages of a mapped file that hold an array."""

    mapping: mmap.mmap
    start: int
    length: int

    def will_need(self) -> None:
        """Ask the system to read these pages; it does so in the background."""
        if hasattr(mmap, "MADV_WILLNEED"):
            self.mapping.madvise(mmap.MADV_WILLNEED, self.start, self.length)

    def give_back(self) -> None:
        """Release these pages.

        Until then they count as memory of this process.  The system keeps them in its cache, so
        reading them again costs little.
        """
        if hasattr(mmap, "MADV_DONTNEED"):
            self.mapping.madvise(mmap.MADV_DONTNEED, self.start, self.length)


def mapped_pages(X: NDArray[Any]) -> Pages | None:
    """The pages behind a view of np.memmap(mode="r"), else None: other modes may hold changes."""
    base: Any = X
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap) and base.mode != "r":
            return None
        base = base.base
    if not isinstance(base, mmap.mmap):
        return None
    if not X.flags.c_contiguous or X.size == 0:
        return Pages(base, 0, len(base))
    first = _address(X) - _address(np.frombuffer(base, np.uint8))
    start = first - first % mmap.PAGESIZE
    return Pages(base, start, min(first + X.nbytes, len(base)) - start)


def _address(X: NDArray[Any]) -> int:
    return int(X.__array_interface__["data"][0])
