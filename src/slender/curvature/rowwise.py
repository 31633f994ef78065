"""w += a D x_i: what a diagonal metric asks of a row beyond `dot` and `axpy`.

One form for each kind of row a kernel can read (rows/kernel.py); a new kind adds its own to FORMS.
"""

from typing import Any

from numba.extending import overload, register_jitable
from numpy.typing import NDArray

from ..rows.kernel import CSR, Dense, KernelRows


def _dense(X: Dense, a: Any, i: int, D: NDArray[Any], w: NDArray[Any]) -> None:
    x = X.data[i]
    a = w.dtype.type(a)  # a float64 would turn the whole loop into float64
    for j in range(len(w)):
        w[j] += a * D[j] * x[j]


def _csr(X: CSR, a: Any, i: int, D: NDArray[Any], w: NDArray[Any]) -> None:
    a = w.dtype.type(a)
    for p in range(X.indptr[i], X.indptr[i + 1]):
        j = X.indices[p]
        w[j] += a * D[j] * X.data[p]


FORMS: dict[Any, Any] = {Dense: register_jitable(_dense), CSR: register_jitable(_csr)}


def axpy_scaled(X: KernelRows, a: Any, i: int, D: NDArray[Any], w: NDArray[Any]) -> None:
    """w += a D x_i for a diagonal D."""
    FORMS[type(X)](X, a, i, D, w)


@overload(axpy_scaled)
def _axpy_scaled(X, a, i, D, w):  # type: ignore[no-untyped-def]
    form = FORMS.get(getattr(X, "instance_class", None))
    return None if form is None else lambda X, a, i, D, w: form(X, a, i, D, w)
