""".pt: a tensor or a dictionary of tensors as `torch.save` writes them, memory-mapped.

Loaded with `weights_only=True`, so that nothing in the file is executed.
"""

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..extras import need
from ..rows.bfloat import bfloat_bits, widen_bfloat
from ..storage import FileError, plain_file
from .base import (
    ArrayRows,
    Ask,
    BitsRows,
    FileRows,
    as_labels,
    check_matrix,
    check_nameless,
    choose,
    reading,
)


class Pt:
    suffixes = (".pt", ".pth")

    def open(self, path: Path, ask: Ask) -> FileRows:
        found = _load(path)
        alone = hasattr(found, "dtype")
        if alone:
            check_nameless(path, "X", ask.key)
            name, tensor = str(path), found
        else:
            key = choose(path, "X", {each: of.dim() for each, of in found.items()}, ask.key)
            name, tensor = f"{path}:{key}", found[key]
        bits = bfloat_bits(tensor)
        array = tensor.detach().numpy() if bits is None else bits
        check_matrix(path, array.shape, array.dtype)
        return (ArrayRows if bits is None else BitsRows)(name, array, alone)

    def labels(self, path: Path, ask: Ask) -> NDArray[Any]:
        found = _load(path)
        if hasattr(found, "dtype"):
            check_nameless(path, "y", ask.label)
        else:
            ndims = {name: of.dim() for name, of in found.items()}
            found = found[choose(path, "y", ndims, ask.label)]
        bits = bfloat_bits(found)
        return as_labels(path, found.detach().numpy() if bits is None else widen_bfloat(bits))


def _load(path: Path) -> Any:
    """A tensor, or tensors by name."""
    torch = need("torch", f"{path}: reading .pt files")
    with reading(plain_file(path), "a .pt file"):
        try:
            found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except Exception as error:
            text = " ".join(str(error).split())
            if "Weights only load failed" in text:
                raise _not_tensors(path) from error
            if "mmap can only be used" in text:
                raise FileError(
                    f"{path}: is in torch's old format, which cannot be mapped; "
                    "write it again with torch.save"
                ) from error
            raise
    if isinstance(found, torch.Tensor):
        return found
    if not isinstance(found, dict):
        raise _not_tensors(path)
    tensors = {str(name): of for name, of in found.items() if isinstance(of, torch.Tensor)}
    if not tensors:
        raise _not_tensors(path)
    return tensors


def _not_tensors(path: Path) -> FileError:
    return FileError(f"{path}: holds other Python objects; save a tensor, or a dict of tensors")
