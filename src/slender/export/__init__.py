"""Models for other tools: an ONNX graph, a scikit-learn estimator, a torch layer.

    to_onnx(model)      onnx.ModelProto: float32 rows in; scores, label and probabilities out
    to_sklearn(model)   a fitted estimator of scikit-learn with the same predictions
    to_torch(model)     nn.Linear, after a normalisation where the model has one
    write(model, "onnx" | "sklearn" | "torch", file)

A model that can be exported is a `ScoringModel`: s = W x + b, perhaps of x / ‖x‖, and a link that
turns s into probabilities.  What one-vs-rest models add to every score, the shift of the prior, goes into
b; a loss that bends the scores (calibrated hinge, squared) has no W and b to give, and is refused.
The temperature of a calibrated probe goes into W and b where the target has no other place for it
(scikit-learn, torch): probabilities stay, scores are divided by it.

Multi-label models: ONNX gives an indicator matrix as label; torch one output a class, positive
above 0; scikit-learn its OneVsRestClassifier.
"""

from .files import write as write
from .onnx import to_onnx as to_onnx
from .scikit import to_sklearn as to_sklearn
from .torch import to_torch as to_torch
