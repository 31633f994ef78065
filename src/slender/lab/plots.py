"""Figures: a regularisation path, over one penalty or over two."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..extras import need
from ..storage import FileError, PathLike, write_whole

FORMATS = (".png", ".pdf", ".svg")
CURVES = {"top1": "top-1", "top5": "top-5", "mean_per_class": "mean per class"}


def plot_path(
    records: Sequence[Mapping[str, Any]], C: float | None = None, path: PathLike | None = None
) -> Any:
    """A figure of a path: validation accuracy and log-loss over C, the chosen C marked.

    `records` is the path_ of a LinearProbe, `C` its C_.  Returns matplotlib's Figure; with `path`
    (.png, .pdf or .svg) it is written there too.
    """
    if path is not None:
        check_format(path)
    figure_module = need("matplotlib.figure", "a plot")  # no pyplot: no window, no global state
    figure = figure_module.Figure(figsize=(6.4, 5.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    records = sorted(records, key=lambda record: record["C"])
    Cs = _column(records, "C")
    for name, label in CURVES.items():
        values = _column(records, name)
        if np.isfinite(values).any():
            style = ":" if name == "mean_per_class" else "-"  # it may lie on top of top-1
            upper.plot(Cs, values, style, marker=".", label=label)
    lower.plot(Cs, _column(records, "log_loss"), marker=".", color="tab:red")
    if C is not None:
        for axes in (upper, lower):
            axes.axvline(C, color="0.4", linestyle="--", linewidth=1, label=f"chosen C = {C:.3g}")
    upper.set_xscale("log")
    upper.set_ylabel("validation accuracy")
    upper.legend()
    lower.set_ylabel("validation log-loss")
    lower.set_xlabel("C")
    for axes in (upper, lower):
        axes.grid(alpha=0.3)
    return _written(figure, path)


def plot_grid(
    records: Sequence[Mapping[str, Any]],
    chosen: tuple[float, float] | None = None,
    path: PathLike | None = None,
) -> Any:
    """A figure of a path over lambda1 and lambda2: accuracy and rank, the chosen pair marked.

    `records` is the path_ of a TraceNormProbe, `chosen` its (lambda1_, lambda2_).
    """
    if path is not None:
        check_format(path)
    figure_module = need("matplotlib.figure", "a plot")
    figure = figure_module.Figure(figsize=(6.4, 5.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    lambda2s = sorted({record["lambda2"] for record in records}, reverse=True)
    shades = need("matplotlib", "a plot").colormaps["viridis"](np.linspace(0, 0.9, len(lambda2s)))
    for lambda2, shade in zip(lambda2s, shades, strict=True):
        row = sorted(
            (record for record in records if record["lambda2"] == lambda2),
            key=lambda record: record["lambda1"],
        )
        label = f"lambda2 = {lambda2:.0e}"
        x = _column(row, "lambda1")
        upper.plot(x, _column(row, "top1"), marker=".", color=shade, label=label)
        lower.plot(x, _column(row, "rank"), marker=".", color=shade)
    if chosen is not None:
        best = next(r for r in records if (r["lambda1"], r["lambda2"]) == chosen)
        for axes, name in ((upper, "top1"), (lower, "rank")):
            axes.plot(
                chosen[0], best[name], "o", color="tab:red", fillstyle="none", markersize=12,
                label="chosen" if axes is upper else None,
            )  # fmt: skip
    upper.set_xscale("log")
    upper.invert_xaxis()  # from strong to weak, as the path goes
    upper.set_ylabel("validation accuracy")
    upper.legend(fontsize="small")
    lower.set_ylabel("rank")
    lower.set_xlabel("lambda1")
    for axes in (upper, lower):
        axes.grid(alpha=0.3)
    return _written(figure, path)


def plot_chosen(model: Any, path: PathLike | None = None) -> Any:
    """The path of a fitted probe, of whichever penalty."""
    if hasattr(model, "C_"):
        return plot_path(model.path_, model.C_, path)
    return plot_grid(model.path_, (model.lambda1_, model.lambda2_), path)


def _written(figure: Any, path: PathLike | None) -> Any:
    """The figure, also as a file where one is asked for."""
    if path is not None:
        suffix = Path(path).suffix.lower().removeprefix(".")
        write_whole(path, lambda temporary: figure.savefig(temporary, format=suffix, dpi=150))
    return figure


def check_format(path: PathLike) -> None:
    """Raise on a suffix that is no format of figures."""
    if Path(path).suffix.lower() not in FORMATS:
        raise FileError(f"{path}: no known format of figures; use {', '.join(FORMATS)}")


def _column(records: Sequence[Mapping[str, Any]], name: str) -> NDArray[np.float64]:
    """One figure of every record; nan where it has none (top-5 of four classes)."""
    values = [record.get(name) for record in records]
    return np.array([np.nan if value is None else value for value in values], np.float64)
