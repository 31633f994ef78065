"""slender extract: a folder of images as vectors; a killed run continues where it stopped."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ..registry import ENCODERS
from .experiments import DataDir
from .imagery import n_jobs, new_encoder, reasons
from .interrupts import Interrupted, interruptible
from .options import Json, Quiet, of_data, of_output
from .output import check_outputs, facts, show, write_json
from .progress import progress_of_images
from .resuming import check_resume
from .settings import OneOf


class _ByFeatures(OneOf):
    """onnx:MODEL.onnx chooses onnx."""

    def given(self, arguments: list[str]) -> str:
        return super().given(arguments).partition(":")[0]


BY_FEATURES = _ByFeatures("--features", "fisher", ENCODERS)


def extract(
    images: Annotated[
        str,
        typer.Argument(
            help="A folder of images, one folder for each class; or a data set (slender datasets)."
        ),
    ],
    *,
    part: Annotated[
        str | None,
        of_data(help="Of a data set, or of a folder that holds both: train or test."),
    ] = None,
    data_dir: DataDir = None,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="fisher or onnx:MODEL.onnx.  If not given: fisher, or as --model."
        ),
    ] = None,
    model: Annotated[
        Path | None,
        of_data(
            help="An earlier extraction whose encoder and numbers of classes to use, for test "
            "images."
        ),
    ] = None,
    strict: Annotated[
        bool, of_data("--strict", help="Make the first file that cannot be used an error.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        of_output(
            help="Folder to keep unfinished work in.  If not given, it is kept in --out, and the "
            "same command continues it."
        ),
    ] = None,
    resume: Annotated[
        bool,
        of_output(
            "--resume",
            help="Continue what the folder of --checkpoint holds, if it holds any.  What --out "
            "holds is continued also without.",
        ),
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(help="Images at a time.  If not given: one for each core.")
    ] = None,
    settings: dict[str, Any],
    out: Annotated[
        Path, of_output("--out", "-o", help="The folder to write; an unfinished one is continued.")
    ],
    dtype: Annotated[str, of_output(help="Of X.npy: float32 or float16.")] = "float32",
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Turn a folder of images into vectors: X.npy, y.npy, classes.json, files.txt, skipped.csv."""
    chosen = {name: value for name, value in settings.items() if name != "random_state"}
    if model is not None and (features is not None or chosen):
        extra = f"{next(iter(chosen))}={next(iter(chosen.values()))}" if chosen else "--features"
        raise ValueError(f"--model {model} takes its encoder as it is; remove {extra}")
    at_once = n_jobs(jobs)
    check_outputs(json)
    root, found = _found(images, part, data_dir)
    encoder = None
    if model is None:
        encoder = new_encoder(features or BY_FEATURES.default, settings)

    from ..features.extraction import extract as run

    folder = out
    try:
        with (
            _workplace(root, out, checkpoint, resume) as folder,
            progress_of_images("extract", quiet) as advance,
        ):
            done = interruptible(
                lambda: run(
                    root,
                    folder,
                    encoder,
                    like=model,
                    dtype=dtype,
                    strict=strict,
                    n_jobs=at_once,
                    advance=lambda *done: advance(done, None),
                    found=found,
                )
            )
    except KeyboardInterrupt:
        again = "" if folder == out else " with --resume"
        raise Interrupted(f"the same command{again} continues with {folder}") from None
    tried = done.images - done.before
    results = {
        "command": "extract",
        "images": images,
        "part": part,
        "out": str(out),
        "settings": {
            "features": features,
            "model": None if model is None else str(model),
            "dtype": dtype,
            "strict": strict,
            **settings,
        },
        "files": done.images,
        "done_before": done.before,
        "rows": done.rows,
        "features": done.features,
        "classes": len(done.classes),
        "skipped": [{"file": name, "reason": reason} for name, reason in done.skipped],
        "seconds_fit": done.seconds_fit,
        "seconds": done.seconds,
        "images_per_second": tried / done.seconds if tried else None,
    }
    write_json(results, json)
    if not quiet and json != "-":
        show(facts(_lines(results)))


@contextmanager
def _workplace(root: Path, out: Path, checkpoint: Path | None, resume: bool) -> Iterator[Path]:
    """The folder to work in, which becomes --out when all is done."""
    begun = out.is_dir() and any(out.iterdir())  # there, and is continued
    if checkpoint is None or begun or checkpoint.resolve() == out.resolve():
        yield out
        return
    from ..features.extraction import check_outside
    from ..storage import move_folder, owned

    folder = check_resume(checkpoint, resume) or checkpoint
    check_outside(root, out)
    with owned(out, "extraction"):  # now, not after hours
        yield folder
    move_folder(folder, out)


def _found(images: str, part: str | None, data_dir: Path | None) -> tuple[Path, Any]:
    """The folder of images; of a data set, which files are meant and their classes."""
    from ..datasets import is_name, load_images, parts_of
    from ..features.images import ImageFiles

    if part not in (None, "train", "test"):
        raise ValueError(f"--part {part} is not one of train, test")
    if is_name(images):
        data = load_images(images, data_dir)
        files, y = data[2:4] if part == "test" else data[:2]
        folder = Path(os.path.commonpath([path.parent for path in files]))
        return folder, ImageFiles(files, [data.classes[k] for k in y], data.classes, [])
    folder = Path(images)
    parts = parts_of(folder) if folder.is_dir() else None
    if parts is not None and part is not None:
        return folder / parts[part == "test"], None
    if parts is not None:
        raise ValueError(f"{folder} holds {' and '.join(parts)}: give --part train or --part test")
    if part is not None:
        raise ValueError(f"--part {part}: {folder} is neither a data set nor holds train and test")
    return folder, None


def _lines(results: dict[str, Any]) -> dict[str, str]:
    skipped, before = results["skipped"], results["done_before"]
    why = f": {reasons(each['reason'] for each in skipped)}" if skipped else ""
    lines = {
        "rows": f"{results['rows']:,}",
        "features": f"{results['features']:,}",
        "classes": f"{results['classes']:,}",
        "skipped": f"{len(skipped):,}{why}",
    }
    if before == results["files"]:
        return {**lines, "folder": f"{results['out']} was complete: there was nothing to do"}
    if before:
        lines["resumed"] = f"after {before:,} of {results['files']:,} images"
    if results["settings"]["model"] is None:
        lines["encoder"] = f"fitted in {results['seconds_fit']:.1f} s"
    speed = f"{results['images_per_second']:.1f} images per second"
    return {**lines, "seconds": f"{results['seconds']:.1f}, {speed}", "folder": results["out"]}
