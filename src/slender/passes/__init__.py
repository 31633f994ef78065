"""Passes over the examples, for `Examples.reduce` (data/examples.py)."""

from .class_sums import ClassSumsPass
from .losses import MarginPass, MulticlassPass
from .moments import GramPass, MomentsPass, SpreadPass
from .softmax import FactoredPass, SoftmaxPass, SoftmaxSums

__all__ = [
    "ClassSumsPass",
    "FactoredPass",
    "GramPass",
    "MarginPass",
    "MomentsPass",
    "MulticlassPass",
    "SoftmaxPass",
    "SoftmaxSums",
    "SpreadPass",
]
