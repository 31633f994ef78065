"""What a linear model computes, independent of how slender stores it."""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..estimators.linear import LinearClassifier
from ..estimators.placing import on_host
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

    link: how scores become probabilities.  "softmax"; "sigmoid" for each class separately,
    normalised to sum 1 unless multi-label; or None.  A binary model has one score, for which both
    links mean the same.
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
        """The same model with W and b divided by the temperature."""
        T = self.temperature
        return self._replace(W=self.W / self.W.dtype.type(T), b=self.b / T, temperature=1.0)


def linear(model: Any) -> ScoringModel:
    """The scoring model of a fitted estimator; an error if it has none."""
    if not isinstance(model, LinearClassifier):
        raise ValueError(f"{type(model).__name__} is not a linear classifier of slender")
    check_is_fitted(model)
    model = on_host(model)
    b = np.broadcast_to(model.intercept_, len(model.coef_)).astype(np.float64)
    link: Link = model.link
    if isinstance(model, StochasticClassifier):
        if model.loss not in LINKS:
            raise ValueError(
                f"a model of loss={model.loss!r} cannot be exported, because its scores are not "
                "linear in the features: fit with loss='logistic'"
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
