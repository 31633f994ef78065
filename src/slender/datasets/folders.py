"""Data sets of one folder per class: Caltech-101, Caltech-256, and everyone's own."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..features.images import find_images
from ..storage import FileError, PathLike
from .images import ImageSet
from .known import Archive, MissingDataError, Size
from .trees import ImageTree, Members, Tree, folders_in, images_in, is_image


@dataclass(frozen=True, kw_only=True)
class ClassFolders(ImageTree):
    """The name of a folder is the name of its class."""

    left_out: tuple[str, ...] = ()  # folders that are no class

    def tree(self, folder: Path) -> Tree:
        named = {
            each.name: Members(Path(each.path), images_in(each.path))
            for each in folders_in(folder)
            if each.name not in self.left_out
        }
        return {name: of for name, of in named.items() if of.files}


@dataclass(frozen=True, kw_only=True)
class ImageFolder(ImageTree):
    """A folder of one's own; where it holds train/ and test/, these are the two parts."""

    path: str = ""
    train: float = 0.8
    OPTIONS: ClassVar[Mapping[str, Any]] = {
        "path": str,
        "train": float,
        "classes": int,
        "seed": int,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.train > 0:
            raise ValueError(
                f"{self.name}: train={self.train:g}; give a share of the images of each class "
                "(0.8), or their number (30)"
            )

    def find(self, data_dir: PathLike | None = None) -> Path:
        if not self.path:
            raise MissingDataError(f"{self.name}: give its path, as in {self.name}:path=photos")
        if not Path(self.path).is_dir():
            raise MissingDataError(f"{self.name}: there is no folder {self.path}; check the path")
        return Path(self.path)

    @property
    def help(self) -> str:
        return self.provide

    def tree(self, folder: Path) -> Tree:
        """Of both parts together, where the split is given."""
        parts = parts_of(folder)
        if parts is None:
            return _classes(folder)
        joined: dict[str, list[str]] = {}
        for part in parts:
            for name, of in _classes(folder / part).items():
                joined.setdefault(name, []).extend(f"{part}/{name}/{file}" for file in of.files)
        return {name: Members(folder, joined[name]) for name in sorted(joined)}

    def read(self, folder: Path) -> ImageSet:
        parts = parts_of(folder)
        if parts is None:
            return super().read(folder)
        classes = list(self.chosen(folder))
        files, labels = [], []
        for part in parts:
            tree = _classes(folder / part)
            of = [(index, tree[name]) for index, name in enumerate(classes) if name in tree]
            files.append([each.folder / file for _, each in of for file in each.files])
            labels.append(np.array([i for i, each in of for _ in each.files], np.int64))
        for place, name in enumerate(classes):
            if place not in labels[0]:
                raise FileError(
                    f"{folder / parts[0]}: has no image of class {name}; put some there"
                )
        return ImageSet(files[0], labels[0], files[1], labels[1], classes)


def parts_of(folder: Path) -> tuple[str, str] | None:
    """train and test (or val), if these two and no other folders are there."""
    names = [each.name for each in folders_in(folder)]
    for test in ("test", "val"):
        if names == sorted(["train", test]):
            return "train", test
    return None


def _classes(folder: Path) -> Tree:
    """The images below each folder in this one."""
    tree: Tree = {}
    for path in find_images(folder).files:
        name, *below = path.relative_to(folder).parts
        if below and is_image(path.name):
            tree.setdefault(name, Members(folder / name, [])).files.append("/".join(below))
    return tree


def holds_images(path: PathLike) -> bool:
    """Is this a folder of one's own?  Looks two folders deep: train/cat/1.jpg."""
    if not Path(path).is_dir():
        return False
    return any(
        images_in(each.path) or any(images_in(below.path) for below in folders_in(each.path))
        for each in folders_in(path)
    )


# -- the data sets ---------------------------------------------------------------------------------

FOLDER = ImageFolder(
    name="folder",
    about="images of your own: one folder for each class",
    size=Size(None, None, None),
    layout="PATH/\n  cat/anything.jpg\n  dog/anything/below.png\n"
    "or PATH/train/cat/..., PATH/test/cat/...",
    split="0.8 of each class, drawn by the seed, train; or what lies in train/ and test/",
    source="yours",
    provide="make one folder for each class, with its images in it, and give the path",
)
CALTECH101 = ClassFolders(
    name="caltech101-images",
    about="photographs of objects, about 300 pixels wide",
    size=Size(101 * 30, 8_677 - 101 * 30, 101),
    layout="101_ObjectCategories/\n  accordion/image_0001.jpg\n  BACKGROUND_Google/ is left out",
    split="30 images of each class, drawn by the seed, train; the rest test",
    source="Fei-Fei, Fergus, Perona 2004; data.caltech.edu/records/mzrjq-6wc02",
    provide="unpack 101_ObjectCategories.tar.gz",
    places=("101_ObjectCategories", "caltech101/101_ObjectCategories"),
    train=30,
    least=31,
    images=8_677,
    left_out=("BACKGROUND_Google",),
    archives=(
        Archive(
            "caltech-101.zip",
            ("https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip?download=1",),
            "md5:3138e1922a9193bfa496528edbbc45d0",
            folder="101_ObjectCategories",
            inner="101_ObjectCategories.tar.gz",
        ),
    ),
)
CALTECH256 = ClassFolders(
    name="caltech256",
    about="photographs of objects, 80 at least of each class",
    size=Size(257 * 30, 30_607 - 257 * 30, 257),
    layout="256_ObjectCategories/\n  001.ak47/001_0001.jpg\n  257.clutter/257_0001.jpg",
    split="30 images of each class, drawn by the seed, train; the rest test (Bel Haj Ali et al. "
    "2013).  The 30,607 images of that paper are those of 256 classes and of 257.clutter; "
    "classes=256 leaves the latter out",
    source="Griffin, Holub, Perona 2007; data.caltech.edu/records/nyy15-4j048",
    provide="unpack 256_ObjectCategories.tar",
    places=("256_ObjectCategories", "caltech256/256_ObjectCategories"),
    train=30,
    least=80,
    images=30_607,
    archives=(
        Archive(
            "256_ObjectCategories.tar",
            (
                "https://data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar"
                "?download=1",
            ),
            "md5:67b4f42ca05d46448c6bb8ecd2220f6d",
            folder="256_ObjectCategories",
        ),
    ),
)
