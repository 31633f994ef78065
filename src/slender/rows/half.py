"""float16 to float32 through a table of all 65,536 values: many times faster than `astype`.

It uses one thread: parallel work is divided into blocks of rows (threads.py).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import kernel

TABLE = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)


def widen(half: NDArray[np.float16]) -> NDArray[Any]:
    """The same rows as float32."""
    out = np.empty(half.shape, np.float32)
    _widen(half.view(np.uint16), TABLE, out)
    return out


@kernel()
def _widen(bits, table, out):  # type: ignore[no-untyped-def]
    for i in range(bits.shape[0]):
        for j in range(bits.shape[1]):
            out[i, j] = table[bits[i, j]]
