"""slender predict: labels, the k best labels or probabilities of new rows."""

import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from .common import Json, Quiet, Threads, check_outputs, show, write_json


def predict(
    model: Annotated[Path, typer.Argument(help="A model that slender fit wrote.")],
    X: Annotated[Path, typer.Argument(help="Rows: .npy .npz .safetensors .svm.")],
    out: Annotated[
        str, typer.Option("--out", "-o", help=".npy, .txt or .csv to write; - is standard output.")
    ] = "-",
    top_k: Annotated[int | None, typer.Option(help="The k best classes, best first.")] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Probabilities, not labels.")] = False,
    json: Json = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Predict the class of each row of a matrix."""
    suffix = Path(out).suffix.lower()
    if out != "-" and suffix not in (".npy", ".txt", ".csv"):
        raise ValueError(f"--out {out}: no known format; use .npy, .txt, .csv or -")
    if proba and top_k is not None:
        raise ValueError("--proba and --top-k exclude each other; run predict twice")
    check_outputs(out, json)

    from ..files import read_matrix
    from ..model import load_model
    from ..storage import write_whole

    fitted = load_model(model)
    if proba and not hasattr(fitted, "predict_proba"):
        raise ValueError(f"--proba: loss {fitted.loss} gives no probabilities; fit with logistic")
    rows = read_matrix(X, fitted.n_features_in_)
    answers = _answers(fitted, rows, top_k, proba)
    if out == "-":
        for block in answers:
            sys.stdout.write(_text(block))
    elif suffix == ".npy":
        write_whole(out, lambda path: _write_npy(path, answers, rows.shape[0]))
    else:
        write_whole(out, lambda path: _write_text(path, answers))
    results = {"command": "predict", "model": str(model), "rows": rows.shape[0], "out": out}
    results["settings"] = {"top_k": top_k, "proba": proba}
    write_json(results, json, {"model": (model, model), "X": (X, rows)})
    if not quiet and "-" not in (out, json):
        show(f"{rows.shape[0]:,} rows -> {out}")


def _answers(model: Any, X: Any, top_k: int | None, proba: bool) -> Iterator[Any]:
    """Arrays of answers, a block of rows at a time."""
    from ..estimators.validation import check_finite, read_rows
    from ..rows import blocks

    check_finite(read_rows(model, X))  # all first, so that an error names the row of the file
    for lo, hi in blocks(X.shape[0], 8 * len(model.classes_)):
        if proba:
            yield model.predict_proba(X[lo:hi])
        elif top_k is not None:
            yield model.predict_top_k(X[lo:hi], top_k)
        else:
            yield model.predict(X[lo:hi])


def _write_npy(path: Path, answers: Iterator[Any], n: int) -> None:
    import numpy as np

    first = next(answers)
    out = np.lib.format.open_memmap(path, "w+", first.dtype, (n, *first.shape[1:]))
    out[: len(first)] = first
    lo = len(first)
    for block in answers:
        out[lo : lo + len(block)] = block
        lo += len(block)
    out.flush()


def _write_text(path: Path, answers: Iterator[Any]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for block in answers:
            file.write(_text(block))


def _text(block: Any) -> str:
    """One row a line; several columns, or a label with a comma in it, as CSV has them."""
    text = io.StringIO()
    rows = block.tolist()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(rows if block.ndim == 2 else ([label] for label in rows))
    return text.getvalue()
