"""The planted mixture with four times the rows: 200,000 + 5,000 x 1,024, 200 classes."""

from slender.lab import datasets


def load() -> datasets.Dataset:
    return datasets.planted(200_000, 1024, 200)
