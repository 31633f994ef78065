"""The vectors of a folder of images, written so that a killed run continues where it stopped.

What stands in the output folder, in the order in which it appears:

    extraction.json        settings, and a checksum of the images' names, sizes and times
    features.safetensors   the fitted encoder
    classes.json           names of the classes, by their numbers
    X.npy.part             header and rows, appended chunk by chunk
    progress.jsonl         what each chunk had: images, rows, skipped files
    y.npy                  numbers of the rows' classes, unless there are no classes
    files.txt              names of the rows' files
    skipped.csv            file, reason
    X.npy                  what was X.npy.part: the extraction is complete

Every file but the two that grow appears under its name when it is complete, with the same content
in every run.  So it does not matter where a run is killed.
"""

import hashlib
import json
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from .. import __version__
from ..storage import FileError, PathLike, owned, plain_file, remove_stale, unreadable
from .encoders import load_encoder, save_encoder, settings_of
from .folder import (
    CLASSES,
    ENCODER,
    JOB,
    PROGRESS,
    X_FILE,
    Skips,
    VectorFile,
    line_of,
    read_skipped,
    write_json,
    write_lists,
)
from .images import BadImageError, ImageFiles, find_images
from .vectors import Advance, each_chunk, fit_encoder

DTYPES = ("float32", "float16")


class Extraction(NamedTuple):
    """What an extraction did."""

    images: int  # files that were tried
    rows: int
    features: int
    classes: list[str]
    skipped: list[tuple[str, str]]  # file, reason
    before: int  # images that were done when it started
    seconds_fit: float
    seconds: float  # of encoding


def extract(
    images: PathLike,
    out: PathLike,
    encoder: Any = None,
    *,
    like: PathLike | None = None,
    dtype: str = "float32",
    strict: bool = False,
    n_jobs: int = 1,
    advance: Advance = lambda done, total: None,
    found: ImageFiles | None = None,
) -> Extraction:
    """Write the vectors of the images below a folder into another folder, or go on with that.

    The encoder is fitted to the images first.  Instead of one, `like` names an earlier extraction,
    whose encoder and numbers of classes are used.  `strict` makes a file that cannot be used an
    error.  `found` are the images where a data set says which, not all below the folder.
    """
    root, out = Path(images), Path(out)
    if dtype not in DTYPES:
        raise ValueError(f"dtype={dtype!r} is not one of {', '.join(DTYPES)}")
    if (encoder is None) == (like is None):
        raise ValueError("give either an encoder, or `like`: a folder whose encoder to use")
    found = find_images(root) if found is None else found
    if strict and found.skipped:
        raise BadImageError(*found.skipped[0])
    if not found.files:
        raise FileError(f"{root}: holds no images; give a folder of images")
    check_outside(root, out)
    classes = _classes(found, like)
    with owned(out, "extraction"):
        _begin(out, _job(root, found, encoder, like, dtype))
        if (out / X_FILE).exists():
            (out / PROGRESS).unlink(missing_ok=True)
            return _as_it_is(out, len(found.files), classes)
        start = perf_counter()
        fitted = _fitted(out, encoder, like, found.files, n_jobs)
        write_json(out / CLASSES, classes)
        fit_end = perf_counter()
        rows = VectorFile(out, dtype, fitted.n_features_out_)
        try:
            before = rows.images
            _encode_rest(rows, fitted, found.files, n_jobs, strict, advance)
            skipped = _finish(rows, out, root, found, classes)
        finally:
            rows.close()
    return Extraction(
        images=len(found.files),
        rows=rows.rows,
        features=rows.width,
        classes=classes,
        skipped=skipped,
        before=before,
        seconds_fit=fit_end - start,
        seconds=perf_counter() - fit_end,
    )


def check_outside(root: Path, out: Path) -> None:
    """Raise an error if the output would lie among the images."""
    if root.resolve() in (out.resolve(), *out.resolve().parents):
        raise FileError(f"{out}: lies in the folder of images; choose another folder")


def _encode_rest(
    rows: VectorFile, encoder: Any, files: list[Path], n_jobs: int, strict: bool, advance: Advance
) -> None:
    def refuse(skipped: Skips) -> None:
        if strict and skipped:
            place, reason = skipped[0]
            raise BadImageError(files[place], reason)

    advance(rows.images, len(files))
    refuse(rows.skipped)
    for part in each_chunk(encoder, files, n_jobs, rows.images):
        refuse(part.skipped)
        rows.append(part.rows, part.files, part.skipped)
        advance(rows.images, len(files))


def _finish(
    rows: VectorFile, out: Path, root: Path, found: ImageFiles, classes: list[str]
) -> list[tuple[str, str]]:
    """Write what is beside the rows, then complete them; the skipped files."""
    bad = [(found.files[place], reason) for place, reason in rows.skipped]
    skipped = [
        (line_of(path.relative_to(root)), reason) for path, reason in sorted(found.skipped + bad)
    ]
    places = sorted({*range(len(found.files))} - {place for place, _ in rows.skipped})
    names = [line_of(found.files[place].relative_to(root)) for place in places]
    y = None
    if found.labels:
        number = {name: k for k, name in enumerate(classes)}
        y = np.array([number[found.labels[place]] for place in places], np.int64)
    write_lists(out, names, y, skipped)
    if not rows.rows:
        raise FileError(
            f"{root}: none of {len(found.files):,} files is an image "
            f"({out / 'skipped.csv'} says why); give a folder of images"
        )
    rows.finish()
    return skipped


def _as_it_is(out: Path, images: int, classes: list[str]) -> Extraction:
    """Of a folder that is complete."""
    n, d = np.lib.format.open_memmap(out / X_FILE, mode="r").shape
    return Extraction(images, n, d, classes, read_skipped(out), images, 0.0, 0.0)


# -- the encoder -----------------------------------------------------------------------------------


def _fitted(out: Path, encoder: Any, like: PathLike | None, files: list[Path], n_jobs: int) -> Any:
    """As its file has it, so that it does not matter which run fitted it."""
    if not (out / ENCODER).exists():
        if like is not None:
            encoder = load_encoder(_of(like, ENCODER))
        else:
            fit_encoder(encoder, files, n_jobs)
        save_encoder(encoder, out / ENCODER)
    return load_encoder(out / ENCODER)


def _classes(found: ImageFiles, like: PathLike | None) -> list[str]:
    """The names of classes, in the order of their numbers."""
    if like is None:
        return found.classes
    path = _of(like, CLASSES)
    try:
        known: list[str] = json.loads(path.read_text(encoding="utf-8"))
        new = sorted({*found.classes} - {*known})
    except (OSError, ValueError, TypeError) as error:
        raise unreadable(path, "a list of classes", error) from error
    if new and known:
        raise FileError(
            f"{path}: does not have the class {new[0]!r}; remove its folder, or extract all "
            "classes together"
        )
    return known or found.classes


def _of(like: PathLike, name: str) -> Path:
    """A file of an earlier extraction."""
    path = Path(like) / name
    if not path.is_file():
        raise FileError(
            f"{like}: lacks {name}; give a folder that `slender extract` has written, completely"
        )
    return plain_file(path)


# -- the job ---------------------------------------------------------------------------------------


def _job(
    root: Path, found: ImageFiles, encoder: Any, like: PathLike | None, dtype: str
) -> dict[str, Any]:
    """All that the output depends on."""
    listed = hashlib.sha256()
    for path in found.files:
        status = path.stat()
        line = f"{line_of(path.relative_to(root))} {status.st_size} {status.st_mtime_ns}\n"
        listed.update(line.encode())
    settings = {} if encoder is None else settings_of(encoder)
    content = settings.pop("model", None) if like is None else _of(like, ENCODER)
    return {
        "slender": __version__,
        "features": None if encoder is None else type(encoder).__name__,
        "dtype": dtype,
        **settings,
        "model_sha256": None if content is None else _sha256(plain_file(content)),
        "files": len(found.files),
        "files_sha256": listed.hexdigest(),
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _begin(out: Path, job: dict[str, Any]) -> None:
    """Note the job in an empty folder; raise an error if another one has begun there."""
    remove_stale(out)
    if not (out / JOB).exists():
        if any(out.iterdir()):
            raise FileError(f"{out}: holds other files; choose a new folder, or an empty one")
        write_json(out / JOB, job)
        return
    try:
        before = json.loads((out / JOB).read_text(encoding="utf-8"))
        differ = [name for name in {**before, **job} if before.get(name) != job.get(name)]
    except (OSError, ValueError, TypeError) as error:
        raise unreadable(out / JOB, "the settings of an extraction", error) from error
    if differ:
        raise FileError(f"{out}: holds an extraction {_said(differ[0], before, job)}")


def _said(name: str, before: dict[str, Any], job: dict[str, Any]) -> str:
    """How another extraction differs, and what to do."""
    if name in ("files", "files_sha256"):
        counts = f"{before.get('files')} files then, {job['files']} now"
        what = f"of other images, or they have changed since ({counts})"
    elif name == "model_sha256":
        what = "with another model"
    else:
        what = f"with {name}={before.get(name)}, now {name}={job.get(name)}"
    return f"{what}; choose another folder, or delete this one"
