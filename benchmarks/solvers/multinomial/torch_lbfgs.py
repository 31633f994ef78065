"""torch's L-BFGS, full batch, float32, strong Wolfe line search.  Minimises the same objective.

One call of `step` does the whole fit: each further call would evaluate the loss once more.  A
point is recorded wherever the optimiser asks for the loss, the trial points of its line searches
included, which can only flatter it.
"""

from typing import Any

import joblib
import numpy as np

from slender.lab.recorder import Stopwatch

from ...objective import Linear, Task
from . import MULTINOMIAL, Record

name = "torch L-BFGS"
rival = True
problem = MULTINOMIAL
package = ("torch", "torch")
grid: list[dict[str, Any]] = [{}]
HISTORY = 20  # pairs kept; 10 to 50 differ little
MAX_ITER = 100_000


class EnoughError(Exception):
    """The race has seen what it needs."""


def curve(task: Task, setting: dict[str, Any], seed: int, record: Record) -> None:
    import torch

    torch.set_num_threads(joblib.cpu_count())
    watch = Stopwatch()
    with watch:
        classes, y = np.unique(task.dataset.y_train, return_inverse=True)
        X, y = torch.from_numpy(task.dataset.X_train), torch.from_numpy(y)
        W = torch.zeros(len(classes), X.shape[1], requires_grad=True)
        b = torch.zeros(len(classes), requires_grad=True)
        optimizer = torch.optim.LBFGS(
            [W, b],
            max_iter=MAX_ITER,
            max_eval=MAX_ITER,
            history_size=HISTORY,
            line_search_fn="strong_wolfe",
        )

        def loss() -> Any:
            with watch.held():
                model = Linear(W.detach().numpy(), b.detach().numpy(), classes)
                if record(watch.seconds, model):
                    raise EnoughError
            optimizer.zero_grad()
            value = torch.nn.functional.cross_entropy(torch.addmm(b, X, W.T), y)
            value = value + 0.5 * task.lam * W.square().sum()
            value.backward()
            return value

        try:
            optimizer.step(loss)
        except EnoughError:
            return
    record(watch.seconds, Linear(W.detach().numpy(), b.detach().numpy(), classes))
