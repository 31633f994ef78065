"""slender info: what a model file holds, and how good it is known to be."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from ..registry import ESTIMATORS
from .options import Json
from .output import check_outputs, facts, relative_gap, show, write_json

PENALTIES = ("C", "lambda1", "lambda2")  # by which a path's records are told apart
SAID = ("gap_", "multilabel_", "n_features_in_", "n_iter_", "objective_")  # on lines of their own
SHOWN = 8  # names of classes


def info(
    model: Annotated[Path, typer.Argument(help="A model that slender wrote.")],
    json: Json = None,
) -> None:
    """Show what a model is: method, classes, settings, certificate, accuracy where it is known."""
    check_outputs(json)
    from ..model import load_model, parts_of, read_document

    document, (_, fitted) = read_document(model), parts_of(load_model(model))
    values, last = document["values"], fitted.trace_[-1]
    results = {
        "command": "info",
        "model": str(model),
        "bytes": model.stat().st_size,
        "format": document["version"],
        "slender": document["slender"],
        "estimator": document["estimator"],
        "images": _images(document.get("pipeline")),
        "features": fitted.n_features_in_,
        "feature_names": document["strings"].get("feature_names_in_", {}).get("values"),
        "classes": fitted.classes_.tolist(),
        "multilabel": bool(fitted.multilabel_),
        "dtype": str(fitted.intercept_.dtype),
        "settings": document["params"],
        "found": {
            name.removesuffix("_"): of
            for name, of in values.items()
            if isinstance(of, int | float) and name not in SAID
        },
        "passes": last["passes"],
        "seconds": last["seconds"],
        "objective": last["objective"],
        "gap": last.get("gap"),
        "relative_gap": relative_gap(last) if "gap" in last else None,
        "validation": _validation(values),
    }
    write_json(results, json)
    if json != "-":
        show(facts(_lines(results)))


def _images(inner: dict[str, Any] | None) -> dict[str, Any] | None:
    """How a model of images makes vectors of them."""
    return None if inner is None else {name: inner[name] for name in ("features", "settings")}


def _validation(values: dict[str, Any]) -> dict[str, float] | None:
    """Accuracies on the rows that the fit kept aside or watched, where it had any."""
    last = values["trace_"][-1]
    watched = {name: last.get(f"validation_{name}") for name in ("top1", "top5")}
    for record in values.get("path_", ()):
        chosen = {name: record[name] for name in PENALTIES if name in record}
        if all(values[f"{name}_"] == value for name, value in chosen.items()):
            watched = {name: record.get(name) for name in ("top1", "top5")}
    return None if watched["top1"] is None else watched


def _lines(results: dict[str, Any]) -> dict[str, str]:
    classes, last = results["classes"], ", ..." * (len(results["classes"]) > SHOWN)
    kind = " (any number of them per row)" if results["multilabel"] else ""
    names = ", ".join(map(str, classes[:SHOWN]))
    lines = {
        "method": f"{results['estimator']}, of slender {ESTIMATORS[results['estimator']].command}",
        "classes": f"{len(classes):,}{kind}: {names}{last}",
        **({"takes": _taken(results["images"])} if results["images"] else {}),
        "features": f"{results['features']:,}, weights in {results['dtype']}",
        "settings": _pairs(results["settings"]),
        **({"found": _pairs(results["found"])} if results["found"] else {}),
        "fit": f"{results['passes']:g} passes in {results['seconds']:.2f} s, "
        f"objective {results['objective']:.5g}",
        "certificate": _certificate(results),
    }
    if results["validation"] is not None:
        top5 = results["validation"]["top5"]
        more = "" if top5 is None else f", top-5 {top5:.4f}"
        lines["accuracy"] = f"top-1 {results['validation']['top1']:.4f}{more} on validation rows"
    lines["file"] = (
        f"{results['bytes']:,} bytes, format {results['format']}, "
        f"written by slender {results['slender']}"
    )
    return lines


def _taken(images: dict[str, Any]) -> str:
    return f"images, by --features {images['features']}: {_pairs(images['settings'])}"


def _certificate(results: dict[str, Any]) -> str:
    if results["gap"] is None:
        return "none: this method gives no bound"
    if not math.isfinite(results["gap"]):
        return "none: the fit ended before anything was proved"
    share = results["relative_gap"]
    return f"the objective is within {results['gap']:.2g} of the optimum, {share:.1e} of itself"


def _pairs(values: dict[str, Any]) -> str:
    """Of names and values; what is not set says nothing."""
    given = {name: value for name, value in values.items() if value is not None}
    return ", ".join(f"{name} {_short(value)}" for name, value in given.items())


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, list | dict):
        return f"({len(value)} values)"
    return str(value)
