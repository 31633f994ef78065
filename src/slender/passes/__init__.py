"""Passes over the examples, for `Examples.reduce` (data/examples.py)."""

from .losses import MarginPass, MulticlassPass
from .moments import GramPass, MomentsPass, SpreadPass
from .softmax import FactoredPass, SoftmaxPass, SoftmaxSums

__all__ = [
    "FactoredPass",
    "GramPass",
    "MarginPass",
    "MomentsPass",
    "MulticlassPass",
    "SoftmaxPass",
    "SoftmaxSums",
    "SpreadPass",
]
