"""SGD-QN's metric: a diagonal that is learned from secant pairs during the fit.

D is (d,) for each class, w is the iterate, g_i(w) = y_i F'(z_i) x_i is the gradient of an example's
loss (times its weight).  Every visit makes the step

    w <- w - eta_t D g_i(w)

and every T visits the weight decay and the update of D follow, so that their work, of size d, is a
small share of the whole.

The corrected algorithm (Bordes, Bottou, Gallinari 2009; erratum 2010), `Secant`: eta_t = 1, D holds
the rate itself and starts at 1/(lam t0).

    w1 <- w;  w <- w - T lam D w                   before the step of visit T, 2T, ...
    r_k = lam + [g_j(w) - g_j(w1)]_k / [w - w1]_k  at the next example j, held to [lam/10, 100 lam]
    1/D_k += (visits since the last refresh) r_k   nothing where the slope of j did not change

A coordinate that did not move, w_k = w1_k, has r = lam if x_jk = 0 and 101 lam if not.  If rows
have no zeros, this ratio says little about feature k: other examples have moved w, so the ratio can
have either sign, for any units of the feature, and r is lam/10 or 100 lam by chance.
`gauss_newton` uses the secant of the score s_j of j instead, which gives the diagonal of the
Hessian of j (a compile-time option in Bottou's later code):

    r_k = lam + x_jk² (slope of j's loss in s_j at w - that at w1) / (s_j at w - s_j at w1)

Bordes and Bottou 2008, `Slides`: eta_t = 1/(t + t0), D starts at 1/lam.  At visits T, 2T, ...

    w1 <- w;  w <- w - eta_t D g_i(w);  w <- w - eta_t T lam D w
    D_k <- D_k + 2/t (u_k - D_k),   u_k = [w - w1]_k / [g_i(w) - g_i(w1) + lam (w - w1)]_k

Cases that they leave undefined: u = 0/0 leaves D_k unchanged.  The penalty alone gives
u = 1/lam, and by convexity u cannot be larger; so a u above 1/lam, or a negative one (the decay
moved the weight against its example), counts as 1/lam.  A u below 1/(100 lam) counts as 1/(100
lam), as in 2009.  On dense rows most ratios are clipped in this way.  `clip=False` uses the ratios
as they are; a division by 0 leaves D_k unchanged.

Departures from both: the decay never changes the sign of a weight (T lam D > 1 gives 0); the
intercept is one more coordinate, beta, whose r has no lam; with an automatic t0, a step is at most
the loop's cap divided by the largest D; visits are counted over the whole fit, whereas the original
starts counting again in each pass.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from ..losses import MarginLoss, slope
from ..rows.kernel import KernelRows, axpy, axpy_scaled, dot
from .metric import At

LEAST, MOST = 0.1, 100.0  # where r is held, in units of lam
UNMOVED = 101.0  # r of a coordinate that its example has and that did not move


@dataclass(frozen=True)
class Secant:
    """Settings of the corrected algorithm."""

    t0: float
    period: int  # T
    gauss_newton: bool = False

    def start(
        self, n_classes: int, dim: int, dtype: Any, loss: MarginLoss, lam: float
    ) -> "Accumulated":
        first = 1.0 / (lam * self.t0)
        return Accumulated(
            **_diagonals(n_classes, dim, dtype, first, self.period),
            last=np.zeros(n_classes, np.int64),
            gauss_newton=bool(self.gauss_newton),
        )


@dataclass(frozen=True)
class Slides:
    """Settings of the algorithm of 2008; t0 is part of the loop's eta_t."""

    period: int  # T
    clip: bool = True  # hold the ratios

    def start(
        self, n_classes: int, dim: int, dtype: Any, loss: MarginLoss, lam: float
    ) -> "Averaged":
        diagonals = _diagonals(n_classes, dim, dtype, 1.0 / lam, self.period)
        return Averaged(**diagonals, clip=bool(self.clip))


def _diagonals(n_classes: int, dim: int, dtype: Any, first: float, period: int) -> dict[str, Any]:
    C = n_classes
    return {
        "D": np.full((C, dim), first, dtype),
        "D_b": np.full(C, first),
        "top": np.full(C, first),
        "W1": np.zeros((C, dim), dtype),
        "b1": np.zeros(C),
        "left": np.full(C, period, np.int64),
        "period": int(period),
    }


class Accumulated(NamedTuple):
    """The corrected algorithm: 1/D is a sum of curvatures."""

    D: NDArray[Any]  # (C, d)
    D_b: NDArray[np.float64]  # (C,) of the intercept
    top: NDArray[np.float64]  # (C,) largest of both
    W1: NDArray[Any]  # (C, d) w before the last decay
    b1: NDArray[np.float64]  # (C,)
    left: NDArray[np.int64]  # (C,) visits to the next decay
    period: int  # T
    last: NDArray[np.int64]  # (C,) visits at the last refresh
    gauss_newton: bool

    def move(
        self,
        at: At,
        loss: MarginLoss,
        X: KernelRows,
        v: NDArray[Any],
        scale: float,
        b: float,
    ) -> tuple[float, float]:
        c = at.c
        if self.left[c] == self.period and at.t > 0:  # the last visit was one of a decay
            accumulate(self, at, loss, X, v, b)
        self.left[c] -= 1
        if self.left[c] == 0:
            self.left[c] = self.period
            save(self, c, v, b)
            shrink(v, self.D[c], at.lam * self.period)
        e = pull(self, at)
        axpy_scaled(X, -e, at.row, self.D[c], v)
        return scale, b - e * self.D_b[c] * at.beta**2


class Averaged(NamedTuple):
    """The algorithm of 2008: D is a running mean of secant ratios."""

    D: NDArray[Any]  # (C, d)
    D_b: NDArray[np.float64]  # (C,)
    top: NDArray[np.float64]  # (C,)
    W1: NDArray[Any]  # (C, d)
    b1: NDArray[np.float64]  # (C,)
    left: NDArray[np.int64]  # (C,)
    period: int
    clip: bool

    def move(
        self,
        at: At,
        loss: MarginLoss,
        X: KernelRows,
        v: NDArray[Any],
        scale: float,
        b: float,
    ) -> tuple[float, float]:
        c = at.c
        self.left[c] -= 1
        if self.left[c] == 0:  # step 4 comes after step 3
            save(self, c, v, b)
        e = pull(self, at)
        axpy_scaled(X, -e, at.row, self.D[c], v)  # step 3
        b -= e * self.D_b[c] * at.beta**2
        if self.left[c] == 0:
            self.left[c] = self.period
            shrink(v, self.D[c], at.eta * at.lam * self.period)  # step 4a
            average(self, at, loss, X, v, b)  # step 4b
        return scale, b


@register_jitable
def pull(metric, at):  # type: ignore[no-untyped-def]
    """e of w <- w - e D x.  Since xᵀD x <= top ‖x‖², a step of cap / top cannot overshoot."""
    return min(at.eta * at.weight, at.cap / metric.top[at.c]) * at.y * at.slope


@register_jitable
def save(metric, c, v, b):  # type: ignore[no-untyped-def]
    w1 = metric.W1[c]
    for k in range(len(v)):
        w1[k] = v[k]
    metric.b1[c] = b


@register_jitable
def shrink(v, D, a):  # type: ignore[no-untyped-def]
    """w <- w - a D w."""
    zero, one, a = v.dtype.type(0.0), v.dtype.type(1.0), v.dtype.type(a)
    for k in range(len(v)):
        v[k] *= max(zero, one - a * D[k])


@register_jitable
def accumulate(metric, at, loss, X, v, b):  # type: ignore[no-untyped-def]
    """1/D += visits r, from the slopes of this example at w and at w1."""
    c, real = at.c, v.dtype.type
    D, w1 = metric.D[c], metric.W1[c]
    score1 = dot(X, at.row, w1) + metric.b1[c]
    moved_s = dot(X, at.row, v) + b - score1
    before = slope(loss, at.y * score1)
    if before == at.slope or moved_s == 0.0:
        return
    change = at.weight * at.y * (at.slope - before)
    bend = change / moved_s
    visits = at.t + 1 - metric.last[c]
    metric.last[c] = at.t + 1
    x = np.zeros_like(v)
    axpy(X, 1.0, at.row, x)
    # numbers as wide as the vectors, so that the loops are
    one, n, h, q, lam = real(1.0), real(visits), real(bend), real(change), real(at.lam)
    least, most, unmoved = real(LEAST * at.lam), real(MOST * at.lam), real(UNMOVED * at.lam)
    if metric.gauss_newton:
        for k in range(len(v)):
            D[k] /= one + n * min(most, lam + h * x[k] * x[k]) * D[k]
    else:
        for k in range(len(v)):
            moved = v[k] - w1[k]
            if moved != 0.0:
                r = min(most, max(least, lam + q * x[k] / moved))
            else:
                r = unmoved if x[k] != 0.0 else lam
            D[k] /= one + n * r * D[k]
    metric.top[c] = D.max()
    if at.beta != 0.0:
        moved_b = b - metric.b1[c]  # beta times that of the constant coordinate
        r_b = UNMOVED * at.lam
        if metric.gauss_newton:
            r_b = min(MOST * at.lam, max(LEAST * at.lam, bend * at.beta**2))
        elif moved_b != 0.0:
            r_b = min(MOST * at.lam, max(LEAST * at.lam, change * at.beta**2 / moved_b))
        metric.D_b[c] /= 1.0 + visits * r_b * metric.D_b[c]
        metric.top[c] = max(metric.top[c], metric.D_b[c])


@register_jitable
def average(metric, at, loss, X, v, b):  # type: ignore[no-untyped-def]
    """D += 2/t (u - D), from the slopes of this example before and after its step."""
    c, real = at.c, v.dtype.type
    D, w1 = metric.D[c], metric.W1[c]
    after = slope(loss, at.y * (dot(X, at.row, v) + b))  # the extra gradient
    change = at.weight * at.y * (after - at.slope)
    x = np.zeros_like(v)
    axpy(X, 1.0, at.row, x)
    gain = min(1.0, 2.0 / (at.t + 1))
    least, most = 1.0 / (MOST * at.lam), 1.0 / at.lam
    if not metric.clip:
        least, most = -np.inf, np.inf
    a, q, lo, hi, lam = real(gain), real(change), real(least), real(most), real(at.lam)
    for k in range(len(v)):
        moved = v[k] - w1[k]
        D[k] += a * (ratio(moved, q * x[k] + lam * moved, lo, hi, D[k]) - D[k])
    metric.top[c] = np.abs(D).max()
    if at.beta != 0.0:
        moved_b, D_b = (b - metric.b1[c]) / at.beta, metric.D_b[c]
        metric.D_b[c] += gain * (ratio(moved_b, change * at.beta, least, most, D_b) - D_b)
        metric.top[c] = max(metric.top[c], abs(metric.D_b[c]))


@register_jitable
def ratio(moved, change, least, most, D):  # type: ignore[no-untyped-def]
    """u = moved / change, clipped to [least, most] if these are finite; D if it is 0/0."""
    if change == 0.0:
        return D if moved == 0.0 or most == np.inf else most
    u = moved / change
    return most if u > most or (u < 0.0 and least > 0.0) else max(u, least)
