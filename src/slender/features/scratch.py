"""Arrays for intermediate results, which are used again for the next image.

The pages of a fresh array cost more time than what is computed in it.  Every thread has its own.
"""

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

_kept = threading.local()


def scratch(name: str, shape: tuple[int, ...], dtype: Any = np.float32) -> NDArray[Any]:
    """An array with any contents; it is valid until the next call with this name."""
    size = math.prod(shape)
    buffer = getattr(_kept, name, None)
    if buffer is None or buffer.size < size or buffer.dtype != dtype:
        buffer = np.empty(size, dtype)
        setattr(_kept, name, buffer)
    return buffer[:size].reshape(shape)
