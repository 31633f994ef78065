"""Bel Haj Ali et al. 2013, §6: parameters found on one data set serve on the next.

What travels is the step, in units of the automatic one, 1/(2k), and the rank k, as a share of the
directions that the rows have: numbers that mean the same whatever the number of features is.
"""

from itertools import product
from typing import Any

import numpy as np

from .base import Claim, Experiment, Material, Tables, grouped, means
from .drawing import below, named, sheet, style
from .slnd_losses import PAPER
from .slnd_settings import directions, fitted

STEPS = (0.25, 0.5, 1.0, 2.0, 4.0)
SHARES = (0.125, 0.25, 0.5, 1.0)
LOST = 0.02  # of accuracy: what a borrowed setting may cost


def measure(material: Material) -> Tables:
    scale, rows = material.scale, []
    for data, split in material.sets.items():
        most = min(directions(split), len(split.y_train))
        for step, share in list(product(STEPS, SHARES))[: None if scale.seeds > 1 else 4]:
            material.say(f"{data}: step {step:g}, rank {share:g}")
            k = max(1, round(share * most))
            settings = {"rank": k, "step": step / (2.0 * k), "hessian_samples": len(split.y_train)}
            rows += [
                {"data": data, "step": step, "share": share, "rank": k, "seed": seed,
                 **fitted(split, seed, scale.passes, **settings)}
                for seed in range(scale.seeds)
            ]  # fmt: skip
    settings_of = {(row["step"], row["share"]) for row in rows}
    best = {}
    for data, its in grouped(rows, "data").items():
        by_setting = [dict(row, setting=(row["step"], row["share"])) for row in its]
        chosen = means(by_setting, "setting", "validation")
        best[data] = (
            max(sorted(settings_of), key=lambda pair: chosen[pair]),
            means(by_setting, "setting", "top1"),
        )
    moves = [
        {"tuned_on": here, "used_on": there, "step": best[here][0][0], "share": best[here][0][1],
         "top1": best[there][1][best[here][0]], "own": best[there][1][best[there][0]]}
        for here in best
        for there in best
    ]  # fmt: skip
    return {"grid": rows, "transfer": moves}


def judge(tables: Tables) -> list[Claim]:
    return [
        Claim(
            f"step and rank tuned on {row['tuned_on']} cost at most {100 * LOST:g} points there",
            row["used_on"],
            row["own"] - row["top1"] <= LOST,
            {"top-1": row["top1"], "with its own": row["own"], "step": row["step"],
             "rank, as a share of the largest": row["share"]},
        )
        for row in tables["transfer"]
        if row["tuned_on"] != row["used_on"]
    ]  # fmt: skip


def draw(tables: Tables) -> Any:
    figure, axes = sheet(TRANSFER.heading, 1)
    ax = axes[0, 0]
    its = grouped(tables["transfer"], "used_on")
    donors = list(grouped(tables["transfer"], "tuned_on"))
    width = 0.8 / len(donors)
    for place, donor in enumerate(donors):
        values = [100 * row["top1"] for row in tables["transfer"] if row["tuned_on"] == donor]
        at = np.arange(len(its)) + width * (place - (len(donors) - 1) / 2)
        look = style(place)
        bars = ax.bar(at, values, 0.92 * width, color=look["color"], label=f"tuned on {donor}")
        ax.bar_label(bars, fmt="%.1f", fontsize=8, padding=2)
    ax.margins(y=0.1)
    ax.set_xticks(range(len(its)), list(its))
    named(ax, "used on", "top-1 on test rows, %")
    return below(figure, axes)


TRANSFER = Experiment(
    "slnd-transfer", PAPER, "§6", "step and rank tuned on one data set, used on another",
    measure, judge, draw, data=("digits", "planted5k", "tiny"), least=2,
)  # fmt: skip
