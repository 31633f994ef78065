"""Which tensors a Triton kernel can take."""

from functools import cache
from importlib.util import find_spec
from typing import Any


def runs_triton(tensor: Any) -> bool:
    """Can a Triton kernel run on the device of this tensor?

    On a GPU if Triton is installed.  With TRITON_INTERPRET=1 Triton runs every kernel in Python,
    on tensors of a CPU too: far slower, for tests.
    """
    return _installed() and bool(tensor.is_cuda or _interpreted())


@cache
def _installed() -> bool:
    return find_spec("triton") is not None


def _interpreted() -> bool:
    import triton  # noqa: PLC0415  (takes a second, and only tensors need it)

    return bool(triton.knobs.runtime.interpret)
