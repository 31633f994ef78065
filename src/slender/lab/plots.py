"""Figures: a regularisation path, over one penalty or over two."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..extras import need
from ..storage import FileError, PathLike, write_whole
from .curves import column

FORMATS = (".png", ".pdf", ".svg")
NEAR = 30.0  # times the chosen penalty, up and down: what an axis must show well
MARGIN = 0.06  # of that, at either end of the axis
CURVES = {"top1": "top-1", "top5": "top-5", "mean_per_class": "mean per class"}


def plot_path(
    records: Sequence[Mapping[str, Any]], C: float | None = None, path: PathLike | None = None
) -> Any:
    """A figure of a path: validation accuracy and log-loss over C, the chosen C marked.

    Bands are a standard error wide on either side; the axes fit the values around the chosen C.
    `records` is the path_ of a LinearProbe, `C` its C_.  Returns matplotlib's Figure; with `path`
    (.png, .pdf or .svg) it is written there too.
    """
    figure, upper, lower = _two_panels()
    records = sorted(records, key=lambda record: record["C"])
    Cs = column(records, "C")
    curves = [name for name in CURVES if np.isfinite(column(records, name)).any()]
    for name in curves:
        style = ":" if name == "mean_per_class" else "-"  # it may lie on top of top-1
        _curve(upper, "C", records, name, linestyle=style, label=CURVES[name])
    _curve(lower, "C", records, "log_loss", color="tab:red")
    if C is not None:
        for axes in (upper, lower):
            axes.axvline(C, color="0.4", linestyle="--", linewidth=1, label=f"chosen C = {C:.3g}")
        near = [record for record in records if 1.0 / NEAR <= record["C"] / C <= NEAR]
        shown = _fit(upper, near, curves)(records) | _fit(lower, near, ["log_loss"])(records)
        _fit_penalty(upper, Cs, shown)
    upper.set_xscale("log")
    upper.set_ylabel("validation accuracy")
    _legend(figure, upper)
    lower.set_ylabel("validation log-loss")
    lower.set_xlabel("C")
    return written(figure, path)


def plot_grid(
    records: Sequence[Mapping[str, Any]],
    chosen: tuple[float, float] | None = None,
    path: PathLike | None = None,
) -> Any:
    """A figure of a path over lambda1 and lambda2: accuracy and rank, the chosen pair marked.

    The band, a standard error on either side, is that of the chosen lambda2; the upper axis fits
    the values around the chosen lambda1.  `records` is the path_ of a TraceNormProbe, `chosen` its
    (lambda1_, lambda2_).
    """
    figure, upper, lower = _two_panels()
    lambda2s = sorted({record["lambda2"] for record in records}, reverse=True)
    shades = need("matplotlib", "a plot").colormaps["viridis"](np.linspace(0, 0.9, len(lambda2s)))
    for lambda2, shade in zip(lambda2s, shades, strict=True):
        row = sorted(
            (record for record in records if record["lambda2"] == lambda2),
            key=lambda record: record["lambda1"],
        )
        label, band = f"lambda2 = {lambda2:.0e}", chosen is not None and lambda2 == chosen[1]
        _curve(upper, "lambda1", row, "top1", band=band, color=shade, label=label)
        _curve(lower, "lambda1", row, "rank", color=shade)
    if chosen is not None:
        best = next(r for r in records if (r["lambda1"], r["lambda2"]) == chosen)
        for axes, name in ((upper, "top1"), (lower, "rank")):
            axes.plot(
                chosen[0], best[name], "o", color="tab:red", fillstyle="none", markersize=12,
                label="chosen" if axes is upper else None,
            )  # fmt: skip
        near = [r for r in records if 1.0 / NEAR <= r["lambda1"] / chosen[0] <= NEAR]
        shown = _fit(upper, near, ["top1"])(records)
        _fit_penalty(upper, column(records, "lambda1"), shown)
    upper.set_xscale("log")
    upper.invert_xaxis()  # from strong to weak, as the path goes
    upper.set_ylabel("validation accuracy")
    _legend(figure, upper)
    lower.set_ylabel("rank")
    lower.set_xlabel("lambda1")
    return written(figure, path)


def plot_chosen(model: Any, path: PathLike | None = None) -> Any:
    """The path of a fitted probe, of whichever penalty."""
    if hasattr(model, "C_"):
        return plot_path(model.path_, model.C_, path)
    return plot_grid(model.path_, (model.lambda1_, model.lambda2_), path)


def _two_panels() -> tuple[Any, Any, Any]:
    """A figure, its upper and its lower axes, over one penalty."""
    figure_module = need("matplotlib.figure", "a plot")  # no pyplot: no window, no global state
    figure = figure_module.Figure(figsize=(6.4, 5.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for axes in (upper, lower):
        axes.grid(alpha=0.3)
    return figure, upper, lower


def _legend(figure: Any, axes: Any) -> None:
    """Above the axes, where it hides no curve."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize="small")


def _curve(
    axes: Any,
    penalty: str,
    records: Sequence[Mapping[str, Any]],
    name: str,
    band: bool = True,
    **style: Any,
) -> None:
    """One figure over the penalty, in a band of its standard error where it has one."""
    x, values = column(records, penalty), column(records, name)
    (line,) = axes.plot(x, values, marker=".", **style)
    error = column(records, f"{name}_error")
    if band and np.isfinite(error).any():
        color = line.get_color()
        axes.fill_between(x, values - error, values + error, color=color, alpha=0.2, linewidth=0)


def _fit(
    axes: Any, records: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> Callable[[Sequence[Mapping[str, Any]]], NDArray[np.bool_]]:
    """An axis that fits these figures and their bands; gives what says which records it shows."""
    ends = []
    for name in names:
        error = np.nan_to_num(column(records, f"{name}_error"))
        ends += [column(records, name) - error, column(records, name) + error]
    low, high = np.nanmin(ends), np.nanmax(ends)
    margin = MARGIN * (high - low) or MARGIN
    axes.set_ylim(low - margin, high + margin)

    def shows(others: Sequence[Mapping[str, Any]]) -> NDArray[np.bool_]:
        values = np.array([column(others, name) for name in names])
        return np.any((values >= low) & (values <= high), axis=0)

    return shows


def _fit_penalty(axes: Any, values: NDArray[np.float64], shown: NDArray[np.bool_]) -> None:
    """From the least to the largest penalty with something to show, and one on either side."""
    every = np.unique(values)
    first, last = np.searchsorted(every, [values[shown].min(), values[shown].max()])
    kept = every[max(0, first - 1) : last + 2]
    if len(kept) > 1:
        air = (kept[-1] / kept[0]) ** (MARGIN / 2.0)
        axes.set_xlim(kept[0] / air, kept[-1] * air)


def written(figure: Any, path: PathLike | None) -> Any:
    """The figure, also as a file where one is asked for."""
    if path is not None:
        check_format(path)
        suffix = Path(path).suffix.lower().removeprefix(".")
        write_whole(path, lambda temporary: figure.savefig(temporary, format=suffix, dpi=150))
    return figure


def check_format(path: PathLike) -> None:
    """Raise on a suffix that is no format of figures."""
    if Path(path).suffix.lower() not in FORMATS:
        raise FileError(f"{path}: no known format of figures; use {', '.join(FORMATS)}")
