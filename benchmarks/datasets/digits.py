"""scikit-learn's digits, rows of norm 1: 1,300 + 497 x 64, 10 classes."""

from slender.lab import datasets


def load() -> datasets.Dataset:
    return datasets.digits()
