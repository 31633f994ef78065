"""Images as commands take them: an encoder by name, files by folder, and what was skipped."""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from ..registry import ENCODERS
from .interrupts import interruptible
from .progress import progress_of_images

SHOWN = 3  # reasons for which files were skipped


class Images(NamedTuple):
    """The vectors of images."""

    X: Any
    files: list[Path]  # of the rows; none of vectors that were extracted before
    labels: Any  # names of classes; None if there are none
    skipped: list[tuple[Path, str]]


def new_encoder(features: str, settings: dict[str, Any]) -> Any:
    """Of --features fisher or onnx:MODEL.onnx, not fitted yet."""
    kind, _, model = features.partition(":")
    if kind not in ENCODERS:
        raise ValueError(f"--features {features} is not one of fisher, onnx:MODEL.onnx")
    if kind == "onnx" and not model:
        raise ValueError("--features onnx: which model?  Write onnx:MODEL.onnx")
    if kind != "onnx" and model:
        raise ValueError(f"--features {features}: {kind} takes no file; write --features {kind}")
    given = {"model": model, **settings} if model else settings
    return ENCODERS[kind].load()(**given)


def fitted_encoder(features: str, folder: Path, seed: int, quiet: bool) -> Any:
    """Fitted to the images below a folder; or that of an earlier extraction, where it is named."""
    from ..features.encoders import load_encoder
    from ..features.folder import ENCODER
    from ..features.images import find_images
    from ..features.vectors import fit_encoder
    from ..files import is_extraction

    if is_extraction(Path(features)):
        return load_encoder(Path(features) / ENCODER)
    if is_extraction(folder):
        raise ValueError(
            f"{folder} holds vectors, not images: write --features {folder} to put their encoder "
            "into the model, or leave --features out"
        )
    kind = features.partition(":")[0]
    encoder = new_encoder(features, {"random_state": seed} if kind == "fisher" else {})
    files = find_images(folder).files
    if not files:
        raise ValueError(f"{folder}: holds no images; give a folder of images")
    with progress_of_images(f"fit {kind}", quiet):
        interruptible(lambda: fit_encoder(encoder, files, n_jobs()))
    return encoder


def read_images(encoder: Any, folder: Path, quiet: bool) -> Images:
    """Of a folder of images, or of vectors that this encoder has extracted."""
    from ..features.encoders import load_encoder, same
    from ..features.folder import ENCODER
    from ..features.images import find_images
    from ..files import is_extraction, read_dataset

    if is_extraction(folder):
        if not same(load_encoder(folder / ENCODER), encoder):
            raise ValueError(
                f"{folder}: has vectors of another encoder than the model's; give the images, or "
                "extract them with --model"
            )
        X, y = read_dataset(folder)
        return Images(X, [], y, [])
    found = find_images(folder)
    return encoded(encoder, found.files, found.labels, found.skipped, quiet)


def encoded(
    encoder: Any,
    files: list[Path],
    labels: list[str],
    skipped: list[tuple[Path, str]],
    quiet: bool,
    strict: bool = False,
) -> Images:
    """The vectors of files, without those that are no images: a warning, or an error if strict."""
    import numpy as np

    from ..features.images import BadImageError
    from ..features.vectors import encode_files
    from ..notices import warn
    from ..storage import FileError

    with progress_of_images("encode", quiet) as advance:
        X, bad = interruptible(
            lambda: encode_files(encoder, files, n_jobs(), lambda *done: advance(done, None))
        )
    if strict and bad:
        raise BadImageError(files[bad[0][0]], bad[0][1])
    skipped = sorted([*skipped, *((files[place], reason) for place, reason in bad)])
    places = sorted({*range(len(files))} - {place for place, _ in bad})
    if not places:
        why = f" ({skipped[0][0]}: {skipped[0][1]})" if skipped else ""
        raise FileError(f"there is no image to encode{why}; give images")
    if skipped:
        warn(f"{len(skipped):,} files were skipped: {reasons(of for _, of in skipped)}")
    y = np.array(labels)[places] if labels else None
    return Images(X, [files[place] for place in places], y, skipped)


def with_classes(images: Images, folder: Path) -> tuple[Any, Any]:
    """(X, y); an error if there are no classes."""
    if images.labels is None:
        raise ValueError(f"{folder}: has no folders, but one for each class is needed")
    return images.X, images.labels


def n_jobs(asked: int | None = None) -> int:
    """How many processes or threads encode images."""
    from ..rows.cores import num_threads

    if asked is not None and asked < 1:
        raise ValueError(f"--jobs {asked}: give a number from 1 on")
    # joblib has a process that tidies up after the others, and complains when Ctrl-C ends them
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker")
    return num_threads() if asked is None else asked


def reasons(found: Iterable[str]) -> str:
    """12 truncated, 3 not an image, ..."""
    counts = Counter(found).most_common()
    more = ", ..." * (len(counts) > SHOWN)
    return ", ".join(f"{count:,} {reason}" for reason, count in counts[:SHOWN]) + more
