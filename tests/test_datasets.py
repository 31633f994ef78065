"""The registry, and the data sets of vectors: where they are looked for, how they are read."""

import bz2
import gzip
import json
import os
import pickle
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dataset_trees as trees
from idx_files import CODES, idx, write_images
from slender import datasets
from slender.datasets import DATASETS, MissingDataError, Size, load, named
from slender.datasets.idx import idx_shape, read_idx
from slender.files import read_dataset, read_labels, read_matrix
from slender.storage import FileError

DATA = os.environ.get("SLENDER_DATA", "")
DOC = Path(__file__).resolve().parent.parent / "docs" / "datasets.md"

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """No data set but those that a test makes."""
    monkeypatch.delenv("SLENDER_DATA", raising=False)
    fashion = replace(DATASETS["fashion-mnist"], elsewhere=tmp_path / "debian")
    monkeypatch.setitem(DATASETS, "fashion-mnist", fashion)


def bzipped(path, text):
    """Text in a file that bzip2 compressed."""
    trees.touch(path, bz2.compress(text.encode()))


WRITERS = {"": None, ".gz": trees.gzipped, ".bz2": bzipped}


def written(make, root, suffix):
    return make(root, WRITERS[suffix], suffix) if suffix else make(root)


# -- the registry ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATASETS)
def test_every_entry_says_what_people_need(name):
    entry = named(name)
    assert entry.name == name
    assert entry.kind in ("vectors", "images")
    for text in (entry.about, entry.split, entry.source, entry.help):
        assert text.strip()
        assert "\n" not in text
    if entry.places:
        assert entry.layout.startswith(f"{entry.places[0]}/")
        assert entry.places[0].split("/")[0] in entry.provide or "unpack" in entry.provide
        assert "--data-dir" in entry.help
    for archive in entry.archives:
        assert archive.checksum is None or archive.checksum.startswith(("md5:", "sha256:"))
        assert all(url.startswith(("http://", "https://")) for url in archive.urls)
    if name != "folder":
        assert entry.status().complete is not bool(entry.places)  # nothing is here


def test_sizes_of_what_is_made():
    for name in ("digits", "tiny"):
        data, size = load(name), named(name).size
        assert (*data.X_train.shape, len(data.y_test)) == (size.train, size.features, size.test)
        assert len(np.unique(data.y_train)) == size.classes


def test_options_of_a_name():
    entry = named("vehicle:classes=10:seed=3")
    assert (entry.name, entry.classes, entry.seed) == ("vehicle:classes=10:seed=3", 10, 3)
    assert named("vehicle").classes is None
    assert named("v10").classes == 10
    assert named("folder:path=photos:train=0.5").train == 0.5
    for name, part in {
        "minst": "minst: no data set is called so; there are digits, ",
        "mnist:seed=1": "mnist:seed=1: its options are none",
        "caltech256:seeds=1": "its options are classes=, seed=",
        "caltech256:seed": "seed must be a number",
        "caltech256:seed=-1": "seed=-1; give a number from 0",
        "caltech256:classes=0": "classes=0; give a number from 1 on",
        "cifar100-pixels:labels=rough": "labels=rough is not one of coarse, fine",
        "sun397:partition=11": "partition=11 is not one of 1 to 10",
        "ilsvrc2010:heap=train": "heap=train is not one of val, test",
        "imagenet:root=vehicle": "root=vehicle is no synset",
        "folder:train=0": "train=0; give a share",
    }.items():
        with pytest.raises(ValueError) as caught:
            named(name)
        assert part in str(caught.value)
        assert "\n" not in str(caught.value)


def test_vectors_and_images_are_told_apart(tmp_path):
    with pytest.raises(ValueError, match="sun397 is a data set of images; extract vectors first"):
        load("sun397", tmp_path)
    with pytest.raises(ValueError, match="mnist is a data set of vectors"):
        datasets.load_images("mnist", tmp_path)


# -- IDX -------------------------------------------------------------------------------------------


@given(
    array=st.sampled_from(sorted(CODES)).flatmap(
        lambda code: hnp.arrays(
            np.dtype(f"={code}"), hnp.array_shapes(max_dims=3, min_side=0, max_side=4)
        )
    ),
    zipped=st.booleans(),
)
def test_idx_gives_back_what_was_written(tmp_path_factory, array, zipped):
    path = tmp_path_factory.getbasetemp() / "array.idx"
    path.write_bytes(gzip.compress(idx(array)) if zipped else idx(array))
    found = read_idx(path)
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()
    assert idx_shape(path) == array.shape


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "no IDX file (it begins with nothing)"),
        (b"\x00\x00\x08", "no IDX file"),
        (b"PK\x03\x04 a zip", "no IDX file (it begins with 50 4b 03 04)"),
        (b"\x00\x00\x07\x01\x00\x00\x00\x01\x05", "no IDX file"),
        (idx(np.arange(6, dtype="u1"))[:-1], "13 bytes, where its header asks for 14"),
        (idx(np.arange(6, dtype="u1")) + b"\x00", "cut short or damaged"),
        (idx(np.arange(6, dtype="u1"))[:6], "cut short or damaged"),
        (b"\x00\x00\x0e\x03" + b"\xff" * 12, "cut short or damaged"),
        (gzip.compress(idx(np.arange(99, dtype="i4")))[:-20], "cut short or damaged"),
        (b"\x1f\x8b and no more gzip than that", "cut short or damaged"),
    ],
)
def test_idx_refuses(tmp_path, content, part):
    path = tmp_path / "some-ubyte"
    path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        read_idx(path)
    assert part in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(FileError):
        idx_shape(path)


def test_idx_without_a_file(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        read_idx(tmp_path / "none")
    with pytest.raises(FileError, match="is a folder"):
        read_idx(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="is not a regular file"):
        read_idx(tmp_path / "pipe")


@pytest.mark.parametrize("shape", [(6,), (2**28, 4, 4), (2**32 - 1,) * 3])
def test_an_idx_file_that_unzips_to_something_huge_is_refused(tmp_path, shape):
    """200 MB of zeros in 200 kB, whatever the header says of them."""
    header = b"\x00\x00\x08" + bytes([len(shape)]) + np.array(shape, ">u4").tobytes()
    path = tmp_path / "bomb-ubyte.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(header)
        for _ in range(20):
            file.write(bytes(10**7))
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match=r"bomb-ubyte\.gz: .* damaged"):
            read_idx(path)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


# -- MNIST and embeddings --------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["mnist", "MNIST/raw", "."])
def test_places(tmp_path, monkeypatch, place):
    write_images(tmp_path / "data" / place)
    assert len(load("mnist", tmp_path / "data").y_test) == 12
    monkeypatch.setenv("SLENDER_DATA", str(tmp_path / "data"))
    assert len(load("mnist").y_test) == 12


def test_a_folder_named_after_another_data_set_is_not_taken(tmp_path):
    write_images(tmp_path / "fashion-mnist")
    assert len(load("fashion-mnist", tmp_path / "fashion-mnist").y_test) == 12
    with pytest.raises(FileError, match="mnist: not found"):
        load("mnist", tmp_path / "fashion-mnist")


def test_debian_has_fashion_mnist(tmp_path, monkeypatch):
    monkeypatch.setenv("SLENDER_DATA", str(tmp_path))
    with pytest.raises(FileError, match="install Debian's package dataset-fashion-mnist, or put"):
        load("fashion-mnist")
    write_images(tmp_path / "debian")
    assert len(load("fashion-mnist").y_test) == 12
    with pytest.raises(FileError, match="not found"):  # a folder that was named is the only one
        load("fashion-mnist", tmp_path / "elsewhere")


def test_missing_files(tmp_path):
    with pytest.raises(FileError) as caught:
        load("mini-mnist")
    for part in ("mnist: not found;", "four IDX files", "folder mnist/", "SLENDER_DATA"):
        assert part in str(caught.value)
    write_images(tmp_path / "mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(FileError, match=r"lacks t10k-labels-idx1-ubyte.gz; put it there"):
        load("mnist", tmp_path)


def test_embeddings(tmp_path, monkeypatch):
    folder = tmp_path / "cifar100_embeddings"
    with pytest.raises(MissingDataError) as caught:
        load("cifar100")
    for part in ("cifar100: not found;", "X_train.npy", "folder cifar100_embeddings/"):
        assert part in str(caught.value)
    folder.mkdir()
    made = {"X_train": data(30)[0], "y_train": data(30)[1], "X_test": data(9)[0]}
    for part, array in made.items():
        np.save(folder / f"{part}.npy", array.astype(np.float16) if array.ndim == 2 else array)
    monkeypatch.setenv("SLENDER_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"lacks y_test\.npy; put it there"):
        load("cifar100")
    np.save(folder / "y_test.npy", data(9)[1])
    found = load("cifar100")
    assert found.X_train.dtype == found.X_test.dtype == np.float32
    assert np.array_equal(found.X_train, made["X_train"].astype(np.float16))


def test_files_that_do_not_belong_together(tmp_path):
    write_images(tmp_path / "mnist")
    labels = tmp_path / "mnist" / "train-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(idx(np.zeros(59, np.uint8))))
    with pytest.raises(FileError, match=r"no images with a label each"):
        load("mnist", tmp_path)
    labels.write_bytes(gzip.compress(idx(np.zeros(60, np.uint8)))[:-9])
    with pytest.raises(FileError, match=r"train-labels-idx1-ubyte.gz: cut short or damaged"):
        load("mnist", tmp_path)


def data(n, d=4):
    return rng.standard_normal((n, d)).astype(np.float32), np.arange(n) % 3


def test_check_of_mnist(tmp_path):
    write_images(tmp_path / "mnist")
    entry = replace(named("mnist"), kept=60, size=Size(60, 12, 3, 6))
    report = entry.status(tmp_path)
    assert report.complete
    assert report.counts["train-images-idx3-ubyte.gz"] == 60
    assert (
        "train-images-idx3-ubyte.gz has 60 rows instead of 60,000"
        in named("mnist").status(tmp_path).missing
    )
    images, labels = (
        tmp_path / "mnist" / f"t10k-{what}-ubyte.gz" for what in ("images-idx3", "labels-idx1")
    )
    images.write_bytes(images.read_bytes()[:-3])
    labels.unlink()
    report = entry.status(tmp_path)
    assert not report.complete
    assert len(report.missing) == 2
    assert "t10k-images-idx3-ubyte.gz: an IDX file of" in report.missing[0]
    assert report.missing[1] == "t10k-labels-idx1-ubyte.gz"
    nowhere = entry.status(tmp_path / "elsewhere")
    assert nowhere.folder is None
    assert nowhere.missing[0].startswith("not found (looked in")


def test_check_of_embeddings(tmp_path):
    folder = tmp_path / "caltech101_embeddings"
    folder.mkdir()
    entry = replace(named("caltech101"), size=Size(30, 9, 3, 4))
    for part, n in (("train", 30), ("test", 9)):
        for name, array in zip("Xy", data(n), strict=True):
            np.save(folder / f"{name}_{part}.npy", array)
    assert entry.status(tmp_path).complete
    np.save(folder / "X_test.npy", data(8)[0])
    (folder / "y_test.npy").write_bytes(b"\x93NUMPY")
    short, broken = entry.status(tmp_path).missing
    assert short == "X_test.npy has shape (8, 4) instead of (9, 4)"
    assert "y_test.npy: cannot be read" in broken


# -- CIFAR -----------------------------------------------------------------------------------------


def test_cifar10(tmp_path):
    entry, made = trees.cifar10(tmp_path)
    assert entry.status(tmp_path).complete
    found = entry.load(tmp_path)
    assert found.X_train.dtype == np.float32
    pixels = np.concatenate([made[f"data_batch_{k}.bin"][1] for k in range(1, 6)])
    labels = np.concatenate([made[f"data_batch_{k}.bin"][0][0] for k in range(1, 6)])
    assert np.array_equal(found.X_train, pixels.reshape(20, -1) / np.float32(255))
    assert np.array_equal(found.y_train, labels)
    assert np.array_equal(found.y_test, made["test_batch.bin"][0][0])
    # red of row 2, column 5; blue of row 31, column 0
    assert found.X_train[0, 2 * 32 + 5] == pixels[0, 0, 2, 5] / np.float32(255)
    assert found.X_train[0, 2 * 1024 + 31 * 32] == pixels[0, 2, 31, 0] / np.float32(255)


@pytest.mark.parametrize("labels", ["coarse", "fine"])
def test_cifar100(tmp_path, labels):
    entry, made = trees.cifar100(tmp_path)
    assert entry.status(tmp_path).complete
    found = replace(entry, labels=labels).load(tmp_path)
    of = {"coarse": 0, "fine": 1}[labels]
    assert np.array_equal(found.y_train, made["train.bin"][0][of])
    assert np.array_equal(found.y_test, made["test.bin"][0][of])
    assert np.array_equal(found.X_test, made["test.bin"][1].reshape(3, -1) / np.float32(255))


def test_cifar_that_is_damaged(tmp_path):
    entry, _ = trees.cifar10(tmp_path)
    folder = tmp_path / "cifar-10-batches-bin"
    batch = folder / "data_batch_3.bin"
    whole = batch.read_bytes()
    batch.write_bytes(whole[:-1])
    assert entry.status(tmp_path).missing == [
        "data_batch_3.bin has 3 records and 3072 bytes instead of 4"
    ]
    with pytest.raises(FileError, match=r"data_batch_3.bin: 12,291 bytes, which is no number of"):
        entry.load(tmp_path)
    batch.write_bytes(bytes([10]) + whole[1:])
    with pytest.raises(FileError, match="has a label 10, but labels are below 10"):
        entry.load(tmp_path)
    batch.unlink()
    assert entry.status(tmp_path).missing == ["data_batch_3.bin"]
    with pytest.raises(FileError, match=r"lacks data_batch_3\.bin; put it there"):
        entry.load(tmp_path)
    assert "data_batch_1.bin has 4 records instead of 10,000" in (
        named("cifar10-pixels").status(tmp_path).missing
    )


class Evil:
    def __reduce__(self):
        return os.abort, ()


def test_no_pickle_is_read(tmp_path):
    """The form that other libraries use, in its own folder or under the names of the other."""
    content = pickle.dumps(Evil())
    trees.touch(tmp_path / "cifar-10-batches-py" / "data_batch_1", content)
    with pytest.raises(MissingDataError):
        load("cifar10-pixels", tmp_path)
    for name in (*[f"data_batch_{k}.bin" for k in range(1, 6)], "test_batch.bin"):
        trees.touch(tmp_path / "cifar-10-batches-bin" / name, content)
    with pytest.raises(FileError, match="no number of records"):
        load("cifar10-pixels", tmp_path)


# -- alpha, RCV1 -----------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", WRITERS)
def test_alpha(tmp_path, suffix):
    entry, X, y = written(trees.alpha, tmp_path, suffix)
    assert entry.status(tmp_path).complete
    found = entry.load(tmp_path)
    assert [part.shape for part in found] == [(4, 5), (4,), (2, 5), (2,)]
    assert found.X_train.dtype == np.float32
    rows = np.vstack([found.X_train, found.X_test])
    places = [int(np.flatnonzero((np.float32(X) == row).all(axis=1))[0]) for row in rows]
    assert sorted(places) == list(range(6))  # the first six, each once
    assert places == np.random.RandomState(0).permutation(6).tolist()
    assert np.array_equal(np.concatenate([found.y_train, found.y_test]), y[places])
    other = replace(entry, seed=1).load(tmp_path)
    assert not np.array_equal(other.X_train, found.X_train)


def test_alpha_that_is_damaged(tmp_path):
    entry, *_ = trees.alpha(tmp_path)
    rows, labels = (tmp_path / "alpha" / f"alpha_train.{what}" for what in ("dat", "lab"))
    whole = rows.read_text()
    rows.write_text(whole.replace(" \n", "\n", 1).rsplit(" ", 3)[0])
    assert entry.status(tmp_path).complete  # its rows are not read
    rows.write_text("".join(whole.splitlines(keepends=True)[:5]))
    with pytest.raises(FileError, match="5 rows of 5 columns and 6 labels, where 6 of 5"):
        entry.load(tmp_path)
    rows.write_text(whole.replace(" ", " x", 1))
    with pytest.raises(FileError, match=r"alpha_train.dat: cannot be read as lines of numbers"):
        entry.load(tmp_path)
    labels.write_text("1\n")
    unreadable, few = entry.status(tmp_path).missing
    assert "alpha_train.dat: cannot be read" in unreadable
    assert few == "alpha_train.lab has 1 labels instead of 9"
    labels.unlink()
    rows.write_text("1 2 3\n")
    assert entry.status(tmp_path).missing == [
        "alpha_train.dat has 3 columns, not 5",
        "alpha_train.lab",
    ]
    with pytest.raises(MissingDataError, match=r"lacks alpha_train\.lab"):
        entry.load(tmp_path)


@pytest.mark.parametrize("suffix", WRITERS)
def test_rcv1(tmp_path, suffix):
    entry, X, X_test = written(trees.rcv1, tmp_path, suffix)
    assert entry.status(tmp_path).complete
    found = entry.load(tmp_path)
    assert found.X_train.dtype == np.float32
    assert np.array_equal(found.X_train.toarray(), X)
    assert np.array_equal(found.X_test.toarray(), X_test)  # with columns that are empty here
    assert found.y_train.tolist() == [1, -1, 1]
    assert found.y_test.tolist() == [-1, 1]


def test_rcv1_that_is_damaged(tmp_path):
    entry, *_ = trees.rcv1(tmp_path)
    test = tmp_path / "rcv1" / "rcv1_test.binary"
    whole = test.read_text()
    for content, part in {
        whole[:7]: "rcv1_test.binary: 1 rows instead of 2",
        whole.replace("-1", "7"): "label 7 is in the test rows",
        whole.replace("4:0.5", "7:0.5"): "cannot be read as an svmlight file",
        "what is this": "cannot be read as an svmlight file",
    }.items():
        test.write_text(content)
        with pytest.raises(FileError) as caught:
            entry.load(tmp_path)
        assert part in str(caught.value)
    test.write_text("")
    assert entry.status(tmp_path).missing == ["rcv1_test.binary is empty"]
    test.unlink()
    assert entry.status(tmp_path).missing == ["rcv1_test.binary"]
    with pytest.raises(MissingDataError, match=r"lacks rcv1_test\.binary; put it there"):
        entry.load(tmp_path)


@pytest.mark.parametrize("suffix", WRITERS)
def test_svmlight_files_may_be_zipped(tmp_path, suffix):
    path = tmp_path / f"some.svm{suffix}"
    text = "3 1:0.5 3:0.25\n-1 2:1\n"
    (WRITERS[suffix] or (lambda path, text: path.write_text(text)))(path, text)
    X, y = read_dataset(path)
    assert np.array_equal(X.toarray(), [[0.5, 0, 0.25], [0, 1, 0]])
    assert np.array_equal(read_labels(path), y)
    assert read_matrix(path).shape == (2, 3)
    with pytest.raises(FileError, match="no known format"):
        read_matrix(trees.touch(tmp_path / "X.npy.gz") or tmp_path / "X.npy.gz")


# -- the guide -------------------------------------------------------------------------------------


def test_the_guide_lists_every_data_set():
    rows = {}
    for line in DOC.read_text().splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            rows[cells[0].strip("`")] = cells[1:]
    assert list(rows) == list(DATASETS)
    for name, (kind, train, test, features, classes, *_) in rows.items():
        size = named(name).size
        said = [size.train, size.test, size.features, size.classes]
        assert kind == named(name).kind
        assert [train, test, features, classes] == ["" if n is None else f"{n:,}" for n in said]


def test_results_are_plain_values():
    for name in DATASETS:
        entry = named(name)
        json.dumps([entry.about, entry.size, entry.layout, entry.archives])
