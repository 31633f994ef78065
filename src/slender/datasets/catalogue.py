"""The registry: every data set by name, and how a name is read.

mnist                       an entry of DATASETS
vehicle:classes=10:seed=1   an entry with some of its options set
photos/                     an image folder (of `load_images`, where it is no name)
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..storage import FileError, PathLike
from . import alpha, cifar, embeddings, folders, ilsvrc, imagenet, mnist, sun, svmlight
from .images import ImageSet
from .known import ImageCollection, Size, VectorSet
from .made import Made, digits, low_rank, planted
from .vectors import Dataset

AnySet = VectorSet | ImageCollection
MIXTURE = "a badly conditioned Gaussian mixture; the best classifier is linear"
FORMULA = "made by a formula when it is asked for"

_ALL: tuple[AnySet, ...] = (
    Made(
        name="digits",
        about="handwritten digits, 8 x 8 pixels, rows of norm 1",
        size=Size(1300, 497, 10, 64),
        split="a fixed permutation",
        source="scikit-learn",
        make=digits,
    ),
    Made(
        name="planted",
        about=MIXTURE,
        size=Size(50_000, 5_000, 200, 1024),
        split=FORMULA,
        source="slender.datasets.planted",
        make=partial(planted, 50_000, 1024, 200),
    ),
    Made(
        name="planted200k",
        about="the same with four times the rows",
        size=Size(200_000, 5_000, 200, 1024),
        split=FORMULA,
        source="slender.datasets.planted",
        make=partial(planted, 200_000, 1024, 200),
    ),
    Made(
        name="planted_lowrank",
        about="classes that share 20 directions; Bayes accuracy 65 %",
        size=Size(20_000, 2_000, 400, 4096),
        split=FORMULA,
        source="slender.datasets.low_rank",
        make=partial(low_rank, 20_000, 4096, 400, 20),
    ),
    Made(
        name="planted5k",
        about="the mixture of planted, small and easier: what slender reproduce takes",
        size=Size(5_000, 2_000, 50, 256),
        split=FORMULA,
        source="slender.datasets.planted",
        make=partial(planted, 5_000, 256, 50, n_test=2_000, separation=0.3),
    ),
    Made(
        name="planted_lowrank5k",
        about="classes that share 10 directions: what slender reproduce takes",
        size=Size(5_000, 2_000, 60, 256),
        split=FORMULA,
        source="slender.datasets.low_rank",
        make=partial(low_rank, 5_000, 256, 60, 10),
    ),
    Made(
        name="planted_binary",
        about="two classes that overlap: what slender reproduce takes",
        size=Size(20_000, 10_000, 2, 64),
        split=FORMULA,
        source="slender.datasets.planted",
        make=partial(planted, 20_000, 64, 2, n_test=10_000),
    ),
    Made(
        name="tiny",
        about="classes that are easily told apart",
        size=Size(600, 200, 6, 16),
        split=FORMULA,
        source="slender.datasets.planted",
        make=partial(planted, 600, 16, 6, n_test=200, separation=1.5),
    ),
    mnist.MNIST,
    mnist.MINI,
    mnist.FASHION,
    cifar.CIFAR10,
    cifar.CIFAR100,
    embeddings.CIFAR100,
    embeddings.CALTECH101,
    alpha.ALPHA,
    svmlight.RCV1,
    folders.FOLDER,
    folders.CALTECH101,
    folders.CALTECH256,
    sun.SUN397,
    sun.OFFICIAL,
    ilsvrc.ILSVRC2010,
    imagenet.IMAGENET,
    imagenet.FUNGUS,
    imagenet.UNGULATE,
    imagenet.VEHICLE,
    imagenet.V10,
)
DATASETS: Mapping[str, AnySet] = {each.name: each for each in _ALL}


def is_name(text: str) -> bool:
    """Is it a data set of the registry, perhaps with options?"""
    return text.partition(":")[0] in DATASETS


def named(text: str) -> AnySet:
    """The data set of this name, with the options that the name sets."""
    if not is_name(text):
        raise FileError(f"{text}: no data set is called so; there are {', '.join(DATASETS)}")
    name, *options = text.split(":")
    entry = DATASETS[name]
    return replace(entry, name=text, **_read(entry, options)) if options else entry


def _read(entry: AnySet, options: list[str]) -> dict[str, Any]:
    """classes=10 -> {"classes": 10}."""
    found: dict[str, Any] = {}
    for option in options:
        key, _, word = option.partition("=")
        if key not in entry.OPTIONS:
            known = ", ".join(f"{each}=" for each in entry.OPTIONS) or "none"
            raise ValueError(
                f"{entry.name}:{option}: its options are {known}; write NAME:KEY=VALUE"
            )
        try:
            found[key] = entry.OPTIONS[key](word)
        except ValueError as error:
            raise ValueError(f"{entry.name}:{option}: {key} must be a number") from error
    return found


def load(name: str, data_dir: PathLike | None = None) -> Dataset:
    """The rows of a data set of vectors."""
    entry = named(name)
    if isinstance(entry, ImageCollection):
        raise ValueError(extract_first(name))
    return entry.load(data_dir)


def load_images(name: str, data_dir: PathLike | None = None) -> ImageSet:
    """The files of a data set of images, or of an image folder."""
    entry = folder(name) if not is_name(name) and Path(name).is_dir() else named(name)
    if isinstance(entry, VectorSet):
        raise ValueError(f"{name} is a data set of vectors, not of images; use it as it is")
    return entry.load(data_dir)


def folder(path: PathLike) -> folders.ImageFolder:
    """An image folder as an entry."""
    return replace(folders.FOLDER, name=str(path), path=str(path))


def extract_first(name: str) -> str:
    """What to do with images where vectors are asked for."""
    return (
        f"{name} is a data set of images; extract vectors first (slender extract {name} --features "
        "fisher --out FOLDER) and give that folder"
    )
