"""One data set a file: `load()` gives a slender.lab.datasets.Dataset, float32, in memory."""

import os
from pathlib import Path

import numpy as np

from slender.lab.datasets import Dataset


class MissingDataError(Exception):
    """The data is not on this machine; the message says how to provide it."""


def folder(name: str, *files: str) -> Path:
    """The folder `name` under $SLENDER_DATA, if it holds these files."""
    root = os.environ.get("SLENDER_DATA")
    if root is None:
        raise MissingDataError(
            f"SLENDER_DATA is not set; set it to a folder that holds {name}/ with "
            + ", ".join(files)
        )
    for file in files:
        if not (Path(root) / name / file).is_file():
            raise MissingDataError(f"there is no {name}/{file} under SLENDER_DATA={root}")
    return Path(root) / name


def embeddings(name: str) -> Dataset:
    """X_train, y_train, X_test, y_test from .npy files, rows widened to float32."""
    files = [f"{part}.npy" for part in Dataset._fields]
    home = folder(name, *files)
    X_train, y_train, X_test, y_test = (np.load(home / file) for file in files)
    return Dataset(X_train.astype(np.float32), y_train, X_test.astype(np.float32), y_test)
