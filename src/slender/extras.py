"""Optional packages, imported when a function needs them."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

# module -> what to install, where the names differ
PACKAGES = {"PIL": "pillow", "faiss": "faiss-cpu", "distributed": "dask[distributed]"}
STORAGE = ("h5py", "pyarrow", "zarr")  # the extra that brings several


class MissingPackageError(ImportError, ValueError):
    """A package is not installed; the message says which and how to get it."""


def need(name: str, purpose: str) -> Any:
    """The module `name`, or an error that says what it is for and how to install it."""
    check(name, purpose)
    return import_module(name)


def check(name: str, purpose: str) -> None:
    """Raise an error if the package is missing, without importing it; call it before the work."""
    module = name.split(".", maxsplit=1)[0]
    if find_spec(module) is None:
        package = PACKAGES.get(module, module)
        extra = ", or slender[storage]" if module in STORAGE else ""
        raise MissingPackageError(
            f"{purpose} needs the package {package}: pip install {package}{extra}"
        )
