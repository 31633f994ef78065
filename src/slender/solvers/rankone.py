"""R1D, rank-one descent for the trace norm (TN12, Algorithm 4.1), in factored form.

    1  top singular pairs u_j v_jᵀ of -∇R~, R~ = R + lambda2 ‖W‖²     X is read     (krylov.py)
    2  g = lambda1 - sigma_1, the steepest slope of (7)
    3  if g < 0: line search (Armijo) along the pairs with sigma_j > lambda1; X u_j is stored
    4  the restricted problem (8): the weights of the atoms by L-BFGS-B, theta >= 0
    5  the atoms turn: their directions are optimised within a small subspace
    6  singular triplets of W: Σ theta = ‖W‖_* again, atoms without weight are removed

until the duality gap is small enough (problem/tracenorm.py), or (C1) and (C2) hold at epsilon.
Once Z = X B is known for a basis B of the u_j, steps 3 to 6 do not read X.

X and Z, of length n, may be tensors on a device.  The rest is small and stays on this machine.

`pairs=1, turn=False` is the paper's algorithm: steps 1 to 4, with (8) solved each time (its
"regular basis").  The list of atoms is then kept from step to step, as (8) requires.  Step 6
computes the singular triplets of W only for the objective and the proof, and removes no atom from
the list; an atom leaves it when (8) sets its weight to 0.

The rest is not in the paper.  All pairs with sigma_j > lambda1 are added at once, which saves
readings of X, the main cost.  Step 5 is new because (8) changes only the weights of atoms, not
their directions; without it a turned atom must be found by step 1 and approached by many small
weights.  With it, step 4 is a few iterations, and the triplets of step 6 are the atoms of the next
step.  Write W = Q (B P)ᵀ.  Since 2 ‖W‖_* = min ‖P‖² + ‖Q‖² over all such factors (Proposition 1,
with the weights divided between both factors), J is minimised over P and Q by L-BFGS on

    R(Q (B P)ᵀ) + lambda2 ‖Q Pᵀ‖² + lambda1/2 (‖P‖² + ‖Q‖²)

which is smooth.  It is not convex, but L-BFGS never increases it, and step 1 finds what it misses.
Besides the atoms, the basis B contains directions in which they may turn: Newton's direction for
u_j with v_j and all other atoms fixed,
(c_j Σ + (lambda1/theta_j + 2 lambda2) I)⁻¹ (-∇R~ᵀ v_j - lambda1 u_j),
where Σ is the covariance of the rows (curvature/classwise.py) and c_j = v_jᵀ diag(a) v_j.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, like, namespace, to_numpy, zeros
from ..curvature.classwise import Classwise
from ..data.examples import Readings
from ..krylov import SingularVectors, orthonormal, top_singular_vectors
from ..problem import Multinomial
from ..problem.linear import Linear, one_row
from ..problem.tracenorm import (
    Costs,
    Factors,
    Here,
    duality_gap,
    inner_problem,
    look,
    raw_intercepts,
    singular_values,
)
from .loop import Record, Solver
from .subspace import FEW, INNER, Atoms, Subspace

PAIRS = 32  # added at a time, at most
RELATIVE = 1e-2  # accuracy of sigma_1 relative to lambda1, if epsilon is not given
SHARE = 0.03  # accuracy of step 5 as a share of the gap,
TIGHTER = 0.3  # or as a share of the target gap, if that is larger
SLIGHT = 1e-2  # share of the target gap that may be lost with the smallest singular values of W
NOISE = {"f": 1e-6, "d": 1e-13}  # share of the objective: a smaller change is no gain
IDLE = 5  # stop after so many steps in a row without a gain


@dataclass
class RankOneState:
    """All that changes during a fit."""

    rng: np.random.Generator
    first: float  # readings of X before this fit
    read: Readings  # readings of X so far; the problem's own
    here: Here
    atoms: Atoms  # of the next step
    basis: NDArray[Any]  # (d, s), orthonormal; spans the u of the atoms, and more during a step
    Z: Array  # (n, s) X basis, where the rows are
    length: float  # of a step along new atoms
    curvature: Classwise | None  # of the rows; if None, atoms do not turn
    found: SingularVectors | None = None
    penalties: tuple[float, float] | None = None  # to which the following values belong
    dual: float = 0.0  # the best lower bound on the optimum so far
    idle: int = 0  # number of steps in a row that gained nothing
    stretch: bool = False  # can these atoms be adapted to the last change of penalties?
    fine: bool = False  # do gradients need more than one product with rows in half precision?

    @property
    def stalled(self) -> bool:
        """Does rounding allow no further step?"""
        return self.idle >= IDLE


@dataclass(frozen=True)
class RankOne(Solver[RankOneState]):
    """A multinomial problem with both penalties, solved to a gap of tol times the objective.

    With `epsilon`, it is solved to the paper's conditions instead.  `start` and `curvature` may
    come from another fit.  A state can be continued with other penalties; with `stretches`, the
    first step after a change of lambda2 alone only adapts the existing atoms.
    """

    problem: Multinomial
    tol: float
    lambda1: float = np.inf  # inf: W = 0
    lambda2: float = 0.0
    epsilon: float | None = None
    pairs: int = PAIRS
    turn: bool = True
    start: Factors | None = None
    curvature: Classwise | None = None
    stretches: bool = False

    made_of: ClassVar[tuple[type, ...]] = (
        RankOneState,
        Readings,
        Here,
        Factors,
        Costs,
        Atoms,
        Classwise,
        SingularVectors,
    )

    # -- the contract ----------------------------------------------------------------------------

    def init(self, rng: np.random.Generator) -> RankOneState:
        """The state at `start`, or at W = 0; reads X."""
        problem, start, first = self.problem, self.start, self.problem.passes
        C, d, dtype = problem.n_classes, problem.rows.shape[1], problem.rows.dtype
        curvature = None
        if self.turn:
            curvature = self.curvature or Classwise.of_problem(problem, rng)
        if start is None:
            empty = np.zeros((d, 0), dtype), np.zeros(0), np.zeros((C, 0), dtype)
            start = Factors(*empty, to_numpy(problem.start()[:, -1]).astype(np.float64))
        Z = zeros((problem.rows.shape[0], 0), problem.sizes, dtype)
        if len(start.theta):
            Z = self.problem.examples.times(start.U)
        # the curvature of R is at most half the rows' mean square
        length = 2.0 / max(problem.squares, float(np.finfo(np.float32).tiny))
        here = look(problem, Z, start)
        atoms, read = as_atoms(start), problem.examples.read
        return RankOneState(rng, first, read, here, atoms, start.U, Z, length, curvature)

    def step(self, state: RankOneState) -> Record:
        """One step; if the penalties are new, only evaluate them, which does not read X."""
        if state.penalties != (self.lambda1, self.lambda2):
            self._enter(state)
        elif state.stretch:
            state.stretch = False
            self.stretch(state)
        else:
            self.descend(state)
        return {
            "passes": float(self.problem.passes - state.first),
            "objective": self.objective(state),
            "gap": self.gap(state),
            "rank": float(len(state.here.at.theta)),
        }

    def finished(self, state: RankOneState) -> bool:
        entered = state.penalties == (self.lambda1, self.lambda2)
        return entered and (state.stalled or self.proved(state))

    def solution(self, state: RankOneState) -> Linear:
        at = state.here.at
        return one_row(at.W, raw_intercepts(self.problem, at))

    def proved(self, state: RankOneState) -> bool:
        """Is the goal reached: a proved gap, or the paper's conditions?"""
        if self.epsilon is not None:
            return self.optimal(state, self.epsilon)
        return self.gap(state) <= self.tol * self.objective(state)

    def _enter(self, state: RankOneState) -> None:
        """Continue with these penalties; does not read X."""
        # another lambda2 only rescales the atoms; another lambda1 requires more of them
        same = state.penalties is not None and state.penalties[0] == self.lambda1
        turns = state.curvature is not None and len(state.here.at.theta) > 0
        state.stretch = self.stretches and same and turns
        state.penalties = self.lambda1, self.lambda2
        state.dual, state.idle = 0.0, 0
        self._prove(state)

    # -- one point -------------------------------------------------------------------------------

    def objective(self, state: RankOneState) -> float:
        """J, eq. (4)."""
        return self._objective_of(state.here)

    def surrogate(self, state: RankOneState) -> float:
        """I, eq. (7): larger than J if the atoms are not the singular triplets of their sum."""
        beyond = state.atoms.theta.sum() - state.here.at.theta.sum()
        return self.objective(state) + self.lambda1 * float(beyond)

    def _objective_of(self, here: Here) -> float:
        theta = here.at.theta
        return float(here.risk + self.lambda1 * theta.sum() + self.lambda2 * (theta @ theta))

    def _prove(self, state: RankOneState) -> None:
        """Raise the lower bound on the optimum to what the gradient at this point proves."""
        here = state.here
        state.dual = max(state.dual, self._objective_of(here) - self._gap_of(here, here.cost))

    def _gap_of(self, here: Here, cost: Costs) -> float:
        inner = float(np.einsum("cr,cr->", here.at.A, here.G @ here.at.U, dtype=np.float64))
        penalties = self.lambda1, self.lambda2
        return duality_gap(here.risk, here.at, inner, here.sigma, *penalties, cost)

    def _prove_widely(self, state: RankOneState, Z: Array, goal: float) -> None:
        """The same proof in finer arithmetic, while only rounding prevents it; Z = X U.

        That is float64, which reads X twice; halves have more pieces first, which reads it once.
        """
        here, problem = state.here, self.at_work(state)
        while problem.rows.dtype != np.float64 and self.gap(state) > goal:
            if not (state.stalled or self._gap_of(here, here.exact) <= goal):
                return
            at, problem, before = here.at, problem.widened(), problem.rows.dtype
            dtype = problem.rows.dtype
            at = at._replace(U=at.U.astype(dtype), V=at.V.astype(dtype))
            Z = Z if dtype == before else problem.examples.times(at.U)
            here = look(problem, Z, at)
            proved = self._objective_of(here) - self._gap_of(here, here.cost)
            state.dual = max(state.dual, proved - state.here.cost.own)

    def at_work(self, state: RankOneState) -> Multinomial:
        """The problem in the arithmetic in which gradients are computed."""
        return self.problem.widened() if state.fine else self.problem

    def _downhill(self, state: RankOneState) -> NDArray[Any]:
        """-∇R~, (C, d)."""
        W = state.here.at.W
        return -(state.here.G + W.dtype.type(2.0 * self.lambda2) * W)

    def gap(self, state: RankOneState) -> float:
        """J is at most this much above its minimum."""
        return max(0.0, self.objective(state) - state.dual)

    def optimal(self, state: RankOneState, epsilon: float) -> bool:
        """(C1) and (C2): no slope along an atom, new or old, exceeds epsilon.

        (C1) is tested with the true spectral norm, which a Krylov space only bounds from below.  In
        the paper, step 3 comes before the stopping condition: it steps as long as g <= -epsilon/2.
        """
        N, atoms = self._downhill(state), state.atoms
        along = np.einsum("cr,cr->r", atoms.V, N @ state.basis @ atoms.M, dtype=np.float64)
        slopes = self.lambda1 - along  # of (7): lambda1 + <∇R~, u_j v_jᵀ>
        if np.abs(slopes).max(initial=0.0) > epsilon:
            return False
        beyond = epsilon / 2.0 if state.curvature is None else epsilon
        return bool(singular_values(N)[0] <= self.lambda1 + beyond)

    # -- one step --------------------------------------------------------------------------------

    def descend(self, state: RankOneState) -> None:
        """Steps 1 to 6, then an evaluation of the new point, which reads X."""
        N = self._downhill(state)
        new = self._pairs(state, N)
        atoms = self._with_atoms(state, new, self._towards(state, N))
        subspace, b = self._subspace(state), state.here.at.b
        theta, taken = subspace.line_search(atoms, b, new.sigma - self.lambda1, state.length)
        state.length = taken or state.length
        atoms = atoms._replace(theta=theta)
        if state.curvature is None:
            atoms, b = subspace.restricted(atoms, b, INNER, self.epsilon)
            self._arrive(state, subspace, atoms.weighed(atoms.theta), b, atoms)
        else:
            atoms, b = subspace.restricted(atoms, b, FEW)
            A, b = subspace.turned(atoms, b, state.here.a, self._goal(state))
            self._arrive(state, subspace, A, b)

    def stretch(self, state: RankOneState) -> None:
        """Step 5 alone, within the span of the existing atoms: one reading of X and little work.

        It is used after a change of penalties to which these atoms can be adapted.
        """
        subspace = self._subspace(state)
        A, b = subspace.turned(state.atoms, state.here.at.b, state.here.a, self._goal(state))
        self._arrive(state, subspace, A, b)

    def _subspace(self, state: RankOneState) -> Subspace:
        return Subspace(inner_problem(self.problem, state.Z), self.lambda1, self.lambda2)

    def _goal(self, state: RankOneState) -> float:
        """The gap at which the work in a subspace stops."""
        return max(SHARE * self.gap(state), TIGHTER * self.tol * self.objective(state))

    def _arrive(
        self,
        state: RankOneState,
        subspace: Subspace,
        A: NDArray[Any],
        b: NDArray[np.float64],
        atoms: Atoms | None = None,
    ) -> None:
        """Step 6, then an evaluation of the new point, which reads X.

        The next step starts from `atoms` if given, else from the triplets.
        """
        before, dual = self.surrogate(state), state.dual
        allowed = SLIGHT * self.tol * self.objective(state) if self.epsilon is None else 0.0
        V, theta, Mt = subspace.triplets(A, b, self.objective(state), allowed)
        turn = np.ascontiguousarray(Mt.T, state.basis.dtype)
        U, Z = state.basis @ turn, state.Z @ like(turn, state.Z)
        at = Factors(U, theta, V.astype(state.basis.dtype), b)
        if atoms is None:
            state.atoms, state.basis, state.Z = as_atoms(at), U, Z
        else:
            self._go_on_with(state, atoms)
        state.here = look(self.at_work(state), Z, at)
        self._prove(state)
        goal = self.tol * self.objective(state)
        if self.epsilon is None and self.gap(state) > goal:
            self._prove_widely(state, Z, goal)
        noise = NOISE[self.problem.rows.dtype.char] * abs(before)
        gained = max(before - self.surrogate(state), state.dual - dual)
        state.idle = 0 if gained > noise else state.idle + 1
        if state.idle and not state.fine and self.problem.halved:
            state.fine, state.idle = True, 0
        if state.stalled and self.epsilon is None:
            self._prove_widely(state, Z, goal)

    def _go_on_with(self, state: RankOneState, atoms: Atoms) -> None:
        """Keep the atoms that have a weight, in a basis no larger than they need."""
        kept = atoms.theta > 0.0
        M, V, theta = atoms.M[:, kept], atoms.V[:, kept], atoms.theta[kept]
        if M.shape[1] < M.shape[0]:
            Q, M = np.linalg.qr(M)
            state.basis, state.Z = state.basis @ Q, state.Z @ like(Q, state.Z)
        state.atoms = Atoms(M, V, theta)

    def _pairs(self, state: RankOneState, N: NDArray[Any]) -> SingularVectors:
        """Step 1: the leading pairs along which the objective decreases."""
        accuracy = RELATIVE * self.lambda1 if self.epsilon is None else self.epsilon / 2.0
        before = None if state.found is None else state.found.V
        state.found = top_singular_vectors(N, self.pairs, before, accuracy, state.rng)
        worth = 0.0 if self.epsilon is None else self.epsilon / 2.0  # step 3's g <= -epsilon/2
        better = state.found.sigma > self.lambda1 + worth
        sigma, V, U = state.found
        return SingularVectors(sigma[better], V[:, better], U[:, better])

    def _with_atoms(
        self, state: RankOneState, new: SingularVectors, towards: NDArray[Any]
    ) -> Atoms:
        """The existing atoms and the new ones; `new` and `towards` are added to the basis.

        X is read for the new directions of the basis.
        """
        atoms = state.atoms
        (s, r), k = atoms.M.shape, len(new.sigma)
        wanted = np.hstack([new.U, towards])
        directions = beside(wanted, state.basis)
        if directions.shape[1]:
            state.basis = np.hstack([state.basis, directions])
            more = self.problem.examples.times(directions)
            state.Z = namespace(more).concat([state.Z, more], axis=1)
        M = np.zeros((state.basis.shape[1], r + k), state.basis.dtype)
        M[:s, :r] = atoms.M
        M[:, r:] = state.basis.T @ new.U
        return Atoms(M, np.hstack([atoms.V, new.V]), np.concatenate([atoms.theta, np.zeros(k)]))

    def _towards(self, state: RankOneState, N: NDArray[Any]) -> NDArray[Any]:
        """Newton's directions for the u of the atoms, (d, r)."""
        at, dtype = state.here.at, state.basis.dtype
        if state.curvature is None or len(at.theta) == 0:
            return np.zeros((len(state.basis), 0), dtype)
        residual = N.T @ at.V - dtype.type(self.lambda1) * at.U
        c = state.here.a @ at.V.astype(np.float64) ** 2
        ridge = self.lambda1 / at.theta + 2.0 * self.lambda2
        known = state.curvature
        P, e, rest = to_numpy(known.P), to_numpy(known.s), known.rest
        inside = P.T @ residual
        outside = (1.0 / (c * rest + ridge)).astype(dtype)
        scaled = inside * (1.0 / (np.outer(e, c) + ridge)).astype(dtype) - inside * outside
        return residual * outside + P @ scaled


def lambda1_max(state: RankOneState) -> float:
    """‖∇R(0)‖, the largest singular value of the gradient at W = 0, where a fit begins."""
    return float(state.here.sigma[0])


def as_atoms(at: Factors) -> Atoms:
    """The singular triplets as atoms, in the basis of their own u."""
    return Atoms(np.eye(len(at.theta), dtype=at.U.dtype), at.V, at.theta)


def beside(U: NDArray[Any], basis: NDArray[Any]) -> NDArray[Any]:
    """An orthonormal basis of the part of the columns of U that is outside the span of `basis`."""
    size = np.linalg.norm(U, axis=0)
    return orthonormal(
        U[:, size > 0] / size[size > 0], basis, float(np.sqrt(np.finfo(U.dtype).eps))
    )
