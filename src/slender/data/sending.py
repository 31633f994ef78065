"""Rows for a device: a tensor as it is, rows of this machine sent there, at once or by chunks."""

from typing import Any

import numpy as np

from ..extras import need
from ..notices import warn
from ..rows import Rows

SMALL = ("bool", "uint8", "int8")  # integers that float16 represents exactly
ROOM = 0.8  # of the free memory of a device that X may take: a fit needs some for itself
CHUNK_BYTES = 2**26  # of rows that are sent at a time


def rows_of_tensor(X: Any) -> Rows:
    """The rows of a tensor, computed on where it is."""
    from .tensors import TensorRows  # noqa: PLC0415  (imports torch)

    return TensorRows(X)


def sent(rows: Rows, stored: str, device: Any, once: bool = False) -> Rows:
    """Rows of this machine for a device: sent there if they fit, else chunk by chunk in every pass.

    `stored` names their dtype in memory or in files; `once`: they will be read once only.
    """
    from ..rows.streamed import Streamed  # noqa: PLC0415
    from ..rows.tensor import Resident  # noqa: PLC0415
    from .tensors import TensorRows  # noqa: PLC0415

    if rows.block(0, 1).is_sparse:
        raise ValueError(
            f"X is sparse, but {device} computes on dense rows: use device='cpu', or X.toarray()"
        )
    half = device.type == "cuda" and stored.removeprefix("torch.") in ("float16", *SMALL)
    store = Streamed(rows, device, half)
    n, d = rows.shape
    needed, free = n * d * store.stored.itemsize, _free(device)
    if once:
        return TensorRows(store)
    if needed > ROOM * free:
        warn(
            f"X ({needed / 1e9:.3g} GB) does not fit into the {free / 1e9:.3g} GB that are free on "
            f"{device}: it is sent there chunk by chunk in every pass"
        )
        return TensorRows(store)
    torch = need("torch", "A tensor")
    X = torch.empty((n, d), dtype=store.stored, device=device)
    step = max(1, CHUNK_BYTES // (d * store.stored.itemsize))
    for lo, hi, chunk in store.chunks(None, step):
        X[lo:hi] = chunk
    # files are kept for the names of their rows; a copy in memory would only take room
    return TensorRows(Resident(X, rows if rows.on_disk else None))


def _free(device: Any) -> float:
    """Bytes of memory; the device of the processor shares that of this machine."""
    if device.type != "cuda":
        return np.inf
    cuda = need("torch", "A tensor").cuda
    unused = cuda.memory_reserved(device) - cuda.memory_allocated(device)  # kept by torch
    return float(cuda.mem_get_info(device)[0] + unused)
