"""slender's SGDClassifier, as it comes."""

from typing import Any

from slender import SGDClassifier
from slender.datasets import Dataset

from . import Curve, curve_of_fits

name = "slender SGD"
rival = False
grid: list[dict[str, Any]] = [{}]


def fit(dataset: Dataset, setting: dict[str, Any], seed: int) -> SGDClassifier:
    model = SGDClassifier(**setting, random_state=seed)
    return model.fit(dataset.X_train, dataset.y_train)


def curve(dataset: Dataset, setting: dict[str, Any], seed: int) -> Curve:
    return curve_of_fits(SGDClassifier(**setting, random_state=seed), dataset)
