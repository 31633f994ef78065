"""Planted rows made on a device, and what a model is worth there, in float64.

    x = Q diag(j^-decay) (separation μ_y + ε),    ε ~ N(0, I),    Q a random rotation

with μ_c ~ N(0, I) in the `informative` strongest directions and 0 in the others: classes differ
where the variance is, and the best classifier is linear.  The numbers are drawn on the device: a
gigabyte of them takes a moment there.  Rows are float16, and the problem is that of the rounded
rows: rivals that need float32 get the same numbers.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

MADE_ROWS = 2**16  # made at a time
WIDE_ROWS = 2**14  # widened to float64 at a time
TOP = 5
DTYPE = torch.float16


class Size(NamedTuple):
    """Of a planted problem."""

    n: int
    d: int
    n_classes: int
    n_test: int
    informative: int
    separation: float
    decay: float
    C: float = 0.01  # scikit-learn's, of the logistic problem


LOGISTIC = Size(1_281_167, 1024, 1000, 50_000, informative=300, separation=0.55, decay=0.7)
SLND = Size(1_200_000, 4096, 1000, 50_000, informative=256, separation=0.35, decay=0.5)
QUICK_LOGISTIC = Size(600, 16, 6, 200, informative=8, separation=0.8, decay=0.5, C=1.0)
QUICK_SLND = Size(600, 24, 6, 200, informative=8, separation=0.8, decay=0.5)


class Weights(NamedTuple):
    """A linear classifier on the device; class c is the label c."""

    W: torch.Tensor  # (C, d)
    b: torch.Tensor  # (C,)

    def copy(self) -> "Weights":
        """One that stays as it is while a fit goes on."""
        return Weights(self.W.clone(), self.b.clone())


@dataclass(frozen=True)
class Planted:
    """A planted problem; all tensors are on one device."""

    size: Size
    X: torch.Tensor  # (n, d) float16
    y: torch.Tensor  # (n,) int64
    X_test: torch.Tensor
    y_test: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.X.device

    @property
    def n_classes(self) -> int:
        return self.size.n_classes

    @property
    def C(self) -> float:
        return self.size.C

    @property
    def lam(self) -> float:
        return 1 / (self.size.n * self.C)

    @cached_property
    def wide(self) -> torch.Tensor:
        """The rows as float32, for those who do not take float16; made off the clock."""
        return self.X.float()

    @cached_property
    def host(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """X and y as NumPy arrays in the host's memory."""
        return self.X.cpu().numpy(), self.y.cpu().numpy()

    @cached_property
    def wide_host(self) -> NDArray[Any]:
        """X as float32 in the host's memory."""
        return self.X.float().cpu().numpy()

    def forget(self) -> None:
        """Drop the copies."""
        for name in ("wide", "host", "wide_host"):
            self.__dict__.pop(name, None)

    def few(self, n: int) -> "Planted":
        """The first rows: enough to warm up on."""
        size = self.size._replace(n=min(n, self.size.n))
        return Planted(size, self.X[:n], self.y[:n], self.X_test, self.y_test)


def planted(size: Size, device: Any, seed: int = 0) -> Planted:
    """Rows of this size.  The first label of every class is given, so that none is missing."""
    draw = torch.Generator(device=device).manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=device, generator=draw)

    n, d, C = size.n + size.n_test, size.d, size.n_classes
    rotation = torch.linalg.qr(normal(d, d))[0]
    rotation *= torch.arange(1, d + 1, device=device, dtype=torch.float32)[:, None] ** -size.decay
    centres = size.separation * normal(C, d)
    centres[:, size.informative :] = 0
    y = torch.randint(C, (n,), device=device, generator=draw)
    y[:C] = torch.arange(C, device=device)
    X = torch.empty(n, d, device=device, dtype=DTYPE)
    for lo in range(0, n, MADE_ROWS):
        labels = y[lo : lo + MADE_ROWS]
        X[lo : lo + MADE_ROWS] = (centres[labels] + normal(len(labels), d)) @ rotation
    return Planted(size, X[: size.n], y[: size.n], X[size.n :], y[size.n :])


def objective(model: Weights, problem: Planted) -> float:
    """1/n Σ_i [ln Σ_c exp(s_ic) - s_iy] + lam/2 ‖W‖² in float64, b not penalised.

    Written apart from slender's own passes, which it judges.
    """
    W, b = model.W.double(), model.b.double()
    total = torch.zeros((), dtype=torch.float64, device=W.device)
    for lo in range(0, len(problem.X), WIDE_ROWS):
        S = torch.addmm(b, problem.X[lo : lo + WIDE_ROWS].double(), W.T)
        own = S.gather(1, problem.y[lo : lo + WIDE_ROWS, None])[:, 0]
        total += (torch.logsumexp(S, 1) - own).sum()
    value = (total / len(problem.X) + 0.5 * problem.lam * W.square().sum()).item()
    return value if np.isfinite(value) else np.inf


def gradient(model: Weights, problem: Planted) -> Weights:
    """Of the objective, in float64."""
    W, b = model.W.double(), model.b.double()
    G, g = problem.lam * W, torch.zeros_like(b)
    for lo in range(0, len(problem.X), WIDE_ROWS):
        X = problem.X[lo : lo + WIDE_ROWS].double()
        P = torch.softmax(torch.addmm(b, X, W.T), 1)
        own = problem.y[lo : lo + WIDE_ROWS, None]
        P.scatter_add_(1, own, torch.full_like(own, -1.0, dtype=P.dtype))
        G.addmm_(P.T, X, alpha=1 / len(problem.X))
        g += P.sum(0) / len(problem.X)
    return Weights(G, g)


def accuracy(model: Weights, problem: Planted) -> dict[str, float]:
    """Shares of the test rows whose label is the best class, and among the five best."""
    top1 = top5 = 0
    for lo in range(0, len(problem.X_test), WIDE_ROWS):
        X, y = problem.X_test[lo : lo + WIDE_ROWS], problem.y_test[lo : lo + WIDE_ROWS, None]
        S = torch.addmm(model.b.float(), X.float(), model.W.float().T)
        best = S.nan_to_num(nan=-torch.inf).topk(min(TOP, S.shape[1]), 1).indices
        top1 += int((best[:, :1] == y).sum())
        top5 += int((best == y).sum())
    n = len(problem.X_test)
    return {"top1": top1 / n, "top5": top5 / n}


def reached(model: Weights, problem: Planted) -> dict[str, float]:
    """The objective, and the accuracies."""
    return {"objective": objective(model, problem), **accuracy(model, problem)}


def weights_of(coef: Any, intercept: Any, problem: Planted) -> Weights:
    """Arrays or tensors of any kind, on the problem's device."""
    return Weights(
        *(torch.as_tensor(of, device=problem.device).detach() for of in (coef, intercept))
    )


def weights(model: Any, problem: Planted) -> Weights:
    """Of a fitted estimator; one-vs-rest scores are corrected for the draws."""
    shift = getattr(model, "prior_shift_", 0)
    return weights_of(model.coef_, model.intercept_ + shift, problem)
