"""Rows for a device: a tensor as it is, rows of this machine sent there, at once or by chunks."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..extras import need
from ..notices import warn
from ..rows import Rows
from . import room

SMALL = ("bool", "uint8", "int8")  # integers that float16 represents exactly
# Bytes of a fit's own on a device: chunks of rows and of their scores, and arrays (C, d).
CHUNKS, ARRAYS = 1e9, 30
CHUNK_BYTES = 2**26  # of rows that are sent at a time


def rows_of_tensor(X: Any) -> Rows:
    """The rows of a tensor, computed on where it is."""
    from .tensors import TensorRows  # noqa: PLC0415  (imports torch)

    return TensorRows(X)


def sent(
    rows: Rows,
    stored: str,
    device: Any,
    once: bool = False,
    classes: Callable[[], int] = lambda: 1,
) -> Rows:
    """Rows of this machine for a device: sent there if they fit, else chunk by chunk in every pass.

    `stored` names their dtype in memory or in files; `once`: they will be read once only; `classes`
    counts those of the fit, whose arrays need room beside the rows.
    """
    from ..rows.streamed import Streamed  # noqa: PLC0415
    from ..rows.tensor import Resident  # noqa: PLC0415
    from .tensors import TensorRows  # noqa: PLC0415

    if rows.block(0, 1).is_sparse:
        raise ValueError(
            f"X is sparse, but {device} computes on dense rows: use device='cpu', or X.toarray()"
        )
    store = Streamed(rows, device, half_of(stored, device))
    n, d = rows.shape
    if once:
        return TensorRows(store)
    needed, free = n * d * store.stored.itemsize, room.free(device)
    own = CHUNKS + ARRAYS * 4 * d * classes() if np.isfinite(free) else 0.0
    if needed + own > free:
        warn(
            f"X ({needed / 1e9:.3g} GB) does not fit into the {free / 1e9:.3g} GB that are free on "
            f"{device}, of which the fit needs {own / 1e9:.3g} GB itself: X is sent there chunk by "
            "chunk in every pass"
        )
        return TensorRows(store)
    torch = need("torch", "A tensor")
    X = torch.empty((n, d), dtype=store.stored, device=device)
    step = max(1, CHUNK_BYTES // (d * store.stored.itemsize))
    for lo, hi, chunk in store.chunks(None, step):
        X[lo:hi] = chunk
    # files are kept for the names of their rows; a copy in memory would only take room
    return TensorRows(Resident(X, rows if rows.on_disk else None))


def half_of(stored: str, device: Any) -> str | None:
    """The half precision that holds numbers of this dtype exactly, for a GPU, which multiplies it.

    None: there is none.
    """
    name = stored.removeprefix("torch.")
    if device.type != "cuda" or name not in ("float16", "bfloat16", *SMALL):
        return None
    return "bfloat16" if name == "bfloat16" else "float16"


def sent_whole(Z: NDArray[Any], device: Any) -> Rows:
    """Rows that must be on the device all together."""
    room.check(Z.nbytes, device, "Rows in the coordinates of the curvature", "use a smaller rank")
    return rows_of_tensor(need("torch", "A device").from_numpy(Z).to(device))
