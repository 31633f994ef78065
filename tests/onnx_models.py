"""Small image networks as ONNX files, and what they compute."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}
A = np.random.default_rng(0).standard_normal((12, 5)).astype(np.float32)


def write(path, nodes, inputs, outputs, arrays=()):
    constants = [numpy_helper.from_array(array, name) for name, array in dict(arrays).items()]
    graph = helper.make_graph(nodes, "network", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)
    return path


def value(name, shape, dtype="float32"):
    return helper.make_tensor_value_info(name, TYPES[dtype], shape)


def colours(path, side=8, last=False, dtype="float32", batch=None, scale=1.0):
    """The mean colour of each quarter of the image, times A: (n, 5)."""
    shape = [batch or "n", side, side, 3] if last else [batch or "n", 3, side, side]
    half = None if isinstance(side, str) else side // 2
    first = (
        [helper.make_node("Transpose", ["image"], ["planes"], perm=[0, 3, 1, 2])] if last else []
    )
    nodes = [
        *first,
        helper.make_node(
            "AveragePool",
            ["planes" if last else "image"],
            ["quarters"],
            kernel_shape=[half, half],
            strides=[half, half],
        ),
        helper.make_node("Flatten", ["quarters"], ["flat"], axis=1),
        helper.make_node("MatMul", ["flat", "A"], ["vectors"]),
    ]
    A_there = {"A": (scale * A).astype(dtype)}
    return write(
        path, nodes, [value("image", shape, dtype)], [value("vectors", ["n", 5], dtype)], A_there
    )


def colours_of(pixels):
    """The same of (side, side, 3) values, as `colours` has to give it."""
    side = len(pixels)
    quarters = pixels.reshape(2, side // 2, 2, side // 2, 3).mean(axis=(1, 3))  # (2, 2, 3)
    return quarters.transpose(2, 0, 1).ravel() @ A


def tokens(path, side=8):
    """Every pixel is a token: (n, tokens, 3); and a map (n, 3, h, w)."""
    nodes = [
        helper.make_node("Identity", ["image"], ["map"]),
        helper.make_node("Reshape", ["image", "shape"], ["flat"]),
        helper.make_node("Transpose", ["flat"], ["tokens"], perm=[0, 2, 1]),
    ]
    outputs = [value("map", ["n", 3, side, side]), value("tokens", ["n", side * side, 3])]
    shape = {"shape": np.array([0, 3, side * side])}
    return write(path, nodes, [value("image", ["n", 3, side, side])], outputs, shape)


def any_size(path):
    """The mean colour, of images of any size; beside it a map of what came in."""
    nodes = [
        helper.make_node("Identity", ["image"], ["map"]),
        helper.make_node("GlobalAveragePool", ["image"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["vectors"], axis=1),
    ]
    shape = ["n", 3, "h", "w"]
    return write(
        path,
        nodes,
        [value("image", shape)],
        [value("map", shape), value("vectors", ["n", 3])],
    )


def two_inputs(path):
    shape = ["n", 3, 8, 8]
    nodes = [helper.make_node("Add", ["image", "text"], ["sum"])]
    return write(path, nodes, [value("image", shape), value("text", shape)], [value("sum", shape)])


def identity(path, shape, dtype="float32"):
    nodes = [helper.make_node("Flatten", ["image"], ["out"], axis=1)]
    return write(path, nodes, [value("image", shape, dtype)], [value("out", ["n", "d"], dtype)])
