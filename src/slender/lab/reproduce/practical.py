"""The AIMS course: gradient descent and SGD; sub-gradients and Frank-Wolfe; Frank-Wolfe over μ."""

from collections.abc import Mapping
from itertools import pairwise
from math import log10
from typing import Any

import numpy as np

from ..experiment import experiment
from ..optimisers import Options
from ..panels import over_seconds
from ..splits import Split, mean_square
from .base import Claim, Experiment, Material, Row, Tables, grouped, means
from .drawing import above, below, lines, named, number, sheet
from .material import tested

PAPER = "AIMS course"
LAM, BATCH = 0.01, 64
# Times the passes of SGD that GD gets.  With as many, the milliseconds of SGD's search for a first
# step decide who is faster; with five times as many GD is at the optimum of digits: noise decides.
LONG = 2


def curves(
    data: str, split: Split, opt: str, obj: str, label: Mapping[str, Any], seed: int, **options: Any
) -> list[Row]:
    """A row for each pass of a fit."""
    fit = experiment(tested(split), opt, obj, Options(**options), seed)
    return [
        {"data": data, **label, "seed": seed, "passes": point["passes"],
         "seconds": point["seconds"], "objective": point["exact"], "gap": point["gap"],
         "top1": point["validation_accuracy"]}
        for point in fit["curve"]
    ]  # fmt: skip


def batch(split: Split) -> int:
    return min(BATCH, len(split.y_train))


def draw_objectives(heading: str, rows: list[Row], by: str) -> Any:
    """Objective above the best seen, over passes and over seconds."""
    its = grouped(rows, "data")
    kinds = list(grouped(rows, by))
    figure, axes = sheet(heading, 2, len(its), 2.8)
    for (left, right), (data, mine) in zip(axes, its.items(), strict=True):
        known = [row for row in mine if row["objective"] is not None]
        best = min(row["objective"] - (row["gap"] or 0.0) for row in known)
        for ax, x in ((left, "passes"), (right, "seconds")):
            shown = [row for row in known if x == "passes" or row["seed"] == 0]
            lines(ax, shown, x, "objective", by, kinds, above(best, 1e-6))
            ax.set_yscale("log")
        over_seconds(right)
        lowest = "the dual bound" if any(row["gap"] for row in known) else "the best seen"
        named(left, "passes", f"objective − {lowest}", data)
        named(right, "seconds of fit (one seed)", f"objective − {lowest}")
    return below(figure, axes)


# -- gradient descent and SGD ----------------------------------------------------------------------


def measure_gd(material: Material) -> Tables:
    scale, rows = material.scale, []
    for data, split in material.sets.items():
        for seed in range(scale.seeds):
            material.say(f"{data}: seed {seed}")
            passes = 2 * scale.passes
            if seed == 0:  # nothing is drawn in it
                rows += curves(data, split, "gd", "logistic", {"method": "GD"}, seed,
                               passes=LONG * passes, lam=LAM)  # fmt: skip
            rows += curves(data, split, "sgd", "logistic", {"method": f"SGD, batches of {BATCH}"},
                           seed, passes=passes, lam=LAM, batch_size=batch(split))  # fmt: skip
    return {"gd": rows}


def judge_gd(tables: Tables) -> list[Claim]:
    claims = []
    for data, rows in grouped(tables["gd"], "data").items():
        gd, sgd = grouped(rows, "method").values()
        slow, fast = means(gd, "passes", "objective"), means(sgd, "passes", "objective")
        last = max(slow)
        there = [when for when, value in fast.items() if value <= slow[last]]
        time = means(sgd, "passes", "seconds")
        claims += [
            Claim(
                "SGD reaches in one pass a lower objective than GD in ten", data,
                fast[min(fast)] < slow[min(10, last)],
                {"SGD, 1 pass": fast[min(fast)], f"GD, {min(10, last):g}": slow[min(10, last)]},
            ),
            Claim(
                "SGD converges significantly faster: where GD ends it is in half the seconds",
                data, bool(there) and time[min(there)] <= means(gd, "passes", "seconds")[last] / 2,
                {"GD's objective": slow[last], "GD passes": last,
                 "SGD passes": min(there) if there else None,
                 "GD seconds": means(gd, "passes", "seconds")[last],
                 "SGD seconds": time[min(there)] if there else None},
            ),
        ]  # fmt: skip
    return claims


def draw_gd(tables: Tables) -> Any:
    return draw_objectives(GD.heading, tables["gd"], "method")


GD = Experiment(
    "practical-gd", PAPER, "§4.1", "gradient descent and SGD on the cross-entropy",
    measure_gd, judge_gd, draw_gd, data=("digits", "planted5k"),
)  # fmt: skip


# -- sub-gradients and Frank-Wolfe -----------------------------------------------------------------

SVMS: dict[str, tuple[str, bool]] = {  # optimiser, averaged?
    "BCFW": ("bcfw", False),
    "BCFW, averaged": ("bcfw", True),
    "sub-gradient": ("sgd", False),
    "sub-gradient, averaged": ("sgd", True),
}
RATES = tuple(10.0**power for power in (-1.5, -0.5, 0.5, 1.5, 2.5))  # over mean ‖x‖²


def measure_bcfw(material: Material) -> Tables:
    """Sub-gradient descent starts with the best of RATES: BCFW has nothing to choose."""
    scale, rows, rates = material.scale, [], []
    for data, split in material.sets.items():
        shared: dict[str, Any] = {"lam": LAM, "batch_size": batch(split), "passes": scale.passes}
        steps = {}
        for average in (False, True):
            tried = []
            for share in RATES:
                material.say(f"{data}: sub-gradient, first step {share:.3g}")
                label = {"rate": share, "average": average}
                rate = share / (mean_square(split) or 1.0)
                tried.append(curves(data, split, "sgd", "svm", label, 0, step=rate,
                                    average=average, **shared))  # fmt: skip
            rates += [row for of in tried for row in of]
            ends = [number(of[-1]["objective"]) for of in tried]
            steps[average] = RATES[int(np.nanargmin(ends))] / (mean_square(split) or 1.0)
        for name, (opt, average) in SVMS.items():
            for seed in range(scale.seeds):
                material.say(f"{data}: {name}, seed {seed}")
                step = {"step": steps[average]} if opt == "sgd" else {}
                rows += curves(data, split, opt, "svm", {"method": name}, seed, average=average,
                               **step, **shared)  # fmt: skip
    return {"bcfw": rows, "rates": rates}


def judge_bcfw(tables: Tables) -> list[Claim]:
    claims = []
    for data, rows in grouped(tables["bcfw"], "data").items():
        cost = {name: means(of, "passes", "objective")
                for name, of in grouped(rows, "method").items()}  # fmt: skip
        first, last = min(cost["BCFW"]), max(cost["BCFW"])
        for suffix in ("", ", averaged"):
            bcfw, other = cost[f"BCFW{suffix}"], cost[f"sub-gradient{suffix}"]
            what = "averaged" if suffix else "last"
            claims += [
                Claim(
                    f"BCFW is below sub-gradient descent after one epoch ({what} iterates)", data,
                    bcfw[first] < other[first],
                    {"BCFW": bcfw[first], "sub-gradient": other[first]},
                ),
                Claim(
                    f"BCFW converges in fewer epochs ({what} iterates)", data,
                    min((t for t, v in bcfw.items() if v <= other[last]), default=last) < last,
                    {"BCFW at the end": bcfw[last], "sub-gradient": other[last],
                     "epochs for it": min((t for t, v in bcfw.items() if v <= other[last]),
                                          default=None)},
                ),
            ]  # fmt: skip
        rates = [
            row for row in tables["rates"]
            if row["data"] == data and row["passes"] == first and not row["average"]
        ]  # fmt: skip
        known = [r["objective"] for r in rates if r["objective"] is not None]
        claims.append(
            Claim(
                "sub-gradient descent depends on its first step (twice the objective or more "
                "after an epoch), and BCFW has none",
                data, len(known) < len(rates) or max(known) >= 2 * min(known),
                {f"step {row['rate']:.2g}/mean ‖x‖²": row["objective"] for row in rates},
            )
        )  # fmt: skip
    return claims


def draw_bcfw(tables: Tables) -> Any:
    return draw_objectives(BCFW.heading, tables["bcfw"], "method")


BCFW = Experiment(
    "practical-bcfw", PAPER, "§5, task 10", "sub-gradient descent and Frank-Wolfe on the SVM",
    measure_bcfw, judge_bcfw, draw_bcfw, data=("digits", "planted5k"),
)  # fmt: skip


# -- Frank-Wolfe over μ ----------------------------------------------------------------------------

MUS = tuple(10.0**power for power in range(-5, 2))


def measure_mu(material: Material) -> Tables:
    scale, rows = material.scale, []
    for data, split in material.sets.items():
        for mu in MUS[-scale.points :]:
            material.say(f"{data}: mu = {mu:g}")
            found = curves(data, split, "bcfw", "svm", {"mu": mu}, 0, passes=2 * scale.passes,
                           lam=mu, batch_size=batch(split))  # fmt: skip
            rows += [{**row, "share": row["gap"] / row["objective"]} for row in found]
    return {"mu": rows}


def judge_mu(tables: Tables) -> list[Claim]:
    claims = []
    for data, rows in grouped(tables["mu"], "data").items():
        end = {mu: max(of, key=lambda row: row["passes"])["share"]
               for mu, of in sorted(grouped(rows, "mu").items())}  # fmt: skip
        shares = list(end.values())
        falls = sum(b <= a for a, b in pairwise(shares))
        claims.append(
            Claim(
                "the larger μ, the faster BCFW converges: the relative gap after the last pass "
                "falls with every power of ten",
                data, falls == len(shares) - 1,
                {f"gap at 1e{round(log10(mu))}": share for mu, share in end.items()},
            )
        )  # fmt: skip
    return claims


def draw_mu(tables: Tables) -> Any:
    its = grouped(tables["mu"], "data")
    figure, axes = sheet(MU.heading, max(2, len(its)), 1, 3.2)
    rows = [dict(row, kind=f"μ = $10^{{{log10(row['mu']):.0f}}}$") for row in tables["mu"]]
    for ax, (data, mine) in zip(axes[0], grouped(rows, "data").items(), strict=False):
        lines(ax, mine, "passes", "share", "kind", change=above(0.0, 1e-9))
        ax.set_yscale("log")
        named(ax, "passes", "duality gap / objective", data)
    for ax in axes[0, len(its) :]:
        ax.set_visible(False)
    return below(figure, axes)


MU = Experiment(
    "practical-mu", PAPER, "§5, task 11", "Frank-Wolfe for μ a power of ten",
    measure_mu, judge_mu, draw_mu, data=("digits", "planted5k"),
)  # fmt: skip
