"""slender predict: labels, the k best labels or probabilities of new rows."""

import csv
import io
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from .options import Json, Quiet, Threads
from .output import check_outputs, show, standard_output, write_json
from .progress import Callback, progress_of_rows


def predict(
    model: Annotated[Path, typer.Argument(help="A model that slender wrote.")],
    X: Annotated[Path, typer.Argument(help="Rows: .npy .npz .safetensors .svm .pq.")],
    out: Annotated[
        str, typer.Option("--out", "-o", help="Write a .npy, .txt or .csv; - is standard output.")
    ] = "-",
    top_k: Annotated[
        int | None, typer.Option(help="Predict the k best classes, best first.")
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Predict probabilities; a .csv names the classes.")
    ] = False,
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
        loss = f" with loss {fitted.loss}" if hasattr(fitted, "loss") else ""
        raise ValueError(
            f"--proba: a {type(fitted).__name__}{loss} gives no probabilities; "
            "fit one that does, as --method logistic"
        )
    rows = read_matrix(X, fitted.n_features_in_)
    wide = proba or (fitted.multilabel_ and top_k is None)  # one column per class
    heading = fitted.classes_ if wide and suffix == ".csv" else None
    with progress_of_rows("predict", rows.shape[0], quiet or out == "-") as advance:
        answers = _answers(fitted, rows, top_k, proba, advance)
        if out == "-":
            with standard_output() as stream:
                for block in answers:
                    stream.write(_text(block))
        elif suffix == ".npy":
            write_whole(out, lambda path: _write_npy(path, answers, rows.shape[0]))
        else:
            write_whole(out, lambda path: _write_text(path, answers, heading))
    results = {"command": "predict", "model": str(model), "rows": rows.shape[0], "out": out}
    results["settings"] = {"top_k": top_k, "proba": proba}
    write_json(results, json, {"model": (model, model), "X": (X, rows)})
    if not quiet and "-" not in (out, json):
        show(f"{rows.shape[0]:,} rows -> {out}")


def _answers(
    model: Any, X: Any, top_k: int | None, proba: bool, advance: Callback
) -> Iterator[Any]:
    """Arrays of answers, one block of rows at a time."""
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
        advance(hi, None)


def _write_npy(path: Path, answers: Iterator[Any], n: int) -> None:
    import numpy as np

    first = next(answers)
    header = np.lib.format.header_data_from_array_1_0(first) | {"shape": (n, *first.shape[1:])}
    with path.open("wb") as file:  # no mapping: on a full disk that would end the process
        np.lib.format.write_array_header_1_0(file, header)
        for block in chain([first], answers):
            file.write(block.tobytes())


def _write_text(path: Path, answers: Iterator[Any], heading: Any) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        if heading is not None:
            file.write(_text(heading[None]))
        for block in answers:
            file.write(_text(block))


def _text(block: Any) -> str:
    """One line per row; several columns, or a label with a comma in it, as CSV has them."""
    text = io.StringIO()
    rows = block.tolist()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(rows if block.ndim == 2 else ([label] for label in rows))
    return text.getvalue()
