"""Which rows a probe is fitted on and which it is judged on."""

from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, check_cv

from ..notices import warn
from .validation import shown


class Part(NamedTuple):
    """One split: rows to fit on, rows to judge on."""

    train: NDArray[np.intp]
    held_out: NDArray[np.intp]


def stratified(class_index: NDArray[np.int32], share: float, rng: np.random.Generator) -> Part:
    """`share` of each class held out, and at least one row of it left to fit on."""
    held_out = []
    for index in _by_class(class_index):
        mine = rng.permutation(index)
        held_out.append(mine[: min(int(share * len(mine) + rng.random()), len(mine) - 1)])
    out = np.sort(np.concatenate(held_out))
    if len(out) == 0:
        raise ValueError(
            f"validation={share} of {len(class_index)} rows leaves none to choose C on; "
            "use a larger share, or give validation=(X_val, y_val)"
        )
    return Part(np.setdiff1d(np.arange(len(class_index)), out), out)


def splitter(given: Any, y: Any, rng: np.random.Generator) -> Any:
    """A splitter of scikit-learn as it is; a number of folds shuffled, each class spread evenly."""
    if isinstance(given, Integral):
        return StratifiedKFold(int(given), shuffle=True, random_state=int(rng.integers(2**31)))
    return check_cv(given, y, classifier=True)


def folds(pairs: Iterable[Any], class_index: NDArray[np.int32], names: Any) -> Iterator[Part]:
    """The (train, held out) of a splitter, each with every class to fit on."""
    for number, (train, held_out) in enumerate(pairs):
        lost = np.setdiff1d(np.arange(len(names)), class_index[train])
        if len(lost):
            raise ValueError(
                f"class {shown(names[lost[0]])} has no row in the training part of split {number}; "
                "use a splitter that keeps all classes (StratifiedKFold), or fewer folds"
            )
        yield Part(np.sort(train), np.sort(held_out))


def few(
    class_index: NDArray[np.int32], train: NDArray[np.intp], shots: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """`shots` rows of each class out of `train`."""
    chosen, scarce = [], 0
    for index in _by_class(class_index[train]):
        scarce += len(index) < shots
        chosen.append(rng.permutation(index)[:shots])
    if scarce:
        warn(
            f"{scarce} classes have fewer than shots={shots} rows to fit on; all of theirs are "
            "taken"
        )
    return train[np.sort(np.concatenate(chosen))]


def _by_class(class_index: NDArray[np.int32]) -> list[NDArray[np.intp]]:
    """The rows of each class, increasing."""
    order = np.argsort(class_index, kind="stable")
    bounds = np.flatnonzero(np.diff(class_index[order])) + 1
    return np.split(order, bounds)
