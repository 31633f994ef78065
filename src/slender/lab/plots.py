"""Figures: a regularisation path."""

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
