"""Approximations of the Hessian: a change of coordinates, or a metric that is learned.

With H the curvature at w = 0 and H* = B Bᵀ a pseudo-inverse of it, every preconditioned iterate
that starts from 0 is w = B v, and

    w <- w - eta y F'(y wᵀx) H* x     is exactly     v <- v - eta y F'(y vᵀz) z,   z = Bᵀ x.

So a static curvature is just a map from the rows x to rows z, and a map from V back to W.
A curvature that is learned during the fit is a metric: it moves the iterate itself (metric.py).
"""

from .base import Coordinates, Curvature
from .diagonal import Diagonal
from .identity import Identity
from .lbfgs import LBFGS, PairRing
from .lowrank import LowRank
from .metric import Fixed, Metric
from .secant import Accumulated, Averaged, Secant, Slides

CURVATURES = {"lowrank": LowRank, "diagonal": Diagonal, "identity": Identity}
STATES = (Fixed, Accumulated, Averaged, PairRing)  # of metrics

__all__ = [
    "CURVATURES",
    "LBFGS",
    "STATES",
    "Coordinates",
    "Curvature",
    "Diagonal",
    "Fixed",
    "Identity",
    "LowRank",
    "Metric",
    "Secant",
    "Slides",
]
