"""Bordes and Bottou 2008, Part II: first against second order, and what preprocessing does."""

from typing import Any

from ..experiment import experiment
from ..optimisers import Options
from ..panels import over_seconds
from ..splits import prepared
from .base import Claim, Experiment, Material, Tables, grouped, means
from .drawing import above, below, lines, named, percent, sheet
from .larank import PAPER
from .material import tested, two_classes

METHODS = {"SGD": "sgd-ovr", "SGD-QN": "sgdqn", "oLBFGS": "olbfgs"}
LAM = 1e-5
SAME_COST = 2.0  # times a pass of SGD: "basically of the same order"
FEWER = 0.005  # of accuracy that a preprocessing must gain to count


def measure(material: Material) -> Tables:
    scale, rows = material.scale, []
    for data, split in material.sets.items():
        whole = tested(prepared(two_classes(split), "standard"))
        for name, opt in METHODS.items():
            for seed in range(scale.seeds):
                material.say(f"{data}: {name}, seed {seed}")
                options = Options(passes=scale.passes, lam=LAM, average=False)
                curve = experiment(whole, opt, "svm", options, seed)["curve"]
                rows += [
                    {"data": data, "method": name, "seed": seed, "passes": point["passes"],
                     "seconds": point["seconds"], "objective": point["exact"],
                     "top1": point["validation_accuracy"]}
                    for point in curve
                ]  # fmt: skip
    return {"orders": rows}


def judge(tables: Tables) -> list[Claim]:
    claims = []
    for data, rows in grouped(tables["orders"], "data").items():
        its = grouped(rows, "method")
        cost = {name: means(of, "passes", "objective") for name, of in its.items()}
        first, last = min(cost["SGD"]), max(cost["SGD"])
        for when, text in ((first, "one pass"), (last, f"{last:g} passes")):
            claims.append(
                Claim(
                    f"SGD-QN has a lower objective than SGD after {text}", data,
                    cost["SGD-QN"][when] < cost["SGD"][when],
                    {name: of[when] for name, of in cost.items()},
                )
            )  # fmt: skip
        pace = {name: _pace(means(of, "passes", "seconds")) for name, of in its.items()}
        claims += [
            Claim(
                f"a pass of SGD-QN costs about as much as one of SGD (up to {SAME_COST:g} times)",
                data, pace["SGD-QN"] <= SAME_COST * pace["SGD"],
                {f"ms a pass, {name}": 1e3 * of for name, of in pace.items()},
            ),
            Claim(
                "a pass of oLBFGS costs more than one of SGD-QN", data,
                pace["oLBFGS"] > pace["SGD-QN"],
                {f"ms a pass, {name}": 1e3 * of for name, of in pace.items()},
            ),
        ]  # fmt: skip
    return claims


def _pace(seconds: dict[float, float]) -> float:
    """Seconds of a pass, those before the first (which look for a rate) left out."""
    first, last = min(seconds), max(seconds)
    return (seconds[last] - seconds[first]) / max(last - first, 1)


def draw(tables: Tables) -> Any:
    its = grouped(tables["orders"], "data")
    figure, axes = sheet(ORDERS.heading, 2, len(its), 2.8)
    for (left, right), (data, rows) in zip(axes, its.items(), strict=True):
        best = min(row["objective"] for row in rows)
        over = sorted(row["objective"] - best for row in rows)
        floor = 0.5 * next((value for value in over if value > 0), 1.0)
        for ax, x in ((left, "passes"), (right, "seconds")):
            seed = [row for row in rows if x == "passes" or row["seed"] == 0]
            lines(ax, seed, x, "objective", "method", list(METHODS), above(best, floor))
            ax.set_yscale("log")
        over_seconds(right)
        named(left, "passes", "objective − best seen", data)
        named(right, "seconds of fit (one seed)", "objective − best seen")
    return below(figure, axes)


ORDERS = Experiment(
    "sgdqn-orders", PAPER, "Part II", "first and second order SGD on the linear SVM",
    measure, judge, draw, data=("digits", "planted_binary"),
)  # fmt: skip


# -- preprocessing ---------------------------------------------------------------------------------
# With an intercept: columns of mean 0 say nothing of how rare a class is.

SOLVERS = {"SGD": "sgd-ovr", "SGD-QN": "sgdqn", "LaRank": "larank"}
HOW = {"as they are": "none", "standard": "standard"}
TOLD = {"as they are": "rows as they are", "standard": "columns scaled, then rows of norm 1"}


def measure_preprocessing(material: Material) -> Tables:
    scale, rows = material.scale, []
    for data, split in material.sets.items():
        for how, name in HOW.items():
            whole = tested(prepared(split, name))
            for solver, opt in SOLVERS.items():
                for seed in range(scale.seeds):
                    material.say(f"{data}: {solver} on rows {how}, seed {seed}")
                    own: dict[str, Any] = {} if opt == "larank" else {"average": False}
                    options = Options(passes=scale.passes, lam=LAM, fit_intercept=True, **own)
                    fit = experiment(whole, opt, "svm", options, seed, exact=False)
                    rows += [
                        {"data": data, "rows": how, "solver": solver, "seed": seed,
                         "passes": point["passes"], "top1": point["validation_accuracy"]}
                        for point in fit["curve"]
                    ]  # fmt: skip
    return {"preprocessing": rows}


def judge_preprocessing(tables: Tables) -> list[Claim]:
    claims = []
    for data, rows in grouped(tables["preprocessing"], "data").items():
        end = {}
        for solver, of in grouped(rows, "solver").items():
            for how, its in grouped(of, "rows").items():
                curve = means(its, "passes", "top1")
                end[solver, how] = curve[max(curve)]
        gain = {s: end[s, "standard"] - end[s, "as they are"] for s in SOLVERS}
        claims += [
            Claim(
                f"{solver} gains from scaled columns and rows (more than {100 * FEWER:g} points)",
                data, gain[solver] > FEWER,
                {"as they are": end[solver, "as they are"], "standard": end[solver, "standard"]},
            )
            for solver in ("SGD", "SGD-QN")
        ]  # fmt: skip
        claims.append(
            Claim(
                "LaRank depends on it less than SGD does", data,
                abs(gain["LaRank"]) < abs(gain["SGD"]),
                {f"gain of {solver}": value for solver, value in gain.items()},
            )
        )  # fmt: skip
    return claims


def draw_preprocessing(tables: Tables) -> Any:
    its = grouped(tables["preprocessing"], "data")
    figure, axes = sheet(PREPROCESSING.heading, len(SOLVERS), len(its), 2.6)
    for row_of_axes, (data, rows) in zip(axes, its.items(), strict=True):
        for ax, solver in zip(row_of_axes, SOLVERS, strict=True):
            mine = [{**row, "rows": TOLD[row["rows"]]} for row in rows if row["solver"] == solver]
            lines(ax, mine, "passes", "top1", "rows", list(TOLD.values()), percent)
            named(ax, "passes", "top-1 on test rows, %" if solver == "SGD" else "",
                  f"{data}: {solver}")  # fmt: skip
        lowest = min(ax.get_ylim()[0] for ax in row_of_axes)
        highest = max(ax.get_ylim()[1] for ax in row_of_axes)
        for ax in row_of_axes:
            ax.set_ylim(lowest, highest)
    return below(figure, axes)


PREPROCESSING = Experiment(
    "sgdqn-preprocessing", PAPER, "Part II, preprocessing",
    "accuracy with and without scaled columns and rows",
    measure_preprocessing, judge_preprocessing, draw_preprocessing,
    data=("digits", "planted5k"),
)  # fmt: skip
