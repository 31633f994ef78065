"""IDX, the format of MNIST: two zero bytes, a code of the type, the number of dimensions, the
length of each as a 32-bit number, then the numbers; all big-endian, the whole perhaps gzipped.
"""

import gzip
import math
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..storage import FileError, PathLike, plain_file

DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
GZIP = b"\x1f\x8b"
AGAIN = "get the file again"
Found = TypeVar("Found")
# Unzipped, a file may be so large, or so many times its size: images shrink to a tenth at most
# where they are no hoax.
ROOM, TIMES = 2**28, 100


def read_idx(path: PathLike) -> NDArray[Any]:
    """The array of an IDX file; no more is read of it than its header asks for."""
    return _opened(path, _read)


def idx_shape(path: PathLike) -> tuple[int, ...]:
    """The shape of that array; of a zipped file no more than its two ends are read."""
    return _opened(path, _shape)


def _opened(path: PathLike, work: Callable[[Path, Any, bool], Found]) -> Found:
    path = plain_file(path)
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == GZIP
        with gzip.open(path) if zipped else path.open("rb") as file:
            return work(path, file, zipped)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileError(f"{path}: cut short or damaged ({error}); {AGAIN}") from error
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror}); check the path") from error


class _Header(NamedTuple):
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    bytes: int  # of the header
    asked: int  # bytes of the whole file, unzipped


def _header(path: Path, file: Any) -> _Header:
    start = file.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in DTYPES:
        found = start.hex(" ") or "nothing"
        raise FileError(f"{path}: no IDX file (it begins with {found}); {AGAIN}")
    dtype, lengths = np.dtype(DTYPES[start[2]]), file.read(4 * start[3])
    shape = tuple(np.frombuffer(lengths, ">u4").tolist()) if len(lengths) == 4 * start[3] else ()
    size = dtype.itemsize * math.prod(shape)  # Python's integers: no shape overflows
    return _Header(dtype, shape, 4 + len(lengths), 4 + 4 * start[3] + size)


def _shape(path: Path, file: Any, zipped: bool) -> tuple[int, ...]:
    header, held = _header(path, file), path.stat().st_size
    if zipped:  # its last four bytes are the length of what is in it, modulo 2^32
        with path.open("rb") as end:
            end.seek(-4, os.SEEK_END)
            held = int.from_bytes(end.read(4), "little")
    if header.asked % 2**32 != held % 2**32:
        raise _damaged(path, header.asked, f"{held:,}")
    return header.shape


def _read(path: Path, file: Any, zipped: bool) -> NDArray[Any]:
    header, held = _header(path, file), path.stat().st_size
    asked = header.asked
    if zipped and asked > max(ROOM, TIMES * held):
        raise FileError(
            f"{path}: {held:,} bytes that say to be {asked:,} when unzipped: damaged; {AGAIN}"
        )
    if zipped or asked == held:
        content = file.read(asked - header.bytes + 1)
        held = header.bytes + len(content)
    if asked != held:
        raise _damaged(path, asked, f"{held:,}" + " or more" * (zipped and held > asked))
    return (
        np.frombuffer(content, header.dtype)
        .reshape(header.shape)
        .astype(header.dtype.newbyteorder("="))
    )


def _damaged(path: Path, asked: int, held: str) -> FileError:
    return FileError(
        f"{path}: an IDX file of {held} bytes, where its header asks for {asked:,}: "
        f"cut short or damaged; {AGAIN}"
    )
