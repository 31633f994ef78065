"""Images that lie in folders, one for each class.

A class's training images are drawn with the seed and the name of the class alone: its split does
not depend on which other classes there are, so that the first ten classes of a data set are split
as in the whole of it.
"""

import os
import zlib
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..notices import warn
from ..storage import FileError, PathLike
from .images import ImageSet
from .known import ImageCollection, Report, shown

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}


class Members(NamedTuple):
    """The images of a class."""

    folder: Path
    files: list[str]  # names in the folder, sorted


Tree = dict[str, Members]  # by the name of the class


@dataclass(frozen=True, kw_only=True)
class ImageTree(ImageCollection):
    """Images of which a number, or a share, of each class trains and the rest tests."""

    train: float  # images of each class; below 1: their share
    least: int = 2  # images that every class of the complete data set has
    images: int | None = None  # that the complete data set has
    classes: int | None = None  # the first so many in alphabetical order; None: all
    seed: int = 0
    OPTIONS: ClassVar[Mapping[str, Any]] = {"classes": int, "seed": int}

    def __post_init__(self) -> None:
        if self.classes is not None and self.classes < 1:
            raise ValueError(f"{self.name}: classes={self.classes}; give a number from 1 on")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"{self.name}: seed={self.seed}; give a number from 0 to 2^32 - 1")

    @abstractmethod
    def tree(self, folder: Path) -> Tree:
        """All classes of the data set in this folder, in their order."""

    def chosen(self, folder: Path) -> Tree:
        """The classes that are used."""
        found = self.tree(folder)
        names = list(found)[: self.classes]
        return {name: found[name] for name in names}

    def check(self, folder: Path) -> Report:
        try:
            counts = {name: len(of.files) for name, of in self.chosen(folder).items()}
        except FileError as error:
            return Report(folder, [str(error)], {})
        return Report(folder, [*self._lacks(counts)], counts)

    def _lacks(self, counts: dict[str, int]) -> Iterable[str]:
        wanted, total = self.size.classes, sum(counts.values())
        if self.classes is not None:
            wanted = self.classes if wanted is None else min(self.classes, wanted)
        if wanted is not None and len(counts) != wanted:
            yield f"{len(counts):,} classes instead of {wanted:,}"
        few = [f"{name} ({n})" for name, n in counts.items() if n < self.least]
        if few:
            yield f"{len(few):,} classes have fewer than {self.least} images: {shown(few)}"
        if not counts:
            yield "no folder with images in it"
        elif self.classes is None and self.images is not None and total != self.images:
            yield f"{total:,} images instead of {self.images:,}"

    def read(self, folder: Path) -> ImageSet:
        tree = self.chosen(folder)
        lacks = list(self._lacks({name: len(of.files) for name, of in tree.items()}))
        if not tree:
            raise FileError(f"{self.name}: {folder} has {lacks[0]}; {self.help}")
        if lacks:
            warn(f"{self.name}: {folder} is not the complete data set ({'; '.join(lacks)})")
        parts: tuple[list[Path], ...] = ([], [])
        labels: tuple[list[int], ...] = ([], [])
        for index, (name, of) in enumerate(tree.items()):
            for part, drawn in enumerate(self.drawn(name, len(of.files))):
                parts[part].extend(of.folder / of.files[place] for place in drawn)
                labels[part].extend([index] * len(drawn))
        y, y_test = (np.array(of, np.int64) for of in labels)
        return ImageSet(parts[0], y, parts[1], y_test, list(tree))

    def drawn(self, name: str, n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Which of a class's n images train, and which test."""
        count = int(self.train) if self.train >= 1 else int(self.train * n + 0.5)
        if not 0 < count < n:
            raise FileError(
                f"{self.name}: class {name} has {n} images, too few to train on "
                f"{max(count, 1)} and test on the rest"
            )
        key = zlib.crc32(name.encode("utf-8", "surrogateescape"))
        order = np.random.RandomState([self.seed, key]).permutation(n)
        return np.sort(order[:count]), np.sort(order[count:])


def is_image(name: str) -> bool:
    """By its suffix; names with a dot first belong to the system."""
    return os.path.splitext(name)[1].lower() in SUFFIXES and not name.startswith(".")


def folders_in(folder: PathLike) -> list[os.DirEntry[str]]:
    """In alphabetical order, without hidden ones; links are followed."""
    return [each for each in _entries(folder) if each.is_dir() and not each.name.startswith(".")]


def images_in(folder: PathLike) -> list[str]:
    """Names of the images in this folder, sorted; those in folders below it are left out."""
    return [each.name for each in _entries(folder) if is_image(each.name) and each.is_file()]


def _entries(folder: PathLike) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda each: each.name)
    except OSError as error:
        raise FileError(f"{folder}: cannot be read ({error.strerror}); check the path") from error
