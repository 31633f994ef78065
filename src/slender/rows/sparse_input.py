"""Sparse matrices from users: any of SciPy's formats, checked and converted to CSR.

SciPy's compiled code and our kernels do not check the indices of a sparse matrix: one past the last
column would read or write somewhere else in memory.  So `check_structure` is called before any
compiled code uses a matrix.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

COMPRESSED = ("csr", "csc", "bsr")


def as_csr(X: Any, name: str = "X") -> Any:
    """X as CSR, with increasing indices in each row and duplicates added up; X is not changed."""
    check_structure(X, name)
    if not X.dtype.isnative:
        X = X.astype(X.dtype.newbyteorder("="))
    X = sparse.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def check_structure(X: Any, name: str = "X") -> None:
    """Raise ValueError unless the arrays of a sparse matrix are consistent."""
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, but {name} has shape {X.shape}")
    wrong = _wrong(X)
    if wrong:
        raise ValueError(
            f"{name} is not a valid sparse matrix: {wrong}; build it again, for instance as "
            "scipy.sparse.coo_array((values, (rows, columns)), shape)"
        )


def _wrong(X: Any) -> str | None:
    """What is wrong with a matrix; None if nothing is."""
    if X.format in COMPRESSED:
        return _wrong_compressed(X)
    if X.format == "coo":
        return _wrong_coordinates(X)
    if X.format == "lil":
        if list(map(len, X.rows)) != list(map(len, X.data)):
            return "the numbers of values and indices of a row differ"
        return _wrong_compressed(X.tocsr())  # whose indices are those of the lists
    if X.format == "dia" and len(X.offsets) != len(X.data):
        return f"it has {len(X.offsets)} offsets for {len(X.data)} diagonals"
    return None  # dia, dok: SciPy ignores or rejects an index out of range


def _wrong_compressed(X: Any) -> str | None:
    by_row = X.format != "csc"
    line, across = ("row", "column") if by_row else ("column", "row")
    n_lines, n_across = X.shape if by_row else X.shape[::-1]
    if X.format == "bsr":
        line, across = f"block {line}", f"block {across}"
        n_lines, n_across = n_lines // X.blocksize[0], n_across // X.blocksize[1]
    if not _whole(X.indptr) or not _whole(X.indices):
        return "its indices or pointers are not integers"
    if len(X.indptr) != n_lines + 1:
        return f"it has {len(X.indptr)} pointers instead of {n_lines + 1} for {n_lines} {line}s"
    first, last = int(X.indptr[0]), int(X.indptr[-1])
    held = min(len(X.indices), len(X.data))
    if first != 0 or last > held:
        return f"its pointers run from {first} to {last}, but must run from 0 to {held} or less"
    if (X.indptr[1:] < X.indptr[:-1]).any():
        i = int(np.argmax(X.indptr[1:] < X.indptr[:-1]))
        return f"its pointers decrease at {line} {i}"
    k = _first_outside(X.indices[:last], n_across)
    if k is None:
        return None
    i = int(np.searchsorted(X.indptr, k, side="right")) - 1
    return _outside(f"{line} {i}", across, int(X.indices[k]), n_across)


def _wrong_coordinates(X: Any) -> str | None:
    if not all(_whole(index) and len(index) == len(X.data) for index in X.coords):
        return "its coordinates are not integers, or not one per value"
    for axis, what in enumerate(("row", "column")):
        k = _first_outside(X.coords[axis], X.shape[axis])
        if k is not None:
            return _outside(f"value {k}", what, int(X.coords[axis][k]), X.shape[axis])
    return None


def _whole(index: NDArray[Any]) -> bool:
    return index.ndim == 1 and index.dtype.kind in "iu"


def _first_outside(index: NDArray[Any], n: int) -> int | None:
    if len(index) == 0 or (index.min() >= 0 and index.max() < n):
        return None
    return int(np.argmax((index < 0) | (index >= n)))


def _outside(where: str, what: str, found: int, n: int) -> str:
    return f"{where} has {what} index {found}, but there are {n} {what}s"
