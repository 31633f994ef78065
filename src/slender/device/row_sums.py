"""Weighted sums of rows on the device, in float64: of all rows, and of the rows of each class.

Each row is read once and as it is stored.  In torch alone it would be widened to float64 first,
which moves ten times as many bytes.
"""

from typing import Any

import torch

from .compiled import runs_triton

WIDENED = 4096  # rows that the twin widens to float64 at a time
MOST = 8192  # numbers of a row whose sums a program can hold


def moments(X: Any, w: Any, dtype: Any) -> tuple[Any, Any]:
    """Σ w_i x_i (d,) in float64 and ‖x_i‖² (m,) in `dtype`, for rows X (m, d) and float64 w."""
    if dtype == torch.float32 and _fused(X) and X.shape[1] <= MOST:
        from .row_sums_kernel import launch_moments  # noqa: PLC0415  (imports Triton)

        return launch_moments(X, w)  # type: ignore[no-any-return]
    return moments_twin(X, w, dtype)


def moments_twin(X: Any, w: Any, dtype: Any) -> tuple[Any, Any]:
    """The same in plain torch."""
    wide = X.to(dtype)
    return (w.to(dtype) @ wide).double(), wide.square().sum(dim=1)


def add_by_class(X: Any, w: Any, y: Any, out: Any) -> None:
    """out[y_i] += w_i x_i, for float64 w (m,) and `out` (C, d)."""
    if _fused(X):
        from .row_sums_kernel import launch_classes  # noqa: PLC0415  (imports Triton)

        launch_classes(X, w, y, out)
    else:
        add_by_class_twin(X, w, y, out)


def add_by_class_twin(X: Any, w: Any, y: Any, out: Any) -> None:
    """The same in plain torch."""
    for lo in range(0, X.shape[0], WIDENED):
        some = slice(lo, lo + WIDENED)
        out.index_add_(0, y[some], X[some].double() * w[some, None])


def _fused(X: Any) -> bool:
    return X.element_size() <= 4 and X.stride(1) == 1 and X.numel() > 0 and runs_triton(X)
