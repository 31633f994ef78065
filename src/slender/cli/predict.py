"""slender predict: labels, the k best labels or probabilities of new rows or images."""

import csv
import io
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from .device import AUTO, Device, check_asked, computes_on
from .imagery import encoded, read_images
from .options import Json, Key, Quiet, Threads
from .output import check_outputs, show, standard_output, write_json
from .progress import Callback, progress_of_rows


def predict(
    model: Annotated[Path, typer.Argument(help="A model that slender wrote.")],
    X: Annotated[
        list[Path],
        typer.Argument(
            help="Rows, as slender fit takes them.  If the model takes images: files, or a folder."
        ),
    ],
    key: Key = None,
    out: Annotated[
        str, typer.Option("--out", "-o", help="Write a .npy, .txt or .csv; - is standard output.")
    ] = "-",
    top_k: Annotated[
        int | None, typer.Option(help="Predict the k best classes, best first.")
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Predict probabilities; a .csv names the classes.")
    ] = False,
    device: Device = AUTO,
    json: Json = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Predict the class of each row of a matrix, or of each image."""
    suffix = Path(out).suffix.lower()
    if out != "-" and suffix not in (".npy", ".txt", ".csv"):
        raise ValueError(f"--out {out}: no known format; use .npy, .txt, .csv or -")
    if proba and top_k is not None:
        raise ValueError("--proba and --top-k exclude each other; run predict twice")
    check_outputs(out, json)
    check_asked(device)

    from ..model import load_model, parts_of
    from ..storage import write_whole

    encoder, fitted = parts_of(load_model(model))
    if proba and not hasattr(fitted, "predict_proba"):
        loss = f" with loss {fitted.loss}" if hasattr(fitted, "loss") else ""
        raise ValueError(
            f"--proba: a {type(fitted).__name__}{loss} gives no probabilities; "
            "fit one that does, as --method logistic"
        )
    rows, names = _rows(encoder, fitted, X, key, quiet)
    place = computes_on(fitted, device, rows, len(fitted.classes_), passes=1)
    if place != "cpu":
        fitted.to(fitted.device)  # once, not for every block
    wide = proba or (fitted.multilabel_ and top_k is None)  # one column per class
    heading = fitted.classes_.tolist() if wide and suffix == ".csv" else None
    lines = _Lines(names, heading)
    with progress_of_rows("predict", rows.shape[0], quiet or out == "-") as advance:
        answers = _answers(fitted, rows, top_k, proba, advance)
        if out == "-":
            with standard_output() as stream:
                for block in answers:
                    stream.write(lines.of(block))
        elif suffix == ".npy":
            write_whole(out, lambda path: _write_npy(path, answers, rows.shape[0]))
        else:
            write_whole(out, lambda path: _write_text(path, answers, lines))
    results = {"command": "predict", "model": str(model), "rows": rows.shape[0], "out": out}
    results |= {"device": place, "settings": {"top_k": top_k, "proba": proba}}
    if names:
        results["files"] = names
    write_json(results, json, {"model": (model, model), "X": (" ".join(map(str, X)), rows)})
    if not quiet and "-" not in (out, json):
        show(f"{rows.shape[0]:,} rows -> {out}")


def _rows(
    encoder: Any, classifier: Any, X: list[Path], key: str | None, quiet: bool
) -> tuple[Any, list[str]]:
    """What to predict of; the names of files, where each row is an image."""
    from ..features.folder import line_of
    from ..files import read_matrix
    from ..stores.finding import as_listed

    if encoder is None:
        files = as_listed(map(str, X))
        return read_matrix(files, classifier.n_features_in_, key), []
    if key is not None:
        raise ValueError(f"this model takes images, which have no names; remove key={key}")
    if len(X) == 1 and X[0].is_dir():
        images = read_images(encoder, X[0], quiet)
    else:
        images = encoded(encoder, X, [], [], quiet, strict=True)
    return images.X, [line_of(path) for path in images.files]


def _answers(
    model: Any, X: Any, top_k: int | None, proba: bool, advance: Callback
) -> Iterator[Any]:
    """Arrays of answers, one block of rows at a time."""
    from ..estimators.validation import check_finite, read_rows
    from ..rows import blocks

    check_finite(read_rows(model, X))  # all first, so that an error names the row of the file
    for lo, hi in blocks(X.shape[0], 8 * max(len(model.classes_), X.shape[1])):
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


def _write_text(path: Path, answers: Iterator[Any], lines: "_Lines") -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(lines.first())
        for block in answers:
            file.write(lines.of(block))


class _Lines:
    """One line per row; several columns, or a label with a comma in it, as CSV has them.

    The line of an image begins with the name of its file.
    """

    def __init__(self, names: list[str], heading: list[Any] | None) -> None:
        self.names, self.heading, self.done = names, heading, 0

    def first(self) -> str:
        """The names of the columns, where there are any."""
        if self.heading is None:
            return ""
        return _csv([[*(["file"] if self.names else []), *self.heading]])

    def of(self, block: Any) -> str:
        """The next rows."""
        rows = block.tolist() if block.ndim == 2 else [[label] for label in block.tolist()]
        if self.names:
            names = self.names[self.done : self.done + len(rows)]
            rows = [[name, *row] for name, row in zip(names, rows, strict=True)]
        self.done += len(rows)
        return _csv(rows)


def _csv(rows: list[list[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
