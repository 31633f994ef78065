"""A fit in so much memory above its rows.

python memory_limit.py FOLDER ESTIMATOR SETTINGS BYTES SHARDS THEN; with SHARDS, rows are read from
files that cannot be mapped; THEN are settings of the limited fit alone.

The limit is that of the address space, so that no allocation can go beyond it, used or not.
"""

import json
import resource
import sys
from pathlib import Path

import numpy as np

import slender
from slender.rows import as_rows


def address_space() -> int:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[0]) * resource.getpagesize()


def main(folder: str, name: str, settings: str, most: str, shards: str, then: str) -> None:
    y = np.load(f"{folder}/y.npy")
    X = slender.open_rows(f"{folder}/X-*.npz", key="X") if shards else None
    X = np.load(f"{folder}/X.npy", mmap_mode="r") if X is None else X
    model = getattr(slender, name)(**json.loads(settings))
    few = slice(0, 2000)
    model.fit(np.array(X[few]), y[few] % 4)  # kernels, threads, libraries
    as_rows(np.ones((60_000, 64))).matmat(np.ones((64, 8)))  # BLAS in every thread
    limit = address_space() + int(most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    model.set_params(**json.loads(then)).fit(X, y)


if __name__ == "__main__":
    main(*sys.argv[1:])
