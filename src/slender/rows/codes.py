"""Product-quantised rows: one byte per part of a row, and a codebook of 256 centroids per part.

X is the matrix of the *reconstructed* rows (TN12, §4.2).  Blocks stay encoded, and their products
use tables (lookup.py); rows gathered for a sample or a mini-batch are decoded.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Rows
from .block import Bad, Block
from .dense import DenseBlock
from .kernel import Dense, KernelRows, Quantised, add_rows, read_only
from .lookup import accumulate, decode, look_up, multiply, squares
from .paged import PagedRows

BLOCK_ROWS = 16_384  # many, for each table computed, but few enough that their sums stay in cache
OUT_BYTES = 64 * 2**20  # of the output of a block, at most: limits it with ten thousand classes


class CodeBlock(Block):
    """Some encoded rows, each times a factor if `factor` is given."""

    __slots__ = ("codebooks", "codes", "factor")

    def __init__(
        self,
        codes: NDArray[np.uint8],
        codebooks: NDArray[Any],
        factor: NDArray[Any] | None = None,
    ) -> None:
        self.codes = np.ascontiguousarray(codes)
        self.codebooks, self.factor = codebooks, factor
        self.shape = (len(codes), codebooks.shape[0] * codebooks.shape[2])
        self.dtype = codebooks.dtype

    def __matmul__(self, B: NDArray[Any]) -> NDArray[Any]:
        columns = np.ascontiguousarray(B.reshape(len(B), -1), np.result_type(B, self.dtype))
        out = np.empty((self.shape[0], columns.shape[1]), columns.dtype)
        multiply(self.codes, self._codebooks(columns), columns, out)
        if self.factor is not None:
            out *= self.factor[:, None]
        return out.reshape(len(out), *B.shape[1:])

    def __rmatmul__(self, G: NDArray[Any]) -> NDArray[Any]:
        rows = np.atleast_2d(G)
        dtype = np.result_type(G, self.dtype)
        out = np.zeros((len(rows), self.shape[1]), dtype)
        summands = np.ascontiguousarray(rows.T, dtype)
        if self.factor is not None:
            summands = summands * self.factor[:, None]
        accumulate(self.codes, self._codebooks(summands), summands, out)
        return out.reshape(*G.shape[:-1], self.shape[1])

    def add_by_class(
        self, w: NDArray[np.float64], y: NDArray[Any], out: NDArray[np.float64], first: int = 0
    ) -> None:
        if self.factor is not None:
            w = w * self.factor
        add_rows(Quantised(*read_only(self.codes, self.codebooks)), w, y, first, out)

    def __getitem__(self, rows: slice) -> "CodeBlock":
        factor = None if self.factor is None else self.factor[rows]
        return CodeBlock(self.codes[rows], self.codebooks, factor)

    def row_squares(self) -> NDArray[Any]:
        out = np.empty(len(self.codes))
        look_up(self.codes, squares(self.codebooks), out)
        if self.factor is not None:
            out *= self.factor.astype(np.float64) ** 2
        return out.astype(self.dtype)

    def column_squares(self) -> NDArray[Any]:
        return DenseBlock(self.toarray()).column_squares()

    def times_rows(self, factor: NDArray[Any]) -> "CodeBlock":
        both = factor if self.factor is None else factor * self.factor
        return CodeBlock(self.codes, self.codebooks, both.astype(self.dtype))

    def scaled(self, scale: NDArray[Any]) -> "CodeBlock":
        return CodeBlock(self.codes, scaled_codebooks(self.codebooks, scale), self.factor)

    def astype(self, dtype: Any) -> "CodeBlock":
        factor = None if self.factor is None else self.factor.astype(dtype)
        return CodeBlock(self.codes, self.codebooks.astype(dtype), factor)

    def first_bad(self) -> Bad | None:
        return None  # the codebooks were checked when the matrix was made

    def toarray(self) -> NDArray[Any]:
        out = np.empty(self.shape, self.dtype)
        decode(self.codes, self.codebooks, out)
        if self.factor is not None:
            out *= self.factor[:, None]
        return out

    def kernel_rows(self) -> KernelRows:
        if self.factor is None:
            return Quantised(*read_only(self.codes, self.codebooks))
        return Dense(*read_only(self.toarray()))  # kernels do not support factors

    def _codebooks(self, operand: NDArray[Any]) -> NDArray[Any]:
        return self.codebooks.astype(operand.dtype, copy=False)


class CodeRows(PagedRows):
    """Rows of codes (n, n_sq) with codebooks (n_sq, 256, d_sq) of float32 or float64."""

    def __init__(self, codes: NDArray[np.uint8], codebooks: NDArray[Any]) -> None:
        self.codes, self.codebooks = np.asarray(codes), codebooks
        super().__init__(self.codes)
        self.shape = (len(codes), codebooks.shape[0] * codebooks.shape[2])
        self.dtype = codebooks.dtype

    def block(self, lo: int, hi: int) -> CodeBlock:
        return CodeBlock(self.codes[lo:hi], self.codebooks)

    def select(self, index: NDArray[np.intp]) -> CodeBlock:
        return CodeBlock(self.codes[index], self.codebooks)

    def gather(self, index: NDArray[np.intp]) -> DenseBlock:
        return DenseBlock(self.select(index).toarray())

    def take(self, order: NDArray[np.intp]) -> tuple[KernelRows, NDArray[np.intp]]:
        return Quantised(*read_only(self.codes, self.codebooks)), order

    def scaled(self, scale: NDArray[Any]) -> Rows:
        return CodeRows(self.codes, scaled_codebooks(self.codebooks, scale))

    def block_rows(self, out_bytes: int) -> int:
        return min(BLOCK_ROWS, max(1, OUT_BYTES // max(1, out_bytes)))

    def like(self, stored: NDArray[np.uint8]) -> "CodeRows":
        return CodeRows(stored, self.codebooks)


def scaled_codebooks(codebooks: NDArray[Any], scale: NDArray[Any]) -> NDArray[Any]:
    """The codebooks of the rows with scaled columns."""
    return codebooks * scale.astype(codebooks.dtype).reshape(len(codebooks), 1, -1)
