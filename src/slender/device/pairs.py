"""Dot products of pairs of rows: of a doubtful row and the weights of its class.

Both matrices are far larger than what is wanted of their product, and the rows of the pairs are
larger than both: the kernel reads each row where it is.
"""

from typing import Any

from .compiled import runs_triton

TWIN_BYTES = 2**26  # of the rows that the twin gathers at a time


def dots(X: Any, place: Any, V: Any, of: Any) -> Any:
    """(k,) <x_place, v_of>, for rows of X and V of one dtype and integers place (k,), of (k,)."""
    if len(place) and X.stride(1) == 1 and V.stride(1) == 1 and runs_triton(X):
        from .pairs_kernel import launch  # noqa: PLC0415  (imports Triton)

        return launch(X, place, V, of)
    return twin(X, place, V, of)


def twin(X: Any, place: Any, V: Any, of: Any) -> Any:
    """The same in plain torch."""
    out = X.new_empty(len(place))
    step = max(1, TWIN_BYTES // (X.shape[1] * X.element_size()))
    for lo in range(0, len(place), step):
        some = slice(lo, lo + step)
        out[some] = (X[place[some]] * V[of[some]]).sum(1)
    return out
