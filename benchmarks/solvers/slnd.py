"""slender's SLNDClassifier: as it comes, and with the paper's balanced draw of negatives."""

from typing import Any

from slender import SLNDClassifier
from slender.datasets import Dataset

from . import Curve, curve_of_fits

name = "slender SLND"
rival = False
grid: list[dict[str, Any]] = [{}, {"negatives": 1}]


def fit(dataset: Dataset, setting: dict[str, Any], seed: int) -> SLNDClassifier:
    model = SLNDClassifier(**setting, random_state=seed)
    return model.fit(dataset.X_train, dataset.y_train)


def curve(dataset: Dataset, setting: dict[str, Any], seed: int) -> Curve:
    return curve_of_fits(SLNDClassifier(**setting, random_state=seed), dataset)
