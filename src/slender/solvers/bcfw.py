"""Block-coordinate Frank-Wolfe for the multi-class SVM (AIMS, §5).

With the dual of patterns.py and a block B of examples, one step of Algorithm 5 is

    1.  k*_i = argmax_k { s_ik + 1[k != y_i] - s_iy_i },                 i in B
    2.  δ_i  = U_i (e_{y_i} - e_{k*_i}) - β_i            from β_i to a corner of the simplex
    3.  γ    = Σ_i δ_iᵀ g_i / ‖D‖²  in [0, 1],           D = Σ_i δ_i x_iᵀ,   g_i = e_{y_i} - s_i
    4-7.  β_i <- β_i + γ δ_i,   W <- W + γ D

AIMS stores w_B = Σ β_i x_iᵀ (C d numbers per block); this code stores β (a few numbers per
example), so that blocks of one example, Algorithm 4, need no more memory than large ones.  Step 3
of AIMS gives the same γ: Σ δᵀg = (-lam (w_s - w_B)ᵀ w + l_s - l_B)/lam and D = w_s - w_B.
If ‖D‖ = 0, γ is 1 if the numerator is positive (all-zero rows), else 0.  The sum of Σ_i δ_iᵀ g_i
over all blocks at the same W, times lam, is the duality gap of Frank-Wolfe.

Averaging gives the iterate of step t the weight t (ρ = 2/(t+2)).  It costs one more update of the
rows of W that change: with Δ_t the change in step t,

    Σ_{t<=T} t W_t / (T(T+1)/2)  =  W_T - Σ_t t(t-1)/(T(T+1)) Δ_t.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import kernel
from ..losses import most_violated
from ..problem.linear import Linear, one_row
from ..rows.kernel import scores
from .duality import Kept, SVMProblem, dual_point, gap_between, primal_point
from .loop import Record, Solver
from .patterns import (
    FAST,
    Patterns,
    empty,
    fits,
    follow,
    own_slots,
    read_all,
    scratch,
    squared,
    support,
    wanted,
    with_room,
    write,
)
from .svm_forms import Multiclass

# Indices into BCFWIterate.numbers.
STEPS, SQUARE, LOSS, SQUARES = range(4)
CHUNK_BYTES = 2**20  # of rows per kernel call, which may have to be gathered


class BCFWIterate(NamedTuple):
    """The iterate, and the sums of the current pass."""

    W: NDArray[Any]  # (C, d)
    b: NDArray[np.float64]  # (C,) weights of the constant column
    late: NDArray[Any]  # (C, d) Σ_t t(t-1) Δ_t / 2; (0, d) without averaging
    late_b: NDArray[np.float64]  # (C,) likewise
    patterns: Patterns
    numbers: NDArray[np.float64]  # (4,) steps, ‖[W, b]‖²; this pass's Σ U loss and Σ ‖[W, b]‖²


@dataclass
class BCFWState:
    """All that changes during a fit."""

    rng: np.random.Generator
    iterate: BCFWIterate
    kept: Kept  # the weights of the model
    best: float = 0.0  # best dual value so far; it is 0 at β = 0
    objective: float = 0.0  # not computed before the first pass
    gap: float = np.inf


@dataclass(frozen=True)
class FrankWolfe(Solver[BCFWState]):
    """Stops at a gap of tol times the objective; with None it never stops by itself."""

    problem: SVMProblem
    batch_size: int = 1
    average: bool = True
    tol: float | None = None

    made_of: ClassVar[tuple[type, ...]] = (BCFWState, BCFWIterate, Patterns, Kept)

    def init(self, rng: np.random.Generator) -> BCFWState:
        """W = 0."""
        rows, C = self.problem.rows, self.problem.n_rows
        W = np.zeros((C, rows.shape[1]), rows.dtype)
        iterate = self.at(empty(rows.shape[0], C), W)
        return BCFWState(rng, iterate, Kept(W, iterate.b))

    def at(self, patterns: Patterns, W: NDArray[Any]) -> BCFWIterate:
        """The iterate with these patterns and their weights W, and with all counts at 0."""
        late = np.zeros((len(W) if self.average else 0, W.shape[1]), W.dtype)
        b, late_b = np.zeros(len(W)), np.zeros(len(W))
        return BCFWIterate(W, b, late, late_b, patterns, np.zeros(4))

    def step(self, state: BCFWState) -> Record:
        """One pass, then the duality gap."""
        problem = self.problem
        active = np.flatnonzero(problem.U)
        which = problem.rows.random_order(active[:: self.batch_size], state.rng)
        state.iterate = self.sweep(state.iterate, active, which)
        losses, squares = state.iterate.numbers[[LOSS, SQUARES]]
        estimate = problem.lam * (losses + 0.5 * squares / len(active))

        patterns = state.iterate.patterns
        dual = dual_point(problem, patterns)
        state.iterate = restarted(state.iterate, dual.W, dual.b)
        state.kept = self._kept(*self.averaged(state.iterate))
        primal = primal_point(problem, patterns, state.kept)
        state.best = max(state.best, dual.value)
        gap = gap_between(primal, state.best)
        if gap <= primal.blur:
            state.iterate = widened(state.iterate, dual.W)
        state.objective, state.gap = problem.lam * primal.value, problem.lam * gap
        return {
            "estimate": float(estimate),
            "objective": state.objective,
            "gap": state.gap,
            "dual": problem.lam * state.best,
            "support": float(len(support(patterns))),
        }

    def finished(self, state: BCFWState) -> bool:
        return self.tol is not None and state.gap <= self.tol * state.objective

    def solution(self, state: BCFWState) -> Linear:
        return one_row(state.kept.W.copy(), state.kept.c)

    @property
    def _y(self) -> NDArray[np.int32]:
        form = self.problem.form
        assert isinstance(form, Multiclass)  # also for two classes: W has a row for each
        return form.y

    def sweep(
        self, iterate: BCFWIterate, active: NDArray[np.intp], which: NDArray[np.intp]
    ) -> BCFWIterate:
        """One pass: the blocks of the examples `active`, in the order `which`.

        The iterate returned may have new patterns: slots are added if an example needs more.
        """
        iterate.numbers[[LOSS, SQUARES]] = 0.0
        b = self.batch_size
        if b == 1:
            return self._one_by_one(iterate, active[which])
        for j in which:
            iterate = block_step(iterate, self.problem, self._y, active[j * b : (j + 1) * b])
        return iterate

    def _one_by_one(self, iterate: BCFWIterate, order: NDArray[np.intp]) -> BCFWIterate:
        problem, pattern = self.problem, scratch(len(iterate.W))
        size = max(1, CHUNK_BYTES // problem.rows.row_bytes)
        for lo in range(0, len(order), size):
            chunk = order[lo : lo + size]
            X, index = problem.rows.take(chunk)
            terms = self._y, problem.U, problem.sq, problem.bias
            done = 0
            while True:
                done = one_by_one(X, index, chunk, done, *terms, iterate, pattern)
                if done == len(chunk):
                    break
                iterate = iterate._replace(patterns=with_room(iterate.patterns, len(iterate.W)))
        return iterate

    def averaged(self, iterate: BCFWIterate) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """W and b; their averages if `average` is set."""
        steps = iterate.numbers[STEPS]
        if not self.average or steps == 0:
            return iterate.W.copy(), iterate.b.copy()
        share = 2.0 / (steps * (steps + 1.0))
        W = iterate.W - iterate.late * iterate.W.dtype.type(share)
        return W, iterate.b - iterate.late_b * share

    def _kept(self, W: NDArray[Any], b: NDArray[np.float64]) -> Kept:
        """The weights of the model; for two classes with difference w, the rows -w/2 and w/2."""
        dtype = self.problem.rows.dtype
        if len(W) == 2:
            W, b = (W[1] - W[0]) / 2, (b[1] - b[0]) / 2
            W, b = np.stack([-W, W]), np.stack([-b, b])
        return Kept(W.astype(dtype), (self.problem.bias * b).astype(dtype))


def restarted(state: BCFWIterate, W: NDArray[Any], b: NDArray[np.float64]) -> BCFWIterate:
    """The iterate with W and b recomputed from its patterns: a kernel's updates drift."""
    state.W[:], state.b[:] = W, b
    state.numbers[SQUARE] = squared(W, b)
    return state


def widened(state: BCFWIterate, W: NDArray[np.float64]) -> BCFWIterate:
    """The iterate with float64 weights, for gaps that float32 scores cannot resolve."""
    return state._replace(W=W, late=state.late.astype(np.float64, copy=False))


@kernel(fastmath=FAST)
def one_by_one(X, index, order, start, y, U, sq, bias, state, pattern):  # type: ignore[no-untyped-def]
    """Algorithm 4 over order[start:]; returns where it ran out of slots, or len(order)."""
    numbers = state.numbers
    for p in range(start, len(order)):
        i, row = order[p], index[p]
        C = read_all(state.patterns, i, pattern)
        scores(X, row, state.W, pattern.score)
        for c in range(C):
            pattern.score[c] += bias * state.b[c]
        k = most_violated(pattern.score, y[i])  # line 1
        slope, square, along = 0.0, 0.0, 0.0  # Σ δ g, ‖δ‖², Σ δ s
        for c in range(C):
            corner = U[i] * ((1.0 if c == y[i] else 0.0) - (1.0 if c == k else 0.0))
            delta = corner - pattern.beta[c]
            slope += delta * ((1.0 if c == y[i] else 0.0) - pattern.score[c])
            along += delta * pattern.score[c]
            square += delta * delta
        gamma = best_step(slope, square * sq[i])
        for c in range(C):
            corner = U[i] * ((1.0 if c == y[i] else 0.0) - (1.0 if c == k else 0.0))
            if gamma == 1.0:
                pattern.beta[c] = corner
            else:
                pattern.beta[c] += gamma * (corner - pattern.beta[c])
        if not fits(state.patterns, i, pattern, C):
            return p

        loss = pattern.score[k] - pattern.score[y[i]] + (1.0 if k != y[i] else 0.0)
        numbers[LOSS] += U[i] * loss
        numbers[SQUARES] += numbers[SQUARE]
        numbers[STEPS] += 1.0
        t = numbers[STEPS]
        earlier = 0.5 * t * (t - 1.0)
        if len(state.late) > 0:
            follow(pattern, C, X, row, earlier, bias, state.late, state.late_b)
        numbers[SQUARE] += gamma * (2.0 * along + gamma * square * sq[i])
        follow(pattern, C, X, row, 1.0, bias, state.W, state.b)
        write(state.patterns, i, pattern, C)
    return len(order)


def block_step(
    state: BCFWIterate, data: SVMProblem, y: NDArray[np.int32], block: NDArray[np.intp]
) -> BCFWIterate:
    """One step of Algorithm 5, on the examples `block`."""
    C, numbers = len(state.W), state.numbers
    X = data.rows.gather(block)
    dtype = state.W.dtype
    S = np.empty((len(block), C), dtype)
    X.product(np.ascontiguousarray(state.W.T), S)
    S += (data.bias * state.b).astype(dtype)
    delta = np.zeros((len(block), C), dtype)
    k = np.empty(len(block), np.int32)
    loss, slope, along = directions(state.patterns, block, S, y, data.U, k, delta)  # 1, 2
    D = np.zeros_like(state.W)
    X.add_product(delta, D, np.empty_like(D))
    D_b = data.bias * delta.sum(axis=0, dtype=np.float64)
    square = squared(D, D_b)
    gamma = best_step(slope, square)  # line 3

    while more := move(state.patterns, block, y, data.U, k, gamma, scratch(C)):  # lines 4, 5
        state = state._replace(patterns=with_room(state.patterns, more))
    numbers[LOSS] += loss
    numbers[SQUARES] += len(block) * numbers[SQUARE]
    numbers[STEPS] += 1.0
    t = numbers[STEPS]
    earlier = 0.5 * t * (t - 1.0)
    D *= dtype.type(gamma)
    D_b *= gamma
    np.add(state.W, D, out=state.W)  # line 6
    np.add(state.b, D_b, out=state.b)
    if len(state.late):
        D *= dtype.type(earlier)
        np.add(state.late, D, out=state.late)
        np.add(state.late_b, earlier * D_b, out=state.late_b)
    numbers[SQUARE] += gamma * (2.0 * along + gamma * square)
    return state


@kernel()
def best_step(slope, square):  # type: ignore[no-untyped-def]
    """γ* in [0, 1], which maximises γ slope - γ² square / 2."""
    if square > 0.0:
        return min(1.0, max(0.0, slope / square))
    return 1.0 if slope > 0.0 else 0.0


@kernel()
def directions(patterns, block, S, y, U, k, delta):  # type: ignore[no-untyped-def]
    """Compute δ and k* of a block; returns (Σ U loss, Σ δ g, Σ δ s)."""
    losses, slope, along = 0.0, 0.0, 0.0
    for j in range(len(block)):
        i = block[j]
        own = y[i]
        k[j] = most_violated(S[j], own)
        delta[j, own] += U[i]
        delta[j, k[j]] -= U[i]
        for q in own_slots(patterns, i):
            c = patterns.classes[q]
            if c >= 0:
                delta[j, c] -= patterns.beta[q]
        slope += delta[j, own]
        for c in range(S.shape[1]):
            along += delta[j, c] * S[j, c]
        losses += U[i] * (S[j, k[j]] - S[j, own] + (1.0 if k[j] != own else 0.0))
    return losses, slope - along, along


@kernel()
def move(patterns, block, y, U, k, gamma, pattern):  # type: ignore[no-untyped-def]
    """β <- β + γ δ for a block; returns 0, or the new slots needed first, with β unchanged."""
    more = 0
    for leap in (False, True):  # count the slots first
        for j in range(len(block)):
            i = block[j]
            C = read_all(patterns, i, pattern)
            for c in range(C):
                pattern.beta[c] *= 1.0 - gamma
            pattern.beta[y[i]] += gamma * U[i]
            pattern.beta[k[j]] -= gamma * U[i]
            if leap:
                write(patterns, i, pattern, C)
            else:
                more += wanted(patterns, i, pattern, C)
        if patterns.end[0] + more > len(patterns.beta):
            return more
        more = 0
    return 0
