"""slender path: a probe for every penalty, and the one that does best on held-out rows."""

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..registry import PROBES
from .cluster import spread
from .device import AUTO, check_asked, fits_on
from .interrupts import Ending, Interrupted, interruptible
from .logs import check_log, logged, places_of
from .options import (
    Cluster,
    Data,
    Json,
    Key,
    Label,
    Log,
    ModelOut,
    Plot,
    Quiet,
    Threads,
    ValY,
    Workers,
    of_data,
    read_data,
    read_val,
)
from .output import (
    check_outputs,
    check_plot,
    command_line,
    facts,
    place,
    relative_gap,
    show,
    write_json,
)
from .progress import Bar, progress_of_path
from .resuming import Resume, and_continues, check_resume, left_with
from .settings import OneOf

if TYPE_CHECKING:
    from ..files import Names

BY_PENALTY = OneOf("--penalty", "l2", PROBES)
HELD_OUT = 0.1  # share of the rows, if nothing else is said
L2 = {"C": ("C", ".3g")}  # heading -> name in a record, format
TRACE = {
    "lambda1": ("lambda1", ".3g"),
    "lambda2": ("lambda2", ".1e"),
    "rank": ("rank", ".0f"),
    "trace norm": ("trace_norm", ".4g"),
}
COLUMNS = {
    "objective": ("objective", ".5g"),
    "rel. gap": ("relative_gap", ".0e"),
    "top-1": ("top1", ".4f"),
    "top-5": ("top5", ".4f"),
    "per class": ("mean_per_class", ".4f"),
    "log loss": ("log_loss", ".4f"),
}
COST = {"passes": ("passes", ".0f"), "seconds": ("seconds", ".2f")}

CHOSEN = ("C", "lambda1", "lambda2", "rank")


def path(
    X: Data,
    *,
    key: Key = None,
    label: Label = None,
    val: Annotated[
        str | None,
        of_data(help="Rows to choose the penalty on, or a folder with X_val.npy and y_val.npy."),
    ] = None,
    val_y: ValY = None,
    validation: Annotated[
        float | None,
        of_data(help=f"Share of the rows to choose the penalty on.  If not given: {HELD_OUT}."),
    ] = None,
    cv: Annotated[
        int | None,
        of_data(help="Number of folds of a cross-validation, instead."),
    ] = None,
    cluster: Cluster = None,
    workers: Workers = None,
    penalty: Annotated[
        str, typer.Option(help="Chooses the probe.", rich_help_panel="Penalty")
    ] = BY_PENALTY.default,
    settings: dict[str, Any],
    out: ModelOut,
    plot: Plot = None,
    resume: Resume = False,
    json: Json = None,
    log: Log = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Fit a probe for every penalty, choose one on held-out rows, write the model.

    Where X is a folder, only its train part is fitted and chosen on; its test part, if it has one,
    is scored once, at the end.
    """
    check_outputs(out, json, plot)
    places = places_of(log, json)
    check_log(places, out, json, plot)
    check_plot(plot)
    folder = check_resume(settings.get("checkpoint"), resume)
    for name in ("lambda1", "lambda2"):
        if f"n_{name}" in settings and f"{name}s" in settings:
            raise ValueError(f"--n-{name} and --{name}s exclude each other; remove one of them")

    spreads = cluster is not None or workers is not None
    asked = check_asked(settings.pop("device", AUTO), here=not spreads)

    from ..files import Names
    from ..lab.plots import plot_chosen
    from ..lab.provenance import data_of, settings_of
    from ..model import save_model
    from ..solvers.checkpoint import clear

    names = Names(key, label)
    data = read_data(X, names, as_store=spreads)
    held_out, words = _validation(data[0].shape[1], val, val_y, validation, cv, names)
    test = _test_part(X, names)
    model = PROBES[penalty].load()(validation=held_out, **settings)
    device, there = fits_on(model, asked, data, spreads)
    ending = Ending()
    with spread(data[0], cluster, workers, there) as rows, _bar(model, penalty, quiet) as advance:
        model.set_params(callbacks=[advance, *logged(places, append=resume), ending])
        try:
            interruptible(lambda: model.fit(rows, data[1]), ending)
        except KeyboardInterrupt:
            raise left_with(folder) from None
        model.set_params(callbacks=None)
    several = model.folds_ if len(model.folds_) > 1 else []
    results = {
        "command": "path",
        "model": str(out),
        "rows": data[0].shape[0],
        "features": data[0].shape[1],
        "classes": len(model.classes_),
        "penalty": penalty,
        "seed": settings["random_state"],
        "settings": settings_of(model, validation=words),
        "select": model.select,
        "validation": words,
        "finished": not ending.ended,
        "device": device,
        **_chosen(model, penalty),
        "gap": float(model.gap_),
        "relative_gap": relative_gap({"gap": model.gap_, "objective": model.objective_}),
        "refit": bool(model.refit),
        "temperature": float(model.temperature_) if settings.get("calibrate") else None,
        "seconds": sum(record["seconds"] for record in (*model.path_, model.trace_[-1])),
        "path": [_row(record) for record in model.path_],
        "folds": [[_row(record) for record in fold] for fold in several],
        "test": None if test is None else interruptible(lambda: _score(model, test)),
    }
    inputs = data_of(" ".join(X), data)
    if val is not None:
        inputs = {**inputs, **data_of(val, held_out, val_y, "_val")}
    if test is not None:
        inputs = {**inputs, **data_of(" ".join(X), test, part="_test")}
    if plot is not None:
        plot_chosen(model, plot)
    write_json(results, json, inputs)
    save_model(model, out, command_line())
    if not quiet and json != "-":
        show(_table(results), "", facts(_lines(results)))
    if ending.ended:
        kept = f"{out} holds the best of the {len(model.path_)} models tried"
        raise Interrupted(kept + and_continues(folder))
    if folder is not None:
        clear(folder)


def _chosen(model: Any, penalty: str) -> dict[str, Any]:
    """The penalty that was chosen."""
    if penalty == "l2":
        return {"C": float(model.C_)}
    return {
        "lambda1": float(model.lambda1_),
        "lambda2": float(model.lambda2_),
        "lambda1_max": float(model.lambda1_max_),
        "rank": model.rank_,
    }


# -- what is asked for -----------------------------------------------------------------------------


def _bar(model: Any, penalty: str, quiet: bool) -> Bar:
    if penalty == "trace":
        grids = ((model.n_lambda1, model.lambda1s), (model.n_lambda2, model.lambda2s))
        number = math.prod(n if values is None else len(set(values)) for n, values in grids)
        return progress_of_path("path", number, "pairs", ("lambda1", "lambda2"), quiet)
    number = model.Cs if isinstance(model.Cs, int) else len(set(model.Cs))
    return progress_of_path("path", number, "C", ("C",), quiet)


def _validation(
    n_features: int,
    val: str | None,
    val_y: str | None,
    share: float | None,
    cv: int | None,
    names: "Names",
) -> tuple[Any, str]:
    """What LinearProbe takes as `validation`, and how to say it."""
    given = {"--val": val, "--validation": share, "--cv": cv}
    flags = [name for name, value in given.items() if value is not None]
    if len(flags) > 1:
        raise ValueError(f"{' and '.join(flags)} exclude each other; give one of them")
    held_out = read_val(val, val_y, "val", n_features, names)  # of a folder, never its test part
    if held_out is not None:
        return held_out, f"{val}, {held_out[0].shape[0]:,} rows"
    if cv is not None:
        if cv < 2:
            raise ValueError(f"--cv {cv}: a cross-validation has at least two folds")
        return cv, f"{cv} folds"
    share = HELD_OUT if share is None else share
    return share, f"{100 * share:g} % of the rows"


def _test_part(X: list[str], names: "Names") -> Any:
    """The test rows of a folder that has some; they are scored, never chosen on."""
    from ..files import has_part

    return read_data(X, names, "test") if len(X) == 1 and has_part(X[0], "test") else None


# -- what came of it -------------------------------------------------------------------------------


def _row(record: dict[str, float]) -> dict[str, Any]:
    """A record with the same names whatever the number of classes."""
    return {"top5": None, **record, "relative_gap": relative_gap(record)}


def _score(model: Any, test: Any) -> dict[str, Any]:
    from ..lab.evaluation import evaluate

    scores = evaluate(model, *test)
    return {
        "rows": scores.rows,
        "top1": scores.top1,
        "top5": scores.top5,
        "mean_per_class": scores.mean_per_class,
    }


def _table(results: dict[str, Any]) -> Any:
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0))
    own = L2 if results["penalty"] == "l2" else TRACE
    wanted = {**own, **COLUMNS, **_scorer(results), **COST}
    for column in ("", *wanted):
        table.add_column(column, justify="right", no_wrap=True)
    for record in results["path"]:
        cells = [_cell(record, *column) for column in wanted.values()]
        penalties = [name for name, _ in own.values() if name in results and name != "rank"]
        chosen = all(record[name] == results[name] for name in penalties)
        table.add_row(">" if chosen else "", *cells)
    return table


def _scorer(results: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """A column for the score of scikit-learn that chose, if one did."""
    name = results["select"]
    return {name: (name, ".4f")} if name in results["path"][0] else {}


def _cell(record: dict[str, Any], name: str, style: str) -> str:
    """A figure, with its standard error where it has one."""
    if record.get(name) is None:
        return "-"
    error = record.get(f"{name}_error")
    return format(record[name], style) + ("" if error is None else f" ± {error:{style}}")


def _lines(results: dict[str, Any]) -> dict[str, str]:
    lines = {
        "rows": f"{results['rows']:,}",
        "features": f"{results['features']:,}",
        "classes": f"{results['classes']:,}",
        "chosen on": results["validation"],
        **{f"chosen {name}": f"{results[name]:.4g}" for name in CHOSEN if name in results},
        "relative gap": f"{results['relative_gap']:.1e}",
    }
    if results["temperature"] is not None:
        lines["temperature"] = f"{results['temperature']:.4g}"
    lines |= {"seconds": f"{results['seconds']:.2f}", **place(results)}
    test = results["test"]
    if test is not None:
        lines["test top-1"] = f"{test['top1']:.4f}"
        if test["top5"] is not None:
            lines["test top-5"] = f"{test['top5']:.4f}"
        lines["test per class"] = f"{test['mean_per_class']:.4f}"
    return {**lines, "model": results["model"]}
