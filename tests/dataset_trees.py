"""Small trees with the layout of the real data sets; each returns the entry that expects them.

Images are listed, not read: a few bytes stand for each.
"""

import gzip
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.io import savemat

from slender.datasets import DATASETS, Size

PIXELS = 3072
WNIDS = ["n02834778", "n02835271", "n02951358", "n03100897"]


def touch(path, content=b"\xff\xd8"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def of_size(name, size, **more):
    return replace(DATASETS[name], size=size, **more)


# -- vectors ---------------------------------------------------------------------------------------


def cifar_file(path, n, kinds, seed):
    """Records byte by byte, as the format says; returns (labels of each kind, pixels)."""
    rng = np.random.default_rng(seed)
    labels = [rng.integers(0, classes, n) for classes in kinds]
    pixels = rng.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8)
    content = bytearray()
    for i in range(n):
        content += bytes(int(of[i]) for of in labels)
        for colour in range(3):
            for row in range(32):
                content += bytes(pixels[i, colour, row])
    touch(path, bytes(content))
    return labels, pixels


def cifar10(root):
    folder = root / "cifar-10-batches-bin"
    made = {}
    for number in range(1, 6):
        name = f"data_batch_{number}.bin"
        made[name] = cifar_file(folder / name, 4, [10], number)
    made["test_batch.bin"] = cifar_file(folder / "test_batch.bin", 3, [10], 0)
    touch(folder / "batches.meta.txt", b"airplane\n")
    return of_size("cifar10-pixels", Size(20, 3, 10, PIXELS)), made


def cifar100(root):
    folder = root / "cifar-100-binary"
    made = {
        "train.bin": cifar_file(folder / "train.bin", 7, [20, 100], 1),
        "test.bin": cifar_file(folder / "test.bin", 3, [20, 100], 2),
    }
    return of_size("cifar100-pixels", Size(7, 3, 100, PIXELS)), made


def alpha(root, write=lambda path, text: touch(path, text.encode()), suffix=""):
    """Nine rows of five columns, a blank at the end of each line; six are used."""
    X = np.random.default_rng(0).standard_normal((9, 5)).round(3)
    y = np.array([1, -1, -1, 1, 1, -1, 1, 1, -1])
    rows = "".join(" ".join(f"{value:g}" for value in row) + " \n" for row in X)
    write(root / "alpha" / f"alpha_train.dat{suffix}", rows)
    write(root / "alpha" / f"alpha_train.lab{suffix}", "".join(f"{label}\n" for label in y))
    return of_size("alpha", Size(4, 2, 2, 5), official=9), X, y


def rcv1(root, write=lambda path, text: touch(path, text.encode()), suffix=""):
    """The last columns are empty in one of the files."""
    train = "1 1:0.5 3:0.25\n-1 2:1\n1 5:0.125\n"
    test = "-1 1:2\n1 2:4 4:0.5\n"
    write(root / "rcv1" / f"rcv1_train.binary{suffix}", train)
    write(root / "rcv1" / f"rcv1_test.binary{suffix}", test)
    X = np.array([[0.5, 0, 0.25, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0.125, 0]])
    X_test = np.array([[2, 0, 0, 0, 0, 0], [0, 4, 0, 0.5, 0, 0]])
    return of_size("rcv1", Size(3, 2, 2, 6)), X, X_test


# -- images ----------------------------------------------------------------------------------------


def caltech256(root, classes=("001.ak47", "056.dog", "198.spider", "257.clutter"), n=8):
    """With what the real archive has besides images."""
    folder = root / "256_ObjectCategories"
    for name in classes:
        for number in range(1, n + 1):
            touch(folder / name / f"{name[:3]}_{number:04d}.jpg")
    touch(folder / "056.dog" / "greg" / "vision309" / "056_0001.jpg")
    touch(folder / "198.spider" / "RENAME2", b"#!/bin/sh\n")
    touch(folder / ".DS_Store")
    touch(folder / "001.ak47" / "._001_0001.jpg")
    size = Size(3 * len(classes), (n - 3) * len(classes), len(classes))
    images = n * len(classes)
    return of_size("caltech256", size, train=3, least=n, images=images)


def caltech101(root):
    folder = root / "101_ObjectCategories"
    for name, n in (("accordion", 5), ("Faces", 7), ("BACKGROUND_Google", 4)):
        for number in range(1, n + 1):
            touch(folder / name / f"image_{number:04d}.jpg")
    return of_size("caltech101-images", Size(6, 6, 2), train=3, least=5, images=12)


SCENES = ("a/abbey", "a/apartment_building/outdoor", "b/badminton_court/indoor", "z/zen_garden")


def sun397(root, n=6):
    folder = root / "SUN397"
    for scene in SCENES:
        for number in range(n):
            touch(folder / scene / f"sun_{number:016d}.jpg")
    touch(folder / "ClassName.txt", "".join(f"/{scene}\n" for scene in SCENES).encode())
    return of_size("sun397", Size(8, 16, 4), train=2, least=n, images=4 * n)


def sun_lists(folder, partition=1):
    """Images 0 and 1 of each class train, image 4 tests."""
    for name, numbers in (("Training", (0, 1)), ("Testing", (4,))):
        lines = [f"/{scene}/sun_{k:016d}.jpg" for scene in SCENES for k in numbers]
        touch(folder / f"{name}_{partition:02d}.txt", "\n".join(lines).encode())
    return of_size("sun397-official", Size(8, 4, 4), train=2, least=6, images=24)


def ilsvrc2010(root, kit="devkit-1.0/data"):
    """Test image k is of class k mod 4, validation image k of class (k + 1) mod 4; a number is not
    the place of its synset in the alphabet."""
    folder = root / "ILSVRC2010"
    numbers = {wnid: number for number, wnid in enumerate(reversed(WNIDS), start=1)}
    for wnid in WNIDS:
        for number in range(3):
            touch(folder / "train" / wnid / f"{wnid}_{number}.JPEG")
    truth = {"test": [], "val": []}
    for part, shift, n in (("test", 0, 8), ("val", 1, 4)):
        for k in range(n):
            touch(folder / part / f"ILSVRC2010_{part}_{k + 1:08d}.JPEG")
            truth[part].append(WNIDS[(k + shift) % 4])
    for part, name in (("test", "test"), ("val", "validation")):
        lines = "".join(f"{numbers[wnid]}\n" for wnid in truth[part])
        home = folder if part == "test" else folder / kit
        touch(home / f"ILSVRC2010_{name}_ground_truth.txt", lines.encode())
    table = np.zeros(5, [("ILSVRC2010_ID", "O"), ("WNID", "O"), ("words", "O")])
    for place, (wnid, number) in enumerate(numbers.items()):
        table[place] = (float(number), wnid, "a vehicle")
    table[4] = (5.0, "n04524313", "an inner node")
    savemat(folder / kit / "meta.mat", {"synsets": table})
    entry = of_size("ilsvrc2010", Size(12, 8, 4), heaps={"test": 8, "val": 4})
    return entry, truth


IS_A = """n00001740 n04524313
n04524313 n04576211
n04576211 n02834778
n04576211 n02835271
n04524313 n02951358
n04576211 n02951358
n02951358 n03100897
n04524313 n09999999
n00001740 n12992868
n12992868 n13000000
"""


def imagenet(root, n=5):
    """Below vehicle: leaves n02834778, n02835271, n03100897 (by way of n02951358, which has two
    parents), and n09999999, of which there are no images."""
    folder = root / "imagenet"
    for wnid in (*WNIDS, "n13000000"):
        for number in range(n):
            touch(folder / wnid / f"{wnid}_{number}.JPEG")
    touch(folder / "wordnet.is_a.txt", IS_A.encode())
    return of_size("vehicle", Size(None, None, 3), least=n)


def photos(root, classes=("cat", "dog", "éléphant"), n=10):
    for name in classes:
        for number in range(n):
            below = "more/" if number % 2 else ""
            touch(root / name / f"{below}{number}.{'JPG' if number % 3 else 'png'}")
    return root


# -- archives --------------------------------------------------------------------------------------


def tar_of(folder: Path, archive: Path):
    """The folder, under its own name, as a tar; compressed if the archive is called so."""
    with tarfile.open(archive, "w:gz" if archive.suffix == ".gz" else "w") as tar:
        tar.add(folder, folder.name)
    return archive


def gzipped(path, text):
    touch(path, gzip.compress(text.encode()))
