"""torch's AdamW and Adam, mini-batches, a cosine schedule: the usual linear probe.

Adam with lam W in its gradient minimises the same objective.  AdamW shrinks W by lr lam in each
step, beside the adaptive step: the common recipe, whose fixed point is another (lam times the
inverse of Adam's scaling), so its objective may end above the minimum.  Both are in the grid.  A
point is recorded after each epoch.
"""

from typing import Any

import joblib
import numpy as np

from slender.lab.recorder import Stopwatch

from ...objective import Linear, Task
from . import MULTINOMIAL, Record

name = "torch Adam(W)"
rival = True
problem = MULTINOMIAL
package = ("torch", "torch")
grid: list[dict[str, Any]] = [
    {"optimizer": optimizer, "epochs": epochs, "lr": lr}
    for optimizer, epochs in (("AdamW", 20), ("Adam", 20), ("Adam", 60))
    for lr in (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
]
BATCH = 256


def curve(task: Task, setting: dict[str, Any], seed: int, record: Record) -> None:
    import torch

    torch.set_num_threads(joblib.cpu_count())
    draw = torch.Generator().manual_seed(seed)
    watch = Stopwatch()
    with watch:
        classes, y = np.unique(task.dataset.y_train, return_inverse=True)
        X, y = torch.from_numpy(task.dataset.X_train), torch.from_numpy(y)
        n, d = X.shape
        W = torch.zeros(len(classes), d, requires_grad=True)
        b = torch.zeros(len(classes), requires_grad=True)
        optimizer = getattr(torch.optim, setting["optimizer"])(
            [{"params": [W], "weight_decay": task.lam}, {"params": [b], "weight_decay": 0.0}],
            lr=setting["lr"],
        )
        steps = setting["epochs"] * -(-n // BATCH)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for _ in range(setting["epochs"]):
            for rows in torch.randperm(n, generator=draw).split(BATCH):
                optimizer.zero_grad()
                scores = torch.addmm(b, X[rows], W.T)
                torch.nn.functional.cross_entropy(scores, y[rows]).backward()
                optimizer.step()
                schedule.step()
            with watch.held():
                if record(watch.seconds, Linear(W.detach().numpy(), b.detach().numpy(), classes)):
                    return
