"""R1D, rank-one descent for the trace norm (004, Algorithm 4.1), in factored form.

    1  top singular pairs u_j v_jᵀ of -∇R~, R~ = R + lambda2 ‖W‖²     X is read     (lanczos.py)
    2  g = lambda1 - sigma_1, the steepest slope of (7)
    3  if g < 0: line search (Armijo) along the pairs with sigma_j > lambda1; X u_j is kept
    4  the restricted problem (8): the atoms' weights by L-BFGS-B, theta >= 0
    5  the atoms turn, within a small subspace
    6  W diagonalised again: Σ theta = ‖W‖_*, atoms without weight are gone

until the duality gap is small enough (problem/tracenorm.py), or (C1) and (C2) hold at epsilon.
Steps 3 to 6 work on Z = X B for a basis B of the u_j and read no row of X.

`pairs=1, turn=False` is the paper's algorithm, steps 1 to 4 with (8) solved in each (its "regular
basis").  The list of atoms goes on from step to step, as (8) needs it: step 6 then shows W as its
singular triplets, for the objective and the proof, and takes no atom out of the list; those leave
whose weight (8) puts at 0.

The rest is ours.  All pairs that a reading of X has shown to be worth it are taken at once, which
saves readings of X, and these are what costs.  And step 5 (with it, step 4 is a few iterations, and
the triplets of step 6 are the atoms of the next step): (8) can weigh atoms but not turn them, and a
turned atom must be found by step 1 and approached by many small weights.  Write W = Q (B P)ᵀ.  As
2 ‖W‖_* = min ‖P‖² + ‖Q‖² over all such factors (Proposition 1, with the weights shared between the
sides), J is minimised over P and Q by L-BFGS on

    R(Q (B P)ᵀ) + lambda2 ‖Q Pᵀ‖² + lambda1/2 (‖P‖² + ‖Q‖²)

which is smooth.  It is not convex, but it never goes up, and what it cannot see step 1 finds.
The basis B holds, beside the atoms, what they want to turn to: Newton's direction for the atom's u,
its v and the others held, (c_j Σ + (lambda1/theta_j + 2 lambda2) I)⁻¹ (-∇R~ᵀ v_j - lambda1 u_j),
Σ being the rows' covariance (curvature/classwise.py) and c_j = v_jᵀ diag(a) v_j.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..curvature.classwise import Classwise
from ..problem import Multinomial, Point
from ..problem.intercepts import newton_step
from ..problem.tracenorm import Costs, Factors, costs, duality_gap, risk_gradient, singular_values
from ..rows import DenseRows
from .atoms import FEW, INNER, Atoms, Subspace
from .lanczos import SingularVectors, top_singular_vectors
from .newton import look_at

PAIRS = 32  # taken at a time
RELATIVE = 1e-2  # accuracy of sigma_1 beside lambda1, where epsilon does not say
SHARE = 0.03  # of the gap: the accuracy of step 5,
TIGHTER = 0.3  # or this share of what is asked for
SLIGHT = 1e-2  # of what is asked for: what W may lose with its least singular values
NOISE = {"f": 1e-6, "d": 1e-13}  # of the objective: less is no gain
IDLE = 5  # steps without a gain, and it is over
NEWTON_STEPS = 4  # of the intercepts alone, before a proof


class Here(NamedTuple):
    """What one reading of X tells about a point; nothing of it depends on the penalties."""

    at: Factors
    risk: float
    G: NDArray[Any]  # (C, d) the risk's gradient, centred
    sigma: NDArray[np.float64]  # its singular values
    a: NDArray[np.float64]  # (C,) Σ w p (1 - p), the classes' curvature
    cost: Costs
    exact: Costs  # the same if arithmetic were exact


class RankOne:
    """The state of a fit; the penalties may change on the way (a path)."""

    def __init__(
        self,
        problem: Multinomial,
        rng: np.random.Generator,
        pairs: int = PAIRS,
        turn: bool = True,
        start: Factors | None = None,
        curvature: Classwise | None = None,
    ) -> None:
        self.problem, self.rng, self.n_pairs = problem, rng, pairs
        self.curvature = None  # of the rows; without it atoms do not turn
        if turn:
            self.curvature = curvature or look_at(problem, rng)
        C, d, dtype = problem.n_classes, problem.rows.shape[1], problem.rows.dtype
        if start is None:
            empty = np.zeros((d, 0), dtype), np.zeros(0), np.zeros((C, 0), dtype)
            start = Factors(*empty, problem.start()[:, -1].astype(np.float64))
        self.atoms = as_atoms(start)  # that the next step weighs
        self.basis = start.U  # (d, s), orthonormal; spans the atoms' u, and during a step more
        self.Z = np.zeros((problem.rows.shape[0], 0), dtype)  # X basis
        if len(start.theta):
            self.Z = self._products(start.U)
        self.found: SingularVectors | None = None
        # of a step along new atoms: the curvature of R is at most half the rows' mean square
        self.length = 2.0 / max(problem.squares, float(np.finfo(np.float32).tiny))
        self.here = look(problem, self.Z, start)

    # -- one point -------------------------------------------------------------------------------

    def set_penalties(self, lambda1: float, lambda2: float, epsilon: float | None = None) -> None:
        """Go on under these; costs no reading of X."""
        self.lambda1, self.lambda2, self.epsilon = lambda1, lambda2, epsilon
        self.dual = 0.0  # the best lower bound on the optimum seen
        self.idle = 0  # steps in a row that gained nothing
        self._prove()

    @property
    def objective(self) -> float:
        """J, eq. (4)."""
        return self._objective_of(self.here)

    @property
    def surrogate(self) -> float:
        """I, eq. (7): above J where the atoms are not the singular triplets of their sum."""
        beyond = self.atoms.theta.sum() - self.here.at.theta.sum()
        return self.objective + self.lambda1 * float(beyond)

    def _objective_of(self, here: Here) -> float:
        theta = here.at.theta
        return float(here.risk + self.lambda1 * theta.sum() + self.lambda2 * (theta @ theta))

    def _prove(self) -> None:
        """A lower bound on the optimum, from this point's gradient."""
        self.dual = max(self.dual, self.objective - self._gap_of(self.here, self.here.cost))

    def _gap_of(self, here: Here, cost: Costs) -> float:
        inner = float(np.einsum("cr,cr->", here.at.A, here.G @ here.at.U, dtype=np.float64))
        penalties = self.lambda1, self.lambda2
        return duality_gap(here.risk, here.at, inner, here.sigma, *penalties, cost)

    def _prove_widely(self, goal: float) -> None:
        """The same proof in float64, where nothing but rounding is in the way: X is read twice."""
        if self.Z.dtype == np.float64 or not self._gap_of(self.here, self.here.exact) <= goal:
            return
        at, wide = self.here.at, self.problem.widened()
        U, V = at.U.astype(np.float64), at.V.astype(np.float64)
        here = look(wide, wide.rows.matmat(U), Factors(U, at.theta, V, at.b))
        self.problem.passes += 2
        proved = self._objective_of(here) - self._gap_of(here, here.cost)
        self.dual = max(self.dual, proved - self.here.cost.own)

    def _downhill(self) -> NDArray[Any]:
        """-∇R~, (C, d)."""
        W = self.here.at.W
        return -(self.here.G + W.dtype.type(2.0 * self.lambda2) * W)

    @property
    def gap(self) -> float:
        """J is at most this much above its minimum."""
        return max(0.0, self.objective - self.dual)

    @property
    def stalled(self) -> bool:
        """Does the arithmetic allow no further step?"""
        return self.idle >= IDLE

    def optimal(self, epsilon: float) -> bool:
        """(C1) and (C2): no slope along an atom, new or old, exceeds epsilon.

        (C1) is asked of the true spectral norm, which a Krylov space only bounds from below.  The
        paper's step 3 comes before its stopping condition: it steps as long as g <= -epsilon/2.
        """
        N, atoms = self._downhill(), self.atoms
        along = np.einsum("cr,cr->r", atoms.V, N @ self.basis @ atoms.M, dtype=np.float64)
        slopes = self.lambda1 - along  # of (7): lambda1 + <∇R~, u_j v_jᵀ>
        if np.abs(slopes).max(initial=0.0) > epsilon:
            return False
        beyond = epsilon / 2.0 if self.curvature is None else epsilon
        return bool(singular_values(N)[0] <= self.lambda1 + beyond)

    # -- one step --------------------------------------------------------------------------------

    def step(self, tol: float) -> None:
        """Steps 1 to 6, and the reading of X that shows where they led."""
        N = self._downhill()
        new = self._pairs(N)
        atoms = self._with_atoms(new, self._towards(N))
        subspace, b = self._subspace(), self.here.at.b
        theta, taken = subspace.line_search(atoms, b, new.sigma - self.lambda1, self.length)
        self.length = taken or self.length
        atoms = atoms._replace(theta=theta)
        if self.curvature is None:
            atoms, b = subspace.restricted(atoms, b, INNER, self.epsilon)
            self._arrive(subspace, atoms.weighed(atoms.theta), b, tol, atoms)
        else:
            atoms, b = subspace.restricted(atoms, b, FEW)
            A, b = subspace.turned(atoms, b, self.here.a, self._goal(tol))
            self._arrive(subspace, A, b, tol)

    def stretch(self, tol: float) -> None:
        """Step 5 alone, within the span of the atoms there are: one reading of X and little work.

        For when the penalties have changed in a way that these atoms can follow.
        """
        subspace = self._subspace()
        A, b = subspace.turned(self.atoms, self.here.at.b, self.here.a, self._goal(tol))
        self._arrive(subspace, A, b, tol)

    def _subspace(self) -> Subspace:
        return Subspace(inner_problem(self.problem, self.Z), self.lambda1, self.lambda2)

    def _goal(self, tol: float) -> float:
        """The gap at which a subspace has given what it can."""
        return max(SHARE * self.gap, TIGHTER * tol * self.objective)

    def _arrive(
        self,
        subspace: Subspace,
        A: NDArray[Any],
        b: NDArray[np.float64],
        tol: float,
        atoms: Atoms | None = None,
    ) -> None:
        """Step 6 at the end of a step, and what X says there; atoms that are given go on."""
        before, dual = self.surrogate, self.dual
        allowed = SLIGHT * tol * self.objective if self.epsilon is None else 0.0
        V, theta, Mt = subspace.triplets(A, b, self.objective, allowed)
        turn = np.ascontiguousarray(Mt.T, self.basis.dtype)
        U, Z = self.basis @ turn, self.Z @ turn
        at = Factors(U, theta, V.astype(self.basis.dtype), b)
        if atoms is None:
            self.atoms, self.basis, self.Z = as_atoms(at), U, Z
        else:
            self._go_on_with(atoms)
        self.here = look(self.problem, Z, at)
        self._prove()
        goal = tol * self.objective
        if self.epsilon is None and self.gap > goal:
            self._prove_widely(goal)
        noise = NOISE[self.Z.dtype.char] * abs(before)
        gained = max(before - self.surrogate, self.dual - dual)
        self.idle = 0 if gained > noise else self.idle + 1

    def _go_on_with(self, atoms: Atoms) -> None:
        """Atoms that have a weight, in a basis that is no larger than they need."""
        kept = atoms.theta > 0.0
        M, V, theta = atoms.M[:, kept], atoms.V[:, kept], atoms.theta[kept]
        if M.shape[1] < M.shape[0]:
            Q, M = np.linalg.qr(M)
            self.basis, self.Z = self.basis @ Q, self.Z @ Q
        self.atoms = Atoms(M, V, theta)

    def _pairs(self, N: NDArray[Any]) -> SingularVectors:
        """The leading pairs along which the objective falls: step 1."""
        accuracy = RELATIVE * self.lambda1 if self.epsilon is None else self.epsilon / 2.0
        before = None if self.found is None else self.found.V
        self.found = top_singular_vectors(N, self.n_pairs, before, accuracy, self.rng)
        worth = 0.0 if self.epsilon is None else self.epsilon / 2.0  # step 3's g <= -epsilon/2
        better = self.found.sigma > self.lambda1 + worth
        sigma, V, U = self.found
        return SingularVectors(sigma[better], V[:, better], U[:, better])

    def _with_atoms(self, new: SingularVectors, towards: NDArray[Any]) -> Atoms:
        """The atoms there are and the new ones; the basis grows by these, and where they turn to.

        X is read for the new directions of the basis.
        """
        atoms = self.atoms
        (s, r), k = atoms.M.shape, len(new.sigma)
        wanted = np.hstack([new.U, towards])
        directions = beside(wanted, self.basis)
        if directions.shape[1]:
            self.basis = np.hstack([self.basis, directions])
            self.Z = np.hstack([self.Z, self._products(directions)])
        M = np.zeros((self.basis.shape[1], r + k), self.basis.dtype)
        M[:s, :r] = atoms.M
        M[:, r:] = self.basis.T @ new.U
        return Atoms(M, np.hstack([atoms.V, new.V]), np.concatenate([atoms.theta, np.zeros(k)]))

    def _towards(self, N: NDArray[Any]) -> NDArray[Any]:
        """Newton's directions for the atoms' u, (d, r)."""
        at, dtype = self.here.at, self.basis.dtype
        if self.curvature is None or len(at.theta) == 0:
            return np.zeros((len(self.basis), 0), dtype)
        residual = N.T @ at.V - dtype.type(self.lambda1) * at.U
        c = self.here.a @ at.V.astype(np.float64) ** 2
        ridge = self.lambda1 / at.theta + 2.0 * self.lambda2
        P, e, rest = self.curvature.P, self.curvature.s, self.curvature.rest
        inside = P.T @ residual
        outside = (1.0 / (c * rest + ridge)).astype(dtype)
        scaled = inside * (1.0 / (np.outer(e, c) + ridge)).astype(dtype) - inside * outside
        return residual * outside + P @ scaled

    def _products(self, U: NDArray[Any]) -> NDArray[Any]:
        self.problem.passes += 1
        return self.problem.rows.matmat(np.ascontiguousarray(U))


def as_atoms(at: Factors) -> Atoms:
    """The singular triplets as atoms, in the basis of their own u."""
    return Atoms(np.eye(len(at.theta), dtype=at.U.dtype), at.V, at.theta)


def look(problem: Multinomial, Z: NDArray[Any], at: Factors) -> Here:
    """The risk at the best intercepts, and its gradient: X is read once, Z = X U being known."""
    point = best_intercepts(inner_problem(problem, Z), at)
    at = at._replace(b=point.theta[:, -1].astype(np.float64))
    G, a = risk_gradient(problem, Z, at)
    sigma = singular_values(G)
    cost, exact = costs(problem, Z, at, point, sigma)
    return Here(at, point.objective, G, sigma, a, cost, exact)


def inner_problem(of: Multinomial, Z: NDArray[Any]) -> Multinomial:
    """The multinomial problem of the rows z_i."""
    inner = Multinomial(DenseRows(Z), of.y, of.w, of.n_classes, of.intercept)
    inner.sizes = of.sizes  # rounding is asked of the rows x_i
    return inner


def best_intercepts(inner: Multinomial, at: Factors) -> Point:
    """The point with the best intercepts for its W, by Newton steps that read Z only."""
    theta = np.column_stack([at.A, at.b]).astype(inner.rows.dtype)
    point = inner.at(theta, 0.0, second=inner.intercept)
    for _ in range(NEWTON_STEPS if inner.intercept else 0):
        assert point.A is not None
        trial = point.theta.copy()
        trial[:, -1] -= newton_step(point.A, point.g).astype(trial.dtype)
        moved = inner.at(trial, 0.0, second=True)
        if not moved.objective < point.objective:
            break
        point = moved
    return point


def beside(U: NDArray[Any], basis: NDArray[Any]) -> NDArray[Any]:
    """An orthonormal basis of what the columns of U have beside the basis."""
    size = np.linalg.norm(U, axis=0)
    U = U[:, size > 0] / size[size > 0]
    for _ in range(2):  # twice is enough
        U = U - basis @ (basis.T @ U)
    left, sizes, _ = np.linalg.svd(U, full_matrices=False)
    left = left[:, sizes > np.sqrt(np.finfo(U.dtype).eps)]
    left = left - basis @ (basis.T @ left)
    return np.linalg.qr(left)[0]
