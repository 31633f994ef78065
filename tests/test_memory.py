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
# n, d, C.  TALL: a float32 copy of the rows takes 98 MB, a float64 one 195 MB.  WIDE: each array of
# the weights' shape takes 12 MB.
TALL, WIDE = (400_000, 64, 8), (1500, 8192, 384)
SHARDS = 8
SMALL = {
    "LinearProbe": {"Cs": [1e-3, 1e-2]},
    "TraceNormProbe": {"lambda1s": 2, "lambda2s": 2, "passes": 8},
    "TraceNormClassifier": {"lambda1": 0.05, "lambda2": 1e-3, "passes": 8},
    "LogisticClassifier": {"C": 1e-2, "max_iter": 12},
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


def bound(name: str, size: tuple[int, int, int], chunk: int = 0) -> int:
    """In bytes."""
    estimators, symbols = tables()
    n, d, C = size
    known = {"n": n, "d": d, "C": C, "T": THREADS, "f": 4, "MB": MB, "chunk": chunk}
    known |= {"k": 16, "s": min(d, 64), "r": 1, "q": min(C, 20), "K": 1, "min": min, "max": max}
    for symbol in ("m", "l", "ahead", *(s for s in symbols if s not in ("m", "l", "ahead"))):
        known[symbol] = eval(symbols[symbol], {"__builtins__": {}}, dict(known))
    return int(eval(estimators[name], {"__builtins__": {}}, known))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """float16 rows in a file, and in shards, and their classes."""
    folders = {}
    for size in (TALL, WIDE):
        folder = folders[size] = tmp_path_factory.mktemp("memory")
        rng, (n, d, C) = np.random.default_rng(0), size
        y, means = np.arange(n) % C, rng.standard_normal((C, d), dtype=np.float32)
        X = rng.standard_normal((n, d), dtype=np.float32)
        X += means[y] / 2
        X = X.astype(np.float16)
        np.save(folder / "X.npy", X)
        np.save(folder / "y.npy", y)
        for k, part in enumerate(np.array_split(X, SHARDS)):
            np.savez(folder / f"X-{k}.npz", X=part)
    return folders


def fits(
    folder: Path, name: str, most: int, shards: bool = False, **then: object
) -> subprocess.CompletedProcess[str]:
    script, settings = ROOT / "tests/memory_limit.py", json.dumps(SMALL.get(name, GIVEN))
    call = [sys.executable, "-W", "ignore", script, folder, name, settings, str(most),
            "shards" if shards else "", json.dumps(then)]  # fmt: skip
    threads = {"SLENDER_NUM_THREADS": str(THREADS), "OPENBLAS_NUM_THREADS": "1"}
    # glibc reserves 64 MB for each thread that has an arena of its own: how many have is chance.
    # It reads this before a program begins.
    env = os.environ | threads | {"MALLOC_ARENA_MAX": "1"}
    # out of memory is an error, never a thread that waits for ever
    return subprocess.run(call, env=env, capture_output=True, text=True, check=False, timeout=300)


def test_every_estimator_is_in_the_table():
    assert set(tables()[0]) == set(ESTIMATORS)


def check(folder, name, most, **how):
    done = fits(folder, name, most, **how)
    assert done.returncode == 0, f"{most / MB:.0f} MB: {done.stderr[-500:]}"


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_a_fit_stays_within_its_bound(folders, name):
    check(folders[TALL], name, bound(name, TALL))


@pytest.mark.parametrize("name", ["LogisticClassifier", "LinearProbe", "TraceNormClassifier"])
def test_so_does_one_with_many_weights(folders, name):
    check(folders[WIDE], name, bound(name, WIDE))


@pytest.mark.parametrize("name", ["LogisticClassifier", "LaRankClassifier"])
def test_so_does_one_from_files_that_are_read(folders, name):
    n, d, _ = TALL
    chunk = 2 * d * -(-n // SHARDS)
    check(folders[TALL], name, bound(name, TALL, chunk), shards=True)


def test_a_checkpoint_needs_nothing_more(folders, tmp_path):
    name = "LogisticClassifier"
    check(folders[WIDE], name, bound(name, WIDE), checkpoint=str(tmp_path / "kept"),
          checkpoint_every=0.0)  # fmt: skip


def test_the_limit_is_a_limit(folders):
    done = fits(folders[TALL], "GDClassifier", 8 * MB)
    assert done.returncode != 0
    assert "MemoryError" in done.stderr or "can't start new thread" in done.stderr


def test_so_it_is_for_arrays_of_the_weights_shape(folders):
    """At a third of its bound the fit fails: the bound is not generous by much."""
    name = "LogisticClassifier"
    assert fits(folders[WIDE], name, bound(name, WIDE) // 3).returncode != 0
