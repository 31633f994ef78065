"""svmlight text: sparse rows and their labels, read into memory; also .svm.gz and .svm.bz2."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..rows.sparse_input import as_csr
from ..storage import plain_file
from .base import Ask, check_nameless, reading
from .sparse import SparseRows


class SvmlightFormat:
    suffixes = (".svm", ".svmlight", ".libsvm")

    def open(self, path: Path, ask: Ask) -> SparseRows:
        check_nameless(path, "X", ask.key)
        check_nameless(path, "y", ask.label)
        X, y = read_svmlight(path, ask.n_features)
        rows = SparseRows(str(path), X)
        rows.own_labels = y
        return rows

    def labels(self, path: Path, ask: Ask) -> NDArray[Any]:
        check_nameless(path, "y", ask.label)
        return read_svmlight(path, ask.n_features)[1]


def read_svmlight(path: Path, n_features: int | None = None) -> tuple[Any, NDArray[Any]]:
    """(X, y) of svmlight text, whatever the file is called; .gz and .bz2 are unzipped."""
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415  (slow to import)

    with reading(plain_file(path), "an svmlight file"):
        X, y = load_svmlight_file(path, n_features=n_features)
        X = as_csr(X)
    whole = np.rint(y)
    return X, whole.astype(np.int64) if np.array_equal(y, whole) else y
