"""slender fit: a model from a matrix and its labels."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..registry import METHODS
from .common import (
    Ending,
    Interrupted,
    Json,
    Quiet,
    Threads,
    check_outputs,
    facts,
    interruptible,
    number_or_word,
    relative_gap,
    show,
    write_json,
)
from .progress import Bar, progress_of_gap, progress_of_passes

LAST = 5  # accuracies on --val that the summary shows


def fit(
    X: Annotated[Path, typer.Argument(help="Rows: .npy .npz .safetensors .svm, or a folder.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model file to write.")],
    y: Annotated[
        Path | None, typer.Argument(help="Labels: .npy .txt .csv; left out where X holds them.")
    ] = None,
    method: Annotated[
        str, typer.Option(help="logistic, slnd, sgd, sgdqn, olbfgs, gd, larank, bcfw or tracenorm.")
    ] = "logistic",
    C: Annotated[
        float | None,
        typer.Option("--C", help="Weight of the loss, as scikit-learn's (logistic, larank)."),
    ] = None,
    lam: Annotated[
        float | None, typer.Option(help="L2 penalty, 1/(n C) (sgd, sgdqn, olbfgs, gd, bcfw).")
    ] = None,
    lambda1: Annotated[
        float | None,
        typer.Option("--lambda1", help="Trace norm; 0.003 of where W = 0 (tracenorm)."),
    ] = None,
    lambda2: Annotated[
        float | None, typer.Option("--lambda2", help="Squared norm beside it (tracenorm).")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Stop by the paper's conditions instead (tracenorm).")
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option(help="Relative gap to stop at (logistic, gd, larank, bcfw, tracenorm)."),
    ] = None,
    max_iter: Annotated[
        int | None, typer.Option(help="Passes (logistic) or steps (tracenorm) at most.")
    ] = None,
    passes: Annotated[
        int | None, typer.Option(help="Times over the data (not logistic, not tracenorm).")
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(help="logistic, hinge, cross_entropy ... (slnd, sgd, sgdqn, olbfgs, gd)."),
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(help="auto, theory (slnd), lipschitz (gd) or a number (also sgd, olbfgs)."),
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows a step (sgd, bcfw).")] = None,
    schedule: Annotated[
        str | None, typer.Option(help="constant, sqrt or optimal steps (sgd).")
    ] = None,
    negatives: Annotated[
        str | None, typer.Option(help="Negatives per positive, or all (slnd, sgd, sgdqn, olbfgs).")
    ] = None,
    average: Annotated[
        bool | None,
        typer.Option(
            "--average/--no-average", help="Average the iterates (slnd, sgd, sgdqn, olbfgs, bcfw)."
        ),
    ] = None,
    rank: Annotated[int | None, typer.Option(help="Directions of curvature (slnd).")] = None,
    hessian_samples: Annotated[
        int | None, typer.Option(help="Rows the curvature looks at (slnd).")
    ] = None,
    damping: Annotated[
        float | None, typer.Option(help="Added to the curvature (slnd, olbfgs).")
    ] = None,
    curvature: Annotated[
        str | None, typer.Option(help="lowrank, diagonal or identity (slnd).")
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="corrected, gauss_newton, 2008 or 2008_literal (sgdqn).")
    ] = None,
    t0: Annotated[
        str | None, typer.Option("--t0", help="auto or a number (sgdqn, olbfgs).")
    ] = None,
    period: Annotated[
        str | None, typer.Option(help="Steps between updates of the scaling, or auto (sgdqn).")
    ] = None,
    memory: Annotated[int | None, typer.Option(help="Secant pairs kept (olbfgs).")] = None,
    reprocess: Annotated[
        bool | None,
        typer.Option("--reprocess/--no-reprocess", help="Visit support patterns too (larank)."),
    ] = None,
    adaptive: Annotated[
        bool | None,
        typer.Option("--adaptive/--no-adaptive", help="Draw the kind of the next step (larank)."),
    ] = None,
    active: Annotated[
        bool | None,
        typer.Option("--active/--no-active", help="Visit only rows that add to the gap (larank)."),
    ] = None,
    inner: Annotated[int | None, typer.Option(help="Moves on a row at a time (larank).")] = None,
    intercept: Annotated[
        bool | None,
        typer.Option(
            "--intercept/--no-intercept",
            help="Fit an intercept (default: yes, except for tracenorm).",
        ),
    ] = None,
    class_weight: Annotated[str | None, typer.Option(help="balanced.")] = None,
    prior: Annotated[
        str | None, typer.Option(help="empirical or uniform (slnd, sgd, sgdqn, olbfgs).")
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(help="Reported: estimate, or exact, slower (slnd, sgd, sgdqn, olbfgs)."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random numbers.")] = 0,
    val: Annotated[
        Path | None, typer.Option(help="Rows, or a folder, to report accuracy on after each pass.")
    ] = None,
    val_y: Annotated[Path | None, typer.Option(help="Labels of --val.")] = None,
    json: Json = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Fit a linear classifier and write it to a model file."""
    check_outputs(out, json)
    if val_y is not None and val is None:
        raise ValueError("--val-y without --val; give the rows as well")
    options = {
        "C": C,
        "lam": lam,
        "lambda1": lambda1,
        "lambda2": lambda2,
        "epsilon": epsilon,
        "tol": tol,
        "max_iter": max_iter,
        "passes": passes,
        "loss": loss,
        "step": number_or_word(step),
        "batch_size": batch_size,
        "schedule": schedule,
        "negatives": number_or_word(negatives),
        "average": average,
        "rank": rank,
        "hessian_samples": hessian_samples,
        "damping": damping,
        "curvature": curvature,
        "variant": variant,
        "t0": number_or_word(t0),
        "period": _integer_or_word(period),
        "memory": memory,
        "reprocess": reprocess,
        "adaptive": adaptive,
        "active": active,
        "inner": inner,
        "fit_intercept": intercept,
        "class_weight": class_weight,
        "prior": prior,
        "objective": objective,
        "random_state": seed,
    }
    model = _estimator(
        method, {name: value for name, value in options.items() if value is not None}
    )

    from ..files import read_dataset
    from ..model import save_model
    from .provenance import data_of, settings_of

    data = read_dataset(X, y)
    watched = None if val is None else read_dataset(val, val_y, "test", data[0].shape[1])
    if watched is not None and watched[0].shape[1] != data[0].shape[1]:
        raise ValueError(
            f"--val has {watched[0].shape[1]} features but X has {data[0].shape[1]}; "
            "give rows of the same kind"
        )
    ending = Ending()
    with _bar(f"fit {method}", model, quiet) as advance:
        interruptible(lambda: fit_watched(model, data, watched, [advance, ending]), ending)
    save_model(model, out)
    results = {
        "command": "fit",
        "model": str(out),
        "method": method,
        "seed": seed,
        "settings": settings_of(model),
        "finished": not ending.ended,
        **summary(model, data[0]),
    }
    inputs = data_of(X, data, y)
    if watched is not None:
        inputs = {**inputs, **data_of(val, watched, val_y, "_val")}
    write_json(results, json, inputs)
    if not quiet and json != "-":
        show(facts(_lines(results)))
    if ending.ended:
        raise Interrupted(f"{out} holds the model of {results['passes']:g} passes")


def fit_watched(model: Any, data: Any, watched: Any = None, callbacks: Any = ()) -> Any:
    """Fit with callbacks that see the pass and, where asked, its scores on other rows."""
    from .evaluation import Watch

    watch = [] if watched is None else [Watch(model, *watched)]
    model.set_params(callbacks=[*watch, *callbacks])
    model.fit(*data)
    return model.set_params(callbacks=None)


def _estimator(method: str, options: dict[str, Any]) -> Any:
    """The estimator with these settings; one it does not have is an error, never ignored."""
    if method not in METHODS:
        raise ValueError(f"--method {method} is not one of {', '.join(METHODS)}")
    classes = {name: of.load() for name, of in METHODS.items()}
    settings = {}
    for option, value in options.items():
        able = [name for name, cls in classes.items() if option in cls._get_param_names()]
        if method not in able:
            flag = "--" + option.replace("_", "-")
            raise ValueError(f"method {method} does not support {flag}: use --method {able[0]}")
        settings[option] = value
    return classes[method](**settings)


def _bar(title: str, model: Any, quiet: bool) -> Bar:
    """Of passes, where their number is set; else of the gap on its way to tol."""
    if hasattr(model, "passes"):
        return progress_of_passes(title, model.passes, quiet)
    return progress_of_gap(title, model.tol, quiet)


def _integer_or_word(text: str | None) -> int | str | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return text


def summary(model: Any, X: Any) -> dict[str, Any]:
    """What a fit did, for machines."""
    last = model.trace_[-1]
    certificate = {}
    if "gap" in last:
        certificate = {"gap": last["gap"], "relative_gap": relative_gap(last), "tol": model.tol}
    return {
        "rows": X.shape[0],
        "features": X.shape[1],
        "classes": len(model.classes_),
        "passes": last["passes"],
        "seconds": last["seconds"],
        "objective": last["objective"],
        **certificate,
        "rows_per_second": X.shape[0] * last["passes"] / max(last["seconds"], 1e-9),
        "trace": model.trace_,
    }


def _lines(results: dict[str, Any]) -> dict[str, str]:
    """What a fit did, for people."""
    last = results["trace"][-1]
    lines = {
        "rows": f"{results['rows']:,}",
        "features": f"{results['features']:,}",
        "classes": f"{results['classes']:,}",
        "passes": f"{results['passes']:g}",
        "seconds": f"{results['seconds']:.2f}",
        "throughput": f"{results['rows_per_second']:,.0f} rows a second",
        "objective": f"{results['objective']:.5g}",
    }
    if "gap" in results:
        asked = "" if results["tol"] is None else f"  (asked for: {results['tol']:.0e})"
        lines["relative gap"] = f"{results['relative_gap']:.1e}{asked}"
    if "rank" in last:
        lines["rank"] = f"{last['rank']:.0f}"
    if "validation_top1" in last:
        accuracies = [f"{record['validation_top1']:.4f}" for record in results["trace"]]
        earlier = "... " if len(accuracies) > LAST else ""
        lines["validation"] = f"{earlier}{' '.join(accuracies[-LAST:])}  (top-1, step by step)"
    return {**lines, "model": results["model"]}
