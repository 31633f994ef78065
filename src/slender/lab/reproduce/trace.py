"""Harchaoui et al. 2012, Figures 1 and 2: the spectrum of W, and accuracy over classes.

Rows are taken as they are and no side has an intercept, as in the paper.
"""

from typing import Any

import numpy as np

from ...estimators.probe import LinearProbe
from ...estimators.tracenorm_probe import TraceNormProbe
from .base import Claim, Experiment, Material, Row, Tables, grouped, means
from .drawing import below, lines, named, number, numbers_on, percent, sheet, style
from .material import first_classes, ladder
from .one_vs_rest import one_vs_rest, top_k

PAPER = "Harchaoui et al. 2012"
FIRST = 0.25  # of the singular values: "the first ones"
ENERGY = 0.75  # of the squared norm: "most of the energy"
GRID, ALPHA = (5, 4), 0.1  # values of lambda1 and lambda2, and the ratio of one to the next
PLAIN_CS = 12  # values of C
MOST = 10  # k of top-k
SVM, TRACE = "one-vs-rest SVM", "trace norm"
PLAIN = "squared norm alone"  # multinomial, without the trace norm: not in the paper
METHODS = [SVM, TRACE, PLAIN]


def spectrum(material: Material) -> Tables:
    rows: list[Row] = []
    for data, split in material.sets.items():
        material.say(f"{data}: one-vs-rest SVMs")
        W = one_vs_rest(split.X_train, split.y_train).coef_
        sigma = np.linalg.svd(W, compute_uv=False)
        share = np.cumsum(sigma**2) / np.sum(sigma**2)
        rows += [
            {"data": data, "place": place, "singular_value": s, "energy": e}
            for place, (s, e) in enumerate(zip(sigma.tolist(), share.tolist(), strict=True), 1)
        ]
    return {"spectrum": rows}


def judge_spectrum(tables: Tables) -> list[Claim]:
    claims = []
    for data, rows in grouped(tables["spectrum"], "data").items():
        first = max(1, round(FIRST * len(rows)))
        energy = rows[first - 1]["energy"]
        claims.append(
            Claim(
                f"most of the energy of W ({ENERGY:.0%}) is in the first quarter of its singular "
                "values",
                data, energy >= ENERGY,
                {"singular values": len(rows), "first": first, "energy": energy},
            )
        )  # fmt: skip
        sigma = np.array([row["singular_value"] for row in rows])
        middle = float(sigma[0] / sigma[len(sigma) // 2])
        claims.append(
            Claim(
                "the spectrum falls fast at first and then stays at a similar magnitude: by more "
                "over its first half than over its second",
                data, middle > float(sigma[len(sigma) // 2] / max(sigma[-1], 1e-30)),
                {"first over middle": middle,
                 "middle over last": float(sigma[len(sigma) // 2] / max(sigma[-1], 1e-30))},
            )
        )  # fmt: skip
    return claims


def draw_spectrum(tables: Tables) -> Any:
    figure, axes = sheet(SPECTRUM.heading, 2)
    left, right = axes[0]
    its = grouped(tables["spectrum"], "data")
    for place, (data, rows) in enumerate(its.items()):
        look = {**style(place, data), "ms": 3}
        at = [row["place"] / len(rows) for row in rows]
        top = rows[0]["singular_value"]
        left.plot(at, [row["singular_value"] / top for row in rows], **look)
        right.plot(at, [row["energy"] for row in rows], **look)
    left.set_yscale("log")
    named(left, "place of the singular value / number of classes", "singular value / largest")
    named(right, "place of the singular value / number of classes", "share of the energy up to it")
    right.set_ylim(0, 1.03)
    return below(figure, axes)


SPECTRUM = Experiment(
    "trace-spectrum", PAPER, "Figure 1", "singular values of W learned one-vs-rest",
    spectrum, judge_spectrum, draw_spectrum, data=("planted_lowrank5k", "digits"),
    aliases=("trace-fig1",),
)  # fmt: skip


# -- Figure 2 --------------------------------------------------------------------------------------


def classes(material: Material) -> Tables:
    scale, rows = material.scale, []
    for data, split in material.sets.items():
        total = len(np.unique(split.y_train))
        for count in ladder(min(4, total), total, min(5, scale.points)):
            few = first_classes(split, count)
            material.say(f"{data}: {count} classes, one-vs-rest")
            svm = one_vs_rest(few.X_train, few.y_train)
            scores: dict[str, Any] = {SVM: (svm.decision_function(few.X_test), svm.classes_, None)}
            material.say(f"{data}: {count} classes, trace norm")
            probe = TraceNormProbe(*GRID, alpha=ALPHA, random_state=0)
            probe.fit(few.X_train, few.y_train)
            scores[TRACE] = probe.decision_function(few.X_test), probe.classes_, probe.rank_
            plain = LinearProbe(PLAIN_CS, fit_intercept=False, random_state=0)
            plain.fit(few.X_train, few.y_train)
            scores[PLAIN] = plain.decision_function(few.X_test), plain.classes_, None
            for method, (s, labels, rank) in scores.items():
                hits = top_k(s, labels, few.y_test, min(MOST, count))
                rows += [
                    {"data": data, "classes": count, "method": method, "k": k, "top_k": value,
                     "rank": rank}
                    for k, value in enumerate(hits, 1)
                ]  # fmt: skip
    return {"classes": rows}


def judge_classes(tables: Tables) -> list[Claim]:
    claims = []
    for data, rows in grouped(tables["classes"], "data").items():
        first = [row for row in rows if row["k"] == 1]
        top1 = {method: means(of, "classes", "top_k") for method, of in
                grouped(first, "method").items()}  # fmt: skip
        gain = {count: top1[TRACE][count] - top1[SVM][count] for count in top1[SVM]}
        few, many = min(gain), max(gain)
        claims += [
            Claim(
                "the trace norm gains on one-vs-rest as the classes grow in number", data,
                gain[many] > gain[few],
                {f"ahead at {few} classes, points": 100 * gain[few],
                 f"at {many}": 100 * gain[many]},
            ),
            Claim(
                "the trace norm is more accurate with all classes", data, gain[many] > 0,
                {TRACE: top1[TRACE][many], SVM: top1[SVM][many]},
            ),
        ]  # fmt: skip
        every = [row for row in rows if row["classes"] == many]
        curve = {method: means(of, "k", "top_k") for method, of in grouped(every, "method").items()}
        ahead = [k for k in curve[TRACE] if curve[TRACE][k] >= curve[SVM][k]]
        claims.append(
            Claim(
                "the trace norm is ahead or level in top-k for every k", data,
                len(ahead) == len(curve[TRACE]),
                {"values of k": f"{len(ahead)} of {len(curve[TRACE])}",
                 f"top-{max(curve[TRACE])}, trace norm": curve[TRACE][max(curve[TRACE])],
                 "one-vs-rest": curve[SVM][max(curve[TRACE])]},
            )
        )  # fmt: skip
    return claims


def draw_classes(tables: Tables) -> Any:
    its = grouped(tables["classes"], "data")
    figure, axes = sheet(CLASSES.heading, 2, len(its), 2.8)
    for (left, right), (data, rows) in zip(axes, its.items(), strict=True):
        counts = sorted({row["classes"] for row in rows})
        one = [row for row in rows if row["k"] == 1]
        lines(left, one, "classes", "top_k", "method", METHODS, percent)
        numbers_on(left, "x", counts)
        named(left, "number of classes", "top-1 on test rows, %", data)
        every = [row for row in rows if row["classes"] == counts[-1]]
        lines(right, every, "k", "top_k", "method", METHODS, percent)
        rank = max(number(row["rank"]) for row in every if row["rank"] is not None)
        named(
            right, "guesses k", "top-k on test rows, %", f"{counts[-1]} classes; W of rank {rank:g}"
        )
    return below(figure, axes)


CLASSES = Experiment(
    "trace-classes", PAPER, "Figure 2", "one-vs-rest and trace norm over classes, and top-k",
    classes, judge_classes, draw_classes, data=("planted_lowrank5k", "digits"),
    aliases=("trace-fig2",),
)  # fmt: skip
