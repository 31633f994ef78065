""".npz: several arrays in a zip archive, or SciPy's sparse format.

Arrays that are not compressed are mapped where they lie in the archive.  Those of
`np.savez_compressed` can only be read whole.
"""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..rows.shuffling import even_edges
from ..rows.sparse_input import as_csr
from ..storage import plain_file
from .base import Y_NAMES, Ask, FileRows, as_labels, check_matrix, choose, reading
from .sparse import SparseRows

WHAT = "an .npz file"
SPARSE_KEYS = {"format", "shape", "data"}  # what scipy.sparse.save_npz always writes
LOCAL_HEADER = 30  # bytes before the name of a member of a zip archive


class Npz:
    suffixes = (".npz",)

    def open(self, path: Path, ask: Ask) -> FileRows:
        headers = _headers(path)
        if headers.keys() >= SPARSE_KEYS and ask.key is None:
            with reading(path, WHAT):
                return SparseRows(str(path), as_csr(sparse.load_npz(path)))
        name = choose(path, "X", _ndims(headers), ask.key)
        shape, fortran, dtype = headers[name]
        check_matrix(path, shape, dtype)
        return NpzRows(path, name, shape, dtype, fortran)

    def labels(self, path: Path, ask: Ask) -> NDArray[Any]:
        headers = _headers(path)
        if headers.keys() >= SPARSE_KEYS:
            headers = {name: of for name, of in headers.items() if name in Y_NAMES}
        return as_labels(path, _loaded(path, choose(path, "y", _ndims(headers), ask.label)))


class NpzRows(FileRows):
    """A matrix in an archive."""

    def __init__(self, path: Path, member: str, shape: Any, dtype: Any, fortran: bool) -> None:
        self.path, self.member = path, member
        self.name, self.shape, self.dtype = f"{path}:{member}", shape, dtype
        with reading(path, WHAT):
            self._bytes = None if fortran else _mapped(path, member, shape, dtype)
        row_bytes = shape[1] * dtype.itemsize
        self.edges = (0, shape[0]) if self._bytes is None else even_edges(shape[0], row_bytes)

    def read(self, lo: int, hi: int) -> NDArray[Any]:
        if self._bytes is None:
            return np.asarray(_loaded(self.path, self.member)[lo:hi])
        # a copy: numbers in an archive need not be aligned
        return np.array(self._bytes[lo:hi]).view(self.dtype).reshape(hi - lo, self.shape[1])

    def whole(self) -> Any:
        return _loaded(self.path, self.member)


def _headers(path: Path) -> dict[str, tuple[tuple[int, ...], bool, np.dtype[Any]]]:
    """Shape, whether in Fortran's order, and dtype of each array."""
    with reading(plain_file(path), WHAT), zipfile.ZipFile(path) as archive:
        found = {}
        for member in archive.namelist():
            with archive.open(member) as file:
                found[member.removesuffix(".npy")] = _header(file)
        return found


def _header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = getattr(np.lib.format, f"read_array_header_{version[0]}_{version[1]}", None)
    if read is None:
        raise ValueError(f"arrays of format {version}")
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("Object arrays are not read")
    return shape, fortran, dtype


def _ndims(headers: dict[str, Any]) -> dict[str, int]:
    return {name: len(of[0]) for name, of in headers.items()}


def _loaded(path: Path, member: str) -> NDArray[Any]:
    with reading(path, WHAT), np.load(path, allow_pickle=False) as archive:
        return archive[member]


def _mapped(path: Path, member: str, shape: Any, dtype: Any) -> NDArray[np.uint8] | None:
    """The bytes of each row of an array that is not compressed."""
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"{member}.npy")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or 0 in shape:
            return None
        with archive.open(info) as inner:
            _header(inner)
            header = inner.tell()
    with path.open("rb") as file:
        file.seek(info.header_offset)
        local = file.read(LOCAL_HEADER)
    names = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    offset = info.header_offset + LOCAL_HEADER + names + header
    return np.memmap(path, np.uint8, "r", offset, (shape[0], shape[1] * dtype.itemsize))
