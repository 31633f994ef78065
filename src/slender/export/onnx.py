"""A model as an ONNX graph."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..extras import need
from .scoring import ScoringModel, linear

OPSET, IR_VERSION = 18, 8  # of early 2023: what runtimes of the last years read
MAX_BYTES = 2**31 - 2**20  # protobuf's limit, and room for the rest of the graph


def to_onnx(model: Any) -> Any:
    """An onnx.ModelProto.

    Its input is `X`, float32 (n, d), and its outputs are

        scores          the result of decision_function: (n, C), or (n,) for two classes
        label           the class, (n,): int64, string, double or bool, like the classes;
                        for multi-label models the indicator, (n, C) int64
        probabilities   (n, C), if the model has them
    """
    onnx = need("onnx", "export to onnx")
    form = linear(model)
    if form.W.size * 4 > MAX_BYTES:
        raise ValueError(
            f"the weights take {form.W.size * 4 / 2**30:.1f} GB, but an ONNX file holds at most 2; "
            "export to torch or sklearn"
        )
    graph = _Graph(onnx)
    rows = graph.unit_rows("X") if form.normalise else "X"
    graph.constant("W", form.W.astype(np.float32))
    graph.constant("b", form.b.astype(np.float32))
    column = "column" if form.binary else "scores"
    graph.node("Gemm", [rows, "W", "b"], column, transB=1)  # s = x Wᵀ + b
    if form.binary:
        graph.constant("axis", np.array([1]))
        graph.node("Squeeze", ["column", "axis"], "scores")
    graph.labels(form)
    if form.link is not None:
        graph.probabilities(form, column)
    return graph.model(form, type(model).__name__)


class _Graph:
    """Nodes and constants of an ONNX graph, in order."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(self.onnx.helper.make_node(op, inputs, [output], **attributes))
        return output

    def constant(self, name: str, array: NDArray[Any]) -> str:
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def unit_rows(self, X: str) -> str:
        """x / ‖x‖; all-zero rows stay zero."""
        self.constant("columns", np.array([1]))
        self.constant("tiny", np.array(np.finfo(np.float32).tiny))
        self.node("ReduceL2", [X, "columns"], "norm", keepdims=1)
        self.node("Max", ["norm", "tiny"], "length")
        return self.node("Div", [X, "length"], "unit")

    def labels(self, form: ScoringModel) -> None:
        if form.binary or form.multilabel:
            self.constant("zero", np.array(0, np.float32))
            self.node("Greater", ["scores", "zero"], "positive")
            best = "label" if form.multilabel else "best"
            self.node("Cast", ["positive"], best, to=self.onnx.TensorProto.INT64)
        else:
            self.node("ArgMax", ["scores"], "best", axis=1, keepdims=0)
        if not form.multilabel:
            self.constant("classes", _portable(form.classes))
            self.node("Gather", ["classes", "best"], "label")

    def probabilities(self, form: ScoringModel, scores: str) -> None:
        if form.temperature != 1.0:
            self.constant("T", np.array(form.temperature, np.float32))
            scores = self.node("Div", [scores, "T"], "tempered")
        if form.multilabel:
            self.node("Sigmoid", [scores], "probabilities")
            return
        if form.binary:
            self.node("Neg", [scores], "against")
            both = self.node("Concat", ["against", scores], "both", axis=1)
            self.node("Sigmoid", [both], "probabilities")
            return
        if form.link == "sigmoid":  # σ(s) / Σ σ(s) = softmax(ln σ(s)),  ln σ(s) = -softplus(-s)
            self.node("Neg", [scores], "against")
            self.node("Softplus", ["against"], "surprise")
            scores = self.node("Neg", ["surprise"], "log_sigmoid")
        self.node("Softmax", [scores], "probabilities", axis=1)

    def model(self, form: ScoringModel, estimator: str) -> Any:
        onnx, C = self.onnx, len(form.classes)
        real = onnx.TensorProto.FLOAT
        kind = onnx.helper.np_dtype_to_tensor_dtype(_portable(form.classes).dtype)
        labels = (onnx.TensorProto.INT64, ["n", C]) if form.multilabel else (kind, ["n"])
        outputs = {"scores": (real, ["n"] if form.binary else ["n", C]), "label": labels}
        if form.link is not None:
            outputs["probabilities"] = (real, ["n", C])
        describe = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            self.nodes,
            f"slender {estimator}",
            [describe("X", real, ["n", form.W.shape[1]])],
            [describe(name, *its) for name, its in outputs.items()],
            self.constants,
        )
        model = onnx.helper.make_model(
            graph,
            producer_name="slender",
            producer_version=__version__,
            ir_version=IR_VERSION,
            opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        )
        onnx.checker.check_model(model)
        return model


def _portable(classes: NDArray[Any]) -> NDArray[Any]:
    """The classes as one of the four label types of ONNX."""
    wide = {"i": np.int64, "u": np.int64, "f": np.float64, "b": np.bool_}
    return classes.astype(wide.get(classes.dtype.kind, object))
