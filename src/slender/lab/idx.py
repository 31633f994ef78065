"""IDX, the format of MNIST: two zero bytes, a code of the type, the number of dimensions, the
length of each as a 32-bit number, then the numbers; all big-endian, the whole perhaps gzipped.
"""

import gzip
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage import FileError, PathLike, plain_file

DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
GZIP = b"\x1f\x8b"
AGAIN = "get the file again"
# Unzipped, a file may be so large, or so many times its size: images shrink to a tenth at most
# where they are no hoax.
ROOM, TIMES = 2**28, 100


def read_idx(path: PathLike) -> NDArray[Any]:
    """The array of an IDX file; no more is read of it than its header asks for."""
    path = plain_file(path)
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == GZIP
        with gzip.open(path) if zipped else path.open("rb") as file:
            return _read(path, file, zipped)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileError(f"{path}: cut short or damaged ({error}); {AGAIN}") from error
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror}); check the path") from error


def _read(path: Path, file: Any, zipped: bool) -> NDArray[Any]:
    start = file.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in DTYPES:
        found = start.hex(" ") or "nothing"
        raise FileError(f"{path}: no IDX file (it begins with {found}); {AGAIN}")
    dtype, lengths = np.dtype(DTYPES[start[2]]), file.read(4 * start[3])
    shape = tuple(np.frombuffer(lengths, ">u4").tolist()) if len(lengths) == 4 * start[3] else ()
    size = dtype.itemsize * math.prod(shape)  # Python's integers: no shape overflows
    asked, held = 4 + 4 * start[3] + size, path.stat().st_size
    if zipped and asked > max(ROOM, TIMES * held):
        raise FileError(
            f"{path}: {held:,} bytes that say to be {asked:,} when unzipped: damaged; {AGAIN}"
        )
    if zipped or asked == held:
        content = file.read(size + 1)
        held = 4 + len(lengths) + len(content)
    if asked != held:
        more = " or more" if zipped and held > asked else ""
        raise FileError(
            f"{path}: an IDX file of {held:,} bytes{more}, where its header asks for {asked:,}: "
            f"cut short or damaged; {AGAIN}"
        )
    return np.frombuffer(content, dtype).reshape(shape).astype(dtype.newbyteorder("="))
