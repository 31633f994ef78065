"""Which rows a probe is fitted on and which ones it is validated on."""

from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, check_cv

from ..notices import warn
from .validation import shown


class Cut(NamedTuple):
    """Rows to fit on, rows to validate on."""

    train: NDArray[np.intp]
    held_out: NDArray[np.intp]


def stratified(class_index: NDArray[np.int32], share: float, rng: np.random.Generator) -> Cut:
    """Hold out `share` of each class, and leave at least one row of it to fit on."""
    held_out = []
    for index in _by_class(class_index):
        mine = rng.permutation(index)
        held_out.append(mine[: min(int(share * len(mine) + rng.random()), len(mine) - 1)])
    out = np.sort(np.concatenate(held_out))
    if len(out) == 0:
        raise ValueError(
            f"validation={share} of {len(class_index)} rows holds out no row to choose C on; "
            "use a larger share, or give validation=(X_val, y_val)"
        )
    kept = np.ones(len(class_index), bool)
    kept[out] = False
    return Cut(np.flatnonzero(kept), out)


def splitter(given: Any, y: Any, rng: np.random.Generator) -> Any:
    """The given splitter of scikit-learn; for a number of folds, a stratified one that shuffles."""
    if isinstance(given, Integral):
        return StratifiedKFold(int(given), shuffle=True, random_state=int(rng.integers(2**31)))
    return check_cv(given, y, classifier=True)


def folds(pairs: Iterable[Any], class_index: NDArray[np.int32], names: Any) -> Iterator[Cut]:
    """The parts of a splitter; an error if a training part lacks a class."""
    for number, (train, held_out) in enumerate(pairs):
        lost = np.setdiff1d(np.arange(len(names)), class_index[train])
        if len(lost):
            raise ValueError(
                f"class {shown(names[lost[0]])} has no row in the training part of split {number}; "
                "use a splitter that keeps all classes (StratifiedKFold), or fewer folds"
            )
        yield Cut(np.sort(train), np.sort(held_out))


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
            f"{scarce} classes have fewer than shots={shots} rows to fit on; all rows of these "
            "classes are used"
        )
    return train[np.sort(np.concatenate(chosen))]


def _by_class(class_index: NDArray[np.int32]) -> list[NDArray[np.intp]]:
    """The rows of each class, increasing."""
    few = len(class_index) == 0 or class_index.max() < 2**16
    # 16 bits are sorted by their digits, which takes a tenth of the time
    order = np.argsort(class_index.astype(np.uint16) if few else class_index, kind="stable")
    bounds = np.flatnonzero(np.diff(class_index[order])) + 1
    return np.split(order, bounds)
