"""Row stores: solvers use the same methods for every format of X.

`as_rows(X)` wraps an array, a memory map, a SciPy sparse matrix or compressed rows; `base.Rows` has
the methods of a store, `block.Block` those of a block of its rows.
"""

from .base import NormalisedRows, Rows, blocks
from .bfloat import bfloat_bits
from .blas import one_blas_thread
from .block import Block
from .chunked import ChunkedRows, Source
from .chunked_codes import ChunkedCodeRows
from .codes import CodeRows
from .convert import as_rows, stack
from .csr import CSRRows
from .dense import DenseBlock, DenseRows, rows_beside, rows_projected
from .sparse_input import as_csr
from .subset import SubsetRows, some_of
from .threads import map_blocks

__all__ = [
    "Block",
    "CSRRows",
    "ChunkedCodeRows",
    "ChunkedRows",
    "CodeRows",
    "DenseBlock",
    "DenseRows",
    "NormalisedRows",
    "Rows",
    "Source",
    "SubsetRows",
    "as_csr",
    "as_rows",
    "bfloat_bits",
    "blocks",
    "map_blocks",
    "one_blas_thread",
    "rows_beside",
    "rows_projected",
    "some_of",
    "stack",
]
