"""Row stores: solvers use the same methods for every format of X.

`as_rows(X)` wraps an array, a memory map, a SciPy sparse matrix or compressed rows; `base.Rows` has
the methods of a store, `block.Block` those of a block of its rows.
"""

from .base import NormalisedRows, Rows, SubsetRows, blocks
from .bfloat import bfloat_bits
from .blas import one_blas_thread
from .block import Block
from .codes import CodeRows
from .convert import as_rows, stack
from .csr import CSRRows
from .dense import DenseBlock, DenseRows
from .sparse_input import as_csr
from .threads import map_blocks

__all__ = [
    "Block",
    "CSRRows",
    "CodeRows",
    "DenseBlock",
    "DenseRows",
    "NormalisedRows",
    "Rows",
    "SubsetRows",
    "as_csr",
    "as_rows",
    "bfloat_bits",
    "blocks",
    "map_blocks",
    "one_blas_thread",
    "stack",
]
