"""Room in the memory of a device."""

from typing import Any

import numpy as np

from ..extras import need


def check(needed: float, device: Any, what: str, instead: str) -> None:
    """Raise an error if a device has no memory for something that must be there as a whole."""
    left = free(device)
    if needed > left:
        raise ValueError(
            f"{what} takes {needed / 1e9:.3g} GB, but {left / 1e9:.3g} GB are free on {device}: "
            f"{instead}"
        )


def free(device: Any) -> float:
    """Bytes of memory; the device of the processor shares that of this machine."""
    if device.type != "cuda":
        return np.inf
    cuda = need("torch", "A tensor").cuda
    unused = cuda.memory_reserved(device) - cuda.memory_allocated(device)  # kept by torch
    return float(cuda.mem_get_info(device)[0] + unused)
