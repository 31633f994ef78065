"""Caltech-101 as embeddings of a small network: 5,784 + 2,893 x 1,280, 101 unbalanced classes."""

from slender.lab.datasets import Dataset

from . import embeddings


def load() -> Dataset:
    return embeddings("caltech101_embeddings")
