"""What a linear model computes, told apart from how slender keeps it."""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..estimators.linear import LinearClassifier
from ..estimators.stochastic import StochasticClassifier

Link = Literal["softmax", "sigmoid"] | None

LINKS: dict[str, Link] = {
    "logistic": "sigmoid",
    "hinge": None,
    "cross_entropy": "softmax",
    "crammer_singer": None,
}


class ScoringModel(NamedTuple):
    """What a linear model computes.

    link: how scores become probabilities.  "softmax"; "sigmoid", each class's own, made to sum to
    1 unless multi-label; or None.  A binary model has one score, and both mean the same for it.
    """

    W: NDArray[Any]  # (C, d); (1, d) for two classes
    b: NDArray[Any]  # (C,)
    classes: NDArray[Any]
    link: Link
    multilabel: bool
    temperature: float  # probabilities are those of s / temperature
    normalise: bool  # rows of norm 1 go in, whatever was given

    @property
    def binary(self) -> bool:
        return len(self.W) == 1 and not self.multilabel

    def tempered(self) -> "ScoringModel":
        """The temperature inside W and b."""
        T = self.temperature
        return self._replace(W=self.W / self.W.dtype.type(T), b=self.b / T, temperature=1.0)


def linear(model: Any) -> ScoringModel:
    """The linear form of a fitted model, or the reason why it has none."""
    if not isinstance(model, LinearClassifier):
        raise ValueError(f"{type(model).__name__} is no linear classifier of slender")
    check_is_fitted(model)
    b = np.broadcast_to(model.intercept_, len(model.coef_)).astype(np.float64)
    link: Link = model.link
    if isinstance(model, StochasticClassifier):
        if model.loss not in LINKS:
            raise ValueError(
                f"a model of loss={model.loss!r} cannot be exported, its scores are not linear "
                "in the features: fit with loss='logistic'"
            )
        link = LINKS[model.loss]
        b += model.prior_shift_
    return ScoringModel(
        W=model.coef_,
        b=b.astype(model.coef_.dtype),
        classes=model.classes_,
        link=link,
        multilabel=bool(getattr(model, "multilabel_", False)),
        temperature=float(getattr(model, "temperature_", None) or 1.0),
        normalise=getattr(model, "scale", None) == "l2",
    )
