"""Bel Haj Ali et al. 2013, Figures 5 to 7, and its hour of computing against twenty.

All methods draw as many negatives as positives (§3.2), fit no intercept and give their last
iterate, as in the paper.  Averaged SGD is shown beside them: the paper does not have it.  SLND's
step is the automatic one; the first step of each rival is the best of STEPS by the very accuracy
that is compared, which can only flatter it.
"""

from statistics import median
from typing import Any

from ...metrics import TOP
from ..curves import Curve, seconds_to
from ..experiment import experiment
from ..optimisers import Options
from ..panels import COLOURS
from ..repeats import try_each
from ..splits import Split, mean_square
from .base import Claim, Experiment, Material, Row, Tables, grouped, means
from .drawing import below, lines, named, percent, sheet
from .material import tested
from .slnd_losses import PAPER

DRAWS: dict[str, Any] = {"negatives": 1, "prior": "uniform", "average": False}
OF_SLND: dict[str, Any] = {**DRAWS, "damping": 0.0}
LAM = 1e-5  # of SGD and SGD-QN
STEPS = tuple(10.0**power for power in (-1.5, -0.5, 0.5, 1.5, 2.5))  # over mean ‖x‖²
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("sgd-ovr", {**DRAWS, "lam": LAM}),
    "SGD-QN": ("sgdqn", {**DRAWS, "lam": LAM}),
    "SLND, diagonal": ("slnd", {**OF_SLND, "curvature": "diagonal"}),
    "SLND, logistic": ("slnd", OF_SLND),
    "SLND, calibrated hinge": ("slnd", {**OF_SLND, "loss": "calibrated_hinge"}),
    "SGD, averaged": ("sgd-ovr", {**DRAWS, "lam": LAM, "average": True}),
}
MAGNITUDE = 10.0  # "a magnitude faster"
SIMILAR = 0.02  # of accuracy: "very similar", "very close"
LONG = 10  # times the passes that SGD may take to get where SLND is


def run(split: Split, method: str, passes: int, seed: int, step: float | None) -> Curve:
    """The curve on the test rows."""
    opt, options = METHODS[method]
    whole = Options(passes=passes, step=step, **options)
    curve: Curve = experiment(tested(split), opt, "logistic", whole, seed, exact=False)["curve"]
    return curve


def first_step(split: Split, method: str, passes: int) -> float | None:
    """The best for a rival; None: SLND's own."""
    if METHODS[method][0] == "slnd":
        return None
    steps = [share / (mean_square(split) or 1.0) for share in STEPS]
    _, best = try_each(
        steps,
        lambda step: run(split, method, passes, 0, step),
        lambda curve: -curve[-1]["validation_accuracy"],
    )
    return steps[best]


def measure(material: Material) -> Tables:
    scale, rows = material.scale, []
    for data, split in material.sets.items():
        for method in METHODS:
            material.say(f"{data}: {method}")
            step = first_step(split, method, scale.passes)
            for seed in range(scale.seeds):
                passes = scale.passes * (LONG if method == "SGD" else 1)
                rows += [
                    {"data": data, "method": method, "seed": seed, "passes": point["passes"],
                     "seconds": point["seconds"], "top1": point["validation_accuracy"],
                     "top5": point.get("validation_top5")}
                    for point in run(split, method, passes, seed, step)
                ]  # fmt: skip
    return {"passes": rows}


def passes_to(rows: list[Row], target: float) -> float | None:
    """The first pass whose mean accuracy over the seeds is at the target; None: there is none."""
    there = [when for when, top1 in means(rows, "passes", "top1").items() if top1 >= target]
    return min(there, default=None)


def judge(tables: Tables) -> list[Claim]:
    claims = []
    for data, rows in grouped(tables["passes"], "data").items():
        its = grouped(rows, "method")
        last = max(row["passes"] for row in its["SLND, logistic"])
        top1 = {method: means(of, "passes", "top1") for method, of in its.items()}
        end = {method: of[last] for method, of in top1.items()}
        target = top1["SLND, logistic"][min(top1["SLND, logistic"])]
        given, there = max(top1["SGD"]), passes_to(its["SGD"], target)
        claims += [
            Claim(
                f"SGD needs {MAGNITUDE:g} passes or more for the accuracy that SLND has after one",
                data,
                (given if there is None else there) >= MAGNITUDE,
                {"SLND's top-1 after one": target, "SGD passes": there, "it was given": given},
            ),
            _similar(data, "logistic and calibrated hinge SLND are very similar in accuracy", end,
                     "SLND, logistic", "SLND, calibrated hinge"),
            _similar(data, "SGD-QN is very close to SGD", end, "SGD", "SGD-QN"),
            _similar(data, "diagonal SLND is close to SGD-QN", end, "SGD-QN", "SLND, diagonal"),
            Claim(
                "SLND is more accurate than SGD after as many passes", data,
                end["SLND, logistic"] > end["SGD"],
                {name: end[name] for name in ("SLND, logistic", "SGD", "SGD, averaged")},
            ),
        ]  # fmt: skip
        if rows[0]["top5"] is not None:
            five = {m: means(of, "passes", "top5")[last] for m, of in its.items()}
            claims.append(
                Claim(
                    "the same holds for top-5", data, five["SLND, logistic"] > five["SGD"],
                    {name: five[name] for name in ("SLND, logistic", "SGD", "SGD, averaged")},
                )
            )  # fmt: skip
    return claims


def _similar(data: str, text: str, end: dict[str, float], one: str, other: str) -> Claim:
    return Claim(
        f"{text} (within {100 * SIMILAR:g} points at the end)", data,
        abs(end[one] - end[other]) <= SIMILAR, {one: end[one], other: end[other]},
    )  # fmt: skip


def draw(tables: Tables) -> Any:
    its = grouped(tables["passes"], "data")
    alone = len(its) == 1  # its two panels side by side
    figure, axes = sheet(PASSES.heading, *((2, 1) if alone else (len(its), 2)), 2.7)
    pairs = axes if alone else axes.T
    for (upper, lower), (data, rows) in zip(pairs, its.items(), strict=True):
        last = max(row["passes"] for row in rows if row["method"] != "SGD")
        shown = [row for row in rows if row["passes"] <= last]
        lines(upper, shown, "passes", "top1", "method", list(METHODS), percent)
        named(upper, "passes", "top-1 on test rows, %", data)
        if rows[0]["top5"] is None:
            lower.text(0.5, 0.5, f"{TOP} classes or fewer", ha="center", transform=lower.transAxes)
        else:
            lines(lower, shown, "passes", "top5", "method", list(METHODS), percent)
        named(lower, "passes", "top-5 on test rows, %")
    return below(figure, axes, 3)


PASSES = Experiment(
    "slnd-passes", PAPER, "Figures 5 to 7", "accuracy against the number of passes",
    measure, judge, draw, data=("digits", "planted5k"),
    aliases=("slnd-fig5", "slnd-fig6", "slnd-fig7"),
)  # fmt: skip


# -- the time claim --------------------------------------------------------------------------------


def measure_time(material: Material) -> Tables:
    scale, rows = material.scale, []
    for data, split in material.sets.items():
        rivals = ("SGD", "SGD, averaged")
        steps = {method: first_step(split, method, scale.passes) for method in rivals}
        for seed in range(scale.seeds):
            material.say(f"{data}: seed {seed}")
            slnd = run(split, "SLND, logistic", scale.passes, seed, None)
            target = slnd[-1]["validation_accuracy"]
            for method in rivals:
                sgd = run(split, method, LONG * scale.passes, seed, steps[method])
                rows.append(
                    {"data": data, "seed": seed, "rival": method, "top1": target,
                     "seconds_slnd": slnd[-1]["seconds"],
                     "seconds_rival": seconds_to(sgd, "validation_accuracy", target, rising=True),
                     "seconds_given": sgd[-1]["seconds"],
                     "top1_rival": max(point["validation_accuracy"] for point in sgd)}
                )  # fmt: skip
    return {"time": rows}


def judge_time(tables: Tables) -> list[Claim]:
    claims = []
    for data, rows in grouped(tables["time"], "data").items():
        for its in grouped(rows, "rival").values():
            ratio = median(_spent(row) / row["seconds_slnd"] for row in its)
            never = sum(row["seconds_rival"] is None for row in its)
            claims.append(
                Claim(
                    f"{its[0]['rival']} takes {MAGNITUDE:g} times as long as SLND to the accuracy "
                    "of SLND's last pass (the paper: 20 CPU hours against 1)",
                    data,
                    ratio >= MAGNITUDE,
                    {"times as long (median)": ratio, "never there": f"{never} of {len(its)}",
                     "SLND top-1": its[0]["top1"], "best top-1 of the rival": its[0]["top1_rival"]},
                )
            )  # fmt: skip
    return claims


def _spent(row: Row) -> float:
    """Until it is there; all that it was given, where it is not: a lower bound."""
    there = row["seconds_rival"]
    return float(row["seconds_given"] if there is None else there)


def draw_time(tables: Tables) -> Any:
    figure, axes = sheet(TIME.heading, 1)
    ax = axes[0, 0]
    names: list[str] = []
    for data, rows in grouped(tables["time"], "data").items():
        for rival, its in grouped(rows, "rival").items():
            at, never = len(names), any(row["seconds_rival"] is None for row in its)
            sides = {"SLND": [row["seconds_slnd"] for row in its], rival: list(map(_spent, its))}
            for place, (who, values) in enumerate(sides.items()):
                ax.bar(
                    at + 0.4 * place - 0.2, median(values), 0.36,
                    color=COLOURS[1 - place], label="SLND" if who == "SLND" else "the rival",
                    hatch="//" if never and place else "", edgecolor="white", lw=0,
                )  # fmt: skip
                ax.plot([at + 0.4 * place - 0.2] * len(values), values, "k.", ms=4)
            names.append(f"{data}\n{rival}" + ("\n(not there)" if never else ""))
    ax.set_xticks(range(len(names)), names, fontsize=8)
    ax.set_yscale("log")
    named(ax, "", "seconds to SLND's accuracy (dots: seeds)")
    return below(figure, axes)


TIME = Experiment(
    "slnd-time", PAPER, "§4.3", "seconds of SLND, and of SGD to the same accuracy",
    measure_time, judge_time, draw_time, data=("digits", "planted5k"),
)  # fmt: skip
