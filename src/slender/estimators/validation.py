"""Reading user input: X as rows, y as labels, weights; errors say what to change."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import assert_all_finite
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _check_sample_weight,
    column_or_1d,
    validate_data,
)

from ..arrays import is_tensor
from ..data.dask import is_dask, on_workers
from ..data.sending import rows_of_tensor, sent
from ..labels import ClassIndex, Indicator, Labels, counts
from ..places import as_tensor, to_host
from ..problem import Weights
from ..registry import ESTIMATORS
from ..rows import Block, Rows, as_csr, as_rows, bfloat_bits
from ..rows.block import Bad
from .placing import check_gradients, check_workers, host, place_of, read_tensor

MANY = 10_000  # labels that are counted, if they are integers


def read_rows(
    estimator: Any,
    X: Any,
    reset: bool = False,
    once: bool = False,
    beside: Rows | None = None,
    y: Any = None,
) -> Rows:
    """X as a row store, where it is computed on; checks the number of features.

    `once`: the rows will be read once only, so that it is not worth sending all to a device first.
    `beside`: other rows, whose device is the one to compute on.  `y`: the labels of a fit, whose
    number of classes says how much room it needs beside the rows.
    """
    if is_dask(X) or hasattr(X, "with_labels"):  # rows on the workers of a cluster
        return _remote(estimator, X, reset)
    X = as_tensor(X)
    check_gradients(X)
    device = place_of(estimator, X) if beside is None else beside.device
    if is_tensor(X) and device is not None:
        tensor = read_tensor(X)
        _check_feature_names(estimator, tensor, reset=reset)
        _check_n_features(estimator, tensor, reset=reset)
        if tensor.device == device or tensor.is_cuda:
            return rows_of_tensor(tensor.to(device))
    rows = _here(estimator, X, reset)
    if device is None:
        return rows
    stored = str(getattr(X, "dtype", rows.dtype))
    return sent(rows, stored, device, once, lambda: number_of_classes(y))


def _remote(estimator: Any, X: Any, reset: bool) -> Rows:
    """Rows on the workers of a cluster."""
    if not getattr(estimator, "distributed", False):
        able = [each.name for each in ESTIMATORS.values() if each.load().distributed]
        raise ValueError(
            f"{type(estimator).__name__} cannot be fitted to rows on a Dask cluster; these "
            f"can: {', '.join(able)}.  open_rows(X) is read here, chunk by chunk"
        )
    device = getattr(estimator, "device", None)
    X = check_workers(estimator, X) if hasattr(X, "with_labels") else on_workers(X, device=device)
    _check_n_features(estimator, X, reset=reset)
    return as_rows(X)


def _here(estimator: Any, X: Any, reset: bool) -> Rows:
    """Rows in the memory or the files of this machine."""
    if hasattr(X, "as_rows") or bfloat_bits(X) is not None:
        # compressed rows, of which scikit-learn would try to make an array; and bfloat16
        if len(X.shape) != 2:
            raise ValueError(f"Expected 2D array, got one of shape {tuple(X.shape)}")
        if X.shape[0] == 0:
            raise ValueError(
                f"Found array with 0 sample(s) (shape={tuple(X.shape)}); give at least one row"
            )
        _check_n_features(estimator, X, reset=reset)
        return as_rows(X)
    if sparse.issparse(X):
        X = as_csr(X)
    X = validate_data(
        estimator,
        to_host(X),
        reset=reset,
        accept_sparse="csr",
        dtype="numeric",
        ensure_all_finite=False,
    )
    return as_rows(X)


def check_finite(rows: Rows) -> None:
    """Raise an error at the first NaN or infinity of all rows."""
    _refuse(rows, rows.first_bad())


def check_block(rows: Rows, block: Block, lo: int) -> None:
    """Raise an error at the first NaN or infinity, with its place; lo is the block's first row."""
    _refuse(rows, block.first_bad(), lo)


def _refuse(rows: Rows, bad: Bad | None, lo: int = 0) -> None:
    if bad is not None:
        i, j, value = bad
        what = "NaN" if np.isnan(value) else "infinity (inf)"
        raise ValueError(
            f"X contains {what} at {rows.where(lo + i)}, column {j}; "
            "remove or replace it (for instance with sklearn.impute.SimpleImputer)"
        )


def read_labels(y: Any, n: int, classes: Any = None) -> tuple[Labels, NDArray[Any], int]:
    """(labels, classes, number of rows of W) from one class per row or an indicator matrix."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    y = host(y)
    if classes is None and (counted := _counted(y)) is not None:
        check_length(len(y), n)
        return _one_class_each(*counted)
    if sparse.issparse(y):
        y = as_csr(y, "y")
    if getattr(y, "dtype", None) is not None and np.asarray(y).dtype.kind == "f":
        assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y")
    if kind == "multilabel-indicator":
        Y = read_indicator(y)
        check_length(len(Y), n)
        if classes is not None and len(classes) != Y.shape[1]:
            raise ValueError(f"y has {Y.shape[1]} columns but classes names {len(classes)}")
        own = _column_names(y, Y.shape[1])
        names = np.asarray(own if classes is None else classes)
        if own.dtype.kind == "U" and not np.array_equal(own, names):
            raise ValueError(
                f"y has the columns {', '.join(own)}, but the classes are "
                f"{', '.join(map(str, names))}; give y's columns in this order"
            )
        return Indicator(Y), names, Y.shape[1]
    if kind == "multiclass-multioutput":
        raise ValueError("y has several columns of more than two values; fit one model per column")
    y = column_or_1d(y, warn=True)
    check_length(len(y), n)
    names, class_index = np.unique(y, return_inverse=True)
    if classes is not None:
        unknown = np.setdiff1d(names, classes)
        if len(unknown):
            raise ValueError(
                f"y holds {shown(unknown[0])}, which is not among the classes given first"
            )
        names = np.asarray(classes)
        class_index = np.searchsorted(names, y)
    return _one_class_each(names, class_index)


def number_of_classes(y: Any) -> int:
    """Of labels that are not checked yet; 1 if they cannot be counted."""
    y = host(y)
    if getattr(y, "ndim", 1) == 2:
        return int(y.shape[1])
    counted = _counted(y)
    try:
        return len(np.unique(np.asarray(y)) if counted is None else counted[0])
    except (TypeError, ValueError):  # whoever reads them says what is wrong
        return 1


def _one_class_each(
    names: NDArray[Any], class_index: NDArray[Any]
) -> tuple[Labels, NDArray[Any], int]:
    if len(names) < 2:
        raise ValueError(
            f"y holds one class only ({shown(names[0])}); a classifier needs at least two classes"
        )
    labels = ClassIndex(class_index.astype(np.int32), int(len(names) == 2))
    return labels, names, 1 if len(names) == 2 else len(names)


def _counted(y: Any) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Classes and class indices of many integers, by counting; None if y is anything else.

    To sort a million labels, as scikit-learn's checks do twice, takes longer than a fit on a GPU.
    """
    whole = isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "iu"
    if not whole or len(y) < MANY:
        return None
    least, most = int(y.min()), int(y.max())
    if most - least >= min(len(y), 2**31):
        return None
    # widened first, except uint64, whose numbers may be too large
    places = y.astype(np.int64, copy=False) if y.dtype != np.uint64 else y - np.uint64(least)
    if least and y.dtype != np.uint64:
        places = places - least
    there = np.bincount(places.astype(np.intp, copy=False)) > 0
    if 2 * np.count_nonzero(there) > len(y):  # scikit-learn warns of so many
        return None
    names = np.flatnonzero(there).astype(y.dtype) + y.dtype.type(least)  # may wrap, and back
    return names, places if there.all() else (np.cumsum(there) - 1)[places.astype(np.intp)]


def _column_names(y: Any, count: int) -> NDArray[Any]:
    """Column names of an indicator data frame, if they are strings; else 0, 1, ..."""
    names = list(getattr(y, "columns", ()))
    if not names or not all(isinstance(name, str) for name in names):
        return np.arange(count)
    if len(set(names)) < len(names):
        raise ValueError("y has two columns of the same name; give every class a different name")
    return np.array(names)


def read_indicator(y: Any) -> NDArray[np.bool_]:
    """The classes of each row, from a matrix of 0 and 1."""
    Y = y.toarray() if hasattr(y, "toarray") else np.asarray(y)
    if not ((Y == 0) | (Y == 1)).all():
        found = np.unique(Y)
        values = " and ".join(map(shown, found)) if len(found) < 3 else "other numbers"
        raise ValueError(
            f"y is a matrix of {values}; an indicator matrix has 1 if the row has the class, else "
            f"0: perhaps (y == {shown(found[-1])}).astype(int)"
        )
    return np.ascontiguousarray(Y, dtype=bool)


def read_class_index(estimator: Any, y: Any, n: int, classes: Any = None) -> NDArray[np.int32]:
    """The index of the class of each row; sets classes_ of the estimator."""
    labels, estimator.classes_, _ = read_labels(y, n, classes)
    if isinstance(labels, Indicator):
        raise ValueError(
            f"y is an indicator matrix, but {type(estimator).__name__} gives each row one class; "
            "use SLNDClassifier or SGDClassifier for several classes per row"
        )
    return labels.class_index


def check_same_classes(given: Any, classes: NDArray[Any]) -> None:
    """Raise an error if a later call of partial_fit is given other classes than the first."""
    if given is not None and not np.array_equal(np.unique(given), classes):
        raise ValueError(
            f"partial_fit: classes={np.unique(given).tolist()} are not those of earlier calls, "
            f"{classes.tolist()}: remove classes, or start again with a clone"
        )


def shown(value: Any) -> str:
    """A label or a setting as the user wrote it: 'cat' or 3, not np.int64(3)."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def check_length(n_labels: int, n_rows: int) -> None:
    if n_labels != n_rows:
        raise ValueError(
            f"X has {n_rows} rows but y has {n_labels} labels (inconsistent numbers of samples)"
        )


def read_weights(
    sample_weight: Any,
    class_weight: Any,
    rows: Rows,
    y: Labels,
    classes: NDArray[Any],
    n_class_rows: int,
) -> Weights:
    """Weights of the examples, and for each row of W those of its positives and its negatives.

    As in scikit-learn's SGDClassifier: in a multi-class problem the weight of a class applies to
    its positives, and its negatives have weight 1; in a binary problem each class has its weight.
    """
    n = rows.shape[0]
    example = np.ones(n, rows.dtype)
    if sample_weight is not None:
        example = _of_length(sample_weight, n, rows.dtype)
        if (example < 0).any():
            raise ValueError(f"sample_weight is negative at row {int(np.argmin(example))}")
    positive, negative = np.ones(n_class_rows), np.ones(n_class_rows)
    if class_weight is None:
        return Weights(example, positive, negative)
    if isinstance(y, Indicator):
        if class_weight == "balanced":
            n_positive = np.maximum(1, counts(y, n_class_rows, np.arange(n)))
            positive = n / (2.0 * n_positive)
            negative = n / (2.0 * np.maximum(1, n - n_positive))
        else:
            positive = np.array([float(class_weight.get(c, 1.0)) for c in classes])
        return Weights(example, positive, negative)
    of_class = compute_class_weight(class_weight, classes=classes, y=classes[y.class_index])
    if n_class_rows == 1:
        return Weights(example, of_class[1:].astype(float), of_class[:1].astype(float))
    return Weights(example, of_class.astype(float), negative)


def read_sample_weight(sample_weight: Any, rows: Rows) -> NDArray[Any] | None:
    """Non-negative weights in float64; None if none were given."""
    if sample_weight is None:
        return None
    weight = _of_length(sample_weight, rows.shape[0], np.float64)
    if (weight < 0).any():
        raise ValueError(f"sample_weight is negative at row {int(np.argmin(weight))}")
    return np.asarray(weight)


def _of_length(sample_weight: Any, n: int, dtype: Any) -> NDArray[Any]:
    """One weight per row, here; scikit-learn's checks see an array of as many rows."""
    rows = np.broadcast_to(np.zeros(1, dtype), (n, 1))
    return np.asarray(_check_sample_weight(host(sample_weight), rows, dtype=dtype))


def row_weights(
    sample_weight: NDArray[Any] | None,
    class_weight: Any,
    class_index: NDArray[np.int32],
    classes: NDArray[Any],
) -> NDArray[np.float64]:
    """The weight of each row times that of its class, if every row has one class."""
    weight = np.ones(len(class_index)) if sample_weight is None else sample_weight
    if class_weight is None:
        return weight
    of_class = compute_class_weight(
        class_weight, classes=classes, y=classes[class_index], sample_weight=sample_weight
    )
    return np.asarray(weight * of_class[class_index])


def check_positive(name: str, number: Any, kind: type = Real, zero: bool = False) -> None:
    """Raise an error unless the parameter is a number > 0 (or >= 0)."""
    of_kind = isinstance(number, kind) and not isinstance(number, bool)
    if not of_kind or not np.isfinite(number) or number < 0 or (number == 0 and not zero):
        bound = ">= 0" if zero else "> 0"
        what = "an integer" if kind is Integral else "a number"
        raise ValueError(f"{name}={shown(number)} must be {what} {bound}")


def check_choice(name: str, given: Any, choices: tuple[Any, ...]) -> None:
    """Raise an error unless the parameter is one of the choices."""
    if given not in choices:
        raise ValueError(f"{name}={shown(given)} must be one of {list(choices)}")


def generator(random_state: Any) -> np.random.Generator:
    """The random generator of a fit, from a seed, a RandomState or a Generator."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31 - 1)
    return np.random.default_rng(random_state)
