"""A torch probe by mini-batches: DINOv2's linear evaluation, and its relatives.

DINOv2's recipe: SGD with momentum 0.9, batches of 1,024 (128 on each of eight GPUs), ten epochs,
a cosine schedule down to zero, thirteen learning rates (times batch / 256), no weight decay, all
thirteen trained and the best on the test rows kept.  It minimises the mean loss without a penalty,
so that its objective may end above the minimum of the penalised one: `decay` 0 in the grid.  With
`decay` 1, lam W is in SGD's gradient, which minimises the same objective; AdamW shrinks W by lr lam
beside its adaptive step, which is nearly the same.  Larger batches take fewer, faster steps.

Products are in TF32, and the optimiser's steps are fused where torch can.  A point is recorded
after each epoch.  `sweep` is what DINOv2 does in one go: thirteen classifiers on the same batches,
here as one product for all of them.
"""

from math import cos, pi
from typing import Any

import torch

from ...gpu_clock import DeviceWatch
from ...gpu_data import Planted, Weights
from . import Record, tf32

name = "torch probe"
rival = True
package = None
EPOCHS, MOMENTUM = 10, 0.9
DINOV2_RATES = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1)
DINOV2_BATCH, PER_BATCH = 1024, 256  # the rates are those of a batch of 256


def _setting(optimizer: str, batch: int, lr: float, decay: float) -> dict[str, Any]:
    return {"optimizer": optimizer, "batch": batch, "lr": lr, "decay": decay}


dinov2: list[dict[str, Any]] = [
    _setting("SGD", DINOV2_BATCH, lr, 0.0) for lr in DINOV2_RATES
]  # the recipe as it is
grid: list[dict[str, Any]] = [
    *dinov2,
    *(
        _setting("SGD", batch, lr, 1.0)
        for batch in (DINOV2_BATCH, 8192)
        for lr in (2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0, 2.0)
    ),
    *(
        _setting("AdamW", batch, lr, 1.0)
        for batch in (DINOV2_BATCH, 8192)
        for lr in (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
    ),
]


def optimiser(setting: dict[str, Any], W: Any, b: Any, lam: float) -> Any:
    """The penalty is on W alone."""
    groups = [
        {"params": [W], "weight_decay": setting["decay"] * lam},
        {"params": [b], "weight_decay": 0.0},
    ]
    fused = W.device.type == "cuda"
    if setting["optimizer"] == "SGD":
        lr = setting["lr"] * setting["batch"] / PER_BATCH
        return torch.optim.SGD(groups, lr=lr, momentum=MOMENTUM, fused=fused)
    return torch.optim.AdamW(groups, lr=setting["lr"], fused=fused)


def curve(problem: Planted, setting: dict[str, Any], seed: int, record: Record) -> None:
    device, (n, d) = problem.device, problem.X.shape
    draw = torch.Generator(device=device).manual_seed(seed)
    batch = min(setting["batch"], n)
    watch = DeviceWatch(device)
    with tf32(True), watch:
        W = 0.01 * torch.randn(problem.n_classes, d, device=device, generator=draw)
        b = torch.zeros(problem.n_classes, device=device)
        W.requires_grad_()
        b.requires_grad_()
        optimizer = optimiser(setting, W, b, problem.lam)
        steps = n // batch
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * steps)
        for _ in range(EPOCHS):
            order = torch.randperm(n, device=device, generator=draw)[: steps * batch]
            for rows in order.view(steps, batch):
                scores = torch.addmm(b, problem.X[rows].float(), W.T)
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(scores, problem.y[rows]).backward()
                optimizer.step()
                schedule.step()
            with watch.held():
                if record(watch.seconds, Weights(W.detach(), b.detach())):
                    return


def sweep(problem: Planted, seed: int, epochs: int = EPOCHS) -> tuple[float, list[Weights]]:
    """Seconds of DINOv2's recipe at all of its learning rates, and their classifiers."""
    device, (n, d) = problem.device, problem.X.shape
    draw = torch.Generator(device=device).manual_seed(seed)
    heads, C, batch = len(DINOV2_RATES), problem.n_classes, min(DINOV2_BATCH, n)
    watch = DeviceWatch(device)
    with tf32(True), watch:
        W = (0.01 * torch.randn(heads * C, d, device=device, generator=draw)).requires_grad_()
        b = torch.zeros(heads * C, device=device).requires_grad_()
        rates = torch.tensor(DINOV2_RATES, device=device).repeat_interleave(C)
        rates *= batch / PER_BATCH
        moving = [torch.zeros_like(of) for of in (W, b)]
        steps = n // batch
        for epoch in range(epochs):
            order = torch.randperm(n, device=device, generator=draw)[: steps * batch]
            for step, rows in enumerate(order.view(steps, batch)):
                scores = torch.addmm(b, problem.X[rows].float(), W.T).view(-1, C)  # head by head
                labels = problem.y[rows].repeat_interleave(heads)
                # the sum of the mean losses of the classifiers, which share no weights
                loss = torch.nn.functional.cross_entropy(scores, labels, reduction="sum") / batch
                gradients = torch.autograd.grad(loss, (W, b))
                share = (epoch * steps + step) / (epochs * steps)
                now = rates * (0.5 + 0.5 * cos(pi * share))
                with torch.no_grad():
                    for of, moved, gradient in zip((W, b), moving, gradients, strict=True):
                        moved.mul_(MOMENTUM).add_(gradient)
                        of.sub_(moved * (now[:, None] if of.ndim > 1 else now))
    W, b = W.detach().view(heads, C, d), b.detach().view(heads, C)
    return watch.seconds, [Weights(W[head], b[head]) for head in range(heads)]
