"""Memory of a few MB, on workers of Dask that run under Linux.

Dask starts workers with MALLOC_TRIM_THRESHOLD_=65536, so that glibc returns freed memory to the
system at once.  That also switches off glibc's own choice of what it keeps: every array above 128
kB then gets new pages from the system.  A pass makes such arrays for each block of rows, and took
up to a third longer for that.
"""

import ctypes
import os
import sys
from functools import cache

TRIM, MMAP = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of mallopt(3)
KEPT = 32 * 2**20  # the most that glibc would choose by itself; it would trim at twice as much


@cache
def keep_blocks() -> bool:
    """Let this process keep memory of the size of blocks, if Dask has told it not to.

    What a user has chosen stays: other values, or MALLOC_MMAP_THRESHOLD_ beside it.
    """
    told = os.environ.get("MALLOC_TRIM_THRESHOLD_") == "65536"
    if not (told and sys.platform == "linux" and "MALLOC_MMAP_THRESHOLD_" not in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(mallopt(MMAP, KEPT) and mallopt(TRIM, 2 * KEPT))
