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

from ..storage import FileError, PathLike

DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
GZIP = b"\x1f\x8b"
AGAIN = "get the file again"


def read_idx(path: PathLike) -> NDArray[Any]:
    """The array of an IDX file."""
    content = _content(Path(path))
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in DTYPES:
        found = content[:4].hex(" ") or "nothing"
        raise FileError(f"{path}: no IDX file (it begins with {found}); {AGAIN}")
    dtype, begin = np.dtype(DTYPES[content[2]]), 4 + 4 * content[3]
    shape = tuple(np.frombuffer(content[4:begin], ">u4").tolist()) if len(content) >= begin else ()
    size = begin + dtype.itemsize * math.prod(shape)  # Python's integers: no shape overflows
    if len(content) != size:
        raise FileError(
            f"{path}: an IDX file of {len(content):,} bytes, where its header asks for {size:,}: "
            f"cut short or damaged; {AGAIN}"
        )
    numbers = np.frombuffer(content, dtype, offset=begin).reshape(shape)
    return numbers.astype(dtype.newbyteorder("="))


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content.startswith(GZIP) else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileError(f"{path}: cut short or damaged ({error}); {AGAIN}") from error
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror}); check the path") from error
