"""The duals of the multi-class SVM, line by line: the practical's five algorithms, and LaRank."""

import numpy as np

# -- Frank-Wolfe (seed 003, §5) ------------------------------------------------------------------


def joint_features(X, y, C, mu):
    """A (C d, n C) and b (n C), as the sheet defines them."""
    n, d = X.shape
    A, b = np.zeros((C * d, n * C)), np.zeros(n * C)
    for i in range(n):
        for k in range(C):
            column = np.zeros((C, d))
            column[y[i]] += X[i]
            column[k] -= X[i]
            A[:, i * C + k] = column.ravel() / (mu * n)
            b[i * C + k] = (k != y[i]) / n
    return A, b


def start(y, C):
    """The feasible α with w = 0 and l = 0: all weight on the true class."""
    return np.eye(C)[y].ravel()


def corner(g, y, C):
    """argmax of sᵀg over the simplices; of equals the true class, then the first."""
    s = np.zeros_like(g)
    for i in range(len(y)):
        mine = g[i * C : (i + 1) * C]
        best = y[i]
        for k in range(C):
            if mine[k] > mine[best]:
                best = k
        s[i * C + best] = 1.0
    return s


def step_size(numerator, denominator):
    if denominator > 0:
        return min(1.0, max(0.0, numerator / denominator))
    return 1.0 if numerator > 0 else 0.0


def conditional_gradient(X, y, C, mu, steps):
    """Algorithm 1 on the whole α (argmax where the sheet prints argmin)."""
    A, b = joint_features(X, y, C, mu)
    alpha = start(y, C)
    for _ in range(steps):
        g = -mu * A.T @ (A @ alpha) + b
        s = corner(g, y, C)
        move = s - alpha
        gamma = step_size(move @ g, mu * np.sum((A @ move) ** 2))
        alpha = (1 - gamma) * alpha + gamma * s
    return (A @ alpha).reshape(C, -1), b @ alpha


def block_conditional_gradient(X, y, C, mu, order):
    """Algorithm 2: γ by the closed form of f along one block (argmax where it prints argmin)."""
    A, b = joint_features(X, y, C, mu)
    alpha = start(y, C)
    for i in order:
        mine = slice(i * C, (i + 1) * C)
        g = (-mu * A.T @ (A @ alpha) + b)[mine]
        s = alpha.copy()
        s[mine] = corner(g, y[i : i + 1], C)

        def f(a):
            return -mu / 2 * np.sum((A @ a) ** 2) + b @ a

        # f is a parabola in γ: three values give its top
        f0, f1, half = f(alpha), f(s), f(0.5 * (alpha + s))
        bend = 2 * (f0 + f1 - 2 * half)
        gamma = step_size(f1 - f0 - bend, -2 * bend)
        alpha = (1 - gamma) * alpha + gamma * s
    return (A @ alpha).reshape(C, -1), b @ alpha


def block_conditional_gradient_svm(X, y, C, mu, order):
    """Algorithm 3."""
    A, b = joint_features(X, y, C, mu)
    alpha = start(y, C)
    for i in order:
        mine = slice(i * C, (i + 1) * C)
        A_i, b_i = A[:, mine], b[mine]
        s = corner(-mu * A_i.T @ (A @ alpha) + b_i, y[i : i + 1], C)
        move = A_i @ s - A_i @ alpha[mine]
        numerator = -mu * move @ (A @ alpha) + b_i @ s - b_i @ alpha[mine]
        gamma = step_size(numerator, mu * np.sum(move**2))
        alpha[mine] = (1 - gamma) * alpha[mine] + gamma * s
    return (A @ alpha).reshape(C, -1), b @ alpha


def primal_dual(X, y, C, mu, blocks, average=False, weight=None):
    """Algorithm 5 (Algorithm 4 where every block is one example), w_j and l_j kept in full.

    `blocks` is the sequence of blocks visited, tuples of examples; returns (w, l), averaged with
    ρ = 2/(t+2) where asked for, and the gap's sum over the blocks is left to the caller.
    """
    n, d = X.shape
    weight = np.ones(n) if weight is None else weight
    w, length = np.zeros((C, d)), 0.0
    w_of, l_of = {}, {}
    w_mean, l_mean = np.zeros((C, d)), 0.0
    for t, block in enumerate(blocks):
        w_s, l_s = np.zeros((C, d)), 0.0
        for i in block:  # lines 1, 2
            worst, k = 0.0, y[i]
            for c in range(C):
                if c != y[i] and w[c] @ X[i] + 1 - w[y[i]] @ X[i] > worst:
                    worst, k = w[c] @ X[i] + 1 - w[y[i]] @ X[i], c
            w_s[y[i]] += weight[i] * X[i] / (mu * n)
            w_s[k] -= weight[i] * X[i] / (mu * n)
            l_s += weight[i] * (k != y[i]) / n
        w_j, l_j = w_of.get(block, np.zeros((C, d))), l_of.get(block, 0.0)
        numerator = -mu * np.sum((w_s - w_j) * w) + l_s - l_j
        gamma = step_size(numerator, mu * np.sum((w_s - w_j) ** 2))  # line 3
        w_of[block] = (1 - gamma) * w_j + gamma * w_s  # line 4
        l_of[block] = (1 - gamma) * l_j + gamma * l_s
        w = w + w_of[block] - w_j  # line 6
        length = length + l_of[block] - l_j
        rho = 2 / (t + 2)
        w_mean = (1 - rho) * w_mean + rho * w
        l_mean = (1 - rho) * l_mean + rho * length
    return (w_mean, l_mean) if average else (w, length)


# -- LaRank (seed 002, Part I) -------------------------------------------------------------------

PROCESS, REPROCESS, OPTIMIZE = range(3)


class LaRank:
    """Crammer-Singer, β in full; `draws` are the random numbers, used one by one."""

    def __init__(self, X, y, C, U, tau, kappa, inner, skip_bound):
        self.X, self.y, self.C, self.U = X, y, C, U
        self.tau, self.kappa, self.inner, self.skip_bound = tau, kappa, inner, skip_bound
        self.beta = np.zeros((len(X), C))
        self.W = np.zeros((C, X.shape[1]))
        self.listed = []
        self.moves = 0

    def improve(self, i, classes):
        """The moves on example i over these classes; (gain, new β, how many)."""
        x, y, U = self.X[i], self.y[i], self.U[i]
        beta, s, sq = self.beta[i].copy(), self.W @ x, x @ x
        gain, moves = 0.0, 0
        while moves < self.inner:
            g = (np.arange(self.C) == y) - s
            bound = np.where(np.arange(self.C) == y, U, 0.0)
            able = [k for k in classes if bound[k] - beta[k] > self.kappa * U]
            if not able:
                break
            up, down = first_largest(g, able), first_largest(-g, classes)
            if g[up] - g[down] <= self.tau:
                break
            room = bound[up] - beta[up]
            step = room if sq == 0 else min((g[up] - g[down]) / (2 * sq), room)
            beta[up] = bound[up] if step == room else beta[up] + step
            beta[down] -= step
            s[up] += step * sq
            s[down] -= step * sq
            gain += step * (g[up] - g[down]) - step**2 * sq
            moves += 1
        return gain, beta, moves

    def visit(self, i, kind):
        """(gain, operations)."""
        classes = np.flatnonzero(self.beta[i]) if kind == OPTIMIZE else np.arange(self.C)
        gain, beta, moves = self.improve(i, classes)
        touched = int((beta != self.beta[i]).sum())
        self.W += np.outer(beta - self.beta[i], self.X[i])
        self.beta[i] = beta
        self.moves += moves
        if moves:
            corner = all(b in (0.0, self.U[i], -self.U[i]) for b in beta)
            support = beta.any() and not (self.skip_bound and corner)
            if support and i not in self.listed:
                self.listed.append(i)
            elif not support and i in self.listed:
                place, last = self.listed.index(i), self.listed.pop()
                if last != i:
                    self.listed[place] = last
        return gain, len(classes) + touched

    def sweep(self, order, draws, adaptive):
        """Every example of `order` once, and what is drawn in between."""
        draws, order = iter(draws), list(order)
        rates = [0.0, 0.0, 0.0]
        kind = PROCESS
        while True:
            if not self.listed:
                kind = PROCESS
            if kind == PROCESS:
                if not order:
                    return
                i = order.pop(0)
            else:
                i = self.listed[int(next(draws) * len(self.listed))]
            gain, operations = self.visit(i, kind)
            rate = gain / operations
            rates[kind] = rate if rates[kind] == 0 else rates[kind] + 0.05 * (rate - rates[kind])
            if not adaptive:
                kind = (kind + 1) % 3
                continue
            rates = [max(rate, sum(rates) / 20) for rate in rates]
            r = next(draws) * sum(rates)
            kind = OPTIMIZE
            if r <= rates[PROCESS]:
                kind = PROCESS
            elif r <= rates[PROCESS] + rates[REPROCESS]:
                kind = REPROCESS


def first_largest(g, classes):
    """The class of largest g; of equals, to nine digits, the first."""
    best = classes[0]
    for k in classes:
        if g[k] > g[best] + 1e-9:
            best = k
    return best


def binary_coordinate(X, sign, U, order):
    """The slides' clipped coordinate step, example after example."""
    alpha, w = np.zeros(len(X)), np.zeros(X.shape[1])
    for i in order:
        new = max(0.0, min(alpha[i] - (sign[i] * (w @ X[i]) - 1) / (X[i] @ X[i]), U[i]))
        w = w + sign[i] * (new - alpha[i]) * X[i]
        alpha[i] = new
    return alpha, w
