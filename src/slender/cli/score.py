"""slender score: how good a model is on rows with known labels."""

import csv
import io
from pathlib import Path
from typing import Annotated, Any

import typer

from .device import AUTO, Device, check_asked, computes_on
from .imagery import read_images, with_classes
from .options import Data, Json, Key, Label, Quiet, Threads, read_data
from .output import check_outputs, columns, facts, show, write_json

PER_CLASS = {  # heading -> name in an entry, format
    "": ("class", ""),
    "recall": ("recall", ".4f"),
    "precision": ("precision", ".4f"),
    "AP": ("average_precision", ".4f"),
    "support": ("support", "d"),
}
LINES = {  # what people read -> name in the results
    "top-1": "top1",
    "top-5": "top5",
    "mean per class": "mean_per_class",
    "calibration error": "ece",
    "mAP": "mean_average_precision",
    "F1 micro": "f1_micro",
    "F1 macro": "f1_macro",
}


def score(
    model: Annotated[Path, typer.Argument(help="A model that slender wrote.")],
    X: Data,
    key: Key = None,
    label: Label = None,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Also show a table of all classes.")
    ] = False,
    confusion: Annotated[
        Path | None,
        typer.Option(
            help="Write a .csv or .npy: rows of each class (down) by prediction (across)."
        ),
    ] = None,
    device: Device = AUTO,
    json: Json = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Score a model: top-1, top-5, mean recall of the classes, calibration error.

    For rows with several labels: the share of rows with all labels right, mAP and F1.
    """
    if confusion is not None and confusion.suffix.lower() not in (".csv", ".npy"):
        raise ValueError(f"--confusion {confusion}: no known format; use .csv or .npy")
    check_outputs(json, confusion)
    check_asked(device)

    from ..files import Names
    from ..lab.evaluation import evaluate, figures
    from ..lab.provenance import data_of
    from ..model import load_model, parts_of

    encoder, fitted = parts_of(load_model(model))
    if encoder is None:
        rows, labels = read_data(X, Names(key, label), "test", fitted.n_features_in_)
    elif len(X) > 1 or key is not None or label is not None:
        raise ValueError(
            f"{model} takes a folder of images, one folder per class; remove other files and names"
        )
    else:
        rows, labels = with_classes(read_images(encoder, Path(X[0]), quiet), Path(X[0]))
    place = computes_on(fitted, device, rows, len(fitted.classes_), passes=2)
    scores = evaluate(fitted, rows, labels)
    found, by_class = figures(fitted, rows, labels, scores)
    results: dict[str, Any] = {
        "command": "score",
        "model": str(model),
        "settings": {"per_class": per_class},
        "device": place,
        "rows": scores.rows,
        "classes": len(fitted.classes_),
        **found,
    }
    if confusion is not None:
        _write_confusion(confusion, fitted, rows, labels)
    inputs = {"model": (model, model), **data_of(" ".join(X), (rows, labels))}
    write_json({**results, "per_class": by_class} if per_class else results, json, inputs)
    if quiet or json == "-":
        return
    lines = {"rows": f"{scores.rows:,}"}
    if fitted.multilabel_:
        lines["all labels right"] = f"{scores.accuracy:.4f}"
    lines |= {
        line: f"{results[name]:.4f}"
        for line, name in LINES.items()
        if results.get(name) is not None
    }
    show(facts(lines), *([columns(by_class, PER_CLASS)] if per_class else []))


def _write_confusion(path: Path, model: Any, X: Any, y: Any) -> None:
    import numpy as np

    from ..lab.evaluation import confusion
    from ..storage import write_whole

    counts, classes = confusion(model, X, y), model.classes_.tolist()
    content = io.BytesIO()
    if path.suffix.lower() == ".npy":
        np.save(content, counts)
    else:
        text = io.TextIOWrapper(content, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["", *classes])
        writer.writerows([name, *row] for name, row in zip(classes, counts.tolist(), strict=True))
    write_whole(path, lambda temporary: temporary.write_bytes(content.getvalue()))
