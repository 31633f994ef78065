"""Benchmarks of slender against what people use today; see benchmarks/README.md.

Kernels are compiled afresh in each run, off the clock: numba's cache on disk does not notice an
edit in a file that a kernel calls into, and the speed of code that is gone helps nobody.
"""

import atexit
import os
import tempfile

if "NUMBA_CACHE_DIR" not in os.environ:
    _cache = tempfile.TemporaryDirectory(prefix="slender-benchmarks-")
    atexit.register(_cache.cleanup)
    os.environ["NUMBA_CACHE_DIR"] = _cache.name
