"""Which tensors a Triton kernel can take."""

from functools import cache
from importlib.util import find_spec
from typing import Any

from ..notices import warn


def runs_triton(tensor: Any) -> bool:
    """Can a Triton kernel run on the device of this tensor?

    On a GPU if Triton is installed and works.  With TRITON_INTERPRET=1 Triton runs every kernel in
    Python, on tensors of a CPU too: far slower, for tests.
    """
    if not _installed():
        return False
    return _interpreted() or bool(tensor.is_cuda and _works())


@cache
def _installed() -> bool:
    return find_spec("triton") is not None


def _interpreted() -> bool:
    import triton  # noqa: PLC0415  (takes a second, and only tensors need it)

    return bool(triton.knobs.runtime.interpret)


@cache
def _works() -> bool:
    """Does Triton find the driver, and a C compiler, with which it builds what calls the driver?"""
    from triton.runtime import driver  # noqa: PLC0415

    try:
        driver.active.get_current_target()
    except Exception as error:  # of many kinds: each package that Triton starts has its own
        reason = str(error).partition("\n")[0] or type(error).__name__
        warn(
            f"Triton does not work here ({reason}), so that kernels of torch are used, which are "
            "slower: install a C compiler (gcc) and the headers of Python"
        )
        return False
    return True
