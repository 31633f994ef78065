"""What the registry knows of a data set: what it is, where it lies, whether it is complete.

An entry is an immutable value.  `find` looks for its folder below a folder of data sets, which is
given or named by SLENDER_DATA; `check` says what is missing in it; `load` reads it.  Numbers that
belong to the real data set (rows, classes, images) are fields, so that a test can have others.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from ..storage import FileError, PathLike
from .images import ImageSet
from .vectors import Dataset

VARIABLE = "SLENDER_DATA"
SHOWN = 3  # names in a message


class MissingDataError(FileError):
    """The data is not on this machine; the message says how to provide it."""


class Size(NamedTuple):
    """Of the complete data set, as it is split; None where nobody can know."""

    train: int | None
    test: int | None
    classes: int | None
    features: int | None = None  # of vectors


class Report(NamedTuple):
    """What a check found."""

    folder: Path | None  # None: there is no such folder
    missing: list[str]  # one phrase each
    counts: dict[str, int]  # by class or by file

    @property
    def complete(self) -> bool:
        return self.folder is not None and not self.missing


class Archive(NamedTuple):
    """A file that `slender datasets get` downloads."""

    file: str  # its name on disk
    urls: tuple[str, ...]  # the same content at each; tried in this order
    checksum: str | None  # "md5:..." or "sha256:..."; None: not known for certain
    folder: str | None = None  # what it unpacks to; None: it is used as it is
    inner: str | None = None  # an archive in the archive, which is the one with the folder


@dataclass(frozen=True, kw_only=True)
class Entry(ABC):
    """A data set of the registry."""

    name: str
    about: str  # one line
    size: Size
    layout: str = ""  # on disk, below the folder of data sets
    split: str  # what trains and what tests
    source: str  # where it comes from
    provide: str = ""  # one line of help: how it must lie on disk
    places: tuple[str, ...] = ()  # folders to look in; none: it needs no files
    elsewhere: Path | None = None  # where a package of the system puts it
    archives: tuple[Archive, ...] = ()
    kind: ClassVar[str]
    # What a name can set, as in vehicle:classes=10, and how the word is read.
    OPTIONS: ClassVar[Mapping[str, Any]] = {}

    @abstractmethod
    def check(self, folder: Path) -> Report:
        """What the folder holds of the data set and what it lacks."""

    def status(self, data_dir: PathLike | None = None) -> Report:
        """The same of the folder that `find` finds."""
        try:
            return self.check(self.find(data_dir))
        except MissingDataError as error:
            return Report(None, [str(error).removeprefix(f"{self.name}: ")], {})

    def find(self, data_dir: PathLike | None = None) -> Path:
        """The folder of this data set; quick, unlike `load`."""
        if not self.places:
            return Path()
        folders = list(self._folders(data_dir))
        for folder in folders:
            if self.begun(folder):
                return folder
        looked = f" (looked in {', '.join(map(str, folders))})" if folders else ""
        raise MissingDataError(f"{self.name}: not found{looked}; {self.help}")

    def begun(self, folder: Path) -> bool:
        """Does the folder hold any of it?"""
        return folder.is_dir()

    @property
    def help(self) -> str:
        """What to do when it is missing."""
        get = f"; slender datasets get {self.name} downloads it" if self.archives else ""
        return f"{self.provide} and name the folder above with --data-dir or {VARIABLE}{get}"

    def _folders(self, data_dir: PathLike | None) -> Iterator[Path]:
        root = folder_of_data(data_dir)
        if root is not None:
            for place in self.places:
                yield root / place
            if self.may_be(root):
                yield root
        if data_dir is None and self.elsewhere is not None:
            yield self.elsewhere

    def may_be(self, root: Path) -> bool:
        """Could the folder that was named be the data set itself?"""
        return root.resolve().name in {Path(place).name for place in self.places}


@dataclass(frozen=True, kw_only=True)
class VectorSet(Entry):
    """A data set of vectors."""

    kind: ClassVar[str] = "vectors"

    def protocol(self, data_dir: PathLike | None = None) -> tuple[Dataset, Any]:
        """Its rows without (X, y) to validate on, and these; None if nobody says which."""
        return self.load(data_dir), None

    def load(self, data_dir: PathLike | None = None) -> Dataset:
        """Its rows, whole and in memory."""
        return self.read(self.find(data_dir))

    @abstractmethod
    def read(self, folder: Path) -> Dataset:
        """The rows that lie in this folder."""


@dataclass(frozen=True, kw_only=True)
class ImageCollection(Entry):
    """A data set of images."""

    kind: ClassVar[str] = "images"

    def load(self, data_dir: PathLike | None = None) -> ImageSet:
        """Its files and their classes."""
        return self.read(self.find(data_dir))

    @abstractmethod
    def read(self, folder: Path) -> ImageSet:
        """The images that lie in this folder."""


def folder_of_data(data_dir: PathLike | None) -> Path | None:
    """The folder that holds data sets: the given one, or that of SLENDER_DATA."""
    root = os.environ.get(VARIABLE) if data_dir is None else data_dir
    return Path(root) if root else None


def first_there(folder: Path, names: tuple[str, ...]) -> Path | None:
    """The first of these files that is in the folder."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def zipped(name: str) -> tuple[str, ...]:
    """A text file, and how it is called when it is compressed."""
    return (name, f"{name}.gz", f"{name}.bz2")


def shown(names: list[str]) -> str:
    """A few of them."""
    return ", ".join(names[:SHOWN]) + ", ..." * (len(names) > SHOWN)
