"""Nothing is silently ignored: every parameter of every estimator changes the fit, or raises.

Estimators and parameters are found, not listed.  Values to try come from the kind of the default
(another number, the other bool), from the choices that the estimator's own error names, and from
OTHER.  A new parameter that needs a value of its own fails here and says so.

A parameter must have a value that changes the fit where all else is as by default; then, in every
*mode* of the estimator (another loss, a switch turned, something given where nothing was), a value
that changes the fit of that mode or is refused there.
"""

import ast
import inspect
import re
import warnings
from importlib.util import find_spec
from numbers import Integral, Real

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GroupKFold, KFold

import slender
from slender.rows import one_blas_thread

rng = np.random.default_rng(0)
y = np.arange(600) % 3
X = rng.standard_normal((600, 8)) * np.geomspace(3, 0.3, 8) + 0.7 * rng.standard_normal((3, 8))[y]


class Folds(KFold):
    """By groups where they are given."""

    def split(self, X, y=None, groups=None):
        return (super() if groups is None else GroupKFold(3)).split(X, y, groups)


OTHER = {  # values to try, by the name of the parameter
    "Cs": [[0.01, 1.0]],
    "alpha": [0.3],
    "average": [False, True],
    "batch_size": [4],
    "callbacks": [[lambda record, weights: CALLS.append(record)]],
    "class_weight": [{0: 3.0}],
    "d_sq": [2, 4],
    "damping": [0.1, 10.0],
    "epsilon": [1e-3, 0.03],
    "groups": [np.arange(600) // 4 % 9],
    "hessian_samples": [20],
    "kappa": [0.5],
    "lambda1": [0.05],
    "lambda1s": [[1e-3, 1e-2]],
    "lambda2s": [[1e-5, 1e-3]],
    "n_sq": [2],
    "negatives": [1.0, 1.5],
    "period": [3],
    "random_state": [7],
    "rank": [2],
    "sample_weight": [rng.uniform(0.1, 3.0, 600)],
    "shots": [5],
    "step": [0.1],
    "t0": [50.0],
    "tau": [0.5],
    "tol": [1e-4, 0.1, 0.5],
    "training_rows": [300],
    "validation": [0.3],
}
LESS = {  # to fit in milliseconds
    "BCFWClassifier": {"lam": 0.3},
    "GDClassifier": {"lam": 0.1, "passes": 30},
    "LaRankClassifier": {"C": 0.1, "passes": 20},
    "LinearProbe": {"Cs": 12, "tol": 1e-2},
    "ProductQuantizer": {"n_iter": 5},
    "TraceNormClassifier": {"tol": 1e-2},
    "TraceNormProbe": {"n_lambda1": 5, "n_lambda2": 1, "tol": 1e-2, "passes": 6},
}
TOGETHER = {"groups": {"validation": Folds(3)}, "prior": {"negatives": 1.0}}  # what one needs
ALWAYS, MODES = "always", "in any mode, though not by default"
# A fit is the same with them: tests/test_checkpoint.py; tests/test_device.py.
SAVED = {"checkpoint", "checkpoint_every", "device"}
SAMPLES = "so few rows are all in the sample that would be drawn"
SHOTS = "the shots are all there is to refit"
CHOICE = "rules may choose the same"
GROUPS = "the splitter draws, not the probe"
GIVEN = "the values are given, so that their number is not asked"
NO_DIFFERENCE = {  # estimator, parameter, where: why it may change nothing there
    ("GDClassifier", "loss", ALWAYS): "there is one, and others are refused",
    ("GDClassifier", "random_state", ALWAYS): "it begins a search whose end does not depend on it",
    ("LinearProbe", "full", MODES): "a path may turn at its end",
    ("LinearProbe", "refit", "shots"): SHOTS,
    ("LinearProbe", "select", MODES): CHOICE,
    ("LogisticClassifier", "random_state", ALWAYS): SAMPLES,
    ("TraceNormClassifier", "random_state", ALWAYS): SAMPLES,
    ("TraceNormClassifier", "tol", "epsilon"): "epsilon ends the fit in its place",
    ("LinearProbe", "random_state", "groups"): GROUPS,
    ("TraceNormProbe", "n_lambda1", "lambda1s"): GIVEN,
    ("TraceNormProbe", "n_lambda2", "lambda2s"): GIVEN,
    ("TraceNormProbe", "random_state", "groups"): GROUPS,
    ("TraceNormProbe", "refit", "shots"): SHOTS,
    ("TraceNormProbe", "select", MODES): CHOICE,
}
CALLS: list[dict] = []
KNOWN: dict[tuple, list] = {}  # what settings lead to

ESTIMATORS = {
    name: getattr(slender, name)
    for name in slender.__all__
    if inspect.isclass(getattr(slender, name)) and issubclass(getattr(slender, name), BaseEstimator)
}
del ESTIMATORS["FisherVectorizer"]  # its X is images: tests/test_fisher.py does the same with it


def parameters(cls):
    """name -> default, of the constructor and of fit."""
    known = dict(inspect.signature(cls).parameters)
    known |= inspect.signature(cls.fit).parameters
    return {
        name: of.default for name, of in known.items() if name not in {"self", "X", "y", *SAVED}
    }


def outcome(cls, settings):
    """All that a fit leads to, or the error that refuses it; each is made once."""
    words = {
        name: v.tobytes() if isinstance(v, np.ndarray) else repr(v) for name, v in settings.items()
    }
    key = (cls, *sorted(words.items()))
    if key not in KNOWN:
        KNOWN[key] = made(cls, settings)
    return KNOWN[key]


def made(cls, settings):
    known = inspect.signature(cls).parameters
    of_fit = {name: value for name, value in settings.items() if name not in known}
    settings = {name: value for name, value in settings.items() if name in known}
    if "random_state" in known:
        settings = {"random_state": 0, **settings}
    n = 60 if issubclass(cls, ClassifierMixin) else len(y)  # codebooks are learned on 256 or more
    of_fit = {name: value[:n] for name, value in of_fit.items()}
    CALLS.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = cls(**settings)
            if settings.get("warm_start"):
                model.fit(X[: n // 2], y[: n // 2])
            model.fit(X[:n], y[:n], **of_fit)
        except ValueError as error:
            return error
    return [len(CALLS), *figures(model)]


def figures(model):
    if not isinstance(model, ClassifierMixin):
        M = model.transform(X)
        return [M if isinstance(M, np.ndarray) else M.toarray()]
    found = [model.coef_, model.intercept_, model.decision_function(X)]
    if hasattr(model, "predict_proba"):
        found.append(model.predict_proba(X))
    for records in (model.trace_, getattr(model, "path_", [])):
        figures_of = [{**record, "seconds": 0.0} for record in records]
        found.append(repr(figures_of))
    return found


def refused(result):
    return isinstance(result, ValueError)


def differ(a, b):
    return len(a) != len(b) or not all(map(np.array_equal, a, b))


def choices(cls, name):
    """What the estimator's own error says there is."""
    said = re.search(rf"{name}='\?' must be one of (\[.*\])", str(outcome(cls, {name: "?"})))
    return ast.literal_eval(said[1]) if said else []


def candidates(cls, name, default):
    """Values other than the default."""
    if isinstance(default, bool):
        return [not default]
    values = list(OTHER.get(name, ()))
    if isinstance(default, str):
        values += [choice for choice in choices(cls, name) if choice != default]
    elif isinstance(default, Integral):
        values += [1, 2 * default + 1]
    elif isinstance(default, Real):
        values += [10.0 * default, default / 10.0]
    return values


def is_mode(value, default):
    return isinstance(value, str | bool) or isinstance(default, str | None)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_parameter_changes_the_fit_or_raises(estimator):
    if estimator == "ProductQuantizer" and find_spec("faiss") is None:
        pytest.skip("pip install faiss-cpu")
    cls, less = ESTIMATORS[estimator], LESS.get(estimator, {})
    values, modes, silent = {}, [], []
    with one_blas_thread():
        for name, default in parameters(cls).items():
            beside = {**less, **TOGETHER.get(name, {})}
            without = outcome(cls, beside)
            assert not refused(without), without
            tried = dict(enumerate(candidates(cls, name, default)))
            found = {i: outcome(cls, {**beside, name: value}) for i, value in tried.items()}
            values[name] = [tried[i] for i, result in found.items() if not refused(result)]
            if any(not refused(result) and differ(result, without) for result in found.values()):
                modes += [{name: value} for value in values[name] if is_mode(value, default)]
            elif (estimator, name, ALWAYS) not in NO_DIFFERENCE:
                silent.append(f"{name} (tried {list(tried.values())})")
        assert not silent, f"{silent} change nothing; give values that should in OTHER"
        for mode in modes:
            silent += [f"{name} where {mode}" for name in ignored(cls, less, mode, values)]
    assert not silent, f"{estimator} ignores {silent}"


def ignored(cls, less, mode, values):
    """Parameters of which no value is seen in a mode, nor refused."""
    (of_mode,) = mode
    for name in values.keys() - {of_mode}:
        if any((cls.__name__, name, at) in NO_DIFFERENCE for at in (ALWAYS, MODES, of_mode)):
            continue
        here = {**less, **TOGETHER.get(name, {}), **TOGETHER.get(of_mode, {}), **mode}
        without = outcome(cls, here)
        results = (outcome(cls, {**here, name: value}) for value in values[name])
        if not refused(without) and not any(refused(r) or differ(r, without) for r in results):
            yield name
