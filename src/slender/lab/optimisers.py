"""The optimisers of `slender run` and `slender compare`: which there are, and what each takes.

OPTIMISERS maps (optimiser, objective) to an estimator: its settings, which option of an experiment
each of its parameters comes from, and the problem it solves.  Two optimisers can be held against
each other by their objective if they solve the same problem with the same penalty; by accuracy
always.

    seed 003    gd, sgd, bcfw       W (C, d) at once, mini-batches, no intercept
    seed 002    sgd-ovr, sgdqn, olbfgs, larank; slnd is seed 000: class against rest, row by row
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..estimators.validation import check_choice, check_positive
from ..labels import Codes
from ..losses import MARGIN_LOSSES, MULTICLASS_LOSSES, fit_for, peaked_at_zero
from ..problem import Weights, multiclass, one_vs_rest
from ..rows import as_rows

OBJECTIVES = ("logistic", "svm")
MU, BATCH_SIZE = 0.01, 64  # the practical's


@dataclass(frozen=True)
class Options:
    """What an experiment can be asked for; None leaves it to the optimiser."""

    epochs: int = 10
    mu: float | None = None  # lam/2 ‖W‖² of the rest of the library
    init_lr: float | None = None  # the first step
    batch_size: int | None = None
    schedule: str | None = None
    average: bool | None = None
    intercept: bool | None = None
    # of the one-vs-rest ones
    loss: str | None = None
    negatives: float | str | None = None
    prior: str | None = None
    # of SLND
    rank: int | None = None
    hessian_samples: int | None = None
    damping: float | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "rank", "hessian_samples"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name), kind=Integral)
        if self.mu is not None:
            check_positive("mu", self.mu, zero=True)
        if self.init_lr is not None:
            check_positive("init_lr", self.init_lr)
        if self.damping is not None:
            check_positive("damping", self.damping, zero=True)
        if self.negatives not in (None, "all"):
            check_positive("negatives", self.negatives)
        if self.loss is not None:
            check_choice("loss", self.loss, fit_for(peaked_at_zero, MARGIN_LOSSES))
        if self.prior is not None:
            check_choice("prior", self.prior, ("empirical", "uniform"))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Options":
        """From what was given; None counts as not given, other names are left alone."""
        names = cls.__dataclass_fields__.keys() & values.keys()
        return cls(**{name: values[name] for name in names if values[name] is not None})

    def given(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


class Problem(NamedTuple):
    """What is minimised."""

    name: str
    loss: str
    objective: Callable[..., float]  # (loss, X, codes, W, b, lam)

    def with_loss(self, loss: str | None) -> "Problem":
        """The same with another loss; None: as it is."""
        if loss is None or loss == self.loss:
            return self
        form = self.name.removesuffix(self.loss)
        return self._replace(name=form + loss.replace("_", " "), loss=loss)


class Optimiser(NamedTuple):
    """An estimator, and what an experiment may say to it."""

    estimator: str
    problem: Problem
    takes: Mapping[str, str]  # parameter of the estimator -> the option it comes from
    settings: Mapping[str, Any] = {}  # parameters that are always the same
    defaults: Mapping[str, Any] = {}  # options, where nothing is said
    binary: Problem | None = None  # solved instead where there are two classes
    penalised: bool = False  # is its intercept, the weight of a constant as large as a typical row
    looks: int = 0  # passes before the first step, which count as no epoch
    plain: bool = True  # is a first step one along the gradient, so that 1 / ‖x‖² is its unit?


# -- what there is ---------------------------------------------------------------------------------


def _all_classes(
    loss: str, X: Any, codes: NDArray[np.int32], W: NDArray[Any], b: NDArray[Any], lam: float
) -> float:
    if len(W) == 1:  # of two classes: rows that sum to zero, as descent from zero keeps them
        W, b = np.vstack([-W / 2, W / 2]), np.concatenate([-b / 2, b / 2])
    return multiclass(MULTICLASS_LOSSES[loss], as_rows(X), codes, W, b, np.ones(len(codes)), lam)


def _class_by_class(
    loss: str, X: Any, codes: NDArray[np.int32], W: NDArray[Any], b: NDArray[Any], lam: float
) -> float:
    ones = Weights(np.ones(len(codes)), np.ones(len(W)), np.ones(len(W)))
    labels = Codes(codes, int(len(W) == 1))
    return one_vs_rest(MARGIN_LOSSES[loss], as_rows(X), labels, W, b, ones, lam)


SOFTMAX = Problem("multinomial logistic", "cross_entropy", _all_classes)
CRAMMER_SINGER = Problem("multi-class SVM", "crammer_singer", _all_classes)
LOGISTIC = Problem("one-vs-rest logistic", "logistic", _class_by_class)
HINGE = Problem("one-vs-rest SVM", "hinge", _class_by_class)

ALL_EPOCHS = {"tol": None}  # do not stop at a gap
PRACTICAL = {"mu": MU, "batch_size": BATCH_SIZE, "schedule": "sqrt", "average": False}
MINI_BATCH = {
    "lam": "mu",
    "step": "init_lr",
    "batch_size": "batch_size",
    "schedule": "schedule",
    "average": "average",
    "fit_intercept": "intercept",
}
ROW_BY_ROW = {
    "lam": "mu",
    "step": "init_lr",
    "average": "average",
    "fit_intercept": "intercept",
}
SECANT = {  # the first step of SGD-QN is 1/(lam t0)
    "lam": "mu",
    "t0": "init_lr",
    "average": "average",
    "fit_intercept": "intercept",
}
DRAWN = {"negatives": "negatives", "prior": "prior"}
LOW_RANK = {name: name for name in ("rank", "hessian_samples", "damping")}


def _one_vs_rest_pair(
    estimator: str, takes: Mapping[str, str], plain: bool = True
) -> dict[str, Optimiser]:
    defaults = {"mu": MU, "average": False, "intercept": False}
    takes = {**takes, **DRAWN}
    logistic = Optimiser(estimator, LOGISTIC, {**takes, "loss": "loss"}, plain=plain)
    hinge = Optimiser(estimator, HINGE, takes, {"loss": HINGE.loss}, defaults, plain=plain)
    return {
        "logistic": logistic._replace(defaults={**defaults, "loss": LOGISTIC.loss}),
        "svm": hinge,
    }


OPTIMISERS: dict[str, dict[str, Optimiser]] = {
    "gd": {
        "logistic": Optimiser(
            "GDClassifier",
            SOFTMAX,
            {"lam": "mu", "step": "init_lr", "fit_intercept": "intercept"},
            {"loss": "cross_entropy"},
            {"mu": MU, "intercept": False},
            looks=1,
        )
    },
    "sgd": {
        obj: Optimiser(
            "SGDClassifier",
            problem,
            MINI_BATCH,
            {"loss": problem.loss},
            {**PRACTICAL, "intercept": False},
        )
        for obj, problem in (("logistic", SOFTMAX), ("svm", CRAMMER_SINGER))
    },
    "sgd-ovr": _one_vs_rest_pair("SGDClassifier", ROW_BY_ROW),
    "sgdqn": _one_vs_rest_pair("SGDQNClassifier", SECANT),
    "olbfgs": _one_vs_rest_pair("OLBFGSClassifier", ROW_BY_ROW, plain=False),
    "slnd": {
        "logistic": Optimiser(
            "SLNDClassifier",
            LOGISTIC,
            {
                "step": "init_lr",
                "average": "average",
                "fit_intercept": "intercept",
                "loss": "loss",
                **DRAWN,
                **LOW_RANK,
            },
            {},
            {"loss": LOGISTIC.loss, "intercept": False},
            plain=False,
        )
    },
    "larank": {
        "svm": Optimiser(
            "LaRankClassifier",
            CRAMMER_SINGER,
            {"C": "mu", "fit_intercept": "intercept"},
            ALL_EPOCHS,
            {"mu": MU, "intercept": False},
            binary=HINGE,
            penalised=True,
        )
    },
    "bcfw": {
        "svm": Optimiser(
            "BCFWClassifier",
            CRAMMER_SINGER,
            {
                "lam": "mu",
                "batch_size": "batch_size",
                "average": "average",
                "fit_intercept": "intercept",
            },
            ALL_EPOCHS,
            {"mu": MU, "batch_size": BATCH_SIZE, "average": True, "intercept": False},
            penalised=True,
        )
    },
}


def flag(option: str) -> str:
    """As it is written on the command line."""
    return "--" + option.replace("_", "-")


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
    has = {*optimiser.takes.values(), "epochs"}
    return [name for name in options.given() if name not in has]


def complete(opt: str, obj: str, options: Options, n: int = BATCH_SIZE) -> dict[str, Any]:
    """Every option as it will be for n rows; one that the optimiser does not use is an error."""
    _, optimiser = choose(opt, obj)
    for name in unused(optimiser, options):
        users = [
            other for other, of in OPTIMISERS.items()
            if any(name in each.takes.values() for each in of.values())
        ]  # fmt: skip
        raise ValueError(
            f"--opt {opt} does not use {flag(name)}: remove it, or use --opt {', '.join(users)}"
        )
    whole = {**optimiser.defaults, **options.given()}
    if "batch_size" in whole and options.batch_size is None:
        whole["batch_size"] = min(BATCH_SIZE, n)
    if whole.get("mu") == 0 and (opt == "bcfw" or optimiser.takes.keys() & {"C", "t0"}):
        raise ValueError(f"--mu 0: --opt {opt} needs a penalty; give a number > 0")
    return whole


def estimator(opt: str, obj: str, options: Mapping[str, Any], n: int, seed: int) -> Any:
    """The estimator for n rows; `options` as `complete` gives them."""
    _, optimiser = choose(opt, obj)
    mu, init_lr = options.get("mu"), options.get("init_lr")
    named = {**options, "lam": mu, "step": init_lr}
    named["fit_intercept"] = options.get("intercept")
    if mu:
        named["C"] = 1.0 / (n * mu)
        named["t0"] = None if init_lr is None else 1.0 / (mu * init_lr)
    values = {name: named[name] for name in optimiser.takes if named.get(name) is not None}
    cls = getattr(import_module(__package__.split(".")[0]), optimiser.estimator)
    passes = options["epochs"] + optimiser.looks
    return cls(**optimiser.settings, **values, passes=passes, random_state=seed)
