"""Bordes and Bottou 2008, Part I: LaRank with and without reprocess, on subsets that grow.

Two classes, no intercept, no preprocessing, as on the slides; one move on an example at a time and
every example in every epoch, so that the two differ by reprocess alone.
"""

from typing import Any

from ...estimators.larank import LaRankClassifier
from ..curves import Curve
from ..measures import exponent
from ..splits import Split, permuted
from .base import Claim, Experiment, Material, Row, Tables, grouped
from .drawing import above, below, lines, named, numbers_on, sheet
from .material import ladder, two_classes

PAPER = "Bordes and Bottou 2008"
C = 1.0
NEAR = 1e-2  # of the best dual value: where an epoch is counted
SEEDS = 2
PUBLISHED: dict[str, Any] = {"fit_intercept": False, "active": False, "inner": 1, "tol": None}
KINDS = {"with reprocess": True, "without": False}
EPOCHS = {"with reprocess": 2, "without": 6}  # times the passes of the scale
LINEAR = 1.3  # largest exponent of moves over rows that still counts as O(n)


def dual_curve(split: Split, passes: int, seed: int, reprocess: bool) -> Curve:
    """Dual value, moves and operations after each epoch."""
    model = LaRankClassifier(
        C, passes=passes, reprocess=reprocess, random_state=seed, **PUBLISHED
    ).fit(split.X_train, split.y_train)
    return list(model.trace_)


def measure(material: Material) -> Tables:
    scale, rows, ends = material.scale, [], []
    for data, split in material.sets.items():
        whole = two_classes(split)
        n = len(whole.y_train)
        for size in ladder(n / 2 ** (scale.points - 3) if scale.points > 3 else n / 2, n, 4):
            for seed in range(min(SEEDS, scale.seeds)):
                material.say(f"{data}: {size:,} rows, seed {seed}")
                few = permuted(whole, size, seed)
                curves = {
                    kind: dual_curve(few, EPOCHS[kind] * scale.passes, seed, reprocess)
                    for kind, reprocess in KINDS.items()
                }
                best = max(point["dual"] for curve in curves.values() for point in curve)
                for kind, curve in curves.items():
                    named_row = {"data": data, "size": size, "seed": seed, "kind": kind}
                    rows += [
                        {**named_row, "epoch": p["passes"], "dual": p["dual"],
                         "below": 1.0 - p["dual"] / best, "operations": p["operations"]}
                        for p in curve
                    ]  # fmt: skip
                    there = [p for p in curve if p["dual"] >= (1.0 - NEAR) * best]
                    ends.append(
                        {**named_row, "epochs": there[0]["passes"] if there else None,
                         "moves": there[0]["moves"] if there else None,
                         "operations": there[0]["operations"] if there else None}
                    )  # fmt: skip
    return {"dual": rows, "epochs": ends}


def judge(tables: Tables) -> list[Claim]:
    claims = []
    for data, rows in grouped(tables["epochs"], "data").items():
        its = grouped(rows, "kind")
        epochs = {kind: _epochs(of) for kind, of in its.items()}
        fewer = [
            size for size, many in epochs["without"].items()
            if epochs["with reprocess"][size] < many
        ]  # fmt: skip
        last = max(epochs["without"])
        claims.append(
            Claim(
                f"reprocess takes fewer epochs to within {NEAR:.0%} of the best dual value, at "
                "every size",
                data,
                len(fewer) == len(epochs["without"]),
                {"at sizes": f"{len(fewer)} of {len(epochs['without'])}",
                 "epochs with": epochs["with reprocess"][last],
                 "without": epochs["without"][last], "rows": last},
            )
        )  # fmt: skip
        with_it = [row for row in its["with reprocess"] if row["moves"]]
        p = exponent([row["size"] for row in with_it], [row["moves"] for row in with_it])
        claims.append(
            Claim(
                f"O(n) moves reach a given accuracy (exponent at most {LINEAR:g})", data,
                p is not None and p <= LINEAR, {"moves ~ rows^": p},
            )
        )  # fmt: skip
    return claims


def _epochs(rows: list[Row]) -> dict[int, float]:
    """The mean over the seeds at each size; infinite where one of them did not get there."""
    found = {}
    for size, its in grouped(rows, "size").items():
        values = [float("inf") if row["epochs"] is None else row["epochs"] for row in its]
        found[size] = sum(values) / len(values)
    return found


def draw(tables: Tables) -> Any:
    its = grouped(tables["epochs"], "data")
    figure, axes = sheet(REPROCESS.heading, 2, len(its), 2.8)
    for (left, right), (data, rows) in zip(axes, its.items(), strict=True):
        largest = max(row["size"] for row in rows)
        whole = [r for r in tables["dual"] if r["data"] == data and r["size"] == largest]
        best = min((r["below"] for r in whole if r["below"] > 0), default=1e-6)
        lines(left, whole, "epoch", "below", "kind", list(KINDS), above(0.0, best / 2))
        left.set_yscale("log")
        left.set_xscale("log")
        left.axhline(NEAR, color="0.4", lw=0.8, ls=":", label=f"{NEAR:.0%} below the best")
        named(left, "epochs", "dual value, share below the best", f"{data}: {largest:,} rows")
        lines(right, rows, "size", "epochs", "kind", list(KINDS))
        numbers_on(right, "x", sorted({row["size"] for row in rows}))
        right.set_yscale("log")
        named(right, "training rows", f"epochs to within {NEAR:.0%}")
        for line in left.lines:
            line.set_markersize(2.5)
    return below(figure, axes)


REPROCESS = Experiment(
    "larank-reprocess", PAPER, "Part I, empirical behaviour",
    "epochs of LaRank with and without reprocess",
    measure, judge, draw, data=("digits", "planted_binary"),
)  # fmt: skip
