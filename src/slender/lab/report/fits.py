"""One fitted model: how it converged, the path to its penalty, its settings."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...registry import ESTIMATORS, METHODS, PROBES
from .charts import Chart, Curve
from .results import Result
from .section import Section, command_of, versions_of

Records = Sequence[Mapping[str, Any]]
OVER = {"seconds": "seconds of fit, evaluation off the clock", "passes": "passes over the rows"}
PENALTIES = ("C", "lambda1", "lambda2")
ACCURACIES = {"top1": "top-1", "top5": "top-5", "mean_per_class": "mean over classes"}


class Fitted(NamedTuple):
    """What a model file and a document of --json both say."""

    estimator: str
    figures: dict[str, Any]
    settings: Mapping[str, Any]
    trace: Records
    path: Records
    chosen: Mapping[str, float]  # penalties


def of_model(result: Result) -> Section:
    """Of a model file."""
    document, model = result.document, result.classifier
    values = document["values"]
    chosen = {name: values[f"{name}_"] for name in PENALTIES if f"{name}_" in values}
    trace: Records = values.get("trace_") or []
    fitted = Fitted(
        document["estimator"],
        {
            "features": int(model.n_features_in_),
            "classes": len(model.classes_),
            "rank": values.get("rank_"),
            **_last(trace),
        },
        document["params"],
        trace,
        values.get("path_") or [],
        chosen,
    )
    section = _section(result, fitted)
    section.versions = {"slender": document["slender"], "format of the file": document["version"]}
    if section.command is None:
        section.command = _python(document)
    if not trace:
        section.left_out.append("Convergence: the model has no trace.")
    return section


def of_fit(result: Result) -> Section:
    """Of slender fit --json."""
    document = result.document
    figures = {name: document[name] for name in ("rows", "features", "classes")}
    figures |= _last(document["trace"])
    method = METHODS[document["method"]].name
    return _section(
        result, Fitted(method, figures, document["settings"], document["trace"], [], {})
    )


def of_path(result: Result) -> Section:
    """Of slender path --json."""
    document = result.document
    figures = {
        name: document.get(name)
        for name in ("rows", "features", "classes", "relative_gap", "seconds", "rank")
    }
    test = document["test"] or {}
    figures |= {f"test_{name}": test.get(name) for name in ("top1", "top5")}
    figures["mean_per_class"] = test.get("mean_per_class")
    chosen = {name: document[name] for name in PENALTIES if name in document}
    estimator = PROBES[document["penalty"]].name
    fitted = Fitted(estimator, figures, document["settings"], [], document["path"], chosen)
    return _section(result, fitted)


def _section(result: Result, fitted: Fitted) -> Section:
    picked = _picked(fitted)
    figures = {
        **fitted.figures,
        **{f"validation_{name}": picked.get(name) for name in ("top1", "top5") if name in picked},
    }
    section = Section(
        name=result.name,
        title=f"{fitted.estimator}: {ESTIMATORS[fitted.estimator].about}",
        rows=[("", figures)],
        settings={**fitted.settings, **{f"{k} (chosen)": v for k, v in fitted.chosen.items()}},
        versions=versions_of(result.document),
        command=command_of(result.document),
    )
    if fitted.path:
        section.charts["Path"] = [*path_charts(fitted.path, fitted.chosen)]
    if fitted.trace:
        final = "Convergence of the final model" if fitted.path else "Convergence"
        section.charts[final] = [*trace_charts(fitted.trace)]
    if result.document.get("finished") is False:
        section.left_out.append("The fit was interrupted: figures are those of its last step.")
    return section


def _last(trace: Records) -> dict[str, Any]:
    """The figures at the end of a fit."""
    if not trace:
        return {}
    last = trace[-1]
    names = ("objective", "passes", "seconds", "rank", "validation_top1", "validation_top5")
    found = {name: last[name] for name in names if name in last}
    gap, objective = last.get("gap"), last.get("objective")
    if gap is not None and objective:
        found["relative_gap"] = gap / objective
    return found


def _picked(fitted: Fitted) -> Mapping[str, Any]:
    """The record of the penalty that was chosen."""
    for record in fitted.path:
        if all(record.get(name) == value for name, value in fitted.chosen.items()):
            return record
    return {}


def _python(document: Mapping[str, Any]) -> str:
    """How a model that was saved from Python is made."""
    given = {name: of for name, of in document["params"].items() if of is not None}
    settings = ", ".join(f"{name}={of!r}" for name, of in given.items())
    return f"slender.{document['estimator']}({settings}).fit(X, y)  # saved from Python"


# -- charts ----------------------------------------------------------------------------------------


def trace_charts(trace: Records) -> list[Chart]:
    """Objective, proved distance and validation error, over seconds or passes."""
    return [
        _over_work(
            "Objective", "objective", trace, _column(trace, "objective"), "objective {:.6g}"
        ),
        _over_work(
            "Proved distance to the optimum",
            "gap / objective",
            trace,
            [_relative(record) for record in trace],
            "within {:.2e} of the optimum",
        ),
        _over_work(
            "Validation",
            "top-1 error, %",
            trace,
            _errors(trace, "validation_top1"),
            "{:.2f} % wrong",
        ),
        _over_work("Rank", "rank of W", trace, _column(trace, "rank"), "rank {:.0f}", False),
    ]


def _over_work(
    title: str, label: str, trace: Records, y: list[float | None], text: str, log: bool = True
) -> Chart:
    tips = [
        f"{work(record)}: " + ("-" if value is None else text.format(value))
        for record, value in zip(trace, y, strict=True)
    ]
    x = {name: _column(trace, name) for name in OVER}
    return Chart(title, label, OVER, [Curve(title, x, y, tips)], y_log=log)


def path_charts(path: Records, chosen: Mapping[str, float]) -> list[Chart]:
    """Error and log loss (or rank) over the penalty."""
    if "C" in path[0]:
        path = sorted(path, key=lambda record: record["C"])
        labels = {"C": "C, from strong to weak penalty"}
        errors = [
            _over_penalty(ACCURACIES[name], "C", path, _errors(path, name), "{:.2f} % wrong", place,
                          _column(path, f"{name}_error", 100.0))
            for place, name in enumerate(ACCURACIES)
        ]  # fmt: skip
        loss = _over_penalty("log loss", "C", path, _column(path, "log_loss"), "log loss {:.4f}", 3,
                             _column(path, "log_loss_error"))  # fmt: skip
        marks = {f"chosen C = {chosen['C']:.3g}": chosen["C"]} if "C" in chosen else None
        return [
            Chart("Validation error", "error, %", labels, errors, True, True, marks,
                  "The band is a standard error wide on either side."),
            Chart("Validation log loss", "log loss", labels, [loss], True, False, marks),
        ]  # fmt: skip
    labels = {"lambda1": "λ1, the trace norm's penalty"}
    marks = {f"chosen λ1 = {chosen['lambda1']:.3g}": chosen["lambda1"]} if chosen else None
    error, rank = [], []
    for place, lambda2 in enumerate(sorted({record["lambda2"] for record in path}, reverse=True)):
        row = sorted(
            (record for record in path if record["lambda2"] == lambda2),
            key=lambda record: record["lambda1"],
        )
        name = f"λ2 = {lambda2:.1e}"
        error.append(
            _over_penalty(name, "lambda1", row, _errors(row, "top1"), "{:.2f} % wrong", place)
        )
        rank.append(_over_penalty(name, "lambda1", row, _column(row, "rank"), "rank {:.0f}", place))
    return [
        Chart("Validation error", "top-1 error, %", labels, error, True, True, marks),
        Chart("Rank of the model", "rank", labels, rank, True, False, marks),
    ]


def _over_penalty(
    name: str,
    penalty: str,
    path: Records,
    y: list[float | None],
    text: str,
    colour: int,
    error: list[float | None] | None = None,
) -> Curve:
    x = _column(path, penalty)
    tips = [
        f"{penalty} = {at:.3g}: {name}, " + ("-" if value is None else text.format(value))
        for at, value in zip(x, y, strict=True)
    ]
    known = error is not None and any(value is not None for value in error)
    return Curve(name, {penalty: x}, y, tips, error if known else None, colour)


def work(record: Mapping[str, Any]) -> str:
    """4 passes, 0.31 s."""
    return f"{record['passes']:.4g} passes, {record['seconds']:.3g} s"


def _column(records: Records, name: str, factor: float = 1.0) -> list[Any]:
    return [None if record.get(name) is None else factor * record[name] for record in records]


def _errors(records: Records, name: str) -> list[float | None]:
    """Accuracies as errors in %."""
    return [None if record.get(name) is None else 100 * (1 - record[name]) for record in records]


def _relative(record: Mapping[str, Any]) -> float | None:
    gap, objective = record.get("gap"), record.get("objective")
    return gap / objective if gap is not None and objective else None
