"""Compressed rows in one file, `.pq`: a safetensors file that any safetensors reader can open.

    codebooks   (n_sq, 256, d_sq) float32 or float64
    codes       (n, n_sq) uint8, row by row, so that the file can be memory-mapped and read by rows
    sha256      (32,) uint8: checksum of the document, the codebooks and the codes, in this order

`__metadata__` holds under FORMAT a JSON document with `version` (of this format; a newer one is
refused) and `slender` (the version that wrote the file).  The checksum comes last because codes are
written block by block, while they are computed.
"""

import hashlib
import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..storage import (
    DTYPES,
    FileError,
    PathLike,
    mapped_tensor,
    plain_file,
    safetensors_header,
    unreadable,
    write_whole,
)

FORMAT = "slender-codes"
VERSION = 1
NAMES = {np.dtype(DTYPES[name]): name for name in ("F32", "F64", "U8")}
KINDS = {"codebooks": ("F32", "F64"), "codes": ("U8",), "sha256": ("U8",)}
NDIMS = {"codebooks": 3, "codes": 2, "sha256": 1}
DIGEST = 32
CHUNK = 16 * 2**20  # bytes of codes the checksum reads at a time


def write_codes(
    path: PathLike, codebooks: NDArray[Any], n: int, blocks: Iterable[NDArray[np.uint8]]
) -> None:
    """Write n rows of codes, given as blocks; a failure leaves no partial file."""
    write_whole(path, lambda temporary: _write(temporary, codebooks, n, blocks))


def _write(
    path: Path, codebooks: NDArray[Any], n: int, blocks: Iterable[NDArray[np.uint8]]
) -> None:
    document = json.dumps({"version": VERSION, "slender": __version__})
    shapes = {
        "codebooks": (codebooks.dtype, codebooks.shape),
        "codes": (np.dtype("u1"), (n, len(codebooks))),
        "sha256": (np.dtype("u1"), (DIGEST,)),
    }
    header: dict[str, Any] = {"__metadata__": {FORMAT: document}}
    end = 0
    for name, (dtype, shape) in shapes.items():
        begin, end = end, end + int(np.prod(shape)) * dtype.itemsize
        header[name] = {"dtype": NAMES[dtype], "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that the numbers are aligned
    digest = hashlib.sha256(document.encode())
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        _put(file, digest, np.ascontiguousarray(codebooks))
        rows = 0
        for block in blocks:
            _put(file, digest, np.ascontiguousarray(block, np.uint8))
            rows += len(block)
        if rows != n:
            raise ValueError(f"{rows} rows of codes were written, but {n} were announced")
        file.write(digest.digest())


def _put(file: BinaryIO, digest: Any, array: NDArray[Any]) -> None:
    """Write the bytes of an array, without copying them."""
    content = array.reshape(-1).view(np.uint8).data
    file.write(content)
    digest.update(content)


def read_codes(path: PathLike, check: bool = True) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """(codes, codebooks) of a file; the codes are a memory map."""
    path = plain_file(path)
    try:
        return _read(path, check)
    except FileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OSError, RecursionError) as error:
        raise unreadable(path, "a file of compressed rows", error) from error


def _read(path: Path, check: bool) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    offset, header = safetensors_header(path)
    text = header.get("__metadata__", {}).get(FORMAT)
    if text is None:
        raise FileError(
            f"{path}: not a file of compressed rows; `slender compress` writes such files"
        )
    document = json.loads(text)
    if document["version"] > VERSION:
        raise FileError(
            f"{path}: compressed rows of format {document['version']}, written by slender "
            f"{document['slender']}; slender {__version__} reads up to format {VERSION}: "
            "upgrade slender"
        )
    for name, allowed in KINDS.items():
        dtype, shape = header[name]["dtype"], header[name]["shape"]
        if dtype not in allowed or len(shape) != NDIMS[name]:  # bfloat16 would become integers, say
            raise FileError(
                f"{path}: {name} have dtype {dtype} and shape {shape}, but should have dtype "
                f"{' or '.join(allowed)} and {NDIMS[name]} dimensions; compress again"
            )
    codebooks = np.array(mapped_tensor(path, offset, "codebooks", header["codebooks"]))
    codes = mapped_tensor(path, offset, "codes", header["codes"])
    if check:
        digest = hashlib.sha256(text.encode())
        digest.update(codebooks.tobytes())
        rows = max(1, CHUNK // max(1, codes.shape[1]))
        for lo in range(0, len(codes), rows):
            digest.update(codes[lo : lo + rows].tobytes())
        if digest.digest() != mapped_tensor(path, offset, "sha256", header["sha256"]).tobytes():
            raise FileError(
                f"{path}: damaged compressed rows (checksum differs); copy or compress them again"
            )
    return codes, codebooks
