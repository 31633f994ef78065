"""Every estimator fits within the memory that docs/memory.md promises, and the table can fail."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from slender.registry import ESTIMATORS

ROOT = Path(__file__).parent.parent
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/statm"),
]
MB = 2**20
THREADS = 2  # on any machine: BLAS reserves address space for each thread that it meets
N, D, C = 400_000, 64, 8  # a float32 copy of the rows takes 98 MB, a float64 one 195 MB
SMALL = {
    "LinearProbe": {"Cs": [1e-3, 1e-2]},
    "TraceNormProbe": {"lambda1s": 2, "lambda2s": 2, "passes": 8},
    "TraceNormClassifier": {"lambda1": 0.05, "lambda2": 1e-3, "passes": 8},
    "LogisticClassifier": {"C": 1e-3, "max_iter": 8},
    "SLNDClassifier": {"rank": 16, "passes": 1},
}
GIVEN = {"passes": 1}  # the others


def tables() -> tuple[dict[str, str], dict[str, str]]:
    """The formula of each estimator, and those of the symbols."""
    estimators, symbols = {}, {}
    for line in (ROOT / "docs/memory.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        names = re.findall(r"`(\w+)`", cells[0])
        if not line.startswith("|") or not names:
            continue
        if names[0] in ESTIMATORS:
            estimators |= dict.fromkeys(names, cells[1].strip("`"))
        elif names == ["m", "l"]:
            symbols |= dict(part.split(" = ") for part in re.findall(r"`(.+?)`", cells[2]))
        elif (formula := cells[2].strip("`")) and "*" in formula:
            symbols[names[0]] = formula
    return estimators, symbols


def bound(name: str) -> int:
    """In bytes, at the sizes above."""
    estimators, symbols = tables()
    known = {"n": N, "d": D, "C": C, "T": THREADS, "f": 4, "MB": MB, "chunk": 0}
    known |= {"k": 16, "s": D, "r": 1, "q": min(C, 20), "K": 1, "min": min, "max": max}
    for symbol in ("m", "l", "ahead", *(s for s in symbols if s not in ("m", "l", "ahead"))):
        known[symbol] = eval(symbols[symbol], {"__builtins__": {}}, dict(known))
    return int(eval(estimators[name], {"__builtins__": {}}, known))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """float16 rows in a file, and their classes."""
    folder = tmp_path_factory.mktemp("memory")
    rng = np.random.default_rng(0)
    y, means = rng.integers(0, C, N), rng.standard_normal((C, D), dtype=np.float32)
    X = rng.standard_normal((N, D), dtype=np.float32)
    X += means[y] / 2
    np.save(folder / "X.npy", X.astype(np.float16))
    np.save(folder / "y.npy", y)
    return folder


def fits(folder: Path, name: str, most: int) -> subprocess.CompletedProcess[str]:
    script, settings = ROOT / "tests/memory_limit.py", json.dumps(SMALL.get(name, GIVEN))
    call = [sys.executable, "-W", "ignore", script, folder, name, settings, str(most)]
    threads = {"SLENDER_NUM_THREADS": str(THREADS), "OPENBLAS_NUM_THREADS": "1"}
    env = os.environ | threads
    return subprocess.run(call, env=env, capture_output=True, text=True, check=False)


def test_every_estimator_is_in_the_table():
    assert set(tables()[0]) == set(ESTIMATORS)


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_a_fit_stays_within_its_bound(folder, name):
    done = fits(folder, name, bound(name))
    assert done.returncode == 0, f"{bound(name) / MB:.0f} MB: {done.stderr[-500:]}"


def test_the_limit_is_a_limit(folder):
    done = fits(folder, "GDClassifier", 8 * MB)
    assert done.returncode != 0
    assert "MemoryError" in done.stderr or "can't start new thread" in done.stderr
