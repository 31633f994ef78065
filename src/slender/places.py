"""Where a fit computes: the names of devices, and what torch finds on this machine.

    None           where X is: on the device of a tensor, by torch; anything else here
    "cpu"          the cores of this machine, by NumPy and compiled kernels, whatever X is
    "cuda"         the GPU that torch calls the current one; "cuda:1" a certain one
    "torch:cpu"    torch on the cores of this machine: the code of a GPU, to try it without one

torch is imported only when a tensor is there already or a device asks for it.
"""

import re
import sys
from importlib.util import find_spec
from typing import Any

from .arrays import is_tensor, to_numpy
from .extras import need

CPU, TORCH_CPU = "cpu", "torch:cpu"
NAMES = re.compile(r"cpu|torch:cpu|cuda(:\d+)?")

# Multiply-adds of a whole fit from which a GPU gains.  Importing torch and starting CUDA takes four
# seconds or so; sixteen cores do this many in two to three seconds, two cores in twenty.
WORTH = 2e12
PASSES = 10  # of a typical fit; each multiplies rows and weights twice


def check_device(device: Any) -> str | None:
    """The name of a device, or None; a `torch.device` is accepted too."""
    if device is None:
        return None
    name = str(device)
    if NAMES.fullmatch(name) is None:
        raise ValueError(
            f"device={name!r} must be cpu, torch:cpu, cuda, or one of several GPUs, as cuda:1"
        )
    return name


def torch_device(name: str) -> Any:
    """The `torch.device` of this name; an error that says what there is if there is no such one."""
    torch = need("torch", f"device={name!r}")
    if name == TORCH_CPU:
        return torch.device("cpu")
    there = gpus()
    if not there:
        built = "" if torch.version.cuda else f": torch {torch.__version__} is built without CUDA"
        raise ValueError(f"device={name!r}: torch sees no GPU here{built}; use device='cpu'")
    place = name.partition(":")[2]
    index = int(place) if place else torch.cuda.current_device()
    if index >= len(there):
        listed = ", ".join(f"cuda:{k} ({what})" for k, what in enumerate(there))
        raise ValueError(f"device={name!r} does not exist; torch sees {listed}")
    return torch.device("cuda", index)


def gpus() -> list[str]:
    """What GPUs torch sees, by their names."""
    if find_spec("torch") is None:
        return []
    cuda = need("torch", "device='cuda'").cuda
    return [cuda.get_device_name(k) for k in range(cuda.device_count())] * cuda.is_available()


def chosen(n: int, d: int, C: int, passes: int = 2 * PASSES) -> str | None:
    """For whoever leaves it to us: "cuda" if there is a GPU and the work is worth it, else None."""
    return "cuda" if n * d * C * passes >= WORTH and gpus() else None


def described(device: Any) -> str:
    """A `torch.device`, or None, in words: "cuda:0 (NVIDIA H200)", "cpu"."""
    if device is None:
        return CPU
    if device.type == "cuda":
        name = need("torch", "device='cuda'").cuda.get_device_name(device)
        return f"{device} ({name})"
    return f"torch:{device}"


def kind_of(device: Any) -> str:
    """The name of a `torch.device`, or None, without its number."""
    if device is None:
        return CPU
    return TORCH_CPU if device.type == "cpu" else str(device.type)


# -- arrays that may live there --------------------------------------------------------------------


def is_cupy(X: Any) -> bool:
    """Is it an array of CuPy?  Does not import CuPy."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(X, cupy.ndarray)


def as_tensor(X: Any) -> Any:
    """A tensor that shares the memory of an array of CuPy; anything else as it is."""
    if is_cupy(X):
        return need("torch", "An array of CuPy").from_dlpack(X)
    return X


def as_cupy(X: Any) -> Any:
    """An array of CuPy from an array of NumPy; or from a tensor, whose memory it shares."""
    cupy = sys.modules["cupy"]
    return cupy.from_dlpack(X) if is_tensor(X) else cupy.asarray(X)


def on_gpu(X: Any) -> bool:
    """Are its numbers in the memory of a GPU, where NumPy cannot read them?"""
    return is_cupy(X) or (is_tensor(X) and X.device.type != "cpu")


def to_host(X: Any) -> Any:
    """A tensor as an array of NumPy, which shares the memory of one on the CPU; others as they are.

    bfloat16, which NumPy lacks, becomes float32.
    """
    if is_cupy(X):
        return X.get()
    if not is_tensor(X):
        return X
    return to_numpy(X.float() if str(X.dtype) == "torch.bfloat16" else X)
