"""Product-quantised rows in several files that share one codebook."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Rows
from .block import Block
from .chunked import ChunkedRows, Source
from .codes import CodeRows, scaled_codebooks
from .kernel import KernelRows


class ChunkedCodeRows(ChunkedRows):
    """Rows whose sources are read as codes (n, n_sq), with codebooks (n_sq, 256, d_sq)."""

    def __init__(self, sources: Sequence[Source], codebooks: NDArray[Any]) -> None:
        self.codebooks = codebooks
        super().__init__(sources)
        self.shape = (self.shape[0], codebooks.shape[0] * codebooks.shape[2])
        self.dtype = codebooks.dtype

    def rows_of(self, stored: NDArray[Any]) -> CodeRows:
        return CodeRows(stored, self.codebooks)

    def select(self, index: NDArray[np.intp]) -> Block:
        return super().gather(index)

    def gather(self, index: NDArray[np.intp]) -> Block:
        return self.rows_of(self.pick(index)).gather(np.arange(len(index)))

    def take(self, order: NDArray[np.intp]) -> tuple[KernelRows, NDArray[np.intp]]:
        return self.select(order).kernel_rows(), np.arange(len(order))

    def scaled(self, scale: NDArray[Any]) -> Rows:
        return ChunkedCodeRows(self.sources, scaled_codebooks(self.codebooks, scale))

    def block_rows(self, out_bytes: int) -> int:
        return self.rows_of(np.empty((0, len(self.codebooks)), np.uint8)).block_rows(out_bytes)

    @property
    def stored_row_bytes(self) -> int:
        return len(self.codebooks)
