"""Warnings that show the user's line of code, even if they arise deep in the library."""

import sys
import warnings

# A pipeline or a search calls fit for its user, numba compiles for us.
NOT_THE_USER = ("slender", "sklearn", "joblib", "numba")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line of the call stack that is not in one of these libraries."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in NOT_THE_USER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
