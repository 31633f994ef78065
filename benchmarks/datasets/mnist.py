"""MNIST, pixels / 255: 60,000 + 10,000 x 784, 10 classes."""

import gzip
from pathlib import Path

import numpy as np

from slender.lab.datasets import Dataset

from . import folder

PARTS = ("train", "t10k")
IMAGES, LABELS = "{}-images-idx3-ubyte.gz", "{}-labels-idx1-ubyte.gz"


def load() -> Dataset:
    home = folder("mnist", *(kind.format(part) for part in PARTS for kind in (IMAGES, LABELS)))
    train, test = (_read(home, part) for part in PARTS)
    return Dataset(*train, *test)


def _read(home: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    # IDX: a header of 16 bytes before images and 8 before labels, then one byte a number
    pixels = np.frombuffer(gzip.decompress((home / IMAGES.format(part)).read_bytes())[16:], "u1")
    y = np.frombuffer(gzip.decompress((home / LABELS.format(part)).read_bytes())[8:], "u1")
    return pixels.reshape(len(y), -1) / np.float32(255), y.astype(np.int64)
