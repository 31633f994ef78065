"""Before anything imports numba: a cache of compiled kernels that belongs to these very sources.

numba's own cache does not notice an edit in a file that a kernel calls into.

And before anything imports NumPy: a process of pytest-xdist has one thread for BLAS and OpenMP.
Where there are more than cores, they wait for each other in every small product: scikit-learn's
fits, which ours are compared with, took up to 30 times as long.  tests/test_threads.py gives BLAS
two threads, wherever it tests what is done about them.
"""

import hashlib
import os
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def _hash_of_sources() -> str:
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
    for library in ("OPENBLAS", "MKL", "OMP"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
os.environ["NUMBA_CACHE_DIR"] = str(ROOT / ".numba_cache" / _hash_of_sources())

import pytest  # noqa: E402  (after what is chosen above)
from hypothesis import settings  # noqa: E402

from interpreted import Interpreter  # noqa: E402

# The same examples every time, and no deadline: a kernel may compile inside an example.
settings.register_profile("slender", derandomize=True, deadline=None)
settings.load_profile("slender")


LONG = "test_parameters.py"  # one test for each estimator, of hundreds of fits


def pytest_collection_modifyitems(items):
    """Files with slow tests first, then large ones: what is begun last is soon done."""
    tests = Counter(item.path for item in items)
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: (item.path.name != LONG, -slow[item.path], -tests[item.path]))


@pytest.fixture
def slender(capsys):
    """Run a command in this process: (exit code, stdout, stderr)."""
    from slender.cli import main

    def run(*words):
        with pytest.raises(SystemExit) as caught:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        return caught.value.code or 0, captured.out, captured.err

    return run


@pytest.fixture(autouse=True)
def _no_log(monkeypatch):
    """What a command says does not depend on how long a kernel compiles here."""
    monkeypatch.setattr("slender.cli.progress.LOG_SECONDS", float("inf"))


@pytest.fixture(scope="module")
def interpreter():
    pytest.importorskip("triton")
    process = Interpreter()
    yield process
    process.close()


@pytest.fixture(params=["twin", "triton"])
def call(request):
    """Call a function where a kernel is the twin, or the Triton kernel."""
    if request.param == "twin":
        return lambda function, *arguments: function(*arguments)
    return request.getfixturevalue("interpreter")


@pytest.fixture
def _compiler(monkeypatch, tmp_path):
    """Triton compiles its kernels anew (compiling.py)."""
    pytest.importorskip("triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
