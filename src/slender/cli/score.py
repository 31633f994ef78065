"""slender score: how good a model is on rows with known labels."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .common import Json, Quiet, Threads, check_outputs, facts, show, write_json


def score(
    model: Annotated[Path, typer.Argument(help="A model that slender fit wrote.")],
    X: Annotated[Path, typer.Argument(help="Rows: .npy .npz .safetensors .svm, or a folder.")],
    y: Annotated[
        Path | None, typer.Argument(help="Labels: .npy .txt .csv; left out where X holds them.")
    ] = None,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Also a table of every class.")
    ] = False,
    json: Json = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Score a model: top-1, top-5 and mean per-class accuracy."""
    check_outputs(json)

    from ..files import read_dataset
    from ..model import load_model
    from .evaluation import evaluate
    from .provenance import data_of

    fitted = load_model(model)
    rows, labels = read_dataset(X, y, "test", fitted.n_features_in_)
    scores = evaluate(fitted, rows, labels)
    results: dict[str, Any] = {
        "command": "score",
        "model": str(model),
        "settings": {"per_class": per_class},
        "rows": scores.rows,
        "classes": len(fitted.classes_),
        "top1": scores.top1,
        "top5": scores.top5,
        "mean_per_class": scores.mean_per_class,
    }
    by_class = [
        {"class": name, "accuracy": accuracy if support else None, "support": support}
        for name, accuracy, support in zip(
            fitted.classes_.tolist(),
            scores.accuracy.tolist(),
            scores.support.tolist(),
            strict=True,
        )
    ]
    inputs = {"model": (model, model), **data_of(X, (rows, labels), y)}
    write_json({**results, "per_class": by_class} if per_class else results, json, inputs)
    if quiet or json == "-":
        return
    lines = {"rows": f"{scores.rows:,}", "top-1": f"{scores.top1:.4f}"}
    if scores.top5 is not None:
        lines["top-5"] = f"{scores.top5:.4f}"
    lines["mean per class"] = f"{scores.mean_per_class:.4f}"
    show(facts(lines), *([_table(by_class)] if per_class else []))


def _table(by_class: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table("class", box=None, padding=(0, 2, 0, 0))
    table.add_column("accuracy", justify="right")
    table.add_column("support", justify="right")
    for entry in by_class:
        accuracy = "-" if entry["accuracy"] is None else f"{entry['accuracy']:.4f}"
        table.add_row(str(entry["class"]), accuracy, str(entry["support"]))
    return table
