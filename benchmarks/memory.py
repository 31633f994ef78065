"""python -m benchmarks.memory X.npy RANK: peak memory of a fit, as JSON, for a fresh process.

Resident memory has two parts: what the process allocated, and the pages of the mapped file that
happen to be in memory, which the system takes back when it needs them.  Both are reported.
"""

import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from slender import SLNDClassifier

N_CLASSES, PASSES = 100, 2
WARM_UP_ROWS = 2000
SAMPLE_SECONDS = 0.002
WRITE_ROWS = 10_000


class Peak:
    """The most memory the process had while the block ran, and what it had before, in bytes."""

    def __enter__(self) -> "Peak":
        self._process = psutil.Process()
        self.before = self.most = self._now()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            self.most = np.maximum(self.most, self._now())

    def _now(self) -> np.ndarray:
        info = self._process.memory_info()
        return np.array([info.rss, info.rss - info.shared])  # resident, allocated

    @property
    def above(self) -> dict[str, int]:
        """What the block had beyond what there was before."""
        resident, allocated = (self.most - self.before).tolist()
        return {"resident_bytes": resident, "allocated_bytes": allocated}


def in_fresh_process(module: str, *arguments: Any) -> dict[str, Any]:
    """The JSON that `python -m module arguments` prints; what it says on stderr is shown."""
    call = [sys.executable, "-m", module, *map(str, arguments)]
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(call, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def of_noise(module: str, shape: tuple[int, int], dtype: str, *arguments: Any) -> dict[str, Any]:
    """The same of `python -m module X.npy arguments`, X a file of noise."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npy"
        X = np.lib.format.open_memmap(path, "w+", dtype, shape)
        rng = np.random.default_rng(0)
        for lo in range(0, len(X), WRITE_ROWS):
            block = X[lo : lo + WRITE_ROWS]
            block[:] = rng.standard_normal(block.shape, dtype=np.float32)
        X.flush()
        return in_fresh_process(module, path, *arguments)


def measure(path: str, rank: int) -> dict[str, Any]:
    X = np.load(path, mmap_mode="r")
    y = np.random.default_rng(0).integers(0, N_CLASSES, len(X))
    model = SLNDClassifier(rank=rank, passes=PASSES, random_state=0)
    few = np.array(X[:WARM_UP_ROWS])  # compiles the kernels without touching the map
    model.fit(few, y[:WARM_UP_ROWS])
    with Peak() as peak:
        model.fit(X, y)
    return {
        "shape": list(X.shape),
        "dtype": str(X.dtype),
        "rank": rank,
        "Z_bytes": len(X) * rank * 4,
        "file_bytes": X.nbytes,
        **peak.above,
    }


def verdict(used: int, allowed: int) -> str:
    """120 MB, within 300 MB"""
    word = "within" if used <= allowed else "MORE than"
    return f"{used / 1e6:,.0f} MB, {word} {allowed / 1e6:,.0f} MB"


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
