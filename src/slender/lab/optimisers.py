"""The optimisers of `slender run` and `slender compare`: which there are, and what each takes.

OPTIMISERS maps (optimiser, objective) to an estimator: its settings, which options of an experiment
it takes, and the problem it solves.  Two optimisers can be compared by their objective if they
solve the same problem with the same penalty; by accuracy always.

    gd, sgd, bcfw                     W (C, d) at once, mini-batches, no intercept: as in a
                                      practical on Lacoste-Julien et al. 2013
    sgd-ovr, sgdqn, olbfgs, larank    class against rest, row by row: Bordes and Bottou 2008
    slnd                              the same: Bel Haj Ali, Nock, Barlaud 2013
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from ..curvature import CURVATURES
from ..estimators.validation import check_choice, check_positive
from ..labels import ClassIndex
from ..losses import MARGIN_LOSSES, MULTICLASS_LOSSES, fit_for, peaked_at_zero
from ..problem import Weights, multiclass, one_vs_rest
from ..problem.linear import two_rows
from ..registry import METHODS
from ..rows import as_rows

OBJECTIVES = ("logistic", "svm")
LAM, BATCH_SIZE = 0.01, 64  # if nothing else is said


@dataclass(frozen=True)
class Options:
    """What an experiment can be asked for; None leaves it to the optimiser.

    Parameters
    ----------
    passes : int, default 10
        Number of passes over the training rows.
    lam : float or None
        Weight of the penalty lam/2 ‖W‖², which is added to the mean loss.  None: 0.01.
    step : float or None
        The first step.  None: each optimiser finds its own.
    batch_size : int or None
        Rows per step (sgd, bcfw).  None: 64.
    schedule : {"optimal", "sqrt", "constant"} or None
        How the step falls (sgd), as in fit --method sgd.  None: sqrt.
    average : bool or None
        Average the iterates.  None: bcfw and slnd do, the others do not.
    fit_intercept : bool or None
        Fit an intercept.  None: no.
    loss : {"logistic", "calibrated_hinge", "squared"} or None
        Loss of slnd, and of sgd-ovr, sgdqn and olbfgs with --obj logistic.  None: logistic.
    negatives : float, "all" or None
        Negatives per positive that a class visits in a pass, or all (one-vs-rest optimisers).
        None: all.
    prior : {"empirical", "uniform"} or None
        With drawn negatives, which class frequencies the scores assume.  None: empirical.
    curvature, rank, hessian_samples, damping
        As in SLNDClassifier.  For slnd.
    """

    passes: int = 10
    lam: float | None = None
    step: float | None = None
    batch_size: int | None = None
    schedule: str | None = None
    average: bool | None = None
    fit_intercept: bool | None = None
    loss: str | None = None
    negatives: float | str | None = None
    prior: str | None = None
    curvature: str | None = None
    rank: int | None = None
    hessian_samples: int | None = None
    damping: float | None = None

    def __post_init__(self) -> None:
        for name in ("passes", "batch_size", "rank", "hessian_samples"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name), kind=Integral)
        for name, zero in (("lam", True), ("step", False), ("damping", True)):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name), zero=zero)
        if self.negatives not in (None, "all"):
            check_positive("negatives", self.negatives)
        if self.loss is not None:
            check_choice("loss", self.loss, fit_for(peaked_at_zero, MARGIN_LOSSES))
        if self.prior is not None:
            check_choice("prior", self.prior, ("empirical", "uniform"))
        if self.curvature is not None:
            check_choice("curvature", self.curvature, tuple(CURVATURES))

    def given(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


class Problem(NamedTuple):
    """What is minimised."""

    name: str
    loss: str
    # (loss, X, y, W, b, lam, of_b): y are class indices, of_b lam is the penalty of the intercepts
    objective: Callable[..., float]

    def with_loss(self, loss: str | None) -> "Problem":
        """The same with another loss; None: as it is."""
        if loss is None or loss == self.loss:
            return self
        form = self.name.removesuffix(self.loss)
        return self._replace(name=form + loss.replace("_", " "), loss=loss)


Values = dict[str, Any]  # of an estimator's parameters


class Optimiser(NamedTuple):
    """An estimator, and what an experiment may say to it."""

    method: str  # of slender.registry
    problem: Problem
    takes: tuple[str, ...]  # options, beside passes
    settings: Mapping[str, Any] = {}  # parameters that are always the same
    defaults: Mapping[str, Any] = {}  # options, where nothing is said
    translate: Callable[[Values, int], Values] = lambda values, n: values  # to its own parameters
    needs_penalty: bool = False
    binary: Problem | None = None  # solved instead where there are two classes
    penalised: bool = False  # is its intercept, the weight of a constant as large as a typical row
    looks: int = 0  # passes before the first step, which do not count
    plain: bool = True  # is a first step one along the gradient, so that 1 / ‖x‖² is its unit?


# -- what there is ---------------------------------------------------------------------------------


def _all_classes(loss: str, X: Any, y: Any, W: Any, b: Any, lam: float, of_b: float) -> float:
    W, b = two_rows(W, b)
    value = multiclass(MULTICLASS_LOSSES[loss], as_rows(X), y, W, b, np.ones(len(y)), lam)
    return value + 0.5 * lam * of_b * float(b @ b)


def _class_by_class(loss: str, X: Any, y: Any, W: Any, b: Any, lam: float, of_b: float) -> float:
    ones = Weights(np.ones(len(y)), np.ones(len(W)), np.ones(len(W)))
    labels = ClassIndex(y, int(len(W) == 1))
    value = one_vs_rest(MARGIN_LOSSES[loss], as_rows(X), labels, W, b, ones, lam)
    return value + 0.5 * lam * of_b * float(b @ b)


SOFTMAX = Problem("multinomial logistic", "cross_entropy", _all_classes)
CRAMMER_SINGER = Problem("multi-class SVM", "crammer_singer", _all_classes)
LOGISTIC = Problem("one-vs-rest logistic", "logistic", _class_by_class)
HINGE = Problem("one-vs-rest SVM", "hinge", _class_by_class)


def _with_c(values: Values, n: int) -> Values:
    """LaRank's penalty is C = 1/(n lam)."""
    lam = values.pop("lam")
    return {**values, "C": 1.0 / (n * lam)}


def _with_t0(values: Values, n: int) -> Values:
    """The first step of SGD-QN is 1/(lam t0)."""
    step = values.pop("step", None)
    return values if step is None else {**values, "t0": 1.0 / (values["lam"] * step)}


ALL_PASSES = {"tol": None}  # do not stop at a gap
ROW_BY_ROW = ("lam", "step", "average", "fit_intercept", "negatives", "prior")
DEFAULTS = {"lam": LAM, "fit_intercept": False}


def _one_vs_rest_pair(method: str, **more: Any) -> dict[str, Optimiser]:
    defaults = {**DEFAULTS, "average": False}
    with_loss = {**defaults, "loss": LOGISTIC.loss}
    return {
        "logistic": Optimiser(method, LOGISTIC, (*ROW_BY_ROW, "loss"), {}, with_loss, **more),
        "svm": Optimiser(method, HINGE, ROW_BY_ROW, {"loss": HINGE.loss}, defaults, **more),
    }


OPTIMISERS: dict[str, dict[str, Optimiser]] = {
    "gd": {
        "logistic": Optimiser(
            "gd",
            SOFTMAX,
            ("lam", "step", "fit_intercept"),
            {"loss": SOFTMAX.loss},
            DEFAULTS,
            looks=1,
        )
    },
    "sgd": {
        obj: Optimiser(
            "sgd",
            problem,
            ("lam", "step", "batch_size", "schedule", "average", "fit_intercept"),
            {"loss": problem.loss},
            {**DEFAULTS, "batch_size": BATCH_SIZE, "schedule": "sqrt", "average": False},
        )
        for obj, problem in (("logistic", SOFTMAX), ("svm", CRAMMER_SINGER))
    },
    "sgd-ovr": _one_vs_rest_pair("sgd"),
    "sgdqn": _one_vs_rest_pair("sgdqn", translate=_with_t0, needs_penalty=True),
    "olbfgs": _one_vs_rest_pair("olbfgs", plain=False),
    "slnd": {
        "logistic": Optimiser(
            "slnd",
            LOGISTIC,
            (*ROW_BY_ROW[1:], "loss", "curvature", "rank", "hessian_samples", "damping"),
            {},
            {"loss": LOGISTIC.loss, "fit_intercept": False},
            plain=False,
        )
    },
    "larank": {
        "svm": Optimiser(
            "larank",
            CRAMMER_SINGER,
            ("lam", "fit_intercept"),
            ALL_PASSES,
            DEFAULTS,
            translate=_with_c,
            needs_penalty=True,
            binary=HINGE,
            penalised=True,
        )
    },
    "bcfw": {
        "svm": Optimiser(
            "bcfw",
            CRAMMER_SINGER,
            ("lam", "batch_size", "average", "fit_intercept"),
            ALL_PASSES,
            {**DEFAULTS, "batch_size": BATCH_SIZE, "average": True},
            needs_penalty=True,
            penalised=True,
        )
    },
}


def flag(option: str) -> str:
    """As it is written on the command line."""
    return "--intercept" if option == "fit_intercept" else "--" + option.replace("_", "-")


def choose(opt: str, obj: str | None = None) -> tuple[str, Optimiser]:
    """The objective and the optimiser by their names; what it solves, if no objective is given."""
    if opt not in OPTIMISERS:
        raise ValueError(f"--opt {opt} is not one of {', '.join(OPTIMISERS)}")
    able = OPTIMISERS[opt]
    if obj is None:
        obj = next(iter(able))
    if obj not in OBJECTIVES:
        raise ValueError(f"--obj {obj} is not one of {', '.join(OBJECTIVES)}")
    if obj not in able:
        others = [name for name, of in OPTIMISERS.items() if obj in of]
        raise ValueError(
            f"--opt {opt} solves {', '.join(able)}, not {obj}: use --obj {next(iter(able))}, "
            f"or for {obj} --opt {', '.join(others)}"
        )
    return obj, able[obj]


def unused(optimiser: Optimiser, options: Options) -> list[str]:
    """Options that were given and that this optimiser does not have."""
    return [name for name in options.given() if name not in (*optimiser.takes, "passes")]


def complete(opt: str, obj: str, options: Options, n: int = BATCH_SIZE) -> dict[str, Any]:
    """Every option as it will be for n rows; one that the optimiser does not use is an error."""
    _, optimiser = choose(opt, obj)
    for name in unused(optimiser, options):
        users = [
            other
            for other, of in OPTIMISERS.items()
            if any(name in each.takes for each in of.values())
        ]
        raise ValueError(
            f"--opt {opt} does not use {flag(name)}: remove it, or use --opt {', '.join(users)}"
        )
    whole = {**optimiser.defaults, **options.given()}
    if "batch_size" in whole and options.batch_size is None:
        whole["batch_size"] = min(BATCH_SIZE, n)
    if optimiser.needs_penalty and whole["lam"] == 0:
        raise ValueError(f"--lam 0: --opt {opt} needs a penalty; give a number > 0")
    return whole


def estimator(
    opt: str, obj: str, options: Mapping[str, Any], n: int, seed: int, device: Any = None
) -> Any:
    """The estimator for n rows; `options` as `complete` gives them."""
    _, optimiser = choose(opt, obj)
    where = {} if device is None else {"device": device}
    values = {name: options[name] for name in optimiser.takes if options.get(name) is not None}
    return METHODS[optimiser.method].load()(
        **optimiser.settings,
        **optimiser.translate(values, n),
        **where,
        passes=options["passes"] + optimiser.looks,
        random_state=seed,
    )
