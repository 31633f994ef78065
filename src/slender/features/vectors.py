"""Vectors of image files, some at a time and side by side; bad files are skipped, with a reason.

The files are divided into chunks that do not depend on the number of jobs, and a chunk is encoded
in one place.  So the vectors are the same for any number of jobs, even of an encoder whose rounding
depends on which images it sees together.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..storage import FileError
from .folder import Skips
from .images import BadImageError, read_image
from .parallel import each

CHUNK = 16  # files, of an encoder that has no `batch_size`

Advance = Callable[[int, int], object]  # is told how many files are done, and of how many


class Encoded(NamedTuple):
    """What came of some files."""

    files: int
    rows: NDArray[np.float32]  # of those that are images
    skipped: Skips


def each_chunk(
    encoder: Any, files: Sequence[Path], n_jobs: int, first: int = 0
) -> Iterator[Encoded]:
    """Of the files from `first` on, where a chunk begins, in their order."""
    files = _everywhere(files)
    size = getattr(encoder, "batch_size", CHUNK)
    starts = range(first, len(files), size)
    alone = copy.copy(encoder).set_params(n_jobs=1)
    threads = getattr(encoder, "workers", "processes") == "threads"
    chunks = [(files[lo : lo + size], lo) for lo in starts]
    yield from each(partial(_encode, alone), chunks, n_jobs, threads=threads)


def encode_files(
    encoder: Any, files: Sequence[Path], n_jobs: int, advance: Advance
) -> tuple[NDArray[np.float32], Skips]:
    """The vectors of all files that are images, in memory, and the others."""
    X = np.empty((len(files), encoder.n_features_out_), np.float32)
    done, skipped, lo = 0, Skips(), 0
    for part in each_chunk(encoder, files, n_jobs):
        X[lo : lo + len(part.rows)] = part.rows
        lo += len(part.rows)
        done += part.files
        skipped += part.skipped
        advance(done, len(files))
    return X[:lo], skipped


def fit_encoder(encoder: Any, files: Sequence[Path], n_jobs: int) -> None:
    """Fit to files of which some may be bad."""
    files = _everywhere(files)
    encoder.set_params(n_jobs=n_jobs)
    try:
        encoder.fit(files)
    except BadImageError:
        seed = encoder.random_state if isinstance(encoder.random_state, int) else 0
        good = _good_sample(files, encoder.fit_images, encoder.max_size, seed)
        if not good:
            raise FileError(
                f"none of {len(files):,} files is an image; give a folder of images"
            ) from None
        encoder.fit(good)


def _everywhere(files: Sequence[Path]) -> list[Path]:
    """By names that also lead there from a process that started in another folder."""
    return [path.absolute() for path in files]


def _good_sample(files: Sequence[Path], most: int, max_size: int | None, seed: int) -> list[Path]:
    """At most so many files that are images, drawn with the seed."""
    good: list[int] = []
    for i in np.random.default_rng(seed).permutation(len(files)).tolist():
        if len(good) == most:
            break
        try:
            read_image(files[i], max_size)
            good.append(i)
        except BadImageError:
            continue  # it is counted when all files are read
    return [files[i] for i in sorted(good)]


def _encode(encoder: Any, chunk: tuple[Sequence[Path], int]) -> Encoded:
    """Of some files, and the place of the first of them."""
    files, first = chunk
    try:
        rows, skipped = encoder.transform(files), Skips()
    except BadImageError:
        rows, skipped = _one_by_one(encoder, files, first)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        bad = {place for place, _ in skipped}
        kept = [place for place in range(first, first + len(files)) if place not in bad]
        skipped += [(kept[i], "its vector is not finite") for i in np.flatnonzero(~finite)]
        rows = rows[finite]
    return Encoded(len(files), rows, sorted(skipped))


def _one_by_one(
    encoder: Any, files: Sequence[Path], first: int
) -> tuple[NDArray[np.float32], Skips]:
    rows = [np.empty((0, encoder.n_features_out_), np.float32)]
    skipped = Skips()
    for place, path in enumerate(files, start=first):
        try:
            rows.append(encoder.transform([path]))
        except BadImageError as error:
            skipped.append((place, error.reason))
    return np.concatenate(rows), skipped
