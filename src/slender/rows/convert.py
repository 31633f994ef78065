"""From whatever the caller has to a row store."""

from typing import Any

import numpy as np
from scipy import sparse

from .base import Rows
from .bfloat import BFloatRows, bfloat_bits
from .csr import CSRRows
from .dense import DenseRows


def as_rows(X: Any) -> Rows:
    """The row store for X: its own, CSR for sparse matrices, dense for anything array-like."""
    if isinstance(X, Rows):
        return X
    if hasattr(X, "as_rows"):
        return X.as_rows()
    bits = bfloat_bits(X)
    if bits is not None:
        return BFloatRows(bits)
    return CSRRows(X) if sparse.issparse(X) else DenseRows(X)


def stack(blocks: list[Any]) -> Rows:
    """Dense or CSR blocks, one below the other."""
    if all(isinstance(block, np.ndarray) for block in blocks):
        return DenseRows(np.vstack(blocks))
    return CSRRows(sparse.vstack(blocks, format="csr"))
