"""Bordes and Bottou 2008, Part III: error and effort as the number of examples doubles.

slender.lab.measures says what is measured; criterion (a) is the error above the best achievable,
for which the lowest one of any method at any size stands, criterion (b) the error itself.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from ..comparison import facts_of
from ..experiment import experiment
from ..measures import large_scale
from ..optimisers import Options
from ..splits import permuted
from .base import Claim, Experiment, Material, Tables, grouped
from .drawing import below, lines, named, numbers_on, percent, sheet
from .larank import PAPER

METHODS = {"SGD": "sgd-ovr", "SGD-QN": "sgdqn", "SLND": "slnd"}
PASSES = 5
LAM = 1e-5  # of SGD and SGD-QN
CLEAR, NONE = 0.2, 0.02  # relative fall: a clear effect, and virtually none
MUCH = 1.5  # times the seconds: "a lot of computation"


def measure(material: Material) -> Tables:
    scale, fits, facts = material.scale, [], {}
    for data, split in material.sets.items():
        facts[data] = facts_of(split)
        n = len(split.y_train)
        halves = [n >> power for power in range(scale.points) if n >> power >= 50]
        for size in sorted(halves):
            for opt in METHODS.values():
                for seed in range(scale.seeds):
                    material.say(f"{data}: {opt}, {size:,} rows, seed {seed}")
                    penalty: dict[str, Any] = {} if opt == "slnd" else {"lam": LAM}
                    passes = min(PASSES, scale.passes)
                    options = Options(passes=passes, fit_intercept=True, **penalty)
                    rows = permuted(split, size, seed)
                    fit = experiment(rows, opt, "logistic", options, seed, exact=False)
                    fits.append({"dataset": data, "size": size, **fit})
    methods = {opt: name for name, opt in METHODS.items()}
    return {
        "sizes": [
            {"data": data, "method": methods[each["opt"]], "size": point["size"],
             "seconds": point["seconds"]["mean"], "error": point["error"]["mean"],
             "above_best": point["excess"], "effort": each["effort"],
             "au_time": each["au_time"]}
            for data, of in large_scale(fits, facts).items()
            for each in of["contenders"]
            for point in each["points"]
        ]
    }  # fmt: skip


def judge(tables: Tables) -> list[Claim]:
    claims = []
    for data, rows in grouped(tables["sizes"], "data").items():
        falls, costs = [], {}
        for method, of in grouped(rows, "method").items():
            points = sorted(of, key=lambda row: row["size"])
            costs[method] = points[-1]["seconds"] / points[-2]["seconds"]
            falls += [
                {"method": method, "from": one["size"], "to": two["size"],
                 "above the best falls by": 1 - two["above_best"] / one["above_best"],
                 "error falls by": 1 - two["error"] / one["error"]}
                for one, two in pairwise(points)
                if one["above_best"] > 0 and two["above_best"] > 0  # not the best itself
            ]  # fmt: skip
        there = [
            fall for fall in falls
            if fall["above the best falls by"] >= CLEAR and fall["error falls by"] <= NONE
        ]  # fmt: skip
        nearest = sorted(falls, key=lambda fall: -fall["above the best falls by"])
        claims += [
            Claim(
                "there is a point where doubling the examples clearly lowers the error above the "
                f"best achievable (by {CLEAR:.0%}) and hardly the error itself ({NONE:.0%})",
                data, bool(there), (there or nearest or [{}])[0],
            ),
            Claim(
                f"the last doubling costs a lot of computation ({MUCH:g} times or more)", data,
                all(times >= MUCH for times in costs.values()),
                {f"times, {method}": times for method, times in costs.items()},
            ),
        ]  # fmt: skip
    return claims


def draw(tables: Tables) -> Any:
    its = grouped(tables["sizes"], "data")
    figure, axes = sheet(SIZES.heading, 3, len(its), 2.7)
    for row_of_axes, (data, rows) in zip(axes, its.items(), strict=True):
        sizes = sorted({row["size"] for row in rows})
        columns: tuple[tuple[str, str, Callable[[float], float]], ...] = (
            ("seconds", "seconds of fit", float),
            ("error", "(b) test error, %", percent),
            ("above_best", "(a) points above the best", percent),
        )
        for ax, (name, label, change) in zip(row_of_axes, columns, strict=True):
            lines(ax, rows, "size", name, "method", list(METHODS), change)
            numbers_on(ax, "x", sizes[::2])
            named(ax, "training rows", label, data if name == "seconds" else "")
        row_of_axes[0].set_yscale("log")
        row_of_axes[2].set_yscale("symlog", linthresh=0.1)
        highest = max(percent(row["above_best"]) for row in rows)
        row_of_axes[2].set_ylim(0, 1.5 * max(highest, 0.1))
        row_of_axes[2].yaxis.set_major_formatter("{x:g}")
    return below(figure, axes)


SIZES = Experiment(
    "challenge-sizes", PAPER, "Part III", "error and effort as the number of examples doubles",
    measure, judge, draw, data=("planted_binary", "digits"),
)  # fmt: skip
