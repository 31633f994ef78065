"""An image network in an ONNX file: what it takes, what it gives, and running it.

Its input is a batch of RGB images, (n, 3, height, width) or (n, height, width, 3).  What it gives
is learned by running it once on black images: the shapes in a file may be missing or wrong.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..extras import need
from ..storage import FileError
from .preprocessing import CHANNELS

DTYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
POOLS = ("first", "mean")
ERRORS_ONLY = 3  # onnxruntime's level


class Input(NamedTuple):
    """What a network takes."""

    name: str
    dtype: Any
    last: bool  # are the channels the last axis?
    batch: int | None  # None: any number of images
    sides: tuple[int, int] | None  # height, width; None: any


class Network(NamedTuple):
    """A network that gives one vector per image."""

    session: Any
    takes: Input
    output: str
    pool: str | None
    width: int  # numbers per image

    def __call__(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, height, width, 3) to (n, width); n is at most the network's batch."""
        found = _run(self.session, self.takes, images, [self.output])[0]
        return _pooled(found, self.pool)[: len(images)].astype(np.float32)


def load(content: bytes, path: Path) -> tuple[Any, Input]:
    """The session of an ONNX file that has one image input."""
    runtime = need("onnxruntime", f"{path}: an ONNX encoder")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = ERRORS_ONLY
    try:
        session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        advice = "write it again"
        if "external" in str(error).lower():
            advice = "its weights lie in other files: onnx.save(onnx.load(path), new_path) joins it"
        raise FileError(
            f"{path}: cannot be read as an ONNX model ({_line(error)}); {advice}"
        ) from error
    return session, _input(session, path)


def _input(session: Any, path: Path) -> Input:
    inputs = session.get_inputs()
    if len(inputs) != 1:
        names = ", ".join(each.name for each in inputs)
        raise FileError(
            f"{path}: has {len(inputs)} inputs ({names}), not one; export the image encoder alone"
        )
    (only,) = inputs
    if only.type not in DTYPES:
        raise FileError(f"{path}: takes {only.type}, not images in float32 or float16")
    shape = only.shape
    if len(shape) != 4:
        raise FileError(
            f"{path}: input {only.name} has {len(shape)} axes, {shape}; a batch of images has four"
        )
    last = shape[3] == CHANNELS and shape[1] != CHANNELS
    if not last and isinstance(shape[1], int) and shape[1] != CHANNELS:
        raise FileError(
            f"{path}: input {only.name} has shape {shape}, no axis of three channels; "
            "give a model of RGB images"
        )
    first = shape[1:3] if last else shape[2:4]
    sides = (first[0], first[1]) if all(isinstance(side, int) for side in first) else None
    batch = shape[0] if isinstance(shape[0], int) and shape[0] > 0 else None
    return Input(only.name, DTYPES[only.type], last, batch, sides)


def network(
    loaded: tuple[Any, Input],
    sides: tuple[int, int],
    output: str | None,
    pool: str | None,
    path: Path,
) -> Network:
    """With the output that is asked for, or the first one that is suitable."""
    if pool is not None and pool not in POOLS:
        raise ValueError(f"pool={pool!r} is not one of {', '.join(POOLS)}")
    session, takes = loaded
    names = [each.name for each in session.get_outputs()]
    if output is not None and output not in names:
        raise ValueError(f"output={output!r}: {path} has {', '.join(names)}")
    black = np.zeros((1, *sides, CHANNELS), np.float32)
    try:
        found = dict(zip(names, _run(session, takes, black, names), strict=True))
    except Exception as error:
        raise ValueError(
            f"{path}: cannot run on an image of {sides[0]} x {sides[1]} ({_line(error)}); "
            "try another size"
        ) from error
    wanted = {2} if pool is None else ({3, 4} if pool == "mean" else {3})
    usable = [
        name
        for name, value in found.items()
        if getattr(value, "ndim", 0) in wanted and output in (None, name)
    ]
    if not usable:
        raise ValueError(f"{path}: {_unusable(found, output, pool)}")
    width = _pooled(found[usable[0]], pool).shape[1]
    return Network(session, takes, usable[0], pool, width)


def _unusable(found: dict[str, Any], output: str | None, pool: str | None) -> str:
    shapes = ", ".join(f"{name} {getattr(of, 'shape', '?')}" for name, of in found.items())
    if pool is not None:
        return f"pool={pool} has nothing to pool in {output or 'any output'}: it gives {shapes}"
    return (
        f"{output or 'no output'} is {'not ' if output else ''}one vector per image: it gives "
        f"{shapes}; pool=mean takes the mean of all tokens, pool=first the first one"
    )


def _run(session: Any, takes: Input, images: Any, names: list[str]) -> list[Any]:
    n = len(images)
    if takes.batch is not None and n < takes.batch:  # the last images again, to fill the batch
        images = np.concatenate([images, np.repeat(images[-1:], takes.batch - n, axis=0)])
    if not takes.last:
        images = images.transpose(0, 3, 1, 2)
    given = np.ascontiguousarray(images, takes.dtype)
    return list(session.run(names, {takes.name: given}))


def _pooled(found: NDArray[Any], pool: str | None) -> NDArray[Any]:
    if pool == "first":
        return found[:, 0]  # (n, tokens, d)
    if pool == "mean":
        axes = (1,) if found.ndim == 3 else (2, 3)  # (n, tokens, d) or (n, d, height, width)
        return found.mean(axis=axes, dtype=np.float32)
    return found


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
