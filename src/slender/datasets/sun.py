"""SUN-397: scenes, in folders such as SUN397/a/abbey and SUN397/a/apartment_building/outdoor."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..storage import FileError, unreadable
from .images import ImageSet
from .known import Report, Size, first_there
from .trees import ImageTree, Members, Tree, folders_in, images_in

PARTITIONS = range(1, 11)
# Partitions.zip may have been unpacked beside SUN397/, in it, or anywhere near.
NEAR = ("", "Partitions/", "../Partitions/", "../")


@dataclass(frozen=True, kw_only=True)
class Sun(ImageTree):
    """A class is named by its path: /a/apartment_building/outdoor."""

    partition: int | None = None  # an official one; None: drawn by the seed
    OPTIONS: ClassVar[Mapping[str, Any]] = {"classes": int, "seed": int, "partition": int}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.partition is not None and self.partition not in PARTITIONS:
            raise ValueError(f"{self.name}: partition={self.partition} is not one of 1 to 10")

    def tree(self, folder: Path) -> Tree:
        found = {}
        for letter in folders_in(folder):
            if len(letter.name) != 1:
                continue  # Partitions, and the like
            for here, below, _ in os.walk(letter.path):
                below.sort()
                files = images_in(here)
                if files:
                    name = "/" + Path(here).relative_to(folder).as_posix()
                    found[name] = Members(Path(here), files)
        return {name: found[name] for name in sorted(found)}

    def check(self, folder: Path) -> Report:
        report = super().check(folder)
        lists = () if self.partition is None else self._names()
        lacks = [name for name in lists if first_there(folder, _near(name)) is None]
        return report._replace(missing=[*report.missing, *lacks])

    def read(self, folder: Path) -> ImageSet:
        if self.partition is None:
            return super().read(folder)
        classes = list(self.chosen(folder))
        index = {name: place for place, name in enumerate(classes)}
        train, test = (self._listed(folder, name, index) for name in self._names())
        return ImageSet(*train, *test, classes)

    def _names(self) -> tuple[str, str]:
        return f"Training_{self.partition:02d}.txt", f"Testing_{self.partition:02d}.txt"

    def _listed(
        self, folder: Path, name: str, index: dict[str, int]
    ) -> tuple[list[Path], NDArray[np.int64]]:
        """The images of an official list, one per line: /a/abbey/sun_aaalbzqrimafwbiv.jpg."""
        path = first_there(folder, _near(name))
        if path is None:
            raise FileError(f"{self.name}: {folder} lacks {name}; unpack Partitions.zip there")
        try:
            lines = path.read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError) as error:
            raise unreadable(path, "a list of images", error) from error
        listed = [(index.get(line.rpartition("/")[0]), line) for line in lines]
        kept = [(place, folder / line.lstrip("/")) for place, line in listed if place is not None]
        lost = [line for place, line in listed if place is None and self.classes is None]
        lost += [str(file) for _, file in kept if not file.is_file()]
        if lost:
            raise FileError(f"{path}: {len(lost):,} of its images are not there, such as {lost[0]}")
        return [file for _, file in kept], np.array([place for place, _ in kept], np.int64)


def _near(name: str) -> tuple[str, ...]:
    return tuple(f"{place}{name}" for place in NEAR)


SUN397 = Sun(
    name="sun397",
    about="photographs of scenes, 100 at least of each class",
    size=Size(397 * 50, 108_754 - 397 * 50, 397),
    layout="SUN397/\n  a/abbey/sun_aaalbzqrimafwbiv.jpg\n  a/apartment_building/outdoor/sun_...jpg",
    split="50 images of each class, drawn by the seed, train; the rest test (Bel Haj Ali et al. "
    "2013, who count 108,656 images: the archive holds 108,754).  partition=1 to 10 takes an "
    "official partition instead, of 50 and 50",
    source="Xiao et al. 2010, vision.princeton.edu/projects/2010/SUN; SUN397.tar.gz has the md5 "
    "8ca2778205c41d23104230ba66911c7a",
    provide="unpack SUN397.tar.gz, which makes a folder SUN397/,",
    places=("SUN397", "sun397/SUN397"),
    train=50,
    least=100,
    images=108_754,
)
OFFICIAL = replace(
    SUN397,
    name="sun397-official",
    size=Size(397 * 50, 397 * 50, 397),
    layout=f"{SUN397.layout}\n  Training_01.txt   Testing_01.txt\nthe lists also in Partitions/, "
    "in SUN397/ or beside it",
    split="the official partition 1: 50 images of each class train, 50 test; partition=2 to 10 "
    "takes another",
    provide="unpack SUN397.tar.gz and Partitions.zip",
    partition=1,
)
