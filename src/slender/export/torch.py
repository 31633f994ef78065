"""A model as a layer of torch, or as the two tensors of such a layer in a safetensors file."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..extras import need
from ..problem.linear import two_rows
from .scoring import ScoringModel, linear


def to_torch(model: Any) -> Any:
    """nn.Linear in float32 with one output per class, also for two: argmax is the class's index.

    Two classes with the score s get -s/2 and +s/2, so that softmax gives the probabilities.
    If the model normalises its rows: nn.Sequential of a normalisation and the layer.
    """
    torch = need("torch", "export to torch")
    weight, bias = _torch_arrays(linear(model))
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
    layer.load_state_dict({"weight": torch.from_numpy(weight), "bias": torch.from_numpy(bias)})
    if not linear(model).normalise:
        return layer

    class Normalize(torch.nn.Module):  # type: ignore[misc, name-defined]
        """x / ‖x‖; all-zero rows stay zero."""

        def forward(self, x: Any) -> Any:
            return torch.nn.functional.normalize(x, dim=-1)

    return torch.nn.Sequential(Normalize(), layer)


def torch_bytes(model: Any) -> bytes:
    """`weight` and `bias` of nn.Linear, with the classes and the normalisation as metadata."""
    from safetensors.numpy import save  # noqa: PLC0415

    form = linear(model)
    weight, bias = _torch_arrays(form)
    metadata = {
        "format": "pt",
        "producer": f"slender {__version__}",
        "classes": json.dumps(form.classes.tolist()),
        "normalize": "l2" if form.normalise else "none",
    }
    return save({"weight": weight, "bias": bias}, metadata)


def _torch_arrays(form: ScoringModel) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    form = form.tempered()
    W, b = form.W.astype(np.float32), form.b.astype(np.float32)
    if form.binary:
        W, b = two_rows(W, b)
    return np.ascontiguousarray(W), b
