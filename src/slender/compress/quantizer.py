"""ProductQuantizer: learns codebooks by k-means and converts rows to codes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_n_features, check_is_fitted

from ..data.dask import Call, by_blocks, is_dask
from ..estimators.validation import check_block, check_positive, generator, read_rows
from ..extras import need
from ..rows import DenseBlock, Rows
from ..rows.blas import look_again, openmp_threads
from ..rows.lookup import CENTROIDS
from ..storage import PathLike
from .format import write_codes
from .matrix import CompressedMatrix

D_SQ = 16  # numbers a byte stands for: 64 times smaller than float32, as in the paper
TRAINING_ROWS = 65_536  # 256 a centroid: k-means gains nothing from more


class ProductQuantizer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Converts rows to codes: each part of d_sq numbers becomes the nearest of 256 centroids.

    Learning codebooks and encoding need faiss (`pip install slender[compress]`); codes can be used
    without it.

    Parameters
    ----------
    n_sq : int, optional
        Number of parts of a row, which is also its number of bytes.
    d_sq : int, optional
        Number of features in a part.  Give n_sq or d_sq, since d = n_sq d_sq; if neither is given,
        d_sq is the largest divisor of d up to 16.
    training_rows : int, default 65,536
        Number of rows that the codebooks are learned on, drawn with the seed.
    n_iter : int, default 25
        Iterations of k-means.
    random_state : int, RandomState, Generator or None, default None
        Seed of the random numbers: the training rows, and the start of k-means.

    Attributes
    ----------
    codebooks_ : array (n_sq, 256, d_sq), float32
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np, pytest
    >>> _ = pytest.importorskip("faiss")
    >>> from slender import ProductQuantizer
    >>> X = np.random.default_rng(0).standard_normal((1000, 32)).astype(np.float32)
    >>> quantizer = ProductQuantizer(d_sq=4, random_state=0).fit(X)
    >>> M = quantizer.encode(X)
    >>> M.shape, M.codes.shape
    ((1000, 32), (1000, 8))
    >>> float(np.mean((quantizer.decode(M) - X) ** 2)) < 0.5
    True
    """

    distributed: ClassVar[bool] = True  # codebooks are learned from a sample of the rows

    codebooks_: NDArray[np.float32]
    n_features_in_: int

    def __init__(
        self,
        n_sq: int | None = None,
        d_sq: int | None = None,
        *,
        training_rows: int = TRAINING_ROWS,
        n_iter: int = 25,
        random_state: Any = None,
    ) -> None:
        self.n_sq = n_sq
        self.d_sq = d_sq
        self.training_rows = training_rows
        self.n_iter = n_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "ProductQuantizer":
        """Learn the codebooks on some of the rows."""
        faiss = _faiss()
        check_positive("training_rows", self.training_rows, kind=Integral)
        check_positive("n_iter", self.n_iter, kind=Integral)
        rows = read_rows(self, X, reset=True)
        n, d = rows.shape
        n_sq = self._parts(d)
        if min(n, self.training_rows) < CENTROIDS:
            raise ValueError(
                f"{min(n, self.training_rows)} rows (n_samples) are too few to learn {CENTROIDS} "
                f"centroids per part; give at least {CENTROIDS}"
            )
        rng = generator(self.random_state)
        chosen = np.sort(rng.permutation(n)[: self.training_rows])
        sample = _single(rows, rows.dense(chosen), chosen)
        trained = faiss.ProductQuantizer(d, n_sq, 8)
        trained.cp.seed = int(rng.integers(2**31 - 1))
        trained.cp.niter = int(self.n_iter)
        trained.cp.max_points_per_centroid = -(-self.training_rows // CENTROIDS)
        trained.cp.min_points_per_centroid = 1  # 39 by default, below which it warns
        with _threads(faiss):
            trained.train(np.ascontiguousarray(sample))
        centroids = faiss.vector_to_array(trained.centroids)
        self.codebooks_ = centroids.reshape(n_sq, CENTROIDS, d // n_sq).copy()
        for q, part in enumerate(np.split(sample, n_sq, axis=1)):
            _keep_exact(part, self.codebooks_[q])
        return self

    def encode(self, X: Any, progress: Callable[[int], object] | None = None) -> CompressedMatrix:
        """The codes of X, block by block; `progress(rows done)` is called after each block.

        Those of a Dask array are computed where its blocks are; only the codes come here.
        """
        if is_dask(X):
            check_is_fitted(self)
            _check_n_features(self, X, reset=False)
            numbers = by_blocks(X, Call(self, "_codes"), len(self.codebooks_), np.uint8)
            return CompressedMatrix(numbers.compute(), self.codebooks_)
        rows = self._read(X)
        codes = np.empty((rows.shape[0], len(self.codebooks_)), np.uint8)
        done = 0
        for block in self.encoded(rows, progress):
            codes[done : done + len(block)] = block
            done += len(block)
        return CompressedMatrix(codes, self.codebooks_)

    def _codes(self, X: Any) -> NDArray[np.uint8]:
        return np.asarray(self.encode(X).codes)

    def encode_to(
        self, X: Any, path: PathLike, progress: Callable[[int], object] | None = None
    ) -> None:
        """Write the codes of X to a file block by block, for codes that do not fit in memory."""
        rows = self._read(X)
        write_codes(path, self.codebooks_, rows.shape[0], self.encoded(rows, progress))

    def decode(self, M: CompressedMatrix) -> NDArray[Any]:
        """The decoded rows of codes that were made with these codebooks."""
        check_is_fitted(self)
        if M.codes.shape[1] != len(self.codebooks_):
            raise ValueError(
                f"M has {M.codes.shape[1]} parts, but the codebooks have {len(self.codebooks_)}"
            )
        return CompressedMatrix(M.codes, self.codebooks_).toarray()

    transform = encode
    inverse_transform = decode

    @classmethod
    def of(cls, M: CompressedMatrix) -> "ProductQuantizer":
        """A quantizer with the codebooks of M, to encode more rows with them."""
        made = cls(n_sq=len(M.codebooks))
        made.codebooks_ = M.codebooks.astype(np.float32)
        made.n_features_in_ = M.shape[1]
        return made

    def _read(self, X: Any) -> Rows:
        check_is_fitted(self)
        return read_rows(self, X)

    def encoded(
        self, rows: Rows, progress: Callable[[int], object] | None, first: int = 0
    ) -> Iterator[NDArray[np.uint8]]:
        """Blocks of codes, from the row `first` on, where a block must begin."""
        faiss = _faiss()
        n_sq, _, d_sq = self.codebooks_.shape
        coder = faiss.ProductQuantizer(n_sq * d_sq, n_sq, 8)
        faiss.copy_array_to_vector(self.codebooks_.ravel(), coder.centroids)
        for lo, hi, part in rows.parts(start=first):
            block = _single(rows, part.dense(np.arange(hi - lo)), np.arange(lo, hi))
            with _threads(faiss):
                numbers = coder.compute_codes(block)
            yield numbers
            if progress is not None:
                progress(hi)

    def _parts(self, d: int) -> int:
        """n_sq for d features."""
        if self.n_sq is not None and self.d_sq is not None:
            raise ValueError("n_sq and d_sq determine each other (d = n_sq d_sq); give one of them")
        name, given = ("n_sq", self.n_sq) if self.d_sq is None else ("d_sq", self.d_sq)
        divisors = np.array([k for k in range(1, d + 1) if d % k == 0])
        if given is None:
            return d // int(divisors[divisors <= D_SQ].max())
        check_positive(name, given, kind=Integral)
        if d % given:
            below, above = divisors[divisors < given], divisors[divisors > given]
            nearest = [int(end[k]) for end, k in ((below, -1), (above, 0)) if len(end)]
            raise ValueError(
                f"{name}={given} does not divide the {d} features; "
                f"the nearest divisors: {' and '.join(map(str, nearest))}"
            )
        return int(given) if name == "n_sq" else d // int(given)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _single(rows: Rows, block: NDArray[Any], index: NDArray[np.intp]) -> NDArray[np.float32]:
    """The rows `index`, given as `block`, in float32; an error if they are not finite."""
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(block, np.float32)
    bad = DenseBlock(single).first_bad()
    if bad is not None:
        i, j, _ = bad
        row = int(index[i])
        check_block(rows, DenseBlock(block[i : i + 1]), row)  # NaN or infinity, as it was given
        raise ValueError(
            f"X contains {block[i, j]:.3g} at {rows.where(row)}, column {j}, too large for "
            "float32; scale the features down"
        )
    return single


def _keep_exact(part: NDArray[np.float32], codebook: NDArray[np.float32]) -> None:
    """If there are at most as many distinct vectors as centroids, use them as centroids.

    k-means would perturb some of them to fill empty clusters.
    """
    if len(np.unique(part[: 4 * CENTROIDS], axis=0)) > CENTROIDS:
        return
    distinct = np.unique(part, axis=0)
    if len(distinct) <= CENTROIDS:
        codebook[: len(distinct)] = distinct
        codebook[len(distinct) :] = distinct[0]


@contextmanager
def _threads(faiss: Any) -> Iterator[None]:
    """Set slender's number of threads in faiss, which uses OpenMP."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(openmp_threads())
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _faiss() -> Any:
    module = need("faiss", "ProductQuantizer")
    look_again()  # it brings a BLAS
    return module
