"""Row stores for the matrices that a caller may pass."""

from typing import Any

import numpy as np
from scipy import sparse

from .base import Rows
from .bfloat import BFloatRows, bfloat_bits
from .block import Block
from .csr import CSRRows
from .dense import DenseRows


def as_rows(X: Any) -> Rows:
    """The row store of X: its own if it has one, CSR if sparse, dense for anything array-like."""
    if isinstance(X, Rows):
        return X
    if hasattr(X, "as_rows"):
        return X.as_rows()
    bits = bfloat_bits(X)
    if bits is not None:
        return BFloatRows(bits)
    return CSRRows(X) if sparse.issparse(X) else DenseRows(X)


def stack(blocks: list[Block]) -> Rows:
    """The blocks stacked vertically, in memory; sparse if one of them is."""
    parts = [block.matrix() for block in blocks]
    if any(block.is_sparse for block in blocks):
        return CSRRows(sparse.vstack(parts, format="csr"))
    return DenseRows(np.vstack(parts))
