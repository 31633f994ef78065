"""Models for other tools, as files."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..extras import check
from ..storage import PathLike, write_whole
from .onnx import to_onnx
from .scikit import to_sklearn
from .torch import torch_bytes


class Target(NamedTuple):
    """A tool: the suffix of its files, their content, and the packages needed to write them."""

    suffix: str
    content: Callable[[Any], bytes]
    packages: tuple[str, ...] = ()


def _onnx_bytes(model: Any) -> bytes:
    return to_onnx(model).SerializeToString()


def _joblib_bytes(model: Any) -> bytes:
    import joblib  # noqa: PLC0415  (comes with scikit-learn)

    buffer = io.BytesIO()
    joblib.dump(to_sklearn(model), buffer)
    return buffer.getvalue()


TARGETS = {
    "onnx": Target(".onnx", _onnx_bytes, ("onnx",)),
    "sklearn": Target(".joblib", _joblib_bytes),
    "torch": Target(".safetensors", torch_bytes),
}


def write(model: Any, to: str, path: PathLike) -> None:
    """Write a model for another tool; a failure leaves no partial file."""
    check_target(to, path)
    content = TARGETS[to].content(model)
    write_whole(path, lambda temporary: temporary.write_bytes(content))


def check_target(to: str, path: PathLike) -> None:
    """Raise an error for an unknown target, missing packages or a file name with a wrong suffix."""
    if to not in TARGETS:
        raise ValueError(f"cannot export to {to!r}; choose one of {', '.join(TARGETS)}")
    target = TARGETS[to]
    if Path(path).suffix.lower() != target.suffix:
        raise ValueError(f"{path}: a file for {to} must have the suffix {target.suffix}; rename it")
    for package in target.packages:
        check(package, f"export to {to}")
