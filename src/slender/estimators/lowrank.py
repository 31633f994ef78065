"""A multinomial model stored in factors, as the trace-norm estimators fit it."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import astype, dtype_of
from ..places import as_tensor, to_host
from ..problem import Multinomial
from ..problem.linear import one_row
from ..problem.tracenorm import Factors, raw_intercepts
from .multinomial import MultinomialClassifier


class LowRankClassifier(MultinomialClassifier):
    """A model stored as intercept_ and W = V diag(theta) Uᵀ: a row's scores cost r (d + C)."""

    limit: ClassVar[str] = "passes"
    on_device: ClassVar[bool] = True

    U_: NDArray[Any]  # (d, r)
    theta_: NDArray[np.float64]  # (r,)
    V_: NDArray[Any]  # (C, r)
    rank_: int
    lambda1_: float
    lambda1_max_: float

    @property
    def coef_(self) -> NDArray[Any]:  # type: ignore[override]
        """(C, d), computed when asked for; (1, d) for two classes."""
        return self._left @ as_tensor(self.U_).T

    @coef_.setter
    def coef_(self, W: NDArray[Any]) -> None:
        """Replace the fitted weights: their factors are stored."""
        self.V_, self.theta_, Ut = np.linalg.svd(to_host(W), full_matrices=False)
        self.U_ = np.ascontiguousarray(Ut.T)

    @property
    def _left(self) -> Any:
        """V diag(theta), (C, r); the difference of its two rows for two classes."""
        left = as_tensor(self.V_) * astype(as_tensor(self.theta_), dtype_of(self.V_))
        return left[1:] - left[:1] if len(left) == 2 else left

    @property
    def _class_rows(self) -> int:
        return len(self.intercept_)

    @property
    def _weights_dtype(self) -> Any:
        return dtype_of(self.U_)

    def _shapes(self, C: int, d: int) -> dict[str, tuple[int, ...]]:
        r, n_classes = len(self.theta_), len(self.classes_)
        return {"U_": (d, r), "theta_": (r,), "V_": (n_classes, r), "intercept_": (C,)}

    def _factors(self) -> tuple[Any, ...]:
        left, U = self._left, as_tensor(self.U_)
        d, r = U.shape
        if r * (d + len(left)) < d * len(left):
            return U, left.T
        return (U @ left.T,)

    def _keep_factors(self, problem: Multinomial, at: Factors) -> None:
        self.U_, self.theta_, self.V_ = at.U, at.theta, at.V
        self.rank_ = len(at.theta)
        self.intercept_ = one_row(at.A, raw_intercepts(problem, at)).intercept
