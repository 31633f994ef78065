"""slender path: a probe for every penalty, and the one that does best on rows kept aside."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from .common import (
    Ending,
    Interrupted,
    Json,
    Quiet,
    Threads,
    check_outputs,
    check_plot,
    facts,
    interruptible,
    relative_gap,
    show,
    write_json,
)
from .progress import Bar, progress_of_path

HELD_OUT = 0.1  # of the rows, where nothing else is said
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
ONLY = {  # options of one penalty alone
    "l2": ("--cs", "--scale", "--full", "--calibrate"),
    "trace": ("--n-lambda1", "--n-lambda2", "--alpha", "--lambda1s", "--lambda2s"),
}


def path(
    X: Annotated[
        Path,
        typer.Argument(help="Rows: .npy .npz .safetensors .svm, or a folder (its train part)."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model file to write.")],
    y: Annotated[
        Path | None, typer.Argument(help="Labels: .npy .txt .csv; left out where X holds them.")
    ] = None,
    penalty: Annotated[
        str, typer.Option(help="l2: one C; trace: the trace norm's lambda1 and lambda2, low rank.")
    ] = "l2",
    cs: Annotated[
        str | None,
        typer.Option(
            help="How many C from 1e-6 to 1e5; or a list, 0.01,0.1,1; or lowest:highest:number; 45."
        ),
    ] = None,
    n_lambda1: Annotated[
        int | None, typer.Option("--n-lambda1", help="How many lambda1 (trace); 10.")
    ] = None,
    n_lambda2: Annotated[
        int | None, typer.Option("--n-lambda2", help="How many lambda2 (trace); 10.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Ratio of one lambda to the one before (trace).")
    ] = None,
    lambda1s: Annotated[
        str | None,
        typer.Option("--lambda1s", help="These, 0.01,0.001, or lowest:highest:number (trace)."),
    ] = None,
    lambda2s: Annotated[
        str | None, typer.Option("--lambda2s", help="The same of lambda2 (trace).")
    ] = None,
    val: Annotated[
        Path | None,
        typer.Option(help="Rows to choose C on, or a folder with X_val.npy, y_val.npy."),
    ] = None,
    val_y: Annotated[Path | None, typer.Option(help="Labels of --val.")] = None,
    validation: Annotated[
        float | None, typer.Option(help=f"Share of the rows to choose C on; {HELD_OUT}.")
    ] = None,
    cv: Annotated[int | None, typer.Option(help="Folds of a cross-validation instead.")] = None,
    shots: Annotated[int | None, typer.Option(help="Rows of each class to fit on.")] = None,
    scale: Annotated[str | None, typer.Option(help="none, l2 or standard.")] = None,
    select: Annotated[
        str | None,
        typer.Option(
            help="What chooses: auto, accuracy, balanced_accuracy, log_loss or a scikit-learn "
            "scorer, f1_macro."
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Every C; do not stop past the best.")
    ] = False,
    no_refit: Annotated[
        bool, typer.Option("--no-refit", help="Keep the validation rows out of the final fit.")
    ] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Fit a temperature of the probabilities.")
    ] = False,
    intercept: Annotated[
        bool | None,
        typer.Option("--intercept/--no-intercept", help="Fit one; l2: yes, trace: no."),
    ] = None,
    class_weight: Annotated[str | None, typer.Option(help="balanced.")] = None,
    tol: Annotated[float | None, typer.Option(help="Relative gap to stop at.")] = None,
    max_iter: Annotated[int | None, typer.Option(help="Passes at most, for each C.")] = None,
    seed: Annotated[int, typer.Option(help="Of the random numbers.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="A figure to write: .png, .pdf or .svg (needs matplotlib).")
    ] = None,
    json: Json = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Fit a probe for every penalty, choose one on rows kept aside, write the model.

    Where X is a folder, only its train part is fitted and chosen on; its test part, if it has one,
    is scored once, at the end.
    """
    check_outputs(out, json, plot)
    check_plot(plot)
    options: dict[str, Any] = {
        "n_lambda1": n_lambda1,
        "n_lambda2": n_lambda2,
        "alpha": alpha,
        "lambda1s": None if lambda1s is None else _read_values("--lambda1s", lambda1s),
        "lambda2s": None if lambda2s is None else _read_values("--lambda2s", lambda2s),
        "shots": shots,
        "scale": scale,
        "refit": False if no_refit else None,
        "select": select,
        "full": full or None,
        "calibrate": calibrate or None,
        "fit_intercept": intercept,
        "class_weight": class_weight,
        "tol": tol,
        "max_iter": max_iter,
        "random_state": seed,
    }
    given = {name: value for name, value in options.items() if value is not None}
    _check_penalty(penalty, {**given, "cs": cs})
    if penalty == "l2":
        given["Cs"] = _read_cs("45" if cs is None else cs)

    import slender

    from ..files import read_dataset
    from ..lab.plots import plot_chosen
    from ..model import save_model
    from .provenance import data_of, settings_of

    data = read_dataset(X, y)
    held_out, words = _validation(data[0].shape[1], val, val_y, validation, cv)
    test = _test_part(X)
    Probe = slender.LinearProbe if penalty == "l2" else slender.TraceNormProbe
    model = Probe(validation=held_out, **given)
    ending = Ending()
    with _bar(model, penalty, quiet) as advance:
        model.set_params(callbacks=[advance, ending])
        interruptible(lambda: model.fit(*data), ending)
        model.set_params(callbacks=None)
    several = model.folds_ if len(model.folds_) > 1 else []
    results = {
        "command": "path",
        "model": str(out),
        "rows": data[0].shape[0],
        "features": data[0].shape[1],
        "classes": len(model.classes_),
        "penalty": penalty,
        "seed": seed,
        "settings": settings_of(model, validation=words),
        "select": model.select,
        "validation": words,
        "finished": not ending.ended,
        **_chosen(model, penalty),
        "gap": float(model.gap_),
        "relative_gap": relative_gap({"gap": model.gap_, "objective": model.objective_}),
        "refit": bool(model.refit),
        "temperature": float(model.temperature_) if calibrate else None,
        "seconds": sum(record["seconds"] for record in (*model.path_, model.trace_[-1])),
        "path": [_row(record) for record in model.path_],
        "folds": [[_row(record) for record in fold] for fold in several],
        "test": None if test is None else interruptible(lambda: _score(model, test)),
    }
    inputs = data_of(X, data, y)
    if val is not None:
        inputs = {**inputs, **data_of(val, held_out, val_y, "_val")}
    if test is not None:
        inputs = {**inputs, **data_of(X, test, part="_test")}
    if plot is not None:
        plot_chosen(model, plot)
    write_json(results, json, inputs)
    save_model(model, out)
    if not quiet and json != "-":
        show(_table(results), "", facts(_lines(results)))
    if ending.ended:
        raise Interrupted(f"{out} holds the best of the {len(model.path_)} models tried")


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


def _check_penalty(penalty: str, given: dict[str, Any]) -> None:
    """Raise on an option of the other penalty."""
    if penalty not in ONLY:
        raise ValueError(f"--penalty {penalty} is not one of {', '.join(ONLY)}")
    other = "trace" if penalty == "l2" else "l2"
    for flag in ONLY[other]:
        if given.get(flag.removeprefix("--").replace("-", "_")) is not None:
            raise ValueError(f"{flag} belongs to --penalty {other}; remove it")
    for name in ("lambda1", "lambda2"):
        if f"n_{name}" in given and f"{name}s" in given:
            raise ValueError(f"--n-{name} and --{name}s exclude each other; leave one away")


def _bar(model: Any, penalty: str, quiet: bool) -> Bar:
    if penalty == "trace":
        grids = ((model.n_lambda1, model.lambda1s), (model.n_lambda2, model.lambda2s))
        number = math.prod(n if values is None else len(set(values)) for n, values in grids)
        return progress_of_path("path", number, "pairs", ("lambda1", "lambda2"), quiet)
    number = model.Cs if isinstance(model.Cs, int) else len(set(model.Cs))
    return progress_of_path("path", number, "C", ("C",), quiet)


def _read_cs(text: str) -> int | list[float]:
    """45 -> 45;  0.01,0.1 -> [0.01, 0.1];  1e-3:1e3:7 -> seven, evenly in log C."""
    if text.strip().isdecimal():
        return int(text)
    return _read_values("--cs", text, "how many (45), ")


def _read_values(flag: str, text: str, or_else: str = "") -> list[float]:
    try:
        values = _between(*text.split(":")) if ":" in text else [float(v) for v in text.split(",")]
        if not all(0 < value < math.inf for value in values):
            raise ValueError
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{flag} {text}: give {or_else}a list (0.01,0.1,1) or lowest:highest:number "
            "(1e-6:1e5:45), every one a number > 0"
        ) from error
    return values


def _between(lowest: str, highest: str, number: str) -> list[float]:
    """Numbers from the lowest to the highest, evenly in their logarithm."""
    low, high, n = float(lowest), float(highest), int(number)
    if not (0 < low < high < math.inf and n > 1):
        raise ValueError
    return [low * (high / low) ** (k / (n - 1)) for k in range(n)]


def _validation(
    n_features: int,
    val: Path | None,
    val_y: Path | None,
    share: float | None,
    cv: int | None,
) -> tuple[Any, str]:
    """What LinearProbe takes as `validation`, and how to say it."""
    given = {"--val": val, "--validation": share, "--cv": cv}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ValueError(f"{' and '.join(names)} exclude each other; choose C in one way")
    if val_y is not None and val is None:
        raise ValueError("--val-y without --val; give the rows as well")
    if val is not None:
        from ..files import read_dataset

        rows, labels = read_dataset(val, val_y, "val", n_features)  # of a folder, never its test
        if rows.shape[1] != n_features:
            raise ValueError(
                f"--val has {rows.shape[1]} features but X has {n_features}; "
                "give rows of the same kind"
            )
        return (rows, labels), f"{val}, {rows.shape[0]:,} rows"
    if cv is not None:
        if cv < 2:
            raise ValueError(f"--cv {cv}: a cross-validation has two folds at least")
        return cv, f"{cv} folds"
    share = HELD_OUT if share is None else share
    return share, f"{100 * share:g} % of the rows"


def _test_part(X: Path) -> Any:
    """The test rows of a folder that has some; they are scored, never chosen on."""
    from ..files import read_dataset

    return read_dataset(X, part="test") if (X / "X_test.npy").exists() else None


# -- what came of it -------------------------------------------------------------------------------


def _row(record: dict[str, float]) -> dict[str, Any]:
    """A record with the same names whatever the number of classes."""
    return {"top5": None, **record, "relative_gap": relative_gap(record)}


def _score(model: Any, test: Any) -> dict[str, Any]:
    from .evaluation import evaluate

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
    lines["seconds"] = f"{results['seconds']:.2f}"
    test = results["test"]
    if test is not None:
        lines["test top-1"] = f"{test['top1']:.4f}"
        if test["top5"] is not None:
            lines["test top-5"] = f"{test['top5']:.4f}"
        lines["test per class"] = f"{test['mean_per_class']:.4f}"
    return {**lines, "model": results["model"]}
