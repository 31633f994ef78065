"""slender fit: a model from a matrix and its labels."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..registry import METHODS
from .cluster import spread
from .device import AUTO, check_asked, fits_on
from .imagery import fitted_encoder, read_images, reasons, with_classes
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
    Quiet,
    Threads,
    ValY,
    Workers,
    of_data,
    read_data,
    read_val,
)
from .output import check_outputs, command_line, facts, place, relative_gap, show, write_json
from .progress import Bar, progress_of_gap, progress_of_passes
from .resuming import Resume, and_continues, check_resume, left_with
from .settings import OneOf

BY_METHOD = OneOf("--method", "logistic", METHODS)

LAST = 5  # accuracies on --val that the summary shows


def fit(
    X: Data,
    *,
    key: Key = None,
    label: Label = None,
    val: Annotated[
        str | None,
        of_data(help="Rows, or a folder, on which to report accuracy after each pass."),
    ] = None,
    val_y: ValY = None,
    features: Annotated[
        str | None,
        of_data(
            metavar="KIND",
            help="X is a folder of images: fisher or onnx:MODEL.onnx makes them vectors, or the "
            "encoder in a folder of slender extract.",
        ),
    ] = None,
    cluster: Cluster = None,
    workers: Workers = None,
    method: Annotated[
        str, typer.Option(help="Chooses the estimator.", rich_help_panel="Method")
    ] = BY_METHOD.default,
    settings: dict[str, Any],
    out: ModelOut,
    resume: Resume = False,
    json: Json = None,
    log: Log = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Fit a linear classifier and write it to a model file."""
    check_outputs(out, json)
    places = places_of(log, json)
    check_log(places, out, json)
    folder = check_resume(settings.get("checkpoint"), resume)
    spreads = cluster is not None or workers is not None
    asked = check_asked(settings.pop("device", AUTO), here=not spreads)
    model = METHODS[method].load()(**settings)

    from ..files import Names
    from ..lab.provenance import data_of, settings_of
    from ..model import save_model
    from ..solvers.checkpoint import clear

    encoder, skipped = None, []
    if features is None:
        names = Names(key, label)
        data = read_data(X, names, as_store=spreads)
        watched = read_val(val, val_y, "test", data[0].shape[1], names)
    else:
        _check_images(len(X) == 1 and val_y is key is label is None, spreads)
        photos = Path(X[0])
        encoder = fitted_encoder(features, photos, settings["random_state"], quiet)
        images = read_images(encoder, photos, quiet)
        data, skipped = with_classes(images, photos), images.skipped
        watched = None
        if val is not None:
            watched = with_classes(read_images(encoder, Path(val), quiet), Path(val))
    device, there = fits_on(model, asked, data, spreads)
    ending = Ending()
    with (
        spread(data[0], cluster, workers, there) as rows,
        _bar(f"fit {method}", model, quiet) as advance,
    ):
        given, calls = (rows, data[1]), [advance, *logged(places, append=resume), ending]
        try:
            interruptible(lambda: fit_watched(model, given, watched, calls), ending)
        except KeyboardInterrupt:
            raise left_with(folder) from None
    save_model(_whole(encoder, model), out, command_line())
    results = {
        "command": "fit",
        "model": str(out),
        "method": method,
        "seed": settings["random_state"],
        "settings": settings_of(model),
        "finished": not ending.ended,
        "device": device,
        **summary(model, data[0]),
    }
    if encoder is not None:
        results |= {
            "encoder": features,
            "skipped": [{"file": str(path), "reason": reason} for path, reason in skipped],
        }
    inputs = data_of(" ".join(X), data)
    if watched is not None:
        inputs = {**inputs, **data_of(val, watched, val_y, "_val")}
    write_json(results, json, inputs)
    if not quiet and json != "-":
        show(facts(_lines(results)))
    if ending.ended:
        kept = f"{out} holds the model of {results['passes']:g} passes"
        raise Interrupted(kept + and_continues(folder))
    if folder is not None:
        clear(folder)


def _check_images(alone: bool, spreads: bool) -> None:
    """Raise on what cannot be asked for with --features."""
    if spreads:
        raise ValueError(
            "--features makes vectors in this process, which no worker can read: write them with "
            "slender extract first, then fit its folder"
        )
    if not alone:
        raise ValueError(
            "--features takes a folder of images, whose folders are the labels; remove other "
            "files and names"
        )


def _whole(encoder: Any, model: Any) -> Any:
    """The model to save: of vectors, or of images."""
    if encoder is None:
        return model
    from sklearn.pipeline import Pipeline

    return Pipeline([("features", encoder), ("classifier", model)])


def fit_watched(model: Any, data: Any, watched: Any = None, callbacks: Any = ()) -> Any:
    """Fit with callbacks that see the pass and, where asked, its scores on other rows."""
    from ..lab.evaluation import Watch

    watch = [] if watched is None else [Watch(model, *watched)]
    model.set_params(callbacks=[*watch, *callbacks])
    model.fit(*data)
    return model.set_params(callbacks=None)


def _bar(title: str, model: Any, quiet: bool) -> Bar:
    """Of the gap on its way to tol, where a proof is asked for; else of the passes."""
    if getattr(model, "tol", None) is not None:
        return progress_of_gap(title, model.tol, quiet)
    return progress_of_passes(title, model.passes, quiet)


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
        "throughput": f"{results['rows_per_second']:,.0f} rows per second",
        "objective": f"{results['objective']:.5g}",
        **place(results),
    }
    if results.get("skipped"):
        lines["skipped"] = reasons(each["reason"] for each in results["skipped"])
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
