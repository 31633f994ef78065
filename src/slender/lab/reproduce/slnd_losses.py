"""Bel Haj Ali et al. 2013, Figure 1: calibrated losses, and two that are not."""

from collections.abc import Callable
from itertools import pairwise
from math import exp
from typing import Any

import numpy as np

from ...losses import CalibratedHinge, Logistic
from .base import Claim, Experiment, Material, Tables, grouped
from .drawing import below, lines, named, sheet

PAPER = "Bel Haj Ali et al. 2013"
SPAN = 4.0  # of the margins on either side of 0
ROUNDING = 1e-12
CALIBRATED: dict[str, Any] = {"logistic": Logistic(), "calibrated hinge": CalibratedHinge()}
# The paper's hinge has its corner at 0; that of an SVM, slender.losses.Hinge, has it at 1.
OTHERS: dict[str, Callable[[float], float]] = {
    "hinge max(0, -z)": lambda z: max(0.0, -z),
    "exponential": lambda z: exp(-z),
}


def measure(material: Material) -> Tables:
    margins = np.linspace(-SPAN, SPAN, 20 * material.scale.points + 1)
    rows = [
        {"loss": name, "z": z, "value": of.value(z), "slope": of.slope(z),
         "curvature": of.curvature(z), "posterior": of.posterior(z)}
        for name, of in CALIBRATED.items()
        for z in margins.tolist()
    ]  # fmt: skip
    rows += [
        {"loss": name, "z": z, "value": value(z), "slope": None, "curvature": None,
         "posterior": None}
        for name, value in OTHERS.items()
        for z in margins.tolist()
    ]  # fmt: skip
    return {"losses": rows}


def judge(tables: Tables) -> list[Claim]:
    claims = []
    for loss, rows in grouped(tables["losses"], "loss").items():
        if rows[0]["curvature"] is None:
            continue
        at_zero = min(rows, key=lambda row: abs(row["z"]))["curvature"]
        largest = max(row["curvature"] for row in rows)
        claims.append(
            Claim(
                f"{loss}: F''(z) <= F''(0) for every z",
                None,
                largest <= at_zero + ROUNDING,
                {"F''(0)": at_zero, "largest F''": largest},
            )
        )
        f = [row["posterior"] for row in rows]
        apart = max(
            *(abs(a + b - 1.0) for a, b in zip(f, f[::-1], strict=True)),
            *(abs(row["slope"] + 1.0 - row["posterior"]) for row in rows),
        )
        rising = all(b > a for a, b in pairwise(f))
        claims.append(
            Claim(
                f"{loss}: calibrated, F' + 1 = f increases from 0 to 1 and is symmetric about "
                "(0, 1/2)",
                None,
                rising and apart <= ROUNDING,
                {"largest departure": apart, "f increases": rising},
            )
        )
    return claims


def draw(tables: Tables) -> Any:
    figure, axes = sheet(LOSSES.heading, 2)
    left, right = axes[0]
    rows = tables["losses"]
    kinds = list(grouped(rows, "loss"))
    lines(left, rows, "z", "value", "loss", kinds)
    lines(right, [row for row in rows if row["curvature"] is not None], "z", "curvature", "loss",
          kinds)  # fmt: skip
    for line in (*left.lines, *right.lines):
        line.set_marker("")
    left.set_ylim(-2.2, SPAN + 0.5)
    named(left, "margin z = y wᵀx", "loss F(z)")
    named(right, "margin z = y wᵀx", "curvature F″(z)")
    return below(figure, axes)


LOSSES = Experiment(
    "slnd-losses", PAPER, "Figure 1", "the calibrated losses, beside hinge and exponential",
    measure, judge, draw, aliases=("slnd-fig1",),
)  # fmt: skip
