"""SGDClassifier: plain stochastic gradient descent, one-vs-rest, with an L2 penalty (seed 002)."""

from typing import Any

import numpy as np

from ..curvature import Curvature, Identity
from ..losses import CALIBRATED_LOSSES, MARGIN_LOSSES, MarginLoss
from ..problem import Weights, one_vs_rest
from ..rows import as_rows
from ..solvers.rate import TRIAL_ROWS, find_eta0
from ..solvers.stochastic import Data, Stochastic
from .one_vs_rest import OneVsRestClassifier
from .validation import check_choice, check_positive

# The exponential loss is left out: its curvature has no bound, so no rate is safe for it.
LOSSES = (*CALIBRATED_LOSSES, "hinge")
STABLE = 2.0  # the automatic rate is held, per row, below this over F''(0)‖x_i‖²


class SGDClassifier(OneVsRestClassifier):
    """One-vs-rest linear classifier by stochastic gradient descent.

    Minimises mean loss + lam/2 ‖w‖² for each class with the rate of seed 002,
    eta_t = eta0 / (1 + lam eta0 t) = 1 / (lam (t + t0)).  With averaging, the rate falls with
    exponent 3/4 and the average of the iterates is kept.

    Parameters
    ----------
    loss : {"logistic", "calibrated_hinge", "squared", "hinge"}
    lam : float
        The L2 penalty; scikit-learn's alpha, 1/(n C).  0 gives a constant rate.
    step : "auto" or float
        eta0.  "auto" tries doublings and halvings on 1,000 rows.
    negatives, average, passes, fit_intercept, class_weight, prior, objective, callbacks,
    random_state
        As in SLNDClassifier.  The intercept is not penalised.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, n_iter_, trace_, prior_shift_
        As in SLNDClassifier.
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
    """

    def __init__(
        self,
        loss: str = "logistic",
        *,
        lam: float = 1e-4,
        step: float | str = "auto",
        negatives: float | str = "all",
        average: bool = True,
        passes: int = 5,
        fit_intercept: bool = True,
        class_weight: Any = None,
        prior: str = "empirical",
        objective: str = "estimate",
        callbacks: Any = None,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.lam = lam
        self.step = step
        self.negatives = negatives
        self.average = average
        self.passes = passes
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.prior = prior
        self.objective = objective
        self.callbacks = callbacks
        self.random_state = random_state

    def _check(self) -> None:
        check_choice("loss", self.loss, LOSSES)
        super()._check()
        check_positive("lam", self.lam, zero=True)
        if isinstance(self.step, str):
            check_choice("step", self.step, ("auto",))
        else:
            check_positive("step", self.step)

    def _loss(self) -> MarginLoss:
        return MARGIN_LOSSES[self.loss]

    def _curvature(self) -> Curvature:
        return Identity()

    def _solver(self, data: Data, n_classes: int, beta: float) -> Stochastic:
        eta0 = self.step
        if eta0 == "auto":
            eta0 = self._try_rates(data, n_classes, beta)
        self.step_ = float(eta0)
        return self._descent_at(self.step_, beta)

    def _descent_at(self, eta0: float, beta: float) -> Stochastic:
        return Stochastic(
            self._loss(),
            eta0,
            decay=self.lam * eta0,
            power=0.75 if self.average else 1.0,
            lam=self.lam,
            beta=beta,
            cap=STABLE if self.step == "auto" else np.inf,
            average=bool(self.average),
            negatives=self.negatives,
        )

    def _try_rates(self, data: Data, n_classes: int, beta: float) -> float:
        size = min(TRIAL_ROWS, len(data.active))
        index = np.sort(self._rng.choice(data.active, size, replace=False))
        everyone = np.arange(size)
        rows = as_rows(data.rows.gather(index))
        labels = data.y._replace(**{data.y._fields[0]: data.y[0][index]})
        weights = Weights(data.weights.example[index], *data.weights[1:])
        trial = Data(rows, labels, everyone, data.sqnorms[index], weights)
        seed = int(self._rng.integers(2**31))

        def objective(eta0: float) -> float:
            descent = self._descent_at(eta0, beta)
            state = descent.init(n_classes, rows.shape[1], rows.dtype)
            rng = np.random.default_rng(seed)  # the same order for every rate
            for epoch in descent.epochs(state, trial, 1, rng):
                epoch()
            W, b = descent.solution(state)
            return one_vs_rest(self._loss(), rows, labels, W, b, weights, self.lam)

        mean_sq = float(trial.sqnorms.mean(dtype=float)) + beta**2
        return find_eta0(objective, 1.0 / mean_sq if mean_sq > 0 else 1.0)
