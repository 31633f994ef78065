"""slender report: one page of HTML from results of other commands."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from .imagery import read_images, with_classes
from .interrupts import interruptible
from .options import Json, Quiet, Threads, of_data
from .output import check_outputs, command_line, show, write_json


def report(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULT...",
            help="Models, files of --json (fit, path, run, compare, score), folders of reproduce.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .html file to write.")],
    data: Annotated[
        Path | None,
        of_data(help="Rows with known labels to judge the models on, or a folder with X_test.npy."),
    ] = None,
    data_y: Annotated[Path | None, of_data(help="Labels of --data.")] = None,
    images: Annotated[
        Path | None,
        of_data(help="The folder of images that --data was extracted from, for thumbnails."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    json: Json = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Write results as one self-contained page: figures, classes, settings, how to rerun.

    With --data the models among the results are judged on rows with known labels: accuracy by
    class, confused pairs, calibration and, if the images are known, the most confident mistakes.
    """
    if data is None and (data_y is not None or images is not None):
        raise ValueError(
            f"{'--data-y' if data_y else '--images'} without --data; give the rows too"
        )
    if out.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--out {out}: a report is a page of HTML; name it .html")
    check_outputs(out, json)

    from ..lab.documents import save
    from ..lab.report.page import page
    from ..lab.report.results import read_results
    from ..lab.report.sections import section_of

    found = [each for path in results for each in read_results(path)]
    if data is not None and not any(each.kind == "model" for each in found):
        raise ValueError("--data judges models, but no result is one; give a model file too")
    sections = []
    for each in found:
        rows = _rows(each, data, data_y, images, quiet) if each.kind == "model" and data else None
        sections.append(interruptible(partial(section_of, each, rows)))
    title = title or _title(sections)
    text = page(sections, title, command_line())
    save(text, out)
    about = {"command": "report", "out": str(out), "bytes": len(text.encode()), "title": title}
    write_json({**about, "results": [_summary(each) for each in sections]}, json)
    if not quiet and json != "-":
        left_out = dict.fromkeys(why for each in sections for why in each.left_out)
        show(f"{out}: {len(text.encode()) / 1e6:.2f} MB", *(f"left out: {why}" for why in left_out))


def _summary(section: Any) -> dict[str, Any]:
    """What a part of the page says first, for machines."""
    return {
        "name": section.name,
        "title": section.title,
        "figures": {who: dict(figures) for who, figures in section.rows},
        "left_out": section.left_out,
    }


def _title(sections: list[Any]) -> str:
    if len(sections) == 1:
        return f"Report on {sections[0].name}"
    return f"Report on {len(sections)} results"


def _rows(result: Any, data: Path, y: Path | None, images: Path | None, quiet: bool) -> Any:
    """The rows of --data as a model takes them, and their files where they are images."""
    from ..files import is_extraction, read_dataset
    from ..lab.report.judgement import Data

    model = result.classifier
    if result.encoder is not None and y is not None:
        raise ValueError(f"{result.name} takes a folder of images, one per class; remove --data-y")
    if result.encoder is None:
        X, labels = read_dataset(data, y, "test", model.n_features_in_)
        files: list[Path] = []
    else:
        encoded = read_images(result.encoder, data, quiet)
        (X, labels), files = with_classes(encoded, data), encoded.files
    if X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"{data} has {X.shape[1]} features but {result.name} takes {model.n_features_in_}; "
            "give rows as the model was fitted to"
        )
    if is_extraction(data) and not files:
        if images is None:
            why = (
                "Thumbnails of mistakes: --images names the folder that --data was extracted from."
            )
            return Data(str(data), X, labels, (), why)
        files = _files(data, images, len(labels))
    elif images is not None:
        raise ValueError(f"--images is for vectors of slender extract, which {data} are not")
    return Data(str(data), X, labels, files)


def _files(data: Path, images: Path, n: int) -> list[Path]:
    """The image of each row of an extraction."""
    from ..features.folder import read_files
    from ..storage import FileError

    names = read_files(data)
    if len(names) != n or not (images / names[0]).is_file():
        raise FileError(f"{images}: has no {names[0]}; --images is the folder that was extracted")
    return [images / name for name in names]
