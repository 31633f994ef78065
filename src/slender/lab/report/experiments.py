"""slender run and slender compare: curves of several optimisers, and what they ended with."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..curves import column, medians
from ..measures import summary
from .charts import Chart, Curve
from .elements import E
from .fits import OVER, work
from .results import Result
from .section import Section, command_of, versions_of

Fit = Mapping[str, Any]
ENDS = {  # figure of the headline -> its name in a summary
    "objective": "objective",
    "gap": "gap",
    "validation_top1": "validation_accuracy",
    "validation_top5": "validation_top5",
    "test_top1": "test_accuracy",
    "test_top5": "test_top5",
    "seconds": "seconds",
    "passes": "passes",
}


def of_run(result: Result) -> Section:
    """Of slender run --json."""
    fit = result.document
    last, test = fit["curve"][-1], fit["test"]
    figures = {
        **{name: fit[name] for name in ("rows", "features", "classes")},
        "objective": last.get("exact", last["objective"]),
        "gap": last["gap"],
        "validation_top1": last["validation_accuracy"],
        "test_top1": test["accuracy"],
        "test_top5": test.get("top5"),
        "seconds": last["seconds"],
        "passes": last["passes"],
    }
    title = f"{fit['opt']} on {fit['dataset']}: {fit['problem']}"
    section = Section(
        name=result.name,
        title=title,
        rows=[("", figures)],
        settings=fit["settings"],
        versions=versions_of(fit),
        command=command_of(fit),
        left_out=list(fit["warnings"]),
    )
    section.charts["Convergence"] = [*curve_charts([fit])]
    if not fit["finished"]:
        section.left_out.append("The run was interrupted: its last passes are missing.")
    return section


def of_compare(result: Result) -> Section:
    """Of slender compare --json, finished or not."""
    document = result.document
    whole = document["finished"]
    fits = document["fits"]
    fits = [fits[place] for place in document["compared"]] if whole else fits
    if not fits:
        raise ValueError("there is no fit in it")
    ends = document["summary"] if whole else summary(fits)
    section = Section(
        name=result.name,
        title="Comparison of " + ", ".join(dict.fromkeys(fit["opt"] for fit in fits)),
        rows=[(_contender(row), {name: row[of] for name, of in ENDS.items()}) for row in ends],
        settings={"seeds": len({fit["seed"] for fit in fits}), **_common(fits)},
        versions=versions_of(document),
        command=command_of(document),
    )
    for dataset in dict.fromkeys(fit["dataset"] for fit in fits):
        mine = [fit for fit in fits if fit["dataset"] == dataset]
        drawn = curve_charts(mine) if mine[0]["size"] is None else []
        section.charts[f"On {dataset}"] = [*drawn, *_growth(document, dataset)]
    notes = [_choice(choice) for choice in document.get("choices", [])]
    if notes:
        section.parts.append(("First steps", [E("ul", [E("li", note) for note in notes])]))
    section.left_out += [
        f"{each['opt'] or 'Every optimiser'} on {each['dataset']}: {each['reason']}"
        for each in document.get("left_out", [])
    ]
    section.left_out += dict.fromkeys(
        f"{fit['opt']} on {fit['dataset']}: {text}" for fit in fits for text in fit["warnings"]
    )
    if not whole:
        section.left_out.append(
            f"Unfinished: {len(fits)} of {document['planned']} fits, the rates that were tried "
            "among them; slender compare with --resume continues it."
        )
    return section


def _contender(row: Mapping[str, Any]) -> str:
    size = "" if row["size"] is None else f", {row['size']:,} rows"
    return f"{row['dataset']}{size}: {row['opt']} {row['obj']}"


def _common(fits: Sequence[Fit]) -> dict[str, Any]:
    """The options that all fits share."""
    names = dict.fromkeys(name for fit in fits for name in fit["options"])
    found = {name: [fit["options"].get(name) for fit in fits] for name in names}
    return {name: of[0] for name, of in found.items() if all(value == of[0] for value in of)}


def _choice(choice: Mapping[str, Any]) -> str:
    size = "" if choice["size"] is None else f", {choice['size']:,} rows"
    edge = ", the last one tried" if choice["at_edge"] else ""
    return (
        f"{choice['opt']} on {choice['dataset']}{size}: {choice['chosen']:.3g}, "
        f"the best of {len(choice['rates'])}{edge}"
    )


# -- charts ----------------------------------------------------------------------------------------


def curve_charts(fits: Sequence[Fit]) -> list[Chart]:
    """For each problem, the objective above the best seen and the gap; validation errors."""
    colours = {opt: k for k, opt in enumerate(dict.fromkeys(fit["opt"] for fit in fits))}
    charts = []
    for problem in dict.fromkeys(fit["problem"] for fit in fits):
        mine = [fit for fit in fits if fit["problem"] == problem]
        charts.append(_objectives(problem, mine, colours))
        if any(column(fit["curve"], "gap").any() for fit in mine):
            lines = _lines(mine, colours, lambda fit: column(fit["curve"], "gap"), "gap {:.3g}")
            charts.append(Chart(f"Gap: {problem}", "duality gap", OVER, lines, y_log=True))

    def errors(fit: Fit) -> NDArray[np.float64]:
        return 100 * (1 - column(fit["curve"], "validation_accuracy"))

    wrong = _lines(fits, colours, errors, "{:.2f} % wrong")
    charts.append(Chart("Validation error", "error, %", OVER, wrong, y_log=True))
    return charts


def _objectives(problem: str, fits: Sequence[Fit], colours: Mapping[str, int]) -> Chart:
    name = "exact" if all("exact" in fit["curve"][-1] for fit in fits) else "objective"
    if len(fits) == 1:
        lines = _lines(fits, colours, lambda fit: column(fit["curve"], name), "objective {:.6g}")
        return Chart(f"Objective: {problem}", "objective", OVER, lines, y_log=True)
    values = np.concatenate([column(fit["curve"], name) for fit in fits])
    best = float(np.nanmin(values, initial=np.inf))
    above = values[values > best] - best
    floor = 0.5 * float(above.min(initial=1.0))  # the best itself has no place on a log axis

    def heights(fit: Fit) -> NDArray[np.float64]:
        return np.maximum(column(fit["curve"], name) - best, floor)

    return Chart(
        f"Objective: {problem}",
        "above the best seen",
        OVER,
        _lines(fits, colours, heights, "{:.3g} above the best"),
        y_log=True,
        note="A line is the median over the seeds; each seed is a thin line behind it."
        if len({fit["seed"] for fit in fits}) > 1
        else None,
    )


def _lines(
    fits: Sequence[Fit],
    colours: Mapping[str, int],
    heights: Callable[[Fit], NDArray[np.float64]],
    text: str,
) -> list[Curve]:
    """For each contender the medians, and each seed thin behind them."""
    thin, thick = [], []
    keys = dict.fromkeys((fit["opt"], fit["obj"]) for fit in fits)
    for opt, obj in keys:
        mine = [fit for fit in fits if (fit["opt"], fit["obj"]) == (opt, obj)]
        name = f"{opt} {obj}" if len({o for p, o in keys if p == opt}) > 1 else opt
        look: dict[str, Any] = {"colour": colours[opt], "dashed": obj == "svm" and " " in name}
        if len(mine) > 1:
            thin += [
                Curve(
                    name,
                    {x: list(column(fit["curve"], x)) for x in OVER},
                    list(heights(fit)),
                    (),
                    thin=True,
                    **look,
                )
                for fit in mine
            ]
        middle = {
            x: medians([(column(fit["curve"], x), heights(fit)) for fit in mine])[-1] for x in OVER
        }
        y = middle["passes"][1]
        xs = {x: list(of[0]) for x, of in middle.items()}
        tips = [
            f"{name}: {work({'passes': p, 'seconds': s})}: "
            + (text.format(value) if np.isfinite(value) else "-")
            for p, s, value in zip(xs["passes"], xs["seconds"], y, strict=True)
        ]
        thick.append(Curve(name, xs, list(y), tips, **look))
    return thin + thick


def _growth(document: Mapping[str, Any], dataset: str) -> list[Chart]:
    """Seconds and test error over the number of rows, of --sizes."""
    measured = (document.get("large_scale") or {}).get(dataset)
    if not measured:
        return []
    seconds, errors, efforts = [], [], []
    for place, each in enumerate(measured["contenders"]):
        name, points = f"{each['opt']} {each['obj']}", each["points"]
        sizes = {"rows": [point["size"] for point in points]}
        took = [point["seconds"]["mean"] for point in points]
        wrong = [100 * point["error"]["mean"] for point in points]
        if each["effort"] is not None:
            efforts.append(f"{name}: seconds ~ rows^{each['effort']:.2f}")
        tips = [
            f"{name}, {n:,} rows: {s:.3g} s, {e:.2f} % wrong"
            for n, s, e in zip(sizes["rows"], took, wrong, strict=True)
        ]
        seconds.append(Curve(name, sizes, took, tips, colour=place))
        errors.append(Curve(name, sizes, wrong, tips, colour=place))
    rows = {"rows": "training rows"}
    return [
        Chart(
            "Seconds of fit", "seconds", rows, seconds, True, True, note="; ".join(efforts) or None
        ),
        Chart("Test error", "error, %", rows, errors, x_log=True, y_log=True),
    ]
