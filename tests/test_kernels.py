"""Compiled kernels where their disk cache is missing, full or damaged."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import slender
from slender import LogisticClassifier, kernels, load_model, save_model

PACKAGE = Path(slender.__file__).parent
X = np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32)
y = np.arange(40) % 3

TRIPLED = """
from slender.kernels import kernel

@kernel()
def tripled(x):
    return 3 * x
"""


def module(folder):
    """A module with one kernel, as a process would import it for the first time."""
    path = folder / "tripled.py"
    path.write_text(TRIPLED)
    spec = importlib.util.spec_from_file_location("tripled", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder of the cache, and no warning yet."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernels, "_warned", False)
    return tmp_path / "cache"


def test_a_kernel_is_found_again(cache, tmp_path):
    first = module(tmp_path)
    assert not cache.exists()  # an import touches no disk
    assert first.tripled(2) == 6
    again = module(tmp_path)
    assert again.tripled(2) == 6
    assert sum(again.tripled.stats.cache_hits.values()) == 1
    assert again.tripled.stats.cache_path.startswith(str(cache))


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("left", [0, 20])
def test_a_damaged_cache_is_begun_anew(cache, tmp_path, suffix, left):
    module(tmp_path).tripled(2)
    for path in cache.rglob(f"*.{suffix}"):
        path.write_bytes(path.read_bytes()[:left])
    assert module(tmp_path).tripled(2) == 6
    mended = module(tmp_path)
    assert mended.tripled(2) == 6
    assert sum(mended.tripled.stats.cache_hits.values()) == 1


def test_without_a_cache_kernels_compile_with_one_warning(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(numba.core.caching.FunctionCache._impl_class, "_locator_classes", [])
    found = module(tmp_path)  # the import says nothing
    with pytest.warns(UserWarning, match=r"cannot be saved.*NUMBA_CACHE_DIR") as caught:
        assert (found.tripled(2), found.tripled(2.0), module(tmp_path).tripled(2)) == (6, 6, 6)
    assert len(caught) == 1


def test_a_full_cache_disk_is_no_failure(cache, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(numba.core.caching.IndexDataCacheFile, "save", full)
    with pytest.warns(UserWarning, match="No space left on device"):
        assert module(tmp_path).tripled(2) == 6


def test_a_read_only_system_predicts_in_silence_and_compiles(tmp_path):
    """As another process sees it; root too, because there are files where folders would be."""
    copy = tmp_path / "slender"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()
    (tmp_path / "file").touch()
    save_model(LogisticClassifier().fit(X, y), tmp_path / "model")
    expected = load_model(tmp_path / "model").predict(X)
    np.save(tmp_path / "X.npy", X)
    code = (
        "import warnings, numpy as np, slender\n"
        f"assert slender.__file__ == {str(copy / '__init__.py')!r}\n"
        "X = np.load('X.npy')\n"
        "warnings.simplefilter('error')\n"
        "print(*slender.load_model('model').predict(X))\n"
        "warnings.simplefilter('always')\n"
        "from slender.rows import as_rows\n"
        "print(as_rows(X.astype(np.float16)).block(0, 3).dtype)\n"
    )
    away = str(tmp_path / "file" / "below")
    settings = {"HOME": away, "XDG_CACHE_HOME": away, "NUMBA_CACHE_DIR": away}
    settings |= {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **settings},
    )  # fmt: skip
    assert done.stdout == " ".join(map(str, expected)) + "\nfloat32\n", done.stderr
    assert done.stderr.count("Warning: ") == 1


def test_every_kernel_has_this_cache():
    for path in PACKAGE.rglob("*.py"):
        assert path.name == "kernels.py" or "njit" not in path.read_text(), path
