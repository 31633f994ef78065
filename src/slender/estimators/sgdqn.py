"""SGDQNClassifier: stochastic descent with a diagonal scaling that is learned during the fit.

Bordes and Bottou 2008; Bordes, Bottou and Gallinari 2009, with the erratum of 2010.
"""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from ..curvature import Curvature, Identity, Metric, Secant, Slides
from ..losses import MARGIN_LOSSES, MarginLoss, bounded, fit_for
from ..solvers.rate import find_period, find_t0, subsample, t0_rows
from ..solvers.stochastic import Stochastic, StochasticData
from ..storage import PathLike
from .stochastic import StochasticClassifier
from .validation import check_choice, check_positive

VARIANTS = ("corrected", "gauss_newton", "2008", "2008_literal")
SLIDES = {"2008": True, "2008_literal": False}  # are ratios held?
STABLE = 2.0  # with t0="auto" a step is held, per row, below this over F''(0)‖x_i‖²


class SGDQNClassifier(StochasticClassifier):
    """One-vs-rest linear classifier by SGD-QN, diagonal quasi-Newton stochastic descent.

    Minimises mean loss + lam/2 ‖w‖² for each class.  Every feature has its own rate, which starts
    at 1/(lam t0) and decreases with the curvature that secant pairs measure.  It works best if rows
    have similar norms and features the same scale (`UnitRows`).

    Parameters
    ----------
    loss : {"logistic", "calibrated_hinge", "squared", "hinge"}, default "logistic"
        The loss of each class against the rest.
    lam : float, default 1e-4
        Weight of the L2 penalty; scikit-learn's alpha, 1/(n C).  It must not be 0, because the
        rates are in its units.
    variant : {"corrected", "gauss_newton", "2008", "2008_literal"}, default "corrected"
        "corrected" is the algorithm of Bordes et al. 2009 with the correction of 2010: the
        curvature r of each feature, held between lam/10 and 100 lam, adds up in the inverse of its
        rate.  r is Δg/Δw, feature by feature; "gauss_newton" takes the diagonal of one example's
        Hessian, which is the better estimate on dense rows (there, "corrected" is ahead of SGD only
        where lam is tiny).  "2008" is the algorithm of Bordes and Bottou 2008: the rate is D/(t
        + t0), D a running mean of the ratios Δw/Δg.  They do not say how to average extreme
        ratios: 0/0 leaves D unchanged, a negative ratio or one above 1/lam, the ratio of the
        penalty alone, counts as 1/lam, one below 1/(100 lam) as that.  "2008_literal" averages all
        ratios as they are, even where this fails.
    t0 : float or "auto", default "auto"
        The first rate is 1/(lam t0).  "auto" takes the best of 1, 10, ..., 10^10 (no less than the
        period) in one pass over a tenth of the rows, 1,000 to 2,000 of them.
    period : int or "auto", default "auto"
        Visits between two updates of the rates, which also apply the weight decay of all these
        visits.  "auto": 16 for dense rows, 16 d / (mean non-zeros) for sparse ones, so that work of
        size d is a small part.
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
    t0_ : float
        The t0 used.
    period_ : int
        The period used.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.pipeline import make_pipeline
    >>> from slender import SGDQNClassifier, UnitRows
    >>> X, y = load_digits(return_X_y=True)
    >>> model = make_pipeline(UnitRows(), SGDQNClassifier(random_state=0))
    >>> model.fit(X[:1300], y[:1300]).score(X[1300:], y[1300:]) > 0.85
    True
    """

    tamer: ClassVar[str] = "use a larger t0, or t0='auto'"

    def __init__(
        self,
        loss: str = "logistic",
        *,
        lam: float = 1e-4,
        variant: str = "corrected",
        t0: float | str = "auto",
        period: int | str = "auto",
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
        self.variant = variant
        self.t0 = t0
        self.period = period
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
        check_choice("variant", self.variant, VARIANTS)
        check_positive("lam", self.lam, zero=True)
        if self.lam == 0:
            raise ValueError(
                "lam=0: the rates of SGD-QN are 1/(lam t0) and are not defined without a penalty; "
                "use lam > 0, or SGDClassifier or SLNDClassifier, which need no penalty"
            )
        if self.t0 != "auto":
            check_positive("t0", self.t0)
        if self.period != "auto":
            check_positive("period", self.period, kind=Integral)

    def _loss(self) -> MarginLoss:
        return MARGIN_LOSSES[self.loss]

    def _curvature(self) -> Curvature:
        return Identity()

    def _choose(self, data: StochasticData) -> None:
        self.period_ = find_period(data) if self.period == "auto" else int(self.period)
        t0 = self.t0
        if t0 == "auto":
            trial = subsample(data, t0_rows(len(data.active)), self._rng)
            seed = int(self._rng.integers(2**31))  # the same order for every t0
            t0 = find_t0(
                lambda t0: self._after(self._descent_at(trial, t0), seed),
                least=self.period_,  # below it the decay, T/t0, would take the weights to 0
            )
        self.t0_ = float(t0)

    def _solver(self, data: StochasticData) -> Stochastic:
        return self._descent_at(data, self.t0_)

    def _descent_at(self, data: StochasticData, t0: float) -> Stochastic:
        slides = self.variant in SLIDES
        metric: Metric = Secant(t0, self.period_, gauss_newton=self.variant == "gauss_newton")
        if slides:
            metric = Slides(self.period_, SLIDES[self.variant])
        return Stochastic(
            data,
            self._loss(),
            eta=1.0 / t0 if slides else 1.0,  # the others' D holds the rate itself
            decay=1.0 / t0 if slides else 0.0,
            lam=self.lam,
            beta=data.coordinates.bias,
            cap=STABLE if self.t0 == "auto" else np.inf,
            average=bool(self.average),
            negatives=self.negatives,
            metric=metric,
        )
