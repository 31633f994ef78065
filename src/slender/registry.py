"""The only list of all estimators.

A class is imported when it is needed.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple


class Estimator(NamedTuple):
    """The module of an estimator, and its name in the command."""

    method: str  # of `slender fit --method`; of a probe, of `slender path --penalty`
    name: str  # of the class
    about: str  # one line
    home: str = ""  # module in slender.estimators, where it is not called like the method
    probe: bool = False  # does it choose its penalty on held-out rows?

    @property
    def module(self) -> str:
        """The name of its module, inside slender."""
        return f"estimators.{self.home or self.method}"

    @property
    def command(self) -> str:
        """The command that fits it, after `slender`."""
        return f"path --penalty {self.method}" if self.probe else f"fit --method {self.method}"

    def load(self) -> Any:
        """The class."""
        return getattr(import_module(f".{self.module}", __package__), self.name)


_ALL = (
    Estimator(
        "logistic", "LogisticClassifier", "multinomial logistic regression, to a proved accuracy"
    ),
    Estimator(
        "slnd", "SLNDClassifier", "stochastic low-rank Newton descent, one-vs-rest, no penalty"
    ),
    Estimator("sgd", "SGDClassifier", "stochastic gradient descent, one-vs-rest or multi-class"),
    Estimator("sgdqn", "SGDQNClassifier", "SGD-QN, one-vs-rest: a learned rate for each feature"),
    Estimator("olbfgs", "OLBFGSClassifier", "online L-BFGS, one-vs-rest: a low-rank metric"),
    Estimator("gd", "GDClassifier", "multinomial logistic regression by batch gradient descent"),
    Estimator("larank", "LaRankClassifier", "linear SVM by LaRank: no step size, a duality gap"),
    Estimator(
        "bcfw", "BCFWClassifier", "multi-class SVM by block-coordinate Frank-Wolfe: the same"
    ),
    Estimator("tracenorm", "TraceNormClassifier", "multinomial logistic regression of low rank"),
    Estimator(
        "l2", "LinearProbe", "multinomial logistic regression along a path of C", "probe", True
    ),
    Estimator(
        "trace", "TraceNormProbe", "the same of low rank: two penalties", "tracenorm_probe", True
    ),
)

ESTIMATORS: Mapping[str, Estimator] = {each.name: each for each in _ALL}
METHODS: Mapping[str, Estimator] = {each.method: each for each in _ALL if not each.probe}
PROBES: Mapping[str, Estimator] = {each.method: each for each in _ALL if each.probe}


class Encoder(NamedTuple):
    """What makes vectors of images: its class, and its name in the command."""

    kind: str  # of `slender extract --features`
    name: str  # of the class
    about: str  # one line

    @property
    def module(self) -> str:
        """The name of its module, inside slender."""
        return f"features.{self.kind}"

    @property
    def command(self) -> str:
        """The command that extracts its vectors, after `slender`."""
        return f"extract --features {self.kind}"

    def load(self) -> Any:
        """The class."""
        return getattr(import_module(f".{self.module}", __package__), self.name)


ENCODERS: Mapping[str, Encoder] = {
    each.kind: each
    for each in (
        Encoder("fisher", "FisherVectorizer", "Fisher vectors of dense SIFT and local colour"),
        Encoder("onnx", "OnnxEncoder", "the vectors of a network: --features onnx:MODEL.onnx"),
    )
}
