"""Solvers of multinomial logistic regression on a device, one per file; the race is gpu_race.py.

    name      what tables and plots call it
    rival     True: its best setting is chosen for it; False: slender's own
    package   (module, name for pip) it needs beside slender's own dependencies and torch, or None
    grid      its settings, each a dict
    curve     (problem, setting, seed, record): one fit (or more, where the file says why), calling
              record(seconds, Weights) on its way; a true answer means: enough, stop

and, where a user would call it so,

    fit       (problem, setting): a whole fit until its own tolerance says stop; (Weights, figures)

    refuses   (problem): a sentence why it cannot run there, or None

`problem` is a gpu_data.Planted.  Rows are on the device before the clock starts, in the type that
the solver takes.  `seconds` is all that a user waits for until then and nothing else: the clock
waits for the device, and stands still while `record` measures.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from ...gpu_data import Weights

Record = Callable[[float, Weights], bool]


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Whether products of float32 matrices may round their factors to TF32, inside the block."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
