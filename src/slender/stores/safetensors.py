""".safetensors: several tensors, memory-mapped; bfloat16 is widened when it is read."""

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..rows.bfloat import widen_bfloat
from ..storage import mapped_tensor, plain_file, safetensors_header
from .base import ArrayRows, Ask, BitsRows, FileRows, as_labels, check_matrix, choose


class Safetensors:
    suffixes = (".safetensors",)

    def open(self, path: Path, ask: Ask) -> FileRows:
        name, raw, bfloat = _tensor(path, "X", ask.key)
        check_matrix(path, raw.shape, raw.dtype)
        return (BitsRows if bfloat else ArrayRows)(f"{path}:{name}", raw)

    def labels(self, path: Path, ask: Ask) -> NDArray[Any]:
        _, raw, bfloat = _tensor(path, "y", ask.label)
        return as_labels(path, widen_bfloat(raw) if bfloat else raw)


def _tensor(path: Path, which: str, asked: str | None) -> tuple[str, NDArray[Any], bool]:
    """Name and numbers of X or y; are these the bits of bfloat16, which NumPy lacks?"""
    offset, header = safetensors_header(plain_file(path))
    header.pop("__metadata__", None)
    ndims = {name: len(entry["shape"]) for name, entry in header.items()}
    name = choose(path, which, ndims, asked)
    return name, mapped_tensor(path, offset, name, header[name]), header[name]["dtype"] == "BF16"
