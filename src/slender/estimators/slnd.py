"""SLNDClassifier: stochastic low-rank Newton descent, one-vs-rest (Bel Haj Ali et al. 2013)."""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from ..arrays import to_numpy
from ..curvature import CURVATURES, Curvature
from ..losses import MARGIN_LOSSES, MarginLoss, fit_for, peaked_at_zero
from ..solvers.stochastic import Stochastic, StochasticData
from ..solvers.theorem2 import Theorem2
from ..storage import PathLike
from .stochastic import Descent, StochasticClassifier
from .validation import check_choice, check_positive

DAMPING = 2.0  # of the mean eigenvalue; measured on CIFAR-100, Caltech-101, MNIST, digits, planted
AUTO_STEP = 0.5  # of 1 / (F''(0) mean ‖z‖²), half of the largest that is stable on average


class SLNDClassifier(StochasticClassifier):
    """One-vs-rest linear classifier by stochastic low-rank Newton descent.

    All classes share one curvature H = F''(0) mean x xᵀ, estimated from a sample of rows.  With its
    rank-k pseudo-inverse B Bᵀ, every row becomes z = Bᵀx, once, and every class then runs
    stochastic gradient descent on z.  There is no penalty: few passes, a low rank, damping and
    averaging prevent overfitting.

    Parameters
    ----------
    loss : {"logistic", "calibrated_hinge", "squared"}, default "logistic"
        The calibrated loss.
    rank : int or None, default None
        Number of directions of curvature to keep.  None: as many as hold 99.9 % of the variance, at
        most 1,024.  It is an error to ask for more than the sampled rows or the features can give.
    hessian_samples : int or None, default None
        Number of rows that the curvature is estimated from.  None: up to 4,096, or as many as fit
        in 64 MB.
    damping : float or None, default None
        Added to the eigenvalues of the curvature, in units of their mean; 0 is the pseudo-inverse
        of Bel Haj Ali et al. 2013.  None: 2, or 0 with curvature="identity".
    step : float, "auto" or "theory", default "auto"
        Length of a step.  "auto": half of 1/(F''(0) mean ‖z‖²), and for each row less than
        1/(F''(0) ‖z_i‖²).  "theory": the step of Theorem 2 of Bel Haj Ali et al. 2013, which reads
        all rows for every step: for small data.  A number is used as it is.
    negatives : float or "all", default "all"
        Negatives per positive that a class visits in a pass, drawn anew for each pass; 1 is the
        balanced draw of Bel Haj Ali et al. 2013, "all" visits every row.
    average : bool or None, default None
        Average the iterates, with weights that grow linearly.  None: yes, unless step="theory".
    passes : int, default 5
        Number of passes over the data.
    curvature : {"lowrank", "diagonal", "identity"}, default "lowrank"
        Which part of the curvature to use; "identity" uses none.
    fit_intercept : bool, default True
        Fit an intercept, as the weight of a constant column that is part of the curvature.
    class_weight : dict, "balanced" or None, default None
        Multiplies the weight of the positives of each class (with two classes: of both classes);
        "balanced" gives every class the same total weight.
    prior : {"empirical", "uniform"}, default "empirical"
        Drawing negatives makes every class look as frequent as all others together.  "empirical"
        corrects scores and probabilities for this; "uniform" does not, which favours balanced
        accuracy, and is refused with negatives="all", where nothing is drawn.
    objective : {"estimate", "exact"}, default "estimate"
        The objective to report after each pass: the mean loss over the visits of the pass, each
        before its update, or the exact value, which takes an extra pass, off the clock.
    callbacks : callable, list of callables or None, default None
        Each is called as `callback(record, model)` after each pass, off the clock; `model()`
        gives (coef, intercept) at that moment.  A true answer ends the fit.
    random_state : int, RandomState, Generator or None, default None
        Seed of the random numbers: the order of the rows, and the draws.
    device, checkpoint, checkpoint_every
        As in LogisticClassifier.

    Attributes
    ----------
    coef_ : array (n_classes, n_features); (1, n_features) for two classes
    intercept_, classes_, n_features_in_, n_iter_
    trace_ : list of dict
        One record per pass: seconds (curvature and projection included), passes, objective.
    step_ : float
        The step used, eta; absent for step="theory".
    rank_ : int
        Number of directions kept.
    eigenvalues_ : array (rank_,)
        Eigenvalues of mean x xᵀ over the sampled rows (with an intercept: of [x, c]), decreasing;
        empty without curvature="lowrank".
    prior_shift_ : array (n_classes,)
        ln(negatives visited / all negatives), which is added to every score.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from slender import SLNDClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SLNDClassifier(random_state=0).fit(X[:1300], y[:1300])
    >>> model.score(X[1300:], y[1300:]) > 0.9
    True
    """

    distributed: ClassVar[bool] = True
    on_device: ClassVar[bool] = True

    def __init__(
        self,
        loss: str = "logistic",
        *,
        rank: int | None = None,
        hessian_samples: int | None = None,
        damping: float | None = None,
        step: float | str = "auto",
        negatives: float | str = "all",
        average: bool | None = None,
        passes: int = 5,
        curvature: str = "lowrank",
        fit_intercept: bool = True,
        class_weight: Any = None,
        prior: str = "empirical",
        objective: str = "estimate",
        device: Any = None,
        callbacks: Any = None,
        random_state: Any = None,
        checkpoint: PathLike | None = None,
        checkpoint_every: float = 60.0,
    ) -> None:
        self.loss = loss
        self.rank = rank
        self.hessian_samples = hessian_samples
        self.damping = damping
        self.step = step
        self.negatives = negatives
        self.average = average
        self.passes = passes
        self.curvature = curvature
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.prior = prior
        self.objective = objective
        self.device = device
        self.callbacks = callbacks
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def _check(self) -> None:
        check_choice("loss", self.loss, fit_for(peaked_at_zero, MARGIN_LOSSES))
        super()._check()
        check_choice("curvature", self.curvature, tuple(CURVATURES))
        if isinstance(self.step, str):
            check_choice("step", self.step, ("auto", "theory"))
        else:
            check_positive("step", self.step)
        if self.step == "theory" and self.average:
            raise ValueError(
                "step='theory' gives its guarantee for the last iterate: use average=False or None"
            )
        unused = {"lowrank": (), "diagonal": ("rank",), "identity": ("rank", "hessian_samples")}
        given = [name for name in unused[self.curvature] if getattr(self, name) is not None]
        if self.curvature == "identity" and self.damping:
            given.append("damping")
        if given:
            raise ValueError(
                f"curvature={self.curvature!r} does not use {given[0]}: "
                f"set it to None, or use curvature='lowrank'"
            )
        if self.damping is not None:
            check_positive("damping", self.damping, zero=True)
        for name in ("rank", "hessian_samples"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name), kind=Integral)

    def _loss(self) -> MarginLoss:
        return MARGIN_LOSSES[self.loss]

    def _curvature(self) -> Curvature:
        damping = DAMPING if self.damping is None else self.damping
        options = {
            "lowrank": {"rank": self.rank, "samples": self.hessian_samples, "damping": damping},
            "diagonal": {"samples": self.hessian_samples, "damping": damping},
            "identity": {},
        }
        return CURVATURES[self.curvature](**options[self.curvature])

    def _choose(self, data: StochasticData) -> None:
        coordinates: Any = data.coordinates
        self.rank_ = int(coordinates.dim)
        lowrank = self.curvature == "lowrank"
        self.eigenvalues_ = coordinates.eigenvalues if lowrank else np.empty(0)
        if self.step == "theory":
            return
        eta = self.step
        if eta == "auto":
            squares = to_numpy(data.sqnorms)[data.active]
            mean_sq = float(squares.mean(dtype=float)) + coordinates.bias**2
            eta = AUTO_STEP / (self._loss().curvature(0.0) * mean_sq) if mean_sq > 0 else 1.0
        self.step_ = float(eta)

    def _solver(self, data: StochasticData) -> Descent:
        loss, beta = self._loss(), data.coordinates.bias
        if self.step == "theory":
            if self._state is not None:
                raise ValueError("step='theory' needs a fixed sample: use fit, not partial_fit")
            if data.rows.device is not None:
                raise ValueError(
                    "step='theory' is computed on the CPU: use step='auto', or device='cpu'"
                )
            return Theorem2(data, loss, self.negatives, beta)
        return Stochastic(
            data,
            loss,
            self.step_,
            beta=beta,
            cap=1.0 if self.step == "auto" else np.inf,
            average=self.average is not False,
            negatives=self.negatives,
        )
