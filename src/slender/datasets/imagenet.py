"""Subtrees of ImageNet: the leaves below a synset, split in halves (Harchaoui et al. 2012, §5).

Which synsets belong to a subtree is said by a list, one synset on each line, or by ImageNet's file
wordnet.is_a.txt (a parent and a child on each line) and the root: the classes are then the synsets
below the root that have no children and a folder with images.  "Alphabetical order given by the
ImageNet names" is taken as the order of the synsets' numbers (n02834778 before n02835271), which
the names of the images begin with: V10 is the first ten of Vehicle in this order.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from ..storage import FileError, unreadable
from .known import Size, first_there
from .trees import ImageTree, Members, Tree, images_in

IS_A = "wordnet.is_a.txt"
SYNSET = re.compile(r"n\d{8}")
NAMED = "n and eight digits"


@dataclass(frozen=True, kw_only=True)
class Subtree(ImageTree):
    """The classes of a list, or the leaves below a root."""

    root: str = ""  # a synset
    listed: str = "imagenet.txt"  # a list in the folder, which is taken if it is there
    synsets: str = ""  # another list
    OPTIONS: ClassVar[Mapping[str, Any]] = {
        "classes": int,
        "seed": int,
        "synsets": str,
        "root": str,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.root and not SYNSET.fullmatch(self.root):
            raise ValueError(f"{self.name}: root={self.root} is no synset: {NAMED}")

    def tree(self, folder: Path) -> Tree:
        path = self._list(folder)
        if path is not None:
            wanted = sorted(set(_words(path, 1)))
            return {name: Members(folder / name, _images(folder / name)) for name in wanted}
        is_a = folder / IS_A
        if not self.root or not is_a.is_file():
            raise FileError(
                f"{self.name}: which synsets? put a list, one on each line, as {self.listed} into "
                f"{folder}, or {IS_A} there" + (" and give root=SYNSET" if not self.root else "")
            )
        leaves = sorted(leaves_below(self.root, _words(is_a, 2)))
        found = {name: Members(folder / name, _images(folder / name)) for name in leaves}
        return {name: of for name, of in found.items() if of.files}

    def _list(self, folder: Path) -> Path | None:
        if not self.synsets:
            return first_there(folder, (self.listed,))
        for path in (Path(self.synsets), folder / self.synsets):
            if path.is_file():
                return path
        raise FileError(f"{self.name}: there is no file {self.synsets}; check the path")


def leaves_below(root: str, words: list[str]) -> set[str]:
    """Synsets without children below a root; `words` are parent, child, parent, child, ..."""
    children: dict[str, list[str]] = {}
    for parent, child in zip(words[::2], words[1::2], strict=True):
        children.setdefault(parent, []).append(child)
    seen, todo = set(), [root]
    while todo:
        synset = todo.pop()
        if synset not in seen:  # a synset may have several parents
            seen.add(synset)
            todo += children.get(synset, [])
    return {synset for synset in seen if synset not in children} - {root}


def _images(folder: Path) -> list[str]:
    return images_in(folder) if folder.is_dir() else []


def _words(path: Path, each: int) -> list[str]:
    """All synsets of a file that has so many on each line; what follows them is not read."""
    found = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, "a list of synsets", error) from error
    for number, line in enumerate(lines, start=1):
        words = line.split()[:each]
        if not words:
            continue
        if len(words) < each or not all(SYNSET.fullmatch(word) for word in words):
            raise FileError(f"{path}: line {number} does not begin with {each} of {NAMED}")
        found += words
    return found


# -- the data sets ---------------------------------------------------------------------------------

IMAGENET = Subtree(
    name="imagenet",
    about="a subtree of ImageNet of your choice",
    size=Size(None, None, None),
    layout="imagenet/\n  n02834778/n02834778_10012.JPEG\n  wordnet.is_a.txt",
    split="half of each class, drawn by the seed, trains, the other half tests; give synsets=FILE, "
    "one synset on each line, or root=SYNSET with wordnet.is_a.txt",
    source="www.image-net.org, after registration; wordnet.is_a.txt from its archive",
    provide="unpack the archives of its synsets into folders imagenet/n02834778/, ...",
    places=("imagenet",),
    train=0.5,
)


def _subtree(name: str, root: str, classes: int) -> Subtree:
    return replace(
        IMAGENET,
        name=name,
        about=f"the leaves of ImageNet below {name} ({root})",
        size=Size(None, None, classes),
        layout=f"imagenet/\n  n02834778/n02834778_10012.JPEG\n  {name}.txt or wordnet.is_a.txt",
        split="half of each class, drawn by the seed, trains, the other half tests (Harchaoui et "
        "al. 2012, whose classes have 193 to 2,295 images)",
        root=root,
        listed=f"{name}.txt",
        least=193,
    )


FUNGUS = _subtree("fungus", "n12992868", 134)
UNGULATE = _subtree("ungulate", "n02370806", 182)
VEHICLE = _subtree("vehicle", "n04524313", 262)
V10 = replace(
    VEHICLE,
    name="v10",
    about="the first ten classes of vehicle",
    size=Size(None, None, 10),
    classes=10,
)
