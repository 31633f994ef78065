"""Bel Haj Ali et al. 2013, Figures 2 to 4: eigenvalues of the curvature, its rank k, its rows m'.

SLND is set as in the paper: balanced draws, no damping, no averaging, no intercept, no correction
of the scores (docs/slnd.md).  The step is the automatic one, 1/(2k).
"""

from typing import Any

import numpy as np

from ...estimators.slnd import SLNDClassifier
from ..experiment import accuracy
from ..splits import Split
from .base import Claim, Experiment, Material, Row, Tables, grouped, means
from .drawing import below, lines, named, numbers_on, percent, sheet
from .material import dense, ladder
from .slnd_losses import PAPER

AS_IN_PAPER: dict[str, Any] = {
    "damping": 0.0,
    "negatives": 1,
    "prior": "uniform",
    "average": False,
    "fit_intercept": False,
}
EIGENVALUE_ROWS = 20_000  # that the covariance is computed from
CONDITION = 1e3  # a condition number that is "very large"
KEPT, FEW = 0.9, 0.25  # of the variance: what the large eigenvalues hold; of the directions
NEAR = 0.02  # of accuracy: as good as the best
PLATEAU = 3.0  # times: a rank this much smaller or larger is still on a large plateau
RANGE = 0.03  # of accuracy: "not very large"
REASONABLE = 2  # rows for each direction, from which on m' is a reasonable number


def fitted(split: Split, seed: int, passes: int, **settings: Any) -> dict[str, float]:
    """Accuracy of SLND on validation and test rows."""
    model = SLNDClassifier(**{**AS_IN_PAPER, **settings}, passes=passes, random_state=seed)
    model.fit(split.X_train, split.y_train)
    return {
        "validation": accuracy(model, split.X_val, split.y_val),
        "top1": accuracy(model, split.X_test, split.y_test),
    }


def directions(split: Split) -> int:
    """Ranks there are to choose from: directions whose variance is above rounding."""
    X = dense(split.X_train, EIGENVALUE_ROWS)
    D = np.linalg.eigvalsh(X.T.astype(np.float64) @ X / len(X))
    return int(np.sum(D > 1e-5 * D[-1]))


# -- Figure 2 --------------------------------------------------------------------------------------


def eigenvalues(material: Material) -> Tables:
    rows: list[Row] = []
    for data, split in material.sets.items():
        X = dense(split.X_train, EIGENVALUE_ROWS).astype(np.float64)
        D = np.maximum(np.linalg.eigvalsh(X.T @ X / len(X))[::-1], 0.0)
        share = np.cumsum(D) / D.sum()
        rows += [
            {"data": data, "place": place, "eigenvalue": value, "share": part}
            for place, (value, part) in enumerate(zip(D.tolist(), share.tolist(), strict=True), 1)
        ]
    return {"eigenvalues": rows}


def judge_eigenvalues(tables: Tables) -> list[Claim]:
    claims = []
    for data, rows in grouped(tables["eigenvalues"], "data").items():
        D = np.array([row["eigenvalue"] for row in rows])
        seen = D[D > 1e-12 * D[0]]  # pixels that are never set have none
        condition = float(seen[0] / seen[-1])
        k = 1 + sum(row["share"] < KEPT for row in rows)
        claims.append(
            Claim(
                f"the covariance is badly conditioned (above {CONDITION:g})", data,
                condition > CONDITION,
                {"condition": condition, "directions": len(seen)},
            )
        )  # fmt: skip
        tenth = max(1, len(seen) // 10)
        fall = -np.diff(np.log10(seen))
        parts = [float(np.mean(of)) for of in (fall[:tenth], fall[tenth:-tenth], fall[-tenth:])]
        claims.append(
            Claim(
                "the eigenvalues fall as a sigmoid: faster at both ends than between", data,
                parts[1] < min(parts[0], parts[2]),
                dict(zip(("decades a step first", "between", "last"), parts, strict=True)),
            )
        )  # fmt: skip
        claims.append(
            Claim(
                f"few directions, {FEW:.0%} of them, hold {KEPT:.0%} of the variance", data,
                k <= FEW * len(rows),
                {"k": k, "of": len(rows)},
            )
        )  # fmt: skip
    return claims


def draw_eigenvalues(tables: Tables) -> Any:
    its = grouped(tables["eigenvalues"], "data")
    figure, axes = sheet(EIGENVALUES.heading, 2)
    left, right = axes[0]
    rows = [row for row in tables["eigenvalues"] if row["eigenvalue"] > 1e-12]
    for ax, name in ((left, "eigenvalue"), (right, "share")):
        lines(ax, rows, "place", name, "data", list(its))
        for line in ax.lines:
            line.set_marker("")
    left.set_yscale("log")
    named(left, "place of the eigenvalue, the largest first", "eigenvalue")
    named(right, "number of directions k", "share of the variance that they hold")
    right.set_ylim(0, 1.03)
    return below(figure, axes)


EIGENVALUES = Experiment(
    "slnd-eigenvalues", PAPER, "Figure 2", "eigenvalues of the covariance matrix",
    eigenvalues, judge_eigenvalues, draw_eigenvalues,
    data=("digits", "planted5k"), aliases=("slnd-fig2",),
)  # fmt: skip


# -- Figures 3 and 4 -------------------------------------------------------------------------------


def ranks(material: Material) -> Tables:
    scale, rows = material.scale, []
    for data, split in material.sets.items():
        most = directions(split)
        samples = min(len(split.y_train), 4096)
        for k in ladder(2, min(most, samples), 2 * scale.points):
            material.say(f"{data}: rank {k}")
            rows += [
                {"data": data, "rank": k, "share": k / most, "seed": seed,
                 **fitted(split, seed, scale.passes, rank=k, hessian_samples=samples)}
                for seed in range(scale.seeds)
            ]  # fmt: skip
    return {"ranks": rows}


def plateau(rows: list[Row]) -> tuple[float, int, int]:
    """The best mean accuracy, and the ranks around it that are NEAR it without interruption."""
    top1 = dict(sorted(means(rows, "rank", "top1").items()))
    best = max(top1, key=lambda k: top1[k])
    good = [k for k in top1 if top1[k] >= top1[best] - NEAR]
    order = list(top1)
    low = high = order.index(best)
    while low > 0 and order[low - 1] in good:
        low -= 1
    while high < len(order) - 1 and order[high + 1] in good:
        high += 1
    return top1[best], order[low], order[high]


def judge_ranks(tables: Tables) -> list[Claim]:
    claims, spans = [], []
    for data, rows in grouped(tables["ranks"], "data").items():
        best, low, high = plateau(rows)
        claims.append(
            Claim(
                f"accuracy has its maximum on a large plateau of ranks: within {100 * NEAR:g} "
                f"points of it over a factor of {PLATEAU:g}",
                data,
                high >= PLATEAU * low,
                {"best top-1": best, "from rank": low, "to": high},
            )
        )
        of = rows[0]["rank"] / rows[0]["share"]
        spans.append((low / of, high / of))
    if len(spans) > 1:
        low, high = max(s[0] for s in spans), min(s[1] for s in spans)
        claims.append(
            Claim(
                "the plateaus of the data sets overlap, as shares of all directions", None,
                low <= high, {"common from": low, "to": high},
            )
        )  # fmt: skip
    return claims


def draw_ranks(tables: Tables) -> Any:
    figure, axes = sheet(RANKS.heading, 1)
    ax = axes[0, 0]
    lines(ax, tables["ranks"], "rank", "top1", "data", change=percent)
    numbers_on(ax, "x", _ticks([row["rank"] for row in tables["ranks"]]))
    named(ax, "rank k of the inverse Hessian", "top-1 on test rows, %")
    return below(figure, axes)


def samples(material: Material) -> Tables:
    scale, rows = material.scale, []
    for data, split in material.sets.items():
        k = max(1, directions(split) // 2)
        n = len(split.y_train)
        for m in ladder(k, n, 2 * scale.points):
            material.say(f"{data}: m' = {m}")
            rows += [
                {"data": data, "samples": m, "rank": k, "seed": seed,
                 **fitted(split, seed, scale.passes, rank=min(k, m), hessian_samples=m)}
                for seed in range(scale.seeds)
            ]  # fmt: skip
    return {"samples": rows}


def judge_samples(tables: Tables) -> list[Claim]:
    claims = []
    for data, rows in grouped(tables["samples"], "data").items():
        least = REASONABLE * rows[0]["rank"]
        top1 = [value for m, value in means(rows, "samples", "top1").items() if m >= least]
        span = max(top1) - min(top1)
        claims.append(
            Claim(
                f"for reasonable m' (twice the rank and more) accuracy stays within "
                f"{100 * RANGE:g} points",
                data,
                span <= RANGE,
                {"lowest top-1": min(top1), "highest": max(top1), "m' from": least},
            )
        )
    return claims


def draw_samples(tables: Tables) -> Any:
    figure, axes = sheet(SAMPLES.heading, 1)
    ax = axes[0, 0]
    lines(ax, tables["samples"], "samples", "top1", "data", change=percent)
    numbers_on(ax, "x", _ticks([row["samples"] for row in tables["samples"]]))
    named(ax, "rows m′ that the Hessian is computed from", "top-1 on test rows, %")
    return below(figure, axes)


def _ticks(values: list[float]) -> list[float]:
    """1, 3, 10, 30, ... as far as the values go."""
    steps = [step * 10.0**power for power in range(7) for step in (1, 3)]
    return [tick for tick in steps if 0.9 * min(values) <= tick <= 1.1 * max(values)]


RANKS = Experiment(
    "slnd-rank", PAPER, "Figure 3", "accuracy against the rank k of the Hessian",
    ranks, judge_ranks, draw_ranks, data=("digits", "planted5k"), aliases=("slnd-fig3",),
)  # fmt: skip
SAMPLES = Experiment(
    "slnd-samples", PAPER, "Figure 4", "accuracy against the rows m′ that give the Hessian",
    samples, judge_samples, draw_samples, data=("digits", "planted5k"), aliases=("slnd-fig4",),
)  # fmt: skip
