"""Bordes and Bottou 2008, Part II: one pass of second order SGD is as good as the optimum.

Labels are drawn from a logistic model whose weights w* are known, so that w* is the optimum on
infinitely many examples.  After one pass over n of them,

    w <- w - 1/(t + t0) A g_t(w),      A = H⁻¹, H the Hessian of the expected loss

should be as close to w* as w_n*, the optimum on the same n examples (Murata 1999).  Distances are
excess losses, ½ (w - w*)ᵀ H (w - w*).  SLND's curvature, H at w = 0, and the scaling 1/λ_min of
plain SGD stand beside it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from .base import Claim, Experiment, Material, Row, Tables, means
from .drawing import below, lines, named, numbers_on, sheet
from .larank import PAPER
from .material import ladder

D, DECAY, NORM = 12, 0.5, 2.0  # features, fall of their scales, norm of w* in units of the noise
LEAST, MOST = 200, 20_000  # examples
REPEATS = 20  # draws of the examples, side by side
POPULATION = 200_000  # rows that H is computed from
NEWTON_STEPS = 12
CLOSE = 1.5  # times the excess of the optimum: "as close"
OPTIMUM, SECOND = "optimum on the n examples", "one pass, H⁻¹ of the optimum"
SLND, PLAIN = "one pass, H⁻¹ of SLND (at w = 0)", "one pass, no curvature"


class Model(NamedTuple):
    """Where rows and labels come from."""

    scale: NDArray[Any]  # (d,)
    truth: NDArray[Any]  # (d,) w*
    H: NDArray[Any]  # (d, d) at w*
    H0: NDArray[Any]  # (d, d) at 0

    def draw(self, n: int, repeats: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """X (repeats, n, d) and labels 0 or 1."""
        X = rng.standard_normal((repeats, n, len(self.scale))) * self.scale
        return X, (rng.random((repeats, n)) < expit(X @ self.truth)).astype(float)

    def excess(self, w: NDArray[Any]) -> NDArray[Any]:
        """½ (w - w*)ᵀ H (w - w*) of every repeat."""
        off = w - self.truth
        return np.asarray(0.5 * np.einsum("rd,de,re->r", off, self.H, off))


def model(rng: np.random.Generator) -> Model:
    scale = np.arange(1, D + 1) ** -DECAY
    truth = rng.standard_normal(D)
    truth *= NORM / np.linalg.norm(truth * scale)
    X = rng.standard_normal((POPULATION, D)) * scale
    p = expit(X @ truth)
    return Model(scale, truth, (X.T * (p * (1 - p))) @ X / len(X), 0.25 * np.diag(scale**2))


def optimum(X: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """w_n* of every repeat, by Newton's method with halved steps."""
    w = np.zeros((len(X), X.shape[2]))
    for _ in range(NEWTON_STEPS):
        p = expit(np.einsum("rnd,rd->rn", X, w))
        g = np.einsum("rnd,rn->rd", X, p - y)
        H = np.einsum("rnd,rn,rne->rde", X, p * (1 - p), X) + 1e-9 * np.eye(X.shape[2])
        step = np.linalg.solve(H, g[:, :, None])[:, :, 0]
        length = np.sqrt(np.einsum("rd,rd->r", step, g) / X.shape[1])
        w -= step / np.maximum(1.0, length)[:, None]  # damped while the decrement is large
    return w


def one_pass(X: NDArray[Any], y: NDArray[Any], A: NDArray[Any], t0: float) -> NDArray[Any]:
    """All repeats side by side, example after example."""
    w = np.zeros((len(X), X.shape[2]))
    for t in range(X.shape[1]):
        x = X[:, t]
        p = expit(np.einsum("rd,rd->r", x, w))
        w -= ((p - y[:, t]) / (t + t0))[:, None] * (x @ A)
    return w


def measure(material: Material) -> Tables:
    rng = np.random.default_rng(0)
    source, scale = model(rng), material.scale
    least = float(np.linalg.eigvalsh(source.H)[0])
    scalings = {
        SECOND: np.linalg.inv(source.H),
        SLND: np.linalg.inv(source.H0),
        PLAIN: np.eye(D) / least,
    }
    rows: list[Row] = []
    for n in ladder(LEAST, max(2 * LEAST, MOST * scale.effort), scale.points):
        material.say(f"{n:,} examples")
        X, y = source.draw(n, REPEATS, rng)
        found = {OPTIMUM: optimum(X, y)}
        for kind, A in scalings.items():
            t0 = 0.5 * float(np.trace(A * np.diag(source.scale**2)))  # no first step overshoots
            found[kind] = one_pass(X, y, A, t0)
        rows += [
            {"examples": n, "method": kind, "repeat": place, "excess": value}
            for kind, w in found.items()
            for place, value in enumerate(source.excess(w).tolist())
        ]
    return {"onepass": rows}


def judge(tables: Tables) -> list[Claim]:
    rows = tables["onepass"]
    excess = {
        kind: means([row for row in rows if row["method"] == kind], "examples", "excess")
        for kind in (OPTIMUM, SECOND, SLND, PLAIN)
    }
    first, last = min(excess[OPTIMUM]), max(excess[OPTIMUM])
    ratio = {kind: of[last] / excess[OPTIMUM][last] for kind, of in excess.items()}
    early = excess[SECOND][first] / excess[OPTIMUM][first]
    return [
        Claim(
            f"after one pass with H⁻¹ the excess is at most {CLOSE:g} times that of the optimum on "
            "the same examples",
            None,
            ratio[SECOND] <= CLOSE,
            {"examples": last, "times": ratio[SECOND], f"times after {first}": early},
        ),
        Claim(
            f"the same with SLND's H⁻¹, estimated once at w = 0, {CLOSE:g} times",
            None, ratio[SLND] <= CLOSE, {"examples": last, "times": ratio[SLND]},
        ),
        Claim(
            "without curvature one pass is not enough", None, ratio[PLAIN] > CLOSE,
            {"examples": last, "times": ratio[PLAIN]},
        ),
    ]  # fmt: skip


def draw(tables: Tables) -> Any:
    figure, axes = sheet(ONEPASS.heading, 1)
    ax = axes[0, 0]
    rows = tables["onepass"]
    lines(ax, rows, "examples", "excess", "method", [OPTIMUM, SECOND, SLND, PLAIN], band=False)
    ax.set_yscale("log")
    numbers_on(ax, "x", sorted({row["examples"] for row in rows}))
    named(ax, "examples n, each seen once", f"excess loss, mean of {REPEATS} draws")
    return below(figure, axes, 2)


ONEPASS = Experiment(
    "sgdqn-onepass", PAPER, "Part II, second order", "one pass against the exact optimum",
    measure, judge, draw,
)  # fmt: skip
