"""SGDClassifier: stochastic gradient descent with an L2 penalty.

The schedule is that of Bordes and Bottou 2008, the mini-batches are those of the AIMS course
(NOTATION.md).
"""

from numbers import Integral
from typing import Any

import numpy as np

from ..curvature import Curvature, Identity
from ..losses import MARGIN_LOSSES, MULTICLASS_LOSSES, bounded, fit_for
from ..solvers.minibatch import MiniBatch
from ..solvers.rate import TRIAL_ROWS, find_eta0, subsample
from ..solvers.stochastic import Stochastic, StochasticData
from ..storage import PathLike
from .decomposition import Decomposition, decomposition_of
from .stochastic import Descent, StochasticClassifier
from .validation import check_choice, check_positive, shown

SCHEDULES = ("optimal", "sqrt", "constant")
STABLE = 2.0  # the automatic rate is held, per row, below this over F''(0)‖x_i‖²
# Rates for batches are tried on TRIAL_ROWS at least, for as many updates as the fit will make, but
# no fewer than the first of these (after 16 a hinge knows nothing yet) nor more than the second.
FEWEST_UPDATES, MOST_UPDATES = 32, 64
TRIAL_BATCH = 256  # a larger batch has hardly less noise than one of so many rows
TRIAL_GUESS = 16  # up to so many rows a batch, the rate to begin with grows with it
TRIAL_BYTES = 64 * 2**20  # on rows that fill no more than this, again and again if need be


class SGDClassifier(StochasticClassifier):
    """Linear classifier by stochastic gradient descent, one row or a mini-batch at a time.

    Minimises mean loss + lam/2 ‖W‖².  A margin loss ("logistic", "calibrated_hinge", "squared",
    "hinge") is one-vs-rest: each class has its own problem, and the objective is the mean of
    theirs.  A multi-class loss ("cross_entropy", "crammer_singer") is one problem of all classes.

    Parameters
    ----------
    loss : {"logistic", "calibrated_hinge", "squared", "hinge", "cross_entropy", "crammer_singer"}
        "cross_entropy" and "crammer_singer" are multi-class losses, the others are one-vs-rest.
    lam : float, default 1e-4
        Weight of the L2 penalty; scikit-learn's alpha, 1/(n C).
    step : float or "auto", default "auto"
        The first rate, eta0.  "auto" tries doublings and halvings on 1,000 rows, or 64 batches.
    batch_size : int, default 1
        Rows per update: W <- W - eta_t (mean of their gradients + lam W).
    schedule : {"optimal", "sqrt", "constant"}, default "optimal"
        The rate after t updates.  "optimal": eta0 / (1 + lam eta0 t), of Bordes and Bottou 2008;
        with averaging it falls with exponent 3/4, and with lam=0 it does not fall.  "sqrt": eta0 /
        sqrt(t + 1).  "constant": eta0.
    negatives
        As in SLNDClassifier.  For one-vs-rest losses and batch_size=1 only.
    average : bool, default True
        Keep the average of the iterates, with weights that grow linearly, instead of the last one.
    passes, prior
        As in SLNDClassifier.
    fit_intercept : bool, default True
        Fit an intercept, which is not penalised; its rate is that of a constant column as large as
        a typical row.
    class_weight : dict, "balanced" or None, default None
        Multiplies the weight of the positives of each class, or of the rows of each class if the
        loss is multi-class; "balanced" gives every class the same total weight.
    objective : {"estimate", "exact"}, default "estimate"
        The objective to report after each pass: the mean over the visits, or batches, of the pass,
        each before its update, or the exact value, which takes an extra pass, off the clock.
    callbacks, random_state
        As in SLNDClassifier.
    checkpoint, checkpoint_every
        As in LogisticClassifier.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, n_iter_, trace_, prior_shift_
        As in SLNDClassifier; a multi-class fit of two classes keeps w = W_1 - W_0.
    step_ : float
        The first rate, eta0.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from slender import SGDClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SGDClassifier(random_state=0).fit(X[:1300], y[:1300])
    >>> model.score(X[1300:], y[1300:]) > 0.85
    True
    >>> model = SGDClassifier("cross_entropy", batch_size=16, random_state=0)
    >>> model.fit(X[:1300], y[:1300]).score(X[1300:], y[1300:]) > 0.85
    True
    """

    def __init__(
        self,
        loss: str = "logistic",
        *,
        lam: float = 1e-4,
        step: float | str = "auto",
        batch_size: int = 1,
        schedule: str = "optimal",
        negatives: float | str = "all",
        average: bool = True,
        passes: int = 5,
        fit_intercept: bool = True,
        class_weight: Any = None,
        prior: str = "empirical",
        objective: str = "estimate",
        callbacks: Any = None,
        random_state: Any = None,
        checkpoint: PathLike | None = None,
        checkpoint_every: float = 60.0,
    ) -> None:
        self.loss = loss
        self.lam = lam
        self.step = step
        self.batch_size = batch_size
        self.schedule = schedule
        self.negatives = negatives
        self.average = average
        self.passes = passes
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.prior = prior
        self.objective = objective
        self.callbacks = callbacks
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    @property
    def may_be_raised(self) -> tuple[str, ...]:  # type: ignore[override]
        """The rates that are tried depend on the number of updates."""
        return () if self.step == "auto" else ("passes",)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self.loss not in MULTICLASS_LOSSES
        return tags

    def _check(self) -> None:
        check_choice("loss", self.loss, fit_for(bounded, MARGIN_LOSSES, MULTICLASS_LOSSES))
        super()._check()
        check_positive("lam", self.lam, zero=True)
        check_positive("batch_size", self.batch_size, kind=Integral)
        check_choice("schedule", self.schedule, SCHEDULES)
        if isinstance(self.step, str):
            check_choice("step", self.step, ("auto",))
        else:
            check_positive("step", self.step)
        if self.batch_size > 1 and self.negatives != "all":
            raise ValueError(
                f"negatives={shown(self.negatives)} draws different rows for each class, but a "
                f"batch of batch_size={self.batch_size} is shared by all classes: "
                "use batch_size=1 or negatives='all'"
            )

    def _loss(self) -> Any:
        return {**MARGIN_LOSSES, **MULTICLASS_LOSSES}[self.loss]

    def _decomposition(self) -> Decomposition:
        return decomposition_of(self.loss)(self.loss, self._loss(), self.negatives, self.prior)

    def _curvature(self) -> Curvature:
        return Identity()

    def _choose(self, data: StochasticData) -> None:
        self._check_batch(len(data.active))
        self.step_ = float(self._try_rates(data) if self.step == "auto" else self.step)

    def _check_batch(self, n: int) -> None:
        if self.batch_size > n:
            raise ValueError(
                f"batch_size={self.batch_size} is more than the {n} rows; use at most {n}"
            )

    def _solver(self, data: StochasticData) -> Descent:
        self._check_batch(len(data.active))
        return self._descent_at(data, self.step_, int(self.batch_size))

    def _descent_at(self, data: StochasticData, eta0: float, batch: int) -> Descent:
        decomposition = self._decomposition()
        decay, power = {  # eta_t = eta0 / (1 + decay t)^power
            "optimal": (self.lam * eta0, 0.75 if self.average else 1.0),
            "sqrt": (1.0, 0.5),
            "constant": (0.0, 1.0),
        }[self.schedule]
        settings: dict[str, Any] = {
            "decay": decay,
            "power": power,
            "lam": self.lam,
            "beta": data.coordinates.bias,
            "cap": STABLE if self.step == "auto" else np.inf,
            "average": bool(self.average),
        }
        if decomposition.apart and batch == 1:
            return Stochastic(data, self._loss(), eta0, negatives=self.negatives, **settings)
        return MiniBatch(data, decomposition.batch, eta0, batch_size=batch, **settings)

    def _try_rates(self, data: StochasticData) -> float:
        batch = min(int(self.batch_size), TRIAL_BATCH)
        of_fit = self.passes * -(-len(data.active) // self.batch_size)
        wanted = int(np.clip(of_fit, FEWEST_UPDATES, MOST_UPDATES)) * batch
        fits = max(TRIAL_ROWS, TRIAL_BYTES // data.rows.row_bytes)
        trial = subsample(data, min(max(TRIAL_ROWS, wanted), fits), self._rng)
        passes = -(-wanted // len(trial.active)) if batch > 1 else 1  # rounded up
        seed = int(self._rng.integers(2**31))  # the same order for every rate

        def objective(eta0: float) -> float:
            return self._after(self._descent_at(trial, eta0, batch), seed, passes)

        mean_sq = float(trial.sqnorms.mean(dtype=float)) + data.coordinates.bias**2
        return find_eta0(objective, min(batch, TRIAL_GUESS) / mean_sq if mean_sq > 0 else 1.0)
