"""BCFWClassifier: the multi-class SVM by block-coordinate Frank-Wolfe (Lacoste-Julien et al. 2013).

The objective, the mini-batches and the notation are those of the AIMS course (NOTATION.md), §5.
"""

from numbers import Integral
from typing import Any

from ..solvers.bcfw import FrankWolfe
from ..solvers.duality import SVMProblem, row_squares
from ..solvers.loop import Clock
from ..solvers.svm_forms import Multiclass
from ..storage import PathLike
from .checkpoints import checkpointed
from .svm import SVMClassifier
from .validation import check_positive, generator


class BCFWClassifier(SVMClassifier):
    """Multi-class linear SVM by block-coordinate Frank-Wolfe: no step size, a duality gap.

    Minimises Crammer and Singer's hinge loss and a penalty:

        1/n Σ_i c_i max_k { s_ik + 1[k != y_i] - s_iy_i } + lam/2 ‖W‖²,       s = W x,  n = Σ_i c_i

    c_i is the weight of row i: a row of weight 2 counts as two rows.  lam is 1/(n C), with the C of
    the Crammer-Singer SVM in LIBLINEAR and scikit-learn.

    Parameters
    ----------
    lam : float, default 0.01
        Weight of the penalty, lam/2 ‖W‖².
    batch_size : int or None, default None
        Examples per step: 1 is the block-coordinate algorithm of Lacoste-Julien et al. 2013, n is
        Frank-Wolfe over all rows.  None: 1, which needs the fewest passes and, since it touches
        only the rows of W that move, reaches a given gap soonest.
    passes : int, default 50
        Largest number of passes over the data.
    tol : float or None, default 1e-2
        Stop when the objective is proved to be within this share of the optimum.  None: never stop
        early.
    average : bool, default True
        Average the iterates, with weights that grow linearly.
    fit_intercept : bool, default True
        Fit an intercept, as the weight of a constant column as large as a typical row, penalised
        like the other weights.
    class_weight : dict, "balanced" or None, default None
        Multiplies the weight of each row by that of its class; "balanced" gives every class the
        same total weight.
    callbacks : callable, list of callables or None, default None
        Each is called as `callback(record, model)` after each pass; a true answer ends the fit.
    random_state : int, RandomState, Generator or None, default None
        Seed of the random numbers: the order of the blocks.
    checkpoint, checkpoint_every
        As in LogisticClassifier.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, n_iter_
        As in scikit-learn.  For two classes coef_ is (1, d), the difference of the two rows of W.
    gap_ : float
        objective_ is at most this far above the optimum; rounding is included.
    objective_ : float
        The objective of the stored coef_ and intercept_, computed in float64.
    trace_ : list of dict
        One record per pass: seconds, passes, objective, gap, dual, support (number of examples with
        a dual coefficient), estimate (mean of the objectives of the blocks before their steps).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from slender import BCFWClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = BCFWClassifier(random_state=0).fit(X[:1300] / 16, y[:1300])
    >>> model.gap_ <= 1e-2 * model.objective_
    True
    >>> model.score(X[1300:] / 16, y[1300:]) > 0.9
    True
    """

    def __init__(
        self,
        lam: float = 0.01,
        *,
        batch_size: int | None = None,
        passes: int = 50,
        tol: float | None = 1e-2,
        average: bool = True,
        fit_intercept: bool = True,
        class_weight: Any = None,
        callbacks: Any = None,
        random_state: Any = None,
        checkpoint: PathLike | None = None,
        checkpoint_every: float = 60.0,
    ) -> None:
        self.lam = lam
        self.batch_size = batch_size
        self.passes = passes
        self.tol = tol
        self.average = average
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.callbacks = callbacks
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "BCFWClassifier":
        """Fit from W = 0, until the gap is at most `tol` or after `passes` passes."""
        self._check()
        examples = self._read_examples(X, y, sample_weight)
        if self.batch_size is not None and self.batch_size > examples.n_active:
            raise ValueError(
                f"batch_size={self.batch_size} is more than the {examples.n_active} training rows; "
                f"use at most {examples.n_active}, or None"
            )
        clock = Clock()
        with clock:
            rows = examples.rows
            sq = row_squares(rows)
            bias = self._constant(sq, examples)
            problem = SVMProblem(
                form=Multiclass(examples.y),
                rows=rows,
                U=examples.w / (examples.w.sum() * self.lam),
                sq=sq + bias**2,
                bias=bias,
                n_rows=len(self.classes_),
                lam=float(self.lam),
            )
            solver = FrankWolfe(problem, self.batch_size or 1, bool(self.average), self.tol)
        rng, self.trace_ = generator(self.random_state), []
        with checkpointed(self, rng, rows, examples.y, sample_weight) as checkpoint:
            state = solver.init(rng)
            self._say(self._run(solver, state, self.passes, clock, checkpoint))
        return self

    def _check(self) -> None:
        check_positive("lam", self.lam)
        if self.batch_size is not None:
            check_positive("batch_size", self.batch_size, kind=Integral)
        super()._check()
