"""One optimiser on one data set: what `slender run` does once and `slender compare` many times.

OPTIMISERS maps (optimiser, objective) to an estimator: its settings, which option of an experiment
each of its parameters comes from, and the problem it solves.  Two optimisers can be held against
each other by their objective if they solve the same problem with the same penalty; by accuracy
always.

    seed 003    gd, sgd, bcfw       W (C, d) at once, mini-batches, no intercept
    seed 002    sgd-ovr, sgdqn, olbfgs, larank; slnd is seed 000: class against rest, row by row

Times are the estimators' own: evaluation is off their clocks, and a first pass over a few rows has
compiled the kernels before they start.
"""

import copy
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..estimators.validation import check_positive
from ..labels import Codes
from ..losses import MARGIN_LOSSES, MULTICLASS_LOSSES
from ..problem import Weights, multiclass, one_vs_rest
from ..rows import as_rows
from ..solvers.loop import Record
from .sources import Split, mean_square

OBJECTIVES = ("logistic", "svm")
MU, BATCH_SIZE = 0.01, 64  # the practical's
Entry = dict[str, float | None]  # of a curve; None where there is no figure, or no finite one
COMPILES = 512  # rows of the first pass, whose seconds are not counted


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

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            if getattr(self, name) is not None:
                check_positive(flag(name), getattr(self, name), kind=Integral)
        if self.mu is not None:
            check_positive("--mu", self.mu, zero=True)
        if self.init_lr is not None:
            check_positive("--init-lr", self.init_lr)

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


class Optimiser(NamedTuple):
    """An estimator, and what an experiment may say to it."""

    estimator: str
    problem: Problem
    takes: Mapping[str, str]  # parameter of the estimator -> the option it comes from
    settings: Mapping[str, Any] = {}  # parameters that are always the same
    defaults: Mapping[str, Any] = {}  # options, where nothing is said
    binary: Problem | None = None  # solved instead where there are two classes
    penalised: bool = False  # is its intercept, the weight of a constant as large as a typical row
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


def _one_vs_rest_pair(
    estimator: str, takes: Mapping[str, str], plain: bool = True
) -> dict[str, Optimiser]:
    defaults = {"mu": MU, "average": False, "intercept": False}
    return {
        obj: Optimiser(estimator, of, takes, {"loss": of.loss}, defaults, plain=plain)
        for obj, of in (("logistic", LOGISTIC), ("svm", HINGE))
    }


OPTIMISERS: dict[str, dict[str, Optimiser]] = {
    "gd": {
        "logistic": Optimiser(
            "GDClassifier",
            SOFTMAX,
            {"lam": "mu", "step": "init_lr", "fit_intercept": "intercept"},
            {"loss": "cross_entropy"},
            {"mu": MU, "intercept": False},
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
            {"step": "init_lr", "average": "average", "fit_intercept": "intercept"},
            {"loss": "logistic"},
            {"intercept": False},
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
                "mu": "mu",
                "batch_size": "batch_size",
                "averaging": "average",
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
            f"--opt {opt} does not use {flag(name)}: leave it away, or use --opt {', '.join(users)}"
        )
    whole = {**optimiser.defaults, **options.given()}
    if "batch_size" in whole and options.batch_size is None:
        whole["batch_size"] = min(BATCH_SIZE, n)
    if whole.get("mu") == 0 and optimiser.takes.keys() & {"C", "t0", "mu"}:
        raise ValueError(f"--mu 0: --opt {opt} needs a penalty; give a number > 0")
    return whole


# -- one experiment --------------------------------------------------------------------------------


def estimator(opt: str, obj: str, options: Mapping[str, Any], n: int, seed: int) -> Any:
    """The estimator for n rows; `options` as `complete` gives them."""
    _, optimiser = choose(opt, obj)
    mu, init_lr = options.get("mu"), options.get("init_lr")
    named = {**options, "lam": mu, "step": init_lr}
    named |= {"fit_intercept": options.get("intercept"), "averaging": options.get("average")}
    if mu:
        named["C"] = 1.0 / (n * mu)
        named["t0"] = None if init_lr is None else 1.0 / (mu * init_lr)
    values = {name: named[name] for name in optimiser.takes if named.get(name) is not None}
    cls = getattr(import_module(__package__.split(".")[0]), optimiser.estimator)
    return cls(**optimiser.settings, **values, passes=options["epochs"], random_state=seed)


def experiment(
    split: Split,
    opt: str,
    obj: str,
    options: Options,
    seed: int = 0,
    exact: bool = True,
    watch: Callable[[Entry], bool | None] = lambda entry: None,
) -> dict[str, Any]:
    """Fit, look after each epoch, test at the end.

    `watch` is called with each entry of the curve: seconds, passes, objective (the mean of the
    batches' objectives before their steps, or the solver's own figure), exact (at the weights of
    the moment, if asked for), gap (or None), and the accuracies on training and validation rows;
    a true answer ends the fit.  The test rows are looked at once, after the fit.
    """
    about = describe(split, opt, obj, options, seed)
    whole, n = about["options"], about["rows"]
    _, optimiser = choose(opt, obj)
    problem = _problem(optimiser, about["classes"])
    codes = np.unique(split.y_train, return_inverse=True)[1].astype(np.int32)
    lam = whole.get("mu", 0.0)
    model = estimator(opt, obj, whole, n, seed)
    of_intercept = 1.0 / (mean_square(split) or 1.0) if optimiser.penalised else 0.0
    curve: list[Entry] = []

    def look(record: Record, weights: Any) -> bool | None:
        W, b = weights()
        entry = {"gap": None, **{name: _figure(of) for name, of in record.items()}}
        # the practical's figure, where the solver's own is another
        entry["objective"] = entry.pop("estimate", entry["objective"])
        if exact:
            value = problem.objective(problem.loss, split.X_train, codes, W, b, lam)
            entry["exact"] = _figure(value + 0.5 * lam * float(b @ b) * of_intercept)
        now = copy.copy(model)
        now.coef_, now.intercept_ = W, b  # two rows for two classes predict the same
        entry["train_accuracy"] = accuracy(now, split.X_train, split.y_train)
        entry["validation_accuracy"] = accuracy(now, split.X_val, split.y_val)
        curve.append(entry)
        return watch(entry)

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", RuntimeWarning)  # overflow of a rate too large, say
        _compile(split, opt, obj, whole, seed)
        said.clear()
        model.set_params(callbacks=[look])
        model.fit(split.X_train, split.y_train)
    return {
        **about,
        "curve": curve,
        "test": on_test_rows(model, split),
        "warnings": list(dict.fromkeys(" ".join(str(each.message).split()) for each in said)),
    }


def describe(split: Split, opt: str, obj: str, options: Options, seed: int) -> dict[str, Any]:
    """What an experiment is about, as it can be said before its fit."""
    _, optimiser = choose(opt, obj)
    n, classes = len(split.y_train), len(np.unique(split.y_train))
    whole = complete(opt, obj, options, n)
    return {
        "opt": opt,
        "obj": obj,
        "seed": seed,
        "options": whole,
        "problem": title(_problem(optimiser, classes), whole, optimiser.penalised),
        "rows": n,
        "features": split.X_train.shape[1],
        "classes": classes,
    }


def _problem(optimiser: Optimiser, classes: int) -> Problem:
    return optimiser.binary if optimiser.binary and classes == 2 else optimiser.problem


def title(problem: Problem, options: Mapping[str, Any], penalised: bool) -> str:
    """What must be equal for two objectives to be compared."""
    penalty = f"mu = {options['mu']:g}" if options.get("mu") else "no penalty"
    intercept = ", penalised intercept" if penalised else ", intercept"
    return f"{problem.name}, {penalty}" + (intercept if options.get("intercept") else "")


def accuracy(model: Any, X: Any, y: NDArray[Any]) -> float:
    """The share of rows whose class is predicted; a label the model never saw counts as wrong."""
    return float(np.mean(model.predict(X) == y))


def on_test_rows(model: Any, split: Split) -> dict[str, Any]:
    """Figures on the test rows; for two classes the area under the precision-recall curve too."""
    right = accuracy(model, split.X_test, split.y_test)
    found: dict[str, Any] = {
        "rows": len(split.y_test),
        "accuracy": right,
        "error": 1.0 - right,
    }
    if len(model.classes_) == 2:
        from sklearn.metrics import average_precision_score  # noqa: PLC0415  (slow to import)

        positive = split.y_test == model.classes_[1]
        scores = model.decision_function(split.X_test)
        finite = bool(positive.any()) and bool(np.isfinite(scores).all())
        found["pr_area"] = float(average_precision_score(positive, scores)) if finite else None
    return found


def _compile(split: Split, opt: str, obj: str, options: Mapping[str, Any], seed: int) -> None:
    """One pass over a few rows of every class."""
    _, codes = np.unique(split.y_train, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    rank = np.arange(len(order)) - np.searchsorted(codes[order], codes[order])  # within its class
    few = np.sort(order[np.argsort(rank, kind="stable")[:COMPILES]])
    size = options.get("batch_size")
    smaller = {**options, "epochs": 1, "batch_size": size and min(size, len(few))}
    small = estimator(opt, obj, smaller, len(few), seed)
    X = split.X_train[few]
    if isinstance(X, np.ndarray):  # numba compiles for rows that may not be written apart
        X.flags.writeable = split.X_train.flags.writeable
    small.fit(X, split.y_train[few])


def _figure(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
