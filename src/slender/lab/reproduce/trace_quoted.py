"""Harchaoui et al. 2012, §5: the accuracies quoted from Deng et al. 2010, where the data is here.

Fungus, Ungulate and Vehicle are images: `slender extract fungus --features fisher --out fungus`
makes their vectors, and `--data fungus,ungulate,vehicle` names the three folders.
"""

from pathlib import Path
from typing import Any

import numpy as np

from ...estimators.tracenorm_probe import TraceNormProbe
from ..experiment import accuracy
from ..splits import Split
from .base import Claim, Experiment, Material, Row, Tables
from .drawing import below, named, sheet, style
from .one_vs_rest import one_vs_rest
from .trace import ALPHA, GRID, PAPER, SVM, TRACE

QUOTED = {"fungus": 12.0, "ungulate": 15.0, "vehicle": 25.0}  # % of Deng et al. 2010
FIRST_CLASSES = {"fungus": 134, "ungulate": 182, "vehicle": 262}


def known_as(data: str) -> str | None:
    """Which of the three a folder of vectors holds, by its name."""
    return next((name for name in QUOTED if name in Path(data).name.lower()), None)


def measure(material: Material) -> Tables:
    rows: list[Row] = []
    for data, split in material.sets.items():
        name = known_as(data)
        if name is None:
            raise ValueError(
                f"no accuracy is quoted for {data}; name folders of vectors called "
                f"{', '.join(QUOTED)} (slender extract fungus --features fisher --out fungus)"
            )
        material.say(data)
        rows += _accuracies(name, split)
    return {"quoted": rows}


def _accuracies(name: str, split: Split) -> list[Row]:
    found = {
        SVM: one_vs_rest(split.X_train, split.y_train),
        TRACE: TraceNormProbe(*GRID, alpha=ALPHA, random_state=0).fit(split.X_train, split.y_train),
    }
    return [
        {"data": name, "method": method, "classes": len(np.unique(split.y_train)),
         "classes_in_paper": FIRST_CLASSES[name], "quoted": QUOTED[name] / 100,
         "top1": accuracy(model, split.X_test, split.y_test)}
        for method, model in found.items()
    ]  # fmt: skip


def judge(tables: Tables) -> list[Claim]:
    return [
        Claim(
            "the trace norm is far above the accuracy quoted from Deng et al. 2010",
            row["data"], row["top1"] > row["quoted"],
            {"top-1": row["top1"], "quoted": row["quoted"], "classes": row["classes"],
             "classes in the paper": row["classes_in_paper"]},
        )
        for row in tables["quoted"] if row["method"] == TRACE
    ]  # fmt: skip


def draw(tables: Tables) -> Any:
    rows = tables["quoted"]
    names = list(dict.fromkeys(row["data"] for row in rows))
    figure, axes = sheet(ACCURACIES.heading, 1)
    ax = axes[0, 0]
    of_all = {
        "quoted (Deng et al. 2010)": [100 * row["quoted"] for row in rows if row["method"] == SVM],
        **{m: [100 * row["top1"] for row in rows if row["method"] == m] for m in (SVM, TRACE)},
    }
    for place, (label, values) in enumerate(of_all.items()):
        at = np.arange(len(names)) + 0.27 * (place - 1)
        bars = ax.bar(at, values, 0.25, color=style(place)["color"], label=label)
        ax.bar_label(bars, fmt="%.1f", fontsize=8, padding=2)
    ax.set_xticks(range(len(names)), names)
    named(ax, "", "top-1 on test rows, %")
    return below(figure, axes)


ACCURACIES = Experiment(
    "trace-quoted", PAPER, "§5, quoted accuracies", "Fungus, Ungulate and Vehicle",
    measure, judge, draw, data=tuple(QUOTED),
)  # fmt: skip
