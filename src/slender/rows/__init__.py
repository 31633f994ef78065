"""Row stores: whatever X is, a solver sees the same verbs.

`as_rows(X)` wraps an array, a memory map or a SciPy sparse matrix; see `base.Rows` for the verbs.
"""

from .base import Rows, add_product, blocks, product, sum_squares
from .convert import as_rows, stack
from .csr import CSRRows
from .dense import DenseRows
from .normalised import NormalisedRows
from .scaled import ScaledRows
from .subset import SubsetRows
from .threads import map_blocks, one_blas_thread

__all__ = [
    "CSRRows",
    "DenseRows",
    "NormalisedRows",
    "Rows",
    "ScaledRows",
    "SubsetRows",
    "add_product",
    "as_rows",
    "blocks",
    "map_blocks",
    "one_blas_thread",
    "product",
    "stack",
    "sum_squares",
]
