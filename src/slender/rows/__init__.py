"""Row stores: whatever X is, a solver sees the same verbs.

`as_rows(X)` wraps an array, a memory map or a SciPy sparse matrix; see `base.Rows` for the verbs.
"""

from .base import Rows, blocks, sum_squares
from .convert import as_rows
from .csr import CSRRows
from .dense import DenseRows
from .scaled import ScaledRows

__all__ = ["CSRRows", "DenseRows", "Rows", "ScaledRows", "as_rows", "blocks", "sum_squares"]
