"""CIFAR-100 as embeddings of a small network: 20,000 + 4,000 x 1,280, 100 classes."""

from slender.lab.datasets import Dataset

from . import embeddings


def load() -> Dataset:
    return embeddings("cifar100_embeddings")
