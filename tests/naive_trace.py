"""The trace norm (seed 004) in float64 and full SVDs: slow, obvious, what the solver must equal.

The paper's shapes: W (d, k) has a column a class, an atom is u vᵀ.  Rows are X (n, d).
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from naive import softmax


class Problem(NamedTuple):
    """lambda1 ‖W‖_* + lambda2 ‖W‖² + Σ w_i loss_i (eq. 4), b free or 0."""

    X: np.ndarray
    y: np.ndarray
    w: np.ndarray
    lambda1: float
    lambda2: float
    intercept: bool = False

    @property
    def k(self):
        return int(self.y.max()) + 1

    def risk(self, W, b=0.0):
        S = self.X @ W + b
        S = S - S.max(axis=1, keepdims=True)
        return self.w @ (np.log(np.exp(S).sum(axis=1)) - S[np.arange(len(S)), self.y])

    def objective(self, W, b=0.0):
        penalty = self.lambda1 * trace_norm(W) + self.lambda2 * (W**2).sum()
        return penalty + self.risk(W, b)

    def errors(self, W, b=0.0):
        """w (p - e_y), (n, k)."""
        return self.w[:, None] * (softmax(self.X @ W + b) - np.eye(self.k)[self.y])

    def gradient(self, W, b=0.0):
        """∇R~(W), R~ = R + lambda2 ‖W‖² (eq. 6)."""
        return self.X.T @ self.errors(W, b) + 2 * self.lambda2 * W

    def constant(self):
        """The best b at W = 0: the classes' log shares, or 0."""
        if not self.intercept:
            return np.zeros(self.k)
        return np.log(np.bincount(self.y, self.w, self.k) / self.w.sum())

    def lambda1_max(self):
        return np.linalg.norm(
            self.gradient(np.zeros((self.X.shape[1], self.k)), self.constant()), 2
        )

    def entropy(self, W):
        P = softmax(self.X @ W)
        return -self.w @ (P * np.log(np.maximum(P, 1e-300))).sum(axis=1)


def blobs(n=90, d=6, C=4, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((C, d))
    y = rng.permutation(np.arange(n) % C)
    return centres[y] + rng.standard_normal((n, d)), y


def stated(X, y, share, lambda2=1e-3, intercept=False, weight=None):
    """The naive problem, lambda1 being a share of the largest that makes sense."""
    weight = np.ones(len(y)) if weight is None else weight
    w = weight / np.count_nonzero(weight)
    problem = Problem(np.float64(X), y, w, 0.0, lambda2, intercept)
    return problem._replace(lambda1=share * problem.lambda1_max())


PROBLEMS = {  # rows and classes, share of lambda1_max, lambda2
    "few classes": (*blobs(C=3), 0.1, 1e-3),
    "more classes than columns": (*blobs(n=150, d=5, C=12), 0.1, 1e-3),
    "more columns than rows": (*blobs(n=40, d=60), 0.1, 1e-3),
    "duplicate columns": (np.tile(blobs()[0], 2), blobs()[1], 0.1, 1e-3),
    "constant column": (np.column_stack([blobs()[0], np.full(90, 10.0)]), blobs()[1], 0.1, 1e-3),
    "binary": (*blobs(C=2), 0.1, 1e-3),
    "no squared norm": (*blobs(), 0.05, 0.0),
    "weak penalties": (*blobs(), 0.01, 1e-6),
}


def trace_norm(W):
    return np.linalg.svd(W, compute_uv=False).sum()


def fista(problem, steps=20_000, tol=1e-12):
    """(objective, W, b): proximal gradient, accelerated, begun anew where it turns uphill.

    Rows are centred where there is an intercept, whose column of ones is as long as the longest
    direction of X: the curvature is then at most half of lambda_max(Σ w x xᵀ) + 2 lambda2.
    """
    X, y, w, lambda1, lambda2, intercept = problem
    n, d = X.shape
    mean = w @ X / w.sum() if intercept else np.zeros(d)
    Z = X - mean
    largest = np.linalg.norm(Z * np.sqrt(w)[:, None], 2) ** 2
    L = largest / 2 + 2 * lambda2
    scale = np.sqrt(largest / w.sum())
    Z = np.column_stack([Z, np.full(n, scale)])
    Y = np.eye(problem.k)[y]
    ridge = np.append(np.full(d, 2 * lambda2), 0.0)[:, None]
    T = np.zeros((d + 1, problem.k))
    T[d] = problem.constant() / scale
    ahead, t = T, 1.0
    for _ in range(steps):
        gradient = Z.T @ (w[:, None] * (softmax(Z @ ahead) - Y)) + ridge * ahead
        if not intercept:
            gradient[d] = 0.0
        new = ahead - gradient / L
        u, s, vt = np.linalg.svd(new[:d], full_matrices=False)
        new[:d] = (u * np.maximum(s - lambda1 / L, 0.0)) @ vt
        if L * np.linalg.norm(new - ahead) <= tol:
            break
        if ((ahead - new) * (new - T)).sum() > 0:
            t = 1.0
        t_new = (1 + np.sqrt(1 + 4 * t**2)) / 2
        T, ahead, t = new, new + (t - 1) / t_new * (new - T), t_new
    W = new[:d]
    b = new[d] * scale - mean @ W if intercept else np.zeros(problem.k)
    return problem.objective(W, b), W, b


class Atoms(NamedTuple):
    """Weights theta (s,) and their atoms u_j v_jᵀ, the columns of U (d, s) and V (k, s)."""

    theta: np.ndarray
    U: np.ndarray
    V: np.ndarray

    @property
    def W(self):
        """W_theta (eq. 5)."""
        return (self.U * self.theta) @ self.V.T


def algorithm_4_1(problem, epsilon, every=1, steps=2000, watch=lambda atoms: None):
    """Algorithm 4.1 from W = 0; (8) is solved in step 4 and "on a regular basis" after steps 3.

    `watch` sees the atoms at the start and after each step.
    """
    d, k = problem.X.shape[1], problem.k
    atoms = Atoms(np.zeros(0), np.zeros((d, 0)), np.zeros((k, 0)))
    for t in range(steps):
        watch(atoms)
        gradient = problem.gradient(atoms.W)
        u, sigma, vt = np.linalg.svd(-gradient)  # 1
        g = problem.lambda1 - sigma[0]  # 2
        if g <= -epsilon / 2:  # 3
            U, V = np.column_stack([atoms.U, u[:, 0]]), np.column_stack([atoms.V, vt[0]])
            atoms = line_search(problem, Atoms(np.append(atoms.theta, 0.0), U, V), g)
            if (t + 1) % every:
                continue
        elif np.abs(slopes(problem, atoms)).max(initial=0.0) <= epsilon:  # 4: (C2), and (C1) holds
            return atoms
        theta = restricted(problem, atoms, epsilon)
        atoms = Atoms(theta[theta > 0], atoms.U[:, theta > 0], atoms.V[:, theta > 0])
    raise AssertionError(f"no epsilon-optimal point after {steps} steps")


def surrogate(problem, atoms):
    """I(theta) (eq. 7)."""
    penalty = problem.lambda1 * atoms.theta.sum() + problem.lambda2 * (atoms.W**2).sum()
    return penalty + problem.risk(atoms.W)


def slopes(problem, atoms):
    """∂I/∂theta_j = lambda1 + <∇R~, u_j v_jᵀ>."""
    along = np.einsum("ds,ds->s", atoms.U, problem.gradient(atoms.W) @ atoms.V)
    return problem.lambda1 + along


def line_search(problem, atoms, g):
    """The newest atom's weight by Armijo's rule, from 1 on."""
    before, delta = surrogate(problem, atoms), 1.0
    while True:
        theta = atoms.theta.copy()
        theta[-1] = delta
        if surrogate(problem, atoms._replace(theta=theta)) <= before + 1e-4 * delta * g:
            return atoms._replace(theta=theta)
        delta /= 2


def restricted(problem, atoms, epsilon):
    """theta of (8), by L-BFGS-B."""

    def value(theta):
        there = atoms._replace(theta=theta)
        return surrogate(problem, there), slopes(problem, there)

    options = {"gtol": epsilon / 4, "ftol": 0.0, "maxiter": 1000}
    bounds = [(0, None)] * len(atoms.theta)
    return minimize(
        value, atoms.theta, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    ).x


def gap(problem, W):
    """The Fenchel gap at q = p (lambda2 > 0), or at q = (1 - a) e_y + a p scaled into the ball."""
    G = problem.X.T @ problem.errors(W)
    sigma = np.linalg.svd(G, compute_uv=False)
    if problem.lambda2 > 0:
        beyond = np.maximum(sigma - problem.lambda1, 0)
        penalty = problem.lambda1 * trace_norm(W) + problem.lambda2 * (W**2).sum()
        return (G * W).sum() + penalty + (beyond**2).sum() / (4 * problem.lambda2)
    a = min(1.0, problem.lambda1 / sigma[0])
    return problem.objective(W) - a * problem.entropy(W)
