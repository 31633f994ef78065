"""A data set of vectors."""

from typing import Any, NamedTuple, TypeVar

from numpy.typing import NDArray

Parts = TypeVar("Parts")  # of a data set: rows and labels, named X_train, y_train, ...


class Dataset(NamedTuple):
    """Training and test rows: arrays, or CSR matrices."""

    X_train: Any
    y_train: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]


def first_rows(data: Parts, n: int) -> Parts:
    """The same with the first n training rows only; of a Dataset, or of an experiment's Split."""
    parts: Any = data
    return parts._replace(X_train=parts.X_train[:n], y_train=parts.y_train[:n])
