"""The objectives: the only place where their terms are added up.

    one-vs-rest    1/C Σ_c [ Σ_i c_ic F(y_ic s_ic) / n + lam/2 ‖w_c‖² ],   s = W x + b     (eq. 1)
    multi-class    Σ_i c_i loss(s_i, y_i) / n + lam/2 ‖W‖²
    multinomial    the same with the cross-entropy, ln Σ_c exp s_ic - s_iy; also gradient and proof

Losses are averaged over rows, not summed: scikit-learn's C is 1/(n lam).  The intercept b is not
penalised.  c_i is the weight of the example times that of its class (1 if not given); n is the
number of rows of positive weight, except in the SVM's dual solvers, which divide by Σ c_i: there a
row of weight 2 counts as two rows.
"""

from .multiclass import multiclass
from .multinomial import Multinomial, Point
from .one_vs_rest import Weights, one_vs_rest

__all__ = ["Multinomial", "Point", "Weights", "multiclass", "one_vs_rest"]
