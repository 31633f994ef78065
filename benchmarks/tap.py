"""The iterates of scipy's L-BFGS inside another package's fit, seen while its clock stands still.

scikit-learn and scikit-learn-intelex report nothing on their way, but both hand their loss to
`optimize.minimize`, looked up in a module of theirs.  For the time of a fit that name is replaced
by the same function with a callback; the optimiser walks the same path, to the last bit
(tests/test_benchmarks_logistic.py), and one fit gives the whole curve.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np


@contextmanager
def tapped(module: Any, see: Callable[[np.ndarray], bool | None]) -> Iterator[None]:
    """While the block runs, `module.optimize.minimize` shows each iterate to `see`.

    A true answer stops the optimiser, as reaching max_iter would.
    """
    optimize = module.optimize

    def callback(x: np.ndarray) -> None:
        if see(x):
            raise StopIteration  # scipy's word for enough

    def minimize(*args: Any, **options: Any) -> Any:
        return optimize.minimize(*args, **{**options, "callback": callback})

    module.optimize = SimpleNamespace(minimize=minimize)
    try:
        yield
    finally:
        module.optimize = optimize
