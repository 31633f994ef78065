"""Where a result comes from: what goes into every JSON document beside the result itself."""

import hashlib
import os
import platform
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .. import __version__

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")
BLOCK = 2**24  # bytes hashed at a time
PARTS = (("data", "indices", "indptr"), ("codes", "codebooks"))  # of rows that are no array

Inputs = Mapping[str, tuple[Any, Any]]  # what it is -> its name, and the array or the file


def provenance(inputs: Inputs | None, *packages: str) -> dict[str, Any]:
    """Inputs with their shapes and checksums, version, machine; these packages' versions too."""
    found = {"version": __version__, "machine": machine(*packages)}
    if inputs is None:  # of a command that makes its data, or tells about them itself
        return found
    return {"inputs": {what: _input(*of) for what, of in inputs.items()}, **found}


def settings_of(model: Any, **said: Any) -> dict[str, Any]:
    """An estimator's parameters; `said` are words for those that JSON cannot hold.

    No result rests on the parameters of callbacks and checkpoints.  The device is left out because
    every result names the one that was used, which may not be the one that was asked for.
    """
    params = model.get_params(deep=False)
    for name in ("callbacks", "checkpoint", "checkpoint_every", "device"):
        params.pop(name, None)
    return {**params, **said}


def data_of(X_name: Any, data: tuple[Any, Any], y_name: Any = None, part: str = "") -> Inputs:
    """A data set as inputs: X and y, which have one name where one file or folder holds both."""
    return {
        f"X{part}": (X_name, data[0]),
        f"y{part}": (X_name if y_name is None else y_name, data[1]),
    }


def machine(*packages: str) -> dict[str, Any]:
    """When, on what and with what; with the versions of these packages too (None: not there)."""
    from ..rows.cores import num_threads  # noqa: PLC0415  (what reads no numbers starts sooner)

    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": num_threads(),
        "python": platform.python_version(),
        **{name: _version(name) for name in (*PACKAGES, *packages)},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    """Its name, where the system tells one; else its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _input(name: Any, value: Any) -> dict[str, Any]:
    """A file by the sha256 of its bytes; rows and labels by that of their numbers in C order."""
    digest = hashlib.sha256()
    shape = {} if isinstance(value, Path) else {"shape": list(value.shape)}
    for block in _file(value) if isinstance(value, Path) else _numbers(value):
        digest.update(block)
    return {"name": str(name), **shape, "sha256": digest.hexdigest()}


def _file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            yield block


def _numbers(value: Any) -> Iterator[bytes]:
    """The bytes of an array, or of the arrays that sparse or compressed rows are made of."""
    import numpy as np  # noqa: PLC0415  (likewise)

    value = value.matrix() if hasattr(value, "matrix") else value  # a store of one file is its X
    names = next((names for names in PARTS if all(hasattr(value, each) for each in names)), ())
    for array in [getattr(value, each) for each in names] or [value]:
        step = max(1, BLOCK // max(1, array[:1].nbytes))
        for lo in range(0, len(array), step):
            yield np.ascontiguousarray(array[lo : lo + step]).tobytes()
