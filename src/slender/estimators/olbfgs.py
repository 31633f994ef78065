"""OLBFGSClassifier: online limited-memory BFGS, one-vs-rest (Schraudolph, Yu, Günter 2007)."""

from numbers import Integral
from typing import Any

from ..curvature import LBFGS, Curvature, Identity
from ..losses import MARGIN_LOSSES, MarginLoss, bounded, fit_for
from ..solvers.rate import TRIAL_ROWS, find_eta0, subsample
from ..solvers.stochastic import Stochastic, StochasticData
from ..storage import PathLike
from .stochastic import StochasticClassifier
from .validation import check_choice, check_positive

AUTO_DAMPING = 1.0  # of F''(0) mean ‖x‖²
AUTO_T0 = (
    0.1  # of a pass; with AUTO_DAMPING the best of 12 on digits and planted rows, lam 1e-3..1e-5
)
FIRST_STEP = 0.1  # tried first


class OLBFGSClassifier(StochasticClassifier):
    """One-vs-rest linear classifier by online L-BFGS.

    Minimises mean loss + lam/2 ‖w‖² for each class.  Visit t of a class moves its weights by
    -step t0/(t0 + t) H g, where g is the gradient of the example.  H is built from the last
    `memory` pairs (s, y) of the class: s is a step, and y is the change that it made to the
    gradient of the *same* example, plus damping times s.  A visit costs 4 memory d multiplications,
    and the pairs of a class take 2 memory d numbers.

    A step cannot overshoot on its own example, pairs with a nearly zero denominator are not used,
    and weights stay finite for any data and any step.

    Parameters
    ----------
    loss : {"logistic", "calibrated_hinge", "squared", "hinge"}, default "logistic"
        The loss of each class against the rest.
    lam : float, default 1e-4
        Weight of the L2 penalty; scikit-learn's alpha, 1/(n C).  0 is allowed.
    memory : int, default 10
        Number of secant pairs to keep.
    damping : float or "auto", default "auto"
        Added to every curvature.  "auto" is F''(0) mean ‖x‖²: a pair sees the curvature of one
        example, which is a noisy estimate of that of the mean.
    step : float or "auto", default "auto"
        The first gain.  "auto" tries doublings and halvings on 1,000 rows.
    t0 : float or "auto", default "auto"
        Visits after which the gain has halved.  "auto": those of a tenth of a pass over the rows of
        the first call.
    average : bool, default False
        Keep the average of the iterates, with weights that grow linearly, instead of the last one.
    fit_intercept : bool, default True
        Fit an intercept, which is not penalised.
    class_weight, negatives
        As in SLNDClassifier.
    passes, prior, objective, callbacks, random_state
        As in SGDClassifier.
    checkpoint, checkpoint_every
        As in LogisticClassifier.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, n_iter_, trace_, prior_shift_
        As in SGDClassifier.
    step_, t0_, damping_ : float
        The values used.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from slender import OLBFGSClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = OLBFGSClassifier(random_state=0).fit(X[:1300], y[:1300])
    >>> model.score(X[1300:], y[1300:]) > 0.85
    True
    """

    def __init__(
        self,
        loss: str = "logistic",
        *,
        lam: float = 1e-4,
        memory: int = 10,
        damping: float | str = "auto",
        step: float | str = "auto",
        t0: float | str = "auto",
        negatives: float | str = "all",
        average: bool = False,
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
        self.memory = memory
        self.damping = damping
        self.step = step
        self.t0 = t0
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

    def _check(self) -> None:
        check_choice("loss", self.loss, fit_for(bounded, MARGIN_LOSSES))
        super()._check()
        check_positive("lam", self.lam, zero=True)
        check_positive("memory", self.memory, kind=Integral)
        if self.damping != "auto":
            check_positive("damping", self.damping, zero=True)
        for name in ("step", "t0"):
            if getattr(self, name) != "auto":
                check_positive(name, getattr(self, name))

    def _loss(self) -> MarginLoss:
        return MARGIN_LOSSES[self.loss]

    def _curvature(self) -> Curvature:
        return Identity()

    def _choose(self, data: StochasticData) -> None:
        damping, t0, step = self.damping, self.t0, self.step
        if damping == "auto":
            mean_sq = float(data.sqnorms[data.active].mean(dtype=float))
            mean_sq += data.coordinates.bias**2
            damping = AUTO_DAMPING * (self._loss().curvature(0.0) or 1.0) * mean_sq
        self.damping_ = float(damping)
        self.t0_ = float(len(data.active) * AUTO_T0 if t0 == "auto" else t0)
        if step == "auto":
            trial = subsample(data, TRIAL_ROWS, self._rng)
            seed = int(self._rng.integers(2**31))  # the same order for every step
            step = find_eta0(
                lambda step: self._after(self._descent_at(trial, step), seed), FIRST_STEP
            )
        self.step_ = float(step)

    def _solver(self, data: StochasticData) -> Stochastic:
        return self._descent_at(data, self.step_)

    def _descent_at(self, data: StochasticData, step: float) -> Stochastic:
        return Stochastic(
            data,
            self._loss(),
            step,
            decay=1.0 / self.t0_,
            lam=self.lam,
            beta=data.coordinates.bias,
            average=bool(self.average),
            negatives=self.negatives,
            metric=LBFGS(int(self.memory), self.damping_),
        )
