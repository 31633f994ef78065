"""ILSVRC-2010: 1.2 million training images by synset, 50,000 and 150,000 others in two heaps.

The class of an image in a heap is a line of a ground-truth file, in the order of the file names: a
number from 1 to 1,000, which meta.mat of the development kit translates into a synset (or a file
synsets.txt, whose line k is the synset of the number k).  A list train.txt, val.txt or test.txt, if
there is one, is taken instead: a path and a synset on each line.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..storage import FileError, unreadable
from .images import ImageSet
from .known import ImageCollection, Report, Size, first_there
from .trees import folders_in, images_in

TRUTH = {
    "val": "ILSVRC2010_validation_ground_truth.txt",
    "test": "ILSVRC2010_test_ground_truth.txt",
}
NEAR = ("", "data/", "devkit-1.0/data/")  # of the development kit


class Listed(NamedTuple):
    """Images, and the synset of each."""

    files: list[Path]
    synsets: list[str]


@dataclass(frozen=True, kw_only=True)
class Ilsvrc(ImageCollection):
    """The training images, and those of one of the two heaps."""

    heap: str = "test"
    heaps: Mapping[str, int]  # how many images each has
    OPTIONS: ClassVar[Mapping[str, Any]] = {"heap": str}

    def __post_init__(self) -> None:
        if self.heap not in TRUTH:
            raise ValueError(f"{self.name}: heap={self.heap} is not one of {', '.join(TRUTH)}")

    def check(self, folder: Path) -> Report:
        counts: dict[str, int] = {}
        missing = []
        for part, wanted in (("train", self.size.train), (self.heap, self.heaps[self.heap])):
            try:
                found = self._part(folder, part)
            except FileError as error:
                missing.append(str(error))
                continue
            counts[part] = len(found.files)
            if counts[part] != wanted:
                missing.append(f"{part} has {counts[part]:,} images instead of {wanted:,}")
            if part == "train":
                classes = len(set(found.synsets))
                if classes != self.size.classes:
                    missing.append(f"{classes:,} classes instead of {self.size.classes:,}")
        return Report(folder, missing, counts)

    def read(self, folder: Path) -> ImageSet:
        train, test = self._part(folder, "train"), self._part(folder, self.heap)
        classes = sorted(set(train.synsets))
        index = {name: place for place, name in enumerate(classes)}
        lost = [synset for synset in test.synsets if synset not in index]
        if lost:
            raise FileError(
                f"{self.name}: {len(lost):,} images of {self.heap} are of classes without a "
                f"training image, such as {lost[0]}; see slender datasets check {self.name}"
            )
        return ImageSet(
            train.files, _places(train, index), test.files, _places(test, index), classes
        )

    def _part(self, folder: Path, part: str) -> Listed:
        listed = folder / f"{part}.txt"
        if listed.is_file():
            return _from_list(folder / part, listed)
        if not (folder / part).is_dir():
            raise FileError(f"{folder} has neither {part}/ nor {part}.txt")
        if part == "train":
            return _joined(
                (Path(each.path), name)
                for each in folders_in(folder / part)
                for name in images_in(each)
            )
        return _with_truth(folder, part)


def _joined(images: Iterable[tuple[Path, str]]) -> Listed:
    """Of images in folders that are named after their synsets."""
    files, synsets = [], []
    for folder, name in images:
        files.append(folder / name)
        synsets.append(folder.name)
    return Listed(files, synsets)


def _from_list(folder: Path, path: Path) -> Listed:
    """Paths are relative to the folder of the part."""
    lines = [line.split() for line in _lines(path)]
    wrong = next((place for place, words in enumerate(lines) if len(words) != 2), None)
    if wrong is not None:
        raise FileError(
            f"{path}: line {wrong + 1} is no path and synset (n01440764/1.JPEG n01440764)"
        )
    return Listed([folder / name for name, _ in lines], [synset for _, synset in lines])


def _with_truth(folder: Path, part: str) -> Listed:
    path = first_there(folder, tuple(f"{place}{TRUTH[part]}" for place in NEAR))
    if path is None:
        raise FileError(f"{folder} lacks {TRUTH[part]}")
    names, lines = images_in(folder / part), _lines(path)
    if len(names) != len(lines):
        raise FileError(
            f"{folder / part} has {len(names):,} images, {path.name} {len(lines):,} lines"
        )
    synsets = _synsets(folder)
    try:
        found = [synsets[int(line)] for line in lines]
    except (KeyError, ValueError) as error:
        raise FileError(
            f"{path}: {error} is the number of no synset; get the file again"
        ) from error
    return Listed([folder / part / name for name in names], found)


def _synsets(folder: Path) -> dict[int, str]:
    """ILSVRC2010_ID -> WNID."""
    plain = first_there(folder, ("synsets.txt",))
    if plain is not None:
        return dict(enumerate(_lines(plain), start=1))
    path = first_there(folder, tuple(f"{place}meta.mat" for place in NEAR))
    if path is None:
        raise FileError(f"{folder} lacks meta.mat of the development kit, or synsets.txt")
    from scipy.io import loadmat  # noqa: PLC0415  (slow to import, seldom needed)

    try:
        table = loadmat(path, squeeze_me=True, variable_names=["synsets"])["synsets"]
        return {
            int(number): str(synset)
            for number, synset in zip(table["ILSVRC2010_ID"], table["WNID"], strict=True)
        }
    except Exception as error:
        raise unreadable(path, "the development kit's table of synsets", error) from error


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, "text", error) from error
    return [line.strip() for line in lines if line.strip()]


def _places(listed: Listed, index: dict[str, int]) -> NDArray[np.int64]:
    return np.array([index[synset] for synset in listed.synsets], np.int64)


ILSVRC2010 = Ilsvrc(
    name="ilsvrc2010",
    about="ImageNet large scale visual recognition challenge 2010",
    size=Size(1_261_406, 150_000, 1000),
    layout="ILSVRC2010/\n  train/n01440764/n01440764_10026.JPEG\n"
    "  test/ILSVRC2010_test_00000001.JPEG\n  val/ILSVRC2010_val_00000001.JPEG\n"
    "  ILSVRC2010_test_ground_truth.txt   ILSVRC2010_validation_ground_truth.txt\n"
    "  meta.mat\nthe last three also in data/ or devkit-1.0/data/; synsets.txt (line k is the "
    "synset k)\ninstead of meta.mat; lists train.txt, val.txt, test.txt (path and synset) instead "
    "of folders",
    split="1.2M training and 150,000 test images (Bel Haj Ali et al. 2013); heap=val tests on the "
    "50,000 validation images",
    source="www.image-net.org/challenges/LSVRC/2010, after registration",
    provide="unpack its archives into a folder ILSVRC2010/ (train/n01440764/..., val/, test/, "
    "ILSVRC2010_test_ground_truth.txt, meta.mat)",
    places=("ILSVRC2010", "ilsvrc2010"),
    heaps={"test": 150_000, "val": 50_000},
)
