"""Work that reads rows for many classes, each independent of all others: `Rows.each_class`."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array


class ClassWork(Protocol):
    """What it reads and changes, and how it is done."""

    @property
    def costs(self) -> NDArray[Any]:
        """Multiply-adds of each class."""

    @property
    def state(self) -> list[NDArray[Any]]:
        """The arrays that it changes, with one row per class."""

    @property
    def lasting(self) -> tuple[NDArray[Any], ...]:
        """Arrays of length n that it only reads, the same in every pass,"""

    @property
    def order(self) -> NDArray[np.intp]:
        """and the one that is new in each pass."""

    def of_classes(self, lo: int, hi: int) -> "ClassWork":
        """The work for classes lo, ..., hi - 1, with their rows of the same state."""

    def run(self, rows: Any) -> None:
        """Do it here, on all cores, with these `Rows`."""

    def run_on_device(self, Z: Array) -> None:
        """Do it where the tensor Z is, which holds all rows."""

    @property
    def lacks_device(self) -> str | None:
        """What of it cannot be done on a device; None if all can."""
