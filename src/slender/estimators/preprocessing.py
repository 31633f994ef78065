"""UnitRows: the preprocessing for first-order methods of Bordes and Bottou 2008, Part II."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import MaxAbsScaler, StandardScaler, normalize
from sklearn.utils.validation import check_is_fitted

from ..rows import Block, Rows
from .validation import check_block, read_rows


class UnitRows(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Scales the features, then every row to L2 norm 1.

    Dense features get mean 0 and variance 1.  Sparse features are divided by their largest absolute
    value, and stay sparse.  A constant feature becomes 0 (sparse: ±1); all-zero rows stay zero.
    float32 stays float32, and narrower types become float32.  Rows are read block by block.

    Attributes
    ----------
    scaler_ : sklearn.preprocessing.StandardScaler or MaxAbsScaler
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from slender import UnitRows
    >>> X = np.array([[1.0, 10.0], [3.0, 10.0], [5.0, 40.0]])
    >>> UnitRows().fit_transform(X).round(3)
    array([[-0.866, -0.5  ],
           [ 0.   , -1.   ],
           [ 0.655,  0.756]])
    """

    def fit(self, X: Any, y: Any = None) -> "UnitRows":
        """Compute the scales from these rows."""
        if hasattr(self, "scaler_"):
            del self.scaler_
        return self.partial_fit(X)

    def partial_fit(self, X: Any, y: Any = None) -> "UnitRows":
        """Update the scales with more rows."""
        rows = read_rows(self, X, reset=not hasattr(self, "scaler_"))
        kind = _scaler_of(rows)
        if not hasattr(self, "scaler_"):
            self.scaler_ = kind()
        elif not isinstance(self.scaler_, kind):
            raise ValueError("X must be dense in all calls of partial_fit, or sparse in all")
        for lo, hi, part in rows.parts():
            block = part.gather(np.arange(hi - lo))
            check_block(rows, block, lo)
            self.scaler_.partial_fit(block.matrix())
        return self

    def transform(self, X: Any) -> Any:
        """The scaled rows: a dense array, or a CSR matrix for sparse rows."""
        check_is_fitted(self)
        rows = read_rows(self, X)
        if _scaler_of(rows) is MaxAbsScaler and isinstance(self.scaler_, StandardScaler):
            raise ValueError(
                "X is sparse, but UnitRows was fitted to dense rows, and subtracting their means "
                "would make X dense: give X.toarray(), or fit to sparse rows"
            )
        if _scaler_of(rows) is MaxAbsScaler:
            return self._unit(rows, rows.block(0, rows.shape[0]), 0)
        out = np.empty(rows.shape, rows.dtype)

        def work(lo: int, hi: int, block: Block) -> None:
            out[lo:hi] = self._unit(rows, block, lo)

        rows.each_block(work, rows.row_bytes)
        return out

    def _unit(self, rows: Rows, block: Block, lo: int) -> Any:
        check_block(rows, block, lo)
        return normalize(self.scaler_.transform(block.matrix()), copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _scaler_of(rows: Rows) -> type[StandardScaler] | type[MaxAbsScaler]:
    return MaxAbsScaler if rows.block(0, 0).is_sparse else StandardScaler
