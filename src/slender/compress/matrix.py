"""CompressedMatrix: product-quantised rows that behave like the matrix of the decoded rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from ..rows import CodeRows
from ..rows.base import compute_dtype
from ..rows.lookup import CENTROIDS
from ..storage import FileError, PathLike
from .format import read_codes, write_codes


class CompressedMatrix(LinearOperator):  # type: ignore[misc]
    """An (n, d) matrix stored as codes: row i is codebooks[0, codes[i, 0]], codebooks[1, ...], ...

    Every estimator of slender accepts it instead of an array, and it is a SciPy LinearOperator.
    M @ B and M.T @ G are computed from the codes, faster than a dense product of the same shape
    (slender/rows/lookup.py); the decompressed matrix is never stored.

    Parameters
    ----------
    codes : array of uint8 (n, n_sq)
        May be a memory map.
    codebooks : array (n_sq, 256, d_sq), float32 or float64
        The centroids of each part; d = n_sq d_sq.

    Examples
    --------
    >>> import numpy as np
    >>> from slender import CompressedMatrix
    >>> rng = np.random.default_rng(0)
    >>> codes = rng.integers(0, 256, (1000, 4)).astype(np.uint8)
    >>> M = CompressedMatrix(codes, rng.standard_normal((4, 256, 8)))
    >>> M
    <1000x32 CompressedMatrix of 4 parts, dtype float64: 4000 bytes of codes>
    >>> np.allclose(M @ np.ones(32), M.toarray().sum(axis=1))
    True
    >>> M[10:20].shape
    (10, 32)
    """

    def __init__(self, codes: NDArray[np.uint8], codebooks: NDArray[Any]) -> None:
        codes, codebooks = np.asanyarray(codes), np.asarray(codebooks)
        if codes.ndim != 2 or codes.dtype != np.uint8:
            raise ValueError(
                f"codes must be a matrix of bytes (uint8) with one row per example; "
                f"these are {codes.dtype} of shape {codes.shape}"
            )
        if codebooks.ndim != 3 or codebooks.shape[:2] != (codes.shape[1], CENTROIDS):
            raise ValueError(
                f"codebooks must have shape (n_sq, {CENTROIDS}, d_sq) with n_sq={codes.shape[1]} "
                f"parts as in codes; these have shape {codebooks.shape}"
            )
        if codes.shape[1] == 0 or codebooks.shape[2] == 0:
            raise ValueError("a row needs at least one part, and a part at least one number")
        codebooks = codebooks.astype(compute_dtype(codebooks.dtype), copy=False)
        if not np.isfinite(codebooks).all():
            raise ValueError("codebooks contain NaN or infinity; train them on finite rows")
        self.codes, self.codebooks = codes, np.ascontiguousarray(codebooks)
        n_sq, _, d_sq = codebooks.shape
        shape = len(codes), n_sq * d_sq
        super().__init__(self.codebooks.dtype, shape)  # type: ignore[call-arg]

    def as_rows(self) -> CodeRows:
        """The row store that slender's solvers read."""
        return CodeRows(self.codes, self.codebooks)

    def toarray(self) -> NDArray[Any]:
        """The decoded rows, dense."""
        return self.as_rows().dense(np.arange(len(self)))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> "CompressedMatrix":
        """Some rows: a slice (which copies nothing), a list of indices or a mask."""
        if isinstance(rows, tuple):  # scikit-learn asks for M[rows, ...]
            rows, *others = rows
            if any(other is not Ellipsis and other != slice(None) for other in others):
                raise IndexError("M can be indexed by rows only; use M.toarray() for columns")
        if isinstance(rows, int | np.integer):
            raise IndexError(f"M[{rows}] is a row, not a matrix; use M[[{rows}]]")
        return CompressedMatrix(self.codes[rows], self.codebooks)

    __iter__ = None  # else Python would ask for M[0], M[1], ... and take the error for the end

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a CompressedMatrix holds no array that can be used without a copy")
        return self.toarray().astype(dtype or self.dtype, copy=False)

    def __repr__(self) -> str:
        n, d = self.shape
        return (
            f"<{n}x{d} CompressedMatrix of {self.codes.shape[1]} parts, dtype {self.dtype}: "
            f"{self.codes.size} bytes of codes>"
        )

    def _matmat(self, B: NDArray[Any]) -> NDArray[Any]:
        rows = self._in(B)
        return rows.matmat(np.asarray(B, rows.dtype))

    def _rmatmat(self, G: NDArray[Any]) -> NDArray[Any]:
        rows = self._in(G)
        return rows.rmatmat(np.asarray(G, rows.dtype))

    def _matvec(self, b: NDArray[Any]) -> NDArray[Any]:
        return self._matmat(b.reshape(-1, 1))

    def _rmatvec(self, g: NDArray[Any]) -> NDArray[Any]:
        return self._rmatmat(g.reshape(-1, 1))

    def _in(self, operand: NDArray[Any]) -> CodeRows:
        """The rows with the dtype of a product with this operand."""
        dtype = np.result_type(self.dtype, operand)
        if dtype.kind != "f":
            raise TypeError(f"no product with {operand.dtype} numbers; convert them to float")
        return CodeRows(self.codes, self.codebooks.astype(compute_dtype(dtype), copy=False))

    # -- files -----------------------------------------------------------------------------------

    def save(self, path: PathLike) -> None:
        """Write codes and codebooks to one file (format.py); a failure leaves no partial file."""
        write_codes(path, self.codebooks, len(self), [self.codes])

    @classmethod
    def load(cls, path: PathLike, check: bool = True) -> "CompressedMatrix":
        """The matrix of a file, with memory-mapped codes.

        `check=False` skips the checksum, which reads all codes once.
        """
        codes, codebooks = read_codes(path, check)
        try:
            return cls(codes, codebooks)
        except ValueError as error:
            raise FileError(f"{path}: {error}") from error
