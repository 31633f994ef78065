"""How an iterate moves: `move` is the only method of a metric that the stochastic loop calls.

At each visit the loop computes the slope of the example.  The step that follows depends on the
approximation of the Hessian, and is made by the metric:

    scale, b = move(metric, at, loss, X, v, scale, b)        w = scale v, moved in place

`Fixed` is gradient descent in the coordinates of a static curvature; secant.py has diagonals that
change during the fit (SGD-QN), lbfgs.py a memory of secant pairs (oLBFGS).  A new metric is a
frozen dataclass with `start`, which returns a NamedTuple of arrays, one row per class, with `move`.

The numbers of a metric are part of the state of a fit: `start` is called once, and every later
pass, or call of partial_fit, continues with them.
"""

from typing import Any, NamedTuple, Protocol

from numba.extending import overload
from numpy.typing import NDArray

from ..losses import MarginLoss
from ..overloads import method_of
from ..rows.kernel import KernelRows, axpy

SMALLEST_SCALE = 1e-6  # below this the scale is folded into v


class At(NamedTuple):
    """The current visit: a class at one of its examples.

    Numbers only: arrays passed at every visit would cost reference counting each time.
    """

    c: int  # the class
    row: int  # place of the example in the rows the kernel reads
    t: int  # visits of the class before this one
    y: int  # ±1
    weight: float  # c_i
    slope: float  # F'(z)
    eta: float  # eta_t
    cap: float  # cap_i
    lam: float
    beta: float


class Metric(Protocol):
    """Settings."""

    def start(self, n_classes: int, dim: int, dtype: Any, loss: MarginLoss, lam: float) -> Any:
        """The metric at the beginning of a fit: a NamedTuple with `move`."""


class Fixed(NamedTuple):
    """Static coordinates: v <- (1 - eta lam) v - e z, e = min(eta c_i, cap_i) y F'(z).

    It has no state, so the settings serve as the state.
    """

    def start(self, n_classes: int, dim: int, dtype: Any, loss: MarginLoss, lam: float) -> "Fixed":
        return self

    def move(
        self,
        at: At,
        loss: MarginLoss,
        X: KernelRows,
        v: NDArray[Any],
        scale: float,
        b: float,
    ) -> tuple[float, float]:
        e = min(at.eta * at.weight, at.cap) * at.y * at.slope
        if at.lam != 0.0:  # v <- (1 - eta lam) v, in O(1)
            scale *= max(0.0, 1.0 - at.eta * at.lam)
            if scale < SMALLEST_SCALE:
                v *= v.dtype.type(scale)
                scale = 1.0
        axpy(X, -e / scale, at.row, v)  # v <- v - e z, eq. 11
        return scale, b - e * at.beta**2


FIXED = Fixed()


def move(
    metric: Any,
    at: At,
    loss: MarginLoss,
    X: KernelRows,
    v: NDArray[Any],
    scale: float,
    b: float,
) -> tuple[float, float]:
    """One step of class at.c; v is moved in place, the new scale and intercept are returned."""
    return metric.move(at, loss, X, v, scale, b)


# Inlined by force: a call with this many arguments costs as much as a visit of a short row.
@overload(move, jit_options={"forceinline": True})
def _move(metric, at, loss, X, v, scale, b):  # type: ignore[no-untyped-def]
    method = method_of(metric, "move")
    return lambda metric, at, loss, X, v, scale, b: method(metric, at, loss, X, v, scale, b)
