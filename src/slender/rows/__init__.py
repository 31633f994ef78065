"""Row stores: whatever X is, a solver sees the same verbs.

`as_rows(X)` wraps an array, a memory map, a SciPy sparse matrix or compressed rows; see `base.Rows`
for the verbs, and `blocks` for what can be done with a block of rows.
"""

from .base import Rows, blocks
from .bfloat import bfloat_bits
from .blas import one_blas_thread
from .blocks import (
    add_product,
    as_array,
    column_squares,
    first_bad,
    product,
    row_squares,
    times_rows,
)
from .codes import CodeRows
from .convert import as_rows, stack
from .csr import CSRRows
from .dense import DenseRows
from .normalised import NormalisedRows
from .sparse_input import as_csr
from .subset import SubsetRows
from .threads import map_blocks

__all__ = [
    "CSRRows",
    "CodeRows",
    "DenseRows",
    "NormalisedRows",
    "Rows",
    "SubsetRows",
    "add_product",
    "as_array",
    "as_csr",
    "as_rows",
    "bfloat_bits",
    "blocks",
    "column_squares",
    "first_bad",
    "map_blocks",
    "one_blas_thread",
    "product",
    "row_squares",
    "stack",
    "times_rows",
]
