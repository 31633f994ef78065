"""What every fitted linear classifier can do: scores by row blocks, predictions, probabilities."""

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import _check_n_features, check_is_fitted

from ..arrays import dtype_of
from ..data.dask import Call, by_blocks, is_dask
from ..places import CPU, as_tensor, check_device, to_host, torch_device
from ..problem.linear import Linear
from ..rows import Rows
from ..rows.base import compute_dtype
from ..storage import PathLike
from .placing import (
    Collected,
    check_same_home,
    dispatched,
    host,
    moved,
    refusal,
    sender,
    to_rows,
)
from .scores import beside, top_k, widened
from .validation import check_block, check_positive, read_indicator, read_rows


class LinearClassifier(ClassifierMixin, BaseEstimator):
    """Predictions of a model with coef_ (C, d), intercept_ (C,) and classes_.

    A subclass may replace the linear scores by calibrated ones (`_calibrate`) and convert them to
    probabilities (`_probabilities`); both work in place on a block of scores.
    """

    coef_: NDArray[Any]
    intercept_: NDArray[Any]
    classes_: NDArray[Any]
    multilabel_: bool
    n_features_in_: int
    checkpoint: PathLike | None
    checkpoint_every: float
    may_be_raised: tuple[str, ...] = ("passes",)  # settings with which a saved fit may go on
    link: ClassVar[Literal["softmax"] | None] = None  # how scores become probabilities, if they do
    distributed: ClassVar[bool] = False  # can it be fitted to rows on the workers of a cluster?
    on_device: ClassVar[bool] = False  # does it compute where torch does, such as on a GPU?
    device: Any  # of those that do

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.array_api_support = self.on_device
        tags.classifier_tags.multi_label = True
        return tags

    def to(self, device: Any) -> Any:
        """Move the arrays of the fitted model, in place: "cpu" makes them NumPy's; returns it.

        "cuda" or "cuda:1" makes them tensors there, so that calls on tensors send no weights.
        """
        check_is_fitted(self)
        name = check_device(device)
        if name is None:
            raise ValueError("to(None): name a device, 'cpu', 'cuda' or 'cuda:1'")
        if name != CPU and not self.on_device:
            raise refusal(self, f"to({name!r})")
        self.__dict__.update(
            vars(moved(self, to_host if name == CPU else sender(torch_device(name))))
        )
        return self

    def __sklearn_array_api_convert__(self, converter: Callable[[Any], Any]) -> Any:
        """For scikit-learn's `move_estimator_to`; classes_ stays here: it may hold strings."""
        return moved(self, converter)

    def _settle(self, X: Any) -> None:
        """After a fit: put the fitted arrays where X is, if scikit-learn's dispatch asks for it."""
        if dispatched(X):
            self.__dict__.update(vars(moved(self, sender(X))))

    def decision_function(self, X: Any) -> Any:
        """A score for each class, (n, C); (n,) for the positive class of a binary problem."""
        if is_dask(X):
            dtype = np.result_type(compute_dtype(X.dtype), self._weights_dtype)
            columns = None if self._binary else self._class_rows
            return self._of_blocks(X, "decision_function", columns, dtype)
        rows = self._rows(X, "decision_function")
        dtype = np.result_type(rows.dtype, self._weights_dtype)
        S = self._answers(X, rows, lambda S: S, (self._class_rows,), dtype).result()
        return S[:, 0] if self._binary else S

    def predict(self, X: Any) -> Any:
        """The best class of each row; for multi-label models the indicator of all its classes."""
        if is_dask(X):
            if self.multilabel_:
                return self._of_blocks(X, "predict", self._class_rows, np.int64)
            return self._of_blocks(X, "predict", None, self.classes_.dtype)
        rows = self._rows(X, "predict")
        if self.multilabel_:
            columns = (self._class_rows,)
            return self._answers(X, rows, lambda S: S > 0, columns, np.int64).result()

        def best(S: Any) -> Any:
            return S[:, 0] > 0 if self._binary else S.argmax(axis=1)

        return self._answers(X, rows, best, (), np.int64).named(self._names)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy; for multi-label models the share of rows for which all classes are correct."""
        check_is_fitted(self)
        y, sample_weight = host(y), host(sample_weight)
        y = read_indicator(y).astype(int) if self.multilabel_ else y
        return float(accuracy_score(y, host(self.predict(X)), sample_weight=sample_weight))

    def predict_top_k(self, X: Any, k: int) -> Any:
        """The k best classes of each row, best first, (n, k)."""
        if not 1 <= k <= len(self.classes_):
            raise ValueError(
                f"k={k} must lie between 1 and {len(self.classes_)}, the number of classes"
            )
        if is_dask(X):
            return self._of_blocks(X, "predict_top_k", k, self.classes_.dtype, k)
        rows = self._rows(X, "predict_top_k")

        def largest(S: Any) -> Any:
            return top_k(beside(-S, S) if self._binary else S, k)

        return self._answers(X, rows, largest, (k,), np.int64).named(self._names)

    def _predict_proba(self, X: Any) -> Any:
        if is_dask(X):
            return self._of_blocks(X, "predict_proba", len(self.classes_), np.float64)
        rows = self._rows(X, "predict_proba")

        def posteriors(S: Any) -> Any:
            P = self._probabilities(widened(S))
            if self._binary:
                P = beside(1 - P, P)
            elif not self.multilabel_:
                P /= P.sum(axis=1, keepdims=True)
            return P

        columns = (len(self.classes_),)
        return self._answers(X, rows, posteriors, columns, np.float64).result()

    def _answers(
        self,
        X: Any,
        rows: Rows,
        of: Callable[[Any], Any],
        columns: tuple[int, ...],
        dtype: Any,
    ) -> Collected:
        """of(scores) of all rows, block by block, kept where the answers for X belong."""
        answers = Collected(X, (rows.shape[0], *columns), dtype)
        self._each_scores(rows, lambda lo, hi, S: answers.keep(lo, hi, of(S)))
        return answers

    def _of_blocks(
        self, X: Any, method: str, columns: int | None, dtype: Any, *arguments: Any
    ) -> Any:
        """The predictions for a Dask array, as a Dask array: computed when they are needed."""
        check_is_fitted(self)
        _check_n_features(self, X, reset=False)
        return by_blocks(X, Call(self, method, arguments), columns, dtype)

    @property
    def _binary(self) -> bool:
        return self._class_rows == 1 and not self.multilabel_

    def _keep(self, model: Linear) -> None:
        self.coef_, self.intercept_ = np.ascontiguousarray(model.coef), model.intercept

    # A model that is not held as coef_ has others of these.

    @property
    def _class_rows(self) -> int:
        return len(self.coef_)

    @property
    def _weights_dtype(self) -> Any:
        return dtype_of(self.coef_)

    @property
    def _names(self) -> NDArray[Any]:
        """The classes, here."""
        return np.asarray(to_host(self.classes_))

    def _shapes(self, C: int, d: int) -> dict[str, tuple[int, ...]]:
        """The arrays that predictions use, and their shapes for C class rows and d features."""
        return {"coef_": (C, d), "intercept_": (C,)}

    def _check_use(self) -> None:
        """Raise an error if a setting that predictions use is invalid."""

    def _factors(self) -> tuple[Any, ...]:
        """The matrices that a block of rows is multiplied by, one after the other, to be scores."""
        return (as_tensor(self.coef_).T,)

    def _read(self, X: Any) -> Rows:
        check_is_fitted(self)
        return read_rows(self, X, once=True)

    def _rows(self, X: Any, method: str) -> Rows:
        """Rows to predict, computed as accurately as the weights are."""
        check_same_home(self, X, method)
        return self._read(X).precise(self._weights_dtype)

    def _each_scores(self, rows: Rows, use: Callable[[int, int, Any], None]) -> None:
        """Call use(lo, hi, scores) for each row block: the n x C scores are never stored."""
        bring = to_rows(rows)
        factors, b = [bring(factor) for factor in self._factors()], bring(self.intercept_)

        def work(lo: int, hi: int, block: Any) -> None:
            check_block(rows, block, lo)
            S: Any = block
            for factor in factors:
                S = S @ factor
            S += b
            use(lo, hi, self._calibrate(S))

        rows.each_block(work, self._class_rows * 8)

    def _calibrate(self, S: NDArray[Any]) -> NDArray[Any]:
        return S

    def _probabilities(self, S: NDArray[Any]) -> NDArray[Any]:
        raise NotImplementedError


def check_parts(model: LinearClassifier) -> None:
    """Raise an error unless the fitted attributes are consistent, as they are after a fit."""
    classes, d = model.classes_, model.n_features_in_
    check_positive("n_features_in_", d, kind=Integral)
    multilabel = bool(model.multilabel_)
    if not isinstance(classes, np.ndarray) or classes.ndim != 1 or len(classes) < 2 - multilabel:
        raise ValueError("classes_ is not a list of two or more classes")
    ordered = np.sort(classes) if multilabel else classes  # a frame's columns stand as given
    if not (ordered[1:] > ordered[:-1]).all():
        raise ValueError("classes_ are not in increasing order without duplicates")
    names = getattr(model, "feature_names_in_", None)
    if names is not None and np.shape(names) != (d,):
        raise ValueError(f"feature_names_in_ does not have {d} names, the number of features")
    C = 1 if len(classes) == 2 and not multilabel else len(classes)
    for name, shape in model._shapes(C, d).items():
        _check_part(name, getattr(model, name), shape)
    model._check_use()


def _check_part(name: str, part: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(part, np.ndarray) or part.dtype.kind != "f":
        what = part.dtype if isinstance(part, np.ndarray) else type(part).__name__
        raise ValueError(f"{name} holds {what}, not an array of floats")
    if part.shape != shape:
        raise ValueError(f"{name} has shape {part.shape}, but the other parts need {shape}")
    if not np.isfinite(part).all():
        raise ValueError(f"{name} holds NaN or infinity: the fit diverged, or the file was changed")
