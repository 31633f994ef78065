"""Workers of Dask keep the memory of blocks, unless their user has chosen otherwise."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import resource
import numpy as np
from slender.data.allocator import keep_blocks
kept = keep_blocks()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        np.ones(2**18)  # 2 MB, 512 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(kept, faults())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="an allocator of Linux")
@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ({"MALLOC_TRIM_THRESHOLD_": "65536"}, True),  # as Dask does
        ({"MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_MMAP_THRESHOLD_": "131072"}, False),
        ({"MALLOC_TRIM_THRESHOLD_": "131072"}, False),
        ({}, False),  # glibc chooses by itself
    ],
)
def test_blocks_are_kept(told, kept):
    env = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    call = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(call, env=env | told, capture_output=True, text=True, check=True)
    said, faults = done.stdout.split()
    if said == "False" and kept:
        pytest.skip("another C library")
    assert said == str(kept)
    if kept:  # without, there is a fault for each of 25,600 pages of 4 kB
        assert int(faults) < 5000
