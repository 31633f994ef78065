"""What can be done with a block of rows: an array, a SciPy CSR matrix, or codes (codes.CodeBlock).

Every block multiplies with @ from both sides; these verbs do so into memory that is there already,
or ask what a product does not tell.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def product(block: Any, B: NDArray[Any], out: NDArray[Any]) -> None:
    """out = block B."""
    if isinstance(block, np.ndarray):
        np.matmul(block, B, out=out)
    else:
        out[:] = block @ B


def add_product(G: NDArray[Any], block: Any, out: NDArray[Any], scratch: NDArray[Any]) -> None:
    """out += Gᵀ block; `scratch` is an array like some rows of out, in which products are made."""
    if isinstance(block, np.ndarray):
        step = len(scratch)
        for lo in range(0, len(out), step):
            part = out[lo : lo + step]
            part += np.matmul(G[:, lo : lo + step].T, block, out=scratch[: len(part)])
    else:
        out += G.T @ block


def as_array(block: Any) -> NDArray[Any]:
    """The rows as a dense array."""
    return block if isinstance(block, np.ndarray) else np.asarray(block.toarray())


def row_squares(block: Any) -> NDArray[Any]:
    """‖x_i‖² of every row."""
    if isinstance(block, np.ndarray):
        return np.einsum("ij,ij->i", block, block)
    if _is_sparse(block):
        return np.asarray(block.multiply(block).sum(axis=1)).ravel()
    return np.asarray(block.row_squares())


def column_squares(block: Any) -> NDArray[Any]:
    """Sums of squares of the columns of gathered rows: an array or a CSR matrix."""
    if isinstance(block, np.ndarray):
        return np.einsum("ij,ij->j", block, block)
    return np.asarray(block.multiply(block).sum(axis=0)).ravel()


def times_rows(block: Any, factor: NDArray[Any]) -> Any:
    """Row i times factor[i]."""
    if isinstance(block, np.ndarray):
        return block * factor[:, None]
    if _is_sparse(block):
        return sparse.csr_array(sparse.diags_array(factor, dtype=block.dtype) @ block)
    return block.times(factor)


def first_bad(block: Any) -> tuple[int, int, float] | None:
    """Row, column and value of the first NaN or infinity; None if there is none."""
    if isinstance(block, np.ndarray):
        values = block
    elif _is_sparse(block):
        values = block.data
    else:
        return None  # codes: their centroids were looked at when the matrix was made
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return None
    bad = np.argwhere(~np.isfinite(values))
    if len(bad) == 0:  # only the sum was too large
        return None
    if isinstance(block, np.ndarray):
        i, j = bad[0]
    else:  # where the first bad number of a CSR block stands
        (k,) = bad[0]
        i, j = np.searchsorted(block.indptr, k, side="right") - 1, block.indices[k]
    return int(i), int(j), float(values[tuple(bad[0])])


def _is_sparse(block: Any) -> bool:
    return bool(sparse.issparse(block))
