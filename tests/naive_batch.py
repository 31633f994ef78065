"""The practical's gradient methods (seed 003, §4), line by line: what the solvers must equal."""

from typing import NamedTuple

import numpy as np


def cross_entropy(s, y):
    """ln Σ_k exp(s_k) - s_y, and its gradient in s."""
    e = np.exp(s - s.max())
    gradient = e / e.sum()
    gradient[y] -= 1.0
    return np.log(e.sum()) + s.max() - s[y], gradient


def crammer_singer(s, y):
    """max_k { s_k + Delta(k, y) - s_y }, and a subgradient in s."""
    terms = s + (np.arange(len(s)) != y) - s[y]
    gradient = np.zeros(len(s))
    gradient[np.argmax(terms)] += 1.0
    gradient[y] -= 1.0
    return terms.max(), gradient


MULTICLASS = {"cross_entropy": cross_entropy, "crammer_singer": crammer_singer}


def multiclass_objective(loss, X, y, W, b, c, lam):
    """1/n Σ_i c_i loss(W x_i + b, y_i) + lam/2 ‖W‖² by a loop; n counts the rows that count."""
    total = sum(c[i] * loss(W @ X[i] + b, y[i])[0] for i in range(len(X)) if c[i] > 0)
    return total / sum(c_i > 0 for c_i in c) + lam / 2 * sum(w @ w for w in W)


class Settings(NamedTuple):
    eta: float
    decay: float = 0.0
    power: float = 1.0
    lam: float = 0.0
    beta: float = 0.0
    every: int = 0

    def rate(self, it):
        return self.eta / (1 + self.decay * it) ** self.power


class Run(NamedTuple):
    W: np.ndarray
    b: np.ndarray
    average_of_w: np.ndarray
    average_of_b: np.ndarray
    objective: float  # mean of the batches' objectives, each before its update, by their rows


def minibatch(row_loss, X, c, batches, cap, settings, n_classes, terms=1):
    """W <- W - eta_it (1/b Σ_{i in batch} c_i ∂loss_i/∂W + lam W), and b likewise.

    row_loss(i, s) gives the weighted loss of row i and its unweighted gradient in the scores s;
    c (n, C) are the weights of that gradient, and `cap` bounds what a row's may become.
    """
    W, b = np.zeros((n_classes, X.shape[1])), np.zeros(n_classes)
    iterates, objectives, sizes = [], [], []
    for it, batch in enumerate(batches):
        eta = settings.rate(it)
        total, G, g = 0.0, np.zeros_like(W), np.zeros_like(b)
        for i in batch:
            value, gradient = row_loss(i, W @ X[i] + b)
            total += value
            e = np.minimum(eta * c[i] / len(batch), cap[i])
            G += np.outer(e * gradient, X[i])
            g += e * gradient
        sizes.append(len(batch))
        objectives.append((total / len(batch) + settings.lam / 2 * (W**2).sum()) / terms)
        W = W - eta * settings.lam * W - G
        b = b - settings.beta**2 * g
        if settings.every and (it + 1) % settings.every == 0:
            iterates.append((W, b))
    weights = np.arange(1, len(iterates) + 1)  # linear: the j-th averaged iterate counts j
    average_W, average_b = W, b
    if iterates:
        average_W = np.average([W for W, _ in iterates], axis=0, weights=weights)
        average_b = np.average([b for _, b in iterates], axis=0, weights=weights)
    return Run(W, b, average_W, average_b, float(np.average(objectives, weights=sizes)))


def gradient_descent(X, y, w, n_classes, eta, lam, steps, intercept=True):
    """(W, b, objective) at the start and after every step of W <- W - eta ∇, b <- b - eta ∂/∂b."""
    W, b = np.zeros((n_classes, X.shape[1])), np.zeros(n_classes)
    if intercept:  # the best ones at W = 0
        b = np.log([w[y == c].sum() for c in range(n_classes)])
        b -= b.mean()
    seen = []
    for _ in range(steps + 1):
        G, g, total = lam * W, np.zeros(n_classes), lam / 2 * (W**2).sum()
        for i in range(len(X)):
            value, gradient = cross_entropy(W @ X[i] + b, y[i])
            total += w[i] * value
            G = G + w[i] * np.outer(gradient, X[i])
            g = g + w[i] * gradient
        seen.append((W, b, total))
        W = W - eta * G
        if intercept:
            b = b - eta * g
    return seen
