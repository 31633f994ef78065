"""What is known of the Hessian, as a change of coordinates.

With H the curvature at w = 0 and H* = B Bᵀ a pseudo-inverse of it, every preconditioned iterate
that starts from 0 is w = B v, and

    w <- w - eta y F'(y wᵀx) H* x     is exactly     v <- v - eta y F'(y vᵀz) z,   z = Bᵀ x.

So a static curvature is nothing but a map from the rows x to rows z, and a map of V back to W.
"""

from .base import Coordinates, Curvature
from .diagonal import Diagonal
from .identity import Identity
from .lowrank import LowRank

CURVATURES = {"lowrank": LowRank, "diagonal": Diagonal, "identity": Identity}

__all__ = ["CURVATURES", "Coordinates", "Curvature", "Diagonal", "Identity", "LowRank"]
