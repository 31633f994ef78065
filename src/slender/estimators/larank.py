"""LaRankClassifier: the linear SVM by LaRank, an online dual solver (Bordes and Bottou 2008)."""

from numbers import Integral
from typing import Any

import numpy as np

from ..data import Examples
from ..rows import as_rows, stack
from ..solvers.checkpoint import Checkpoint
from ..solvers.duality import SVMProblem, row_squares
from ..solvers.larank import LaRank
from ..solvers.larank_sweep import Rules
from ..solvers.loop import Clock, Ending
from ..solvers.patterns import Patterns, chosen, empty, joined, support
from ..solvers.svm_forms import Binary, Form, Multiclass
from ..storage import PathLike
from .checkpoints import checkpointed
from .svm import SVMClassifier
from .validation import check_positive, check_same_classes, generator


class LaRankClassifier(SVMClassifier):
    """Linear SVM by LaRank: online, no step size, a duality gap.

    Minimises the following, divided by C Σ_i c_i, with the binary hinge loss for two classes and
    Crammer and Singer's loss for more:

        ½ ‖W‖² + C Σ_i c_i loss_i,     loss_i = max(0, 1 - y_i wᵀx_i), or
                                       loss_i = max_k { s_ik + 1[k != y_i] - s_iy_i },  s = W x

    Parameters
    ----------
    C : float, default 1.0
        Weight of the losses, as in LIBLINEAR and scikit-learn's LinearSVC.
    passes : int, default 1000
        Largest number of rounds: over the data at first, then over the rows that are worth a visit;
        the gap is computed after each.  There are fewer when nothing but rounding moves any more.
    tol : float or None, default 1e-2
        Stop when the objective is proved to be within this share of the optimum.  None: never stop
        early.
    reprocess : bool, default True
        Visit support patterns between fresh examples; without, it is the rival of LaRank in Bordes
        and Bottou 2008.
    adaptive : bool, default True
        Choose among fresh examples, support patterns and their classes by dual gain per operation;
        otherwise take turns.
    skip_bound : bool, default True
        Do not draw patterns whose coefficients are all at the bound, until their next turn as a
        fresh example.
    active : bool, default True
        From the second pass on, visit as fresh examples only those that hold nearly all of the gap;
        otherwise all.
    inner : int, default 8
        Largest number of moves on an example once its scores are known; 1 is the published
        algorithm.
    tau : float, default 1e-4
        A move counts if its gradient exceeds tau.  It is lowered when no such move is left and the
        gap is still too large.
    kappa : float, default 1e-6
        A move counts if there is room for kappa times the bound.  It is lowered as tau is.
    fit_intercept : bool, default True
        Fit an intercept, as the weight of a constant column as large as a typical row, penalised
        like the other weights; Bordes and Bottou 2008 have none.
    class_weight : dict, "balanced" or None, default None
        Multiplies the weight of each row by that of its class; "balanced" gives every class the
        same total weight.
    callbacks : callable, list of callables or None, default None
        Each is called as `callback(record, model)` after each pass; a true answer ends the fit.
    random_state : int, RandomState, Generator or None, default None
        Seed of the random numbers: the order of the rows, and the draws.
    checkpoint, checkpoint_every
        As in LogisticClassifier.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, n_iter_
        As in scikit-learn.
    gap_ : float
        objective_ is at most this far above the optimum; rounding is included.  It is inf after
        the second call of partial_fit, because the earlier rows are not kept.
    objective_ : float
        The objective above, divided by C Σ_i c_i, on the rows of the last call; of the stored coef_
        and intercept_, computed in float64.
    trace_ : list of dict
        One record per pass: seconds, passes, objective, gap, dual, support (number of examples with
        a dual coefficient); and totals so far: moves (those that count) and operations (products
        with a row of W).

    Notes
    -----
    The kernel visits rows in random order.  float32, float64 and CSR rows are read in place: with a
    memory map, all pages may be in memory until the pass ends.  Other rows (float16, integers) are
    converted in portions of 16 MB, half of which are support patterns to draw from.  When float32
    weights can make no more progress, the fit continues with float64 weights; `coef_` has the
    dtype of the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from slender import LaRankClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LaRankClassifier(random_state=0).fit(X[:1300] / 16, y[:1300])
    >>> model.gap_ <= 1e-2 * model.objective_
    True
    >>> model.score(X[1300:] / 16, y[1300:]) > 0.9
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        passes: int = 1000,
        tol: float | None = 1e-2,
        reprocess: bool = True,
        adaptive: bool = True,
        skip_bound: bool = True,
        active: bool = True,
        inner: int = 8,
        tau: float = 1e-4,
        kappa: float = 1e-6,
        fit_intercept: bool = True,
        class_weight: Any = None,
        callbacks: Any = None,
        random_state: Any = None,
        checkpoint: PathLike | None = None,
        checkpoint_every: float = 60.0,
    ) -> None:
        self.C = C
        self.passes = passes
        self.tol = tol
        self.reprocess = reprocess
        self.adaptive = adaptive
        self.skip_bound = skip_bound
        self.active = active
        self.inner = inner
        self.tau = tau
        self.kappa = kappa
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.callbacks = callbacks
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "LaRankClassifier":
        """Fit from W = 0, until the gap is at most `tol` or after `passes` passes."""
        self._check()
        self._streaming = False
        examples = self._read_examples(X, y, sample_weight)
        self._begin(examples)
        patterns = empty(len(examples.y), self._n_rows)
        of = examples.rows, examples.y, sample_weight
        with checkpointed(self, self._rng, *of) as checkpoint:
            self._say(self._advance(examples, patterns, 0, self.passes, checkpoint))
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> "LaRankClassifier":
        """One pass over these rows; support patterns of earlier calls are reprocessed with them.

        The first call sets the classes (give `classes` if its rows do not contain all of them).
        Only the rows of support patterns are kept; a pickle contains them too.
        """
        self._check()
        first = not hasattr(self, "_stream")
        if first and hasattr(self, "coef_"):
            raise ValueError(
                "partial_fit: a loaded model has weights but no support patterns; "
                "use fit, or continue with the original model object"
            )
        if first:
            known = None if classes is None else np.unique(classes)
        else:
            check_same_classes(classes, self.classes_)
            known = self.classes_
        fresh = self._read_examples(X, y, sample_weight, reset=first, classes=known)
        patterns = empty(len(fresh.y), self._n_rows)
        self._streaming = True
        if first:
            self._begin(fresh)
            self._advance(fresh, patterns, 0, 1)
            return self
        kept, old = self._support()
        self._n_seen += fresh.n_active
        self._total_seen += float(fresh.w.sum())
        self._advance(_joined(kept, fresh), joined(old, patterns), len(kept.y), 1)
        return self

    def _support(self) -> tuple[Examples, Patterns]:
        """The examples seen so far that have a dual coefficient."""
        examples, patterns = self._stream
        kept = support(patterns)
        rows = as_rows(examples.rows.gather(kept).matrix())
        return (
            Examples(rows, examples.y[kept], examples.w[kept]),
            chosen(patterns, kept),
        )

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        if "_stream" in state:
            del state["_stream"]
            if self._streaming:  # else it may be most of a training set that nobody will go on with
                state["_stream"] = self._support()
        return state

    @property
    def _n_rows(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _begin(self, examples: Examples) -> None:
        self._n_seen, self._total_seen = examples.n_active, float(examples.w.sum())
        self._bias: float | None = None
        self._rng = generator(self.random_state)
        self._clock = Clock()
        self.trace_ = []

    def _advance(
        self,
        examples: Examples,
        patterns: Patterns,
        n_kept: int,
        passes: int,
        checkpoint: Checkpoint | None = None,
    ) -> Ending:
        """Make `passes` passes; the first n_kept examples are support patterns of earlier calls."""
        with self._clock:
            sq = row_squares(examples.rows)
            if self._bias is None:
                self._bias = self._constant(sq, examples)
            form: Form = Multiclass(examples.y)
            if self._n_rows == 1:
                form = Binary(np.where(examples.y == 1, 1, -1).astype(np.int8))
            problem = SVMProblem(
                form=form,
                rows=examples.rows,
                U=self.C * examples.w,
                sq=sq + self._bias**2,
                bias=self._bias,
                n_rows=self._n_rows,
                lam=1.0 / (self._total_seen * self.C),
                whole=self._n_seen == examples.n_active,
            )
            rules = Rules(
                self.tau,
                self.kappa,
                self.inner,
                bool(self.adaptive),
                bool(self.skip_bound),
                bool(self.reprocess),
            )
            visits = np.flatnonzero(examples.w)
            visits = visits[visits >= n_kept]
            solver = LaRank(problem, rules, self.tol, bool(self.active), patterns, visits)
            state = solver.init(self._rng)
        ending = self._run(solver, state, passes, self._clock, checkpoint)
        if self._streaming and ending == "interrupted":
            self._say(ending)  # fit says what else there is to say
        self._stream = (examples, state.iterate.patterns)
        return ending

    def _check(self) -> None:
        check_positive("C", self.C)
        check_positive("inner", self.inner, kind=Integral)
        check_positive("tau", self.tau)
        check_positive("kappa", self.kappa)
        for name in ("adaptive", "skip_bound"):
            if not (self.reprocess or getattr(self, name)):
                raise ValueError(
                    f"{name}=False changes how support patterns are drawn, but reprocess=False "
                    f"draws none: remove {name}, or use reprocess=True"
                )
        super()._check()


def _joined(a: Examples, b: Examples) -> Examples:
    everything = np.arange(b.rows.shape[0])
    rows = stack([a.rows.gather(np.arange(a.rows.shape[0])), b.rows.gather(everything)])
    return Examples(rows, np.concatenate([a.y, b.y]), np.concatenate([a.w, b.w]))
