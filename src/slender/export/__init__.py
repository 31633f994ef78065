"""Models for other tools: an ONNX graph, a scikit-learn estimator, a torch layer.

    to_onnx(model)      onnx.ModelProto: float32 rows in; scores, label and probabilities out
    to_sklearn(model)   a fitted estimator of scikit-learn with the same predictions
    to_torch(model)     nn.Linear, after a normalisation if the model has one
    write(model, "onnx" | "sklearn" | "torch", file)

A model that can be exported is a `ScoringModel`: scores s = W x + b, where x may be normalised
first, and a link that converts s to probabilities.  The correction of the prior that one-vs-rest
models add to every score is added to b.  Losses whose scores are not linear (calibrated hinge,
squared) have no such W and b, and are refused.  In scikit-learn and torch, which have no place for
the temperature of a calibrated probe, W and b are divided by it: probabilities stay the same,
scores are divided by it.

Multi-label models: in ONNX the label is an indicator matrix; in torch there is one output per
class, positive above 0; in scikit-learn it is a OneVsRestClassifier.
"""

from .files import write as write
from .onnx import to_onnx as to_onnx
from .scikit import to_sklearn as to_sklearn
from .torch import to_torch as to_torch
