"""Harchaoui et al. 2012, Figure 3 and §4.2: what codes cost in accuracy, and save in time.

    Full      trained and tested on the rows as they are
    PQ        trained and tested on codes
    Semi PQ   trained on codes, tested on the rows as they are

python -m benchmarks.semipq measures the same at the paper's size.
"""

from typing import Any

import numpy as np

from ...compress import ProductQuantizer
from ...estimators.tracenorm_probe import TraceNormProbe
from ..experiment import accuracy
from ..products import PRODUCTS, race
from .base import Claim, Experiment, Material, Row, Tables, grouped, means
from .drawing import below, named, sheet, style
from .one_vs_rest import one_vs_rest
from .trace import ALPHA, GRID, PAPER, SVM, TRACE

CASES = ("Full", "PQ", "Semi PQ")
D_SQ = 16  # numbers a byte stands for, where there are as many features as in the paper
CODEBOOKS = 2  # draws of them
LITTLE = 0.005  # of accuracy: a loss of which nothing can be won back
BACK = 0.3  # of the loss that Semi PQ must win back to count as "almost half"


def part(d: int) -> int:
    """Numbers a byte stands for: the paper's 16, or fewer, so that a row has at least 8 bytes."""
    wanted = min(D_SQ, max(2, d // 8))
    return next(size for size in range(wanted, 0, -1) if d % size == 0)


def compression(material: Material) -> Tables:
    rows: list[Row] = []
    for data, split in material.sets.items():
        d_sq = part(split.X_train.shape[1])
        tests: dict[str, Any] = {"Full": split.X_test, "Semi PQ": split.X_test}
        full = {
            SVM: one_vs_rest(split.X_train, split.y_train),
            TRACE: _probe(split.X_train, split.y_train, 0),
        }
        for seed in range(min(CODEBOOKS, material.scale.seeds)):
            material.say(f"{data}: codebooks, seed {seed}")
            quantizer = ProductQuantizer(d_sq=d_sq, random_state=seed).fit(split.X_train)
            M, tests["PQ"] = quantizer.encode(split.X_train), quantizer.encode(split.X_test)
            coded = {
                SVM: one_vs_rest(M.toarray(), split.y_train, seed),  # sooner than on the codes
                TRACE: _probe(M, split.y_train, seed),
            }
            for method in (SVM, TRACE):
                for case in CASES:
                    model = (full if case == "Full" else coded)[method]
                    rows.append(
                        {"data": data, "method": method, "case": case, "d_sq": d_sq, "seed": seed,
                         "top1": accuracy(model, tests[case], split.y_test)}
                    )  # fmt: skip
    return {"compression": rows}


def _probe(X: Any, y: Any, seed: int) -> Any:
    return TraceNormProbe(*GRID, alpha=ALPHA, random_state=seed).fit(X, y)


def judge_compression(tables: Tables) -> list[Claim]:
    claims = []
    for data, rows in grouped(tables["compression"], "data").items():
        for method, its in grouped(rows, "method").items():
            full, coded, semi = (means(its, "case", "top1")[case] for case in CASES)
            lost = full - coded
            back = (semi - coded) / lost if lost > 0 else None
            claims.append(
                Claim(
                    f"{method}: training on codes and testing without wins back almost half of "
                    f"what compression loses ({BACK:.0%} or more, if it loses {100 * LITTLE:g} "
                    "points or more)",
                    data, lost <= LITTLE or (back is not None and back >= BACK),
                    {"Full": full, "PQ": coded, "Semi PQ": semi, "won back": back},
                )
            )  # fmt: skip
    return claims


def draw_compression(tables: Tables) -> Any:
    its = grouped(tables["compression"], "data")
    figure, axes = sheet(COMPRESSION.heading, max(2, len(its)), 1, 3.2)
    for ax, (data, rows) in zip(axes[0], its.items(), strict=False):
        for place, case in enumerate(CASES):
            mine = [row for row in rows if row["case"] == case]
            for at, (method, of) in enumerate(grouped(mine, "method").items()):
                values = [100 * row["top1"] for row in of]
                middle = float(np.mean(values))
                look = style(place)
                bar = ax.bar(at + 0.27 * (place - 1), middle, 0.25, color=look["color"],
                             label=case if at == 0 else None)  # fmt: skip
                ax.bar_label(bar, fmt="%.1f", fontsize=8, padding=2)
        ax.margins(y=0.1)
        ax.set_xticks(range(2), list(grouped(rows, "method")))
        size = f"{4 * rows[0]['d_sq']} times smaller"
        named(ax, "", "top-1 on test rows, %", f"{data}, codes {size}")
    for ax in axes[0, len(its) :]:
        ax.set_visible(False)
    return below(figure, axes)


COMPRESSION = Experiment(
    "trace-compression", PAPER, "Figure 3", "trained on rows or codes, tested on either",
    compression, judge_compression, draw_compression, data=("planted_lowrank5k", "digits"),
    packages=("faiss",), aliases=("trace-fig3",),
)  # fmt: skip


# -- the products' timings -------------------------------------------------------------------------

N, D, M = 30_000, 4096, 128
QUOTED = {"M @ B": (52.4, 42.3), "M.T @ G": (43.8, 9.2)}  # full, compressed; 65,536 x 250,000


def products(material: Material) -> Tables:
    effort = material.scale.effort
    n, d = max(500, int(N * effort)), max(64, int(D * effort) // D_SQ * D_SQ)
    found = race(n, d, D_SQ, M, material.scale.seeds, material.say)["products"]
    return {
        "products": [
            {"product": name, "rows": n, "columns": d, "d_sq": D_SQ, "m": M,
             "seconds_full": of["dense"]["median"], "seconds_codes": of["codes"]["median"],
             "sooner": of["sooner"]["median"], "apart": of["apart"],
             "paper_full": QUOTED[name][0], "paper_codes": QUOTED[name][1]}
            for name, of in found.items()
        ]
    }  # fmt: skip


def judge_products(tables: Tables) -> list[Claim]:
    texts = {
        "M @ B": "scores from codes (the paper's A X) are faster than from the full matrix",
        "M.T @ G": "the gradient's product (the paper's X B) is four times faster on codes",
    }
    least = {"M @ B": 1.0, "M.T @ G": 4.0}
    return [
        Claim(
            texts[row["product"]], None, row["sooner"] >= least[row["product"]],
            {"times faster": row["sooner"], "in the paper": row["paper_full"] / row["paper_codes"],
             "full, s": row["seconds_full"], "codes, s": row["seconds_codes"]},
        )
        for row in tables["products"]
    ]  # fmt: skip


def draw_products(tables: Tables) -> Any:
    rows = tables["products"]
    figure, axes = sheet(PRODUCT_TIMES.heading, 2, 1, 3.2)
    sides = (
        ("seconds_full", "seconds_codes",
         f"measured: {rows[0]['rows']:,} × {rows[0]['columns']:,}"),
        ("paper_full", "paper_codes", "in the paper: 250,000 × 65,536"),
    )  # fmt: skip
    for ax, (full, codes, title) in zip(axes[0], sides, strict=True):
        for place, (name, label) in enumerate(((full, "full matrix"), (codes, "codes"))):
            at = np.arange(len(rows)) + 0.38 * (place - 0.5)
            bars = ax.bar(at, [row[name] for row in rows], 0.36, color=style(place)["color"],
                          label=label)  # fmt: skip
            ax.bar_label(bars, fmt="%.3g", fontsize=8, padding=2)
        ax.set_xticks(range(len(rows)), [PRODUCTS[row["product"]] for row in rows])
        ax.margins(y=0.12)
        named(ax, "", "seconds", title)
    return below(figure, axes)


PRODUCT_TIMES = Experiment(
    "trace-products", PAPER, "§4.2, table of timings", "products with the full matrix and codes",
    products, judge_products, draw_products, times_blas=True,
)  # fmt: skip
