"""FISTA with a full SVD in every step: the usual way to the trace norm, as well as we can do it.

    minimise  lambda1 ‖W‖_* + F(W),   F = 1/n Σ_i (ln Σ_c exp s_ic - s_iy) + lambda2 ‖W‖²,  s = W x

    G  = ∇F(Y)                          Y = W + (t - 1)/t' (W - W before)
    W+ = SVT(Y - G/L, lambda1/L)        all singular values, soft-thresholded
    until F(W+) <= F(Y) + <G, W+ - Y> + L/2 ‖W+ - Y‖²      else L doubles

What makes it fast.  Scores are linear: those of Y follow from those of the two last W, and F(W+) is
needed for the test, so that a step costs one product X Wᵀ and one Pᵀ X, no more than a step of
known length would.  L begins at the curvature of W = 0, which is 2/C of the bound 1/2 ‖XᵀX/n‖, and
shrinks by SHRINK in each step, as in TFOCS: far above the minimum the curvature is far below its
bound.  Momentum restarts when it points uphill (O'Donoghue, Candès 2015, the gradient scheme).
Rows go through products and slender's softmax block by block on all cores, in float32; LAPACK has
one thread, as with two the SVD gains less than the next product loses to BLAS's spinning threads.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slender.passes.residuals import LOSS, N_SUMS, residuals
from slender.problem.multinomial import sq_norm
from slender.rows import as_rows, map_blocks, one_blas_thread
from slender.solvers.loop import Clock

SHRINK, GROW = 0.9, 2.0
POWER_STEPS, POWER_MARGIN = 20, 1.05
NOISE = 1e-7  # of F: differences below it say nothing in float32


class Step(NamedTuple):
    """Where FISTA stands after a step; the clock stands still while it is looked at."""

    seconds: float
    objective: float
    W: NDArray[Any]  # (C, d)
    rank: int


@dataclass
class Loss:
    """The mean loss of given scores, and its gradient in W."""

    X: NDArray[np.float32]  # (n, d)
    y: NDArray[np.int32]  # (n,)
    n_classes: int

    def __post_init__(self) -> None:
        self.rows = as_rows(self.X)
        n = len(self.y)
        self.w = np.full(n, 1 / n)
        self.zero = np.zeros(self.n_classes, np.float32)

    def scores(self, W: NDArray[Any]) -> tuple[NDArray[Any], float]:
        """X Wᵀ (n, C) and the loss there."""
        S = np.empty((len(self.y), self.n_classes), np.float32)
        WT = np.ascontiguousarray(W.T)

        def work(mine: list[float], lo: int, hi: int, block: Any) -> None:
            block.product(WT, S[lo:hi])
            mine.append(self._residuals(S[lo:hi].copy(), lo, hi))

        losses: list[list[float]] = map_blocks(self.rows, list, work, 8 * self.n_classes)
        return S, sum(map(sum, losses))

    def gradient(self, S: NDArray[Any]) -> tuple[NDArray[Any], float]:
        """Σ w (p - e_y) xᵀ (C, d) and the loss; the scores are overwritten."""
        shape = self.n_classes, self.X.shape[1]

        def start() -> list[Any]:
            return [np.zeros(shape, np.float32), np.empty(shape, np.float32), 0.0]

        def work(mine: list[Any], lo: int, hi: int, block: Any) -> None:
            mine[2] += self._residuals(S[lo:hi], lo, hi)
            block.add_product(S[lo:hi], *mine[:2])

        parts = map_blocks(self.rows, start, work, 4 * self.n_classes)
        return sum(part[0] for part in parts), sum(part[2] for part in parts)

    def _residuals(self, S: NDArray[Any], lo: int, hi: int) -> float:
        """S <- w (softmax(S) - e_y), in place; returns the sum of w times the loss."""
        sums, g = np.zeros(N_SUMS), np.zeros(self.n_classes)
        w, y = self.w[lo:hi], self.y[lo:hi]
        residuals(S, self.zero, w, y, w, g, np.zeros_like(g), sums)
        return float(sums[LOSS])

    def curvature(self) -> float:
        """‖XᵀX/n‖, from just below by power iterations, and a margin on top."""
        v = np.random.default_rng(0).standard_normal((self.X.shape[1], 1)).astype(np.float32)
        size = 0.0
        for _ in range(POWER_STEPS):
            v /= np.linalg.norm(v)
            v = self.rows.rmatmat(self.rows.matmat(v)) / np.float32(len(self.y))
            size = float(np.linalg.norm(v))
        return POWER_MARGIN * size


def soft_threshold(A: NDArray[Any], by: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """A with its singular values made smaller, and those that are left."""
    U, s, Vt = np.linalg.svd(A.T, full_matrices=False)  # tall: a fifth faster than wide
    s = s[s > by] - A.dtype.type(by)
    return (Vt[: len(s)].T * s) @ U[:, : len(s)].T, s


def fista(
    X: NDArray[Any], y: NDArray[np.int32], n_classes: int, lambda1: float, lambda2: float
) -> Iterator[Step]:
    """FISTA from W = 0, without end; y are numbers of classes 0, 1, ..."""
    clock = Clock()
    with clock, one_blas_thread():
        loss = Loss(np.ascontiguousarray(X, np.float32), y.astype(np.int32), n_classes)
        bound = 0.5 * loss.curvature()
        most = bound + 2.0 * lambda2
        L = bound * min(1.0, 2.0 / n_classes) + 2.0 * lambda2
        W = before = np.zeros((n_classes, X.shape[1]), np.float32)
        S = S_before = np.zeros((len(y), n_classes), np.float32)
        t = 1.0
    while True:
        with clock, one_blas_thread():
            t_next = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
            beta = np.float32((t - 1.0) / t_next)
            Y = W + beta * (W - before)
            G, F_Y = loss.gradient(S + beta * (S - S_before))
            F_Y += lambda2 * sq_norm(Y)
            G += np.float32(2.0 * lambda2) * Y
            L *= SHRINK
            while True:
                new, theta = soft_threshold(Y - G / np.float32(L), lambda1 / L)
                S_new, F = loss.scores(new)
                F += lambda2 * sq_norm(new)
                step = new - Y
                linear = float(np.einsum("cd,cd->", G, step, dtype=np.float64))
                slack = F_Y + linear + 0.5 * L * sq_norm(step) - F
                if slack >= -NOISE * abs(F) or L >= most:
                    break
                L = min(GROW * L, most)
            uphill = float(np.einsum("cd,cd->", step, new - W, dtype=np.float64)) < 0.0
            t = 1.0 if uphill else t_next
            before, S_before, W, S = W, S, new, S_new
            if uphill:
                before, S_before = W, S
        objective = F + lambda1 * float(theta.sum(dtype=np.float64))
        yield Step(clock.seconds, objective, W, len(theta))
