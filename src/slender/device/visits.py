"""What the visits of a pass read on a device (sweep.py)."""

from typing import Any, NamedTuple


class TensorVisits(NamedTuple):
    """Class c visits the examples index[first[c] : last[c]], in this order."""

    index: Any  # integers
    first: Any  # (C,) int64
    last: Any  # (C,) int64
    most: int  # visits of any class


class SweepData(NamedTuple):
    """What the passes of a fit read and do not change, on one device."""

    Z: Any  # (n, k)
    y: Any  # (n,) class of each example, or (n, C') bool
    first: int  # the class, or the column of y, of class row 0
    example: Any  # (n,) weights c_i
    positive: Any  # (C,) and those of the positives and
    negative: Any  # (C,) negatives of each class
    cap: Any  # (n,)
