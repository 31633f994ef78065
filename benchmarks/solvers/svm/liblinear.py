"""LIBLINEAR, through its own Python interface (pip install liblinear-official), without bias.

Its interface reads sparse rows in float64; turning ours into them is off its clock.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from slender.solvers.loop import Clock

from ...objective import Linear, without_intercept


class Liblinear:
    """LIBLINEAR on some rows."""

    def __init__(self, X: NDArray[Any], y: NDArray[Any]) -> None:
        from liblinear.liblinearutil import problem

        self.classes, class_index = np.unique(y, return_inverse=True)
        self.counts, self.d = np.bincount(class_index), X.shape[1]
        rows = sparse.csr_matrix(X.astype(np.float64))
        self.problem = problem(class_index.astype(np.float64), rows)

    def fit(self, options: str) -> tuple[float, Linear]:
        """Seconds of training with these options, and the model in float64."""
        from liblinear.liblinearutil import train

        with Clock() as clock:
            model = train(self.problem, f"{options} -q")
        d, k = model.get_nr_feature(), model.get_nr_class()
        W = np.zeros((k, self.d))  # columns after the last that is not zero are unknown to it
        W[:, :d] = np.ctypeslib.as_array(model.w, (d * k,)).reshape(d, k).T
        order = np.argsort(model.get_labels())  # it numbers classes as they appear
        return clock.seconds, without_intercept(W[order], self.classes)
