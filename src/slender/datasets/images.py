"""A data set of images: files, each with its class.  `slender extract` makes vectors of them."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class ImageSet(NamedTuple):
    """Training and test images; a class index is a place in `classes`."""

    files_train: list[Path]
    y_train: NDArray[np.int64]
    files_test: list[Path]
    y_test: NDArray[np.int64]
    classes: list[str]
