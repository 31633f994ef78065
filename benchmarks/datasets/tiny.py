"""For the tests: 600 + 200 x 16, 6 classes that are easily told apart."""

from slender.lab import datasets


def load() -> datasets.Dataset:
    return datasets.planted(600, 16, 6, n_test=200, separation=1.5)
