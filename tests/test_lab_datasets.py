"""The experiments' data sets: IDX files, where they are looked for, how rows are cut."""

import gzip
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from idx_files import CODES, idx, write_images
from slender.lab import catalogue, sources
from slender.lab.idx import read_idx
from slender.lab.sources import Split, fingerprint, load, permuted, prepared
from slender.storage import FileError

DATA = os.environ.get("SLENDER_DATA", "")

rng = np.random.default_rng(0)


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


# -- where data sets are ---------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """No data set but those that a test makes."""
    monkeypatch.delenv("SLENDER_DATA", raising=False)
    monkeypatch.setattr(
        catalogue, "DEBIAN", {"fashion-mnist": ("dataset-fashion-mnist", tmp_path / "debian")}
    )


@pytest.mark.parametrize("suffix", [".gz", ""])
@pytest.mark.parametrize("dotted", [False, True])
def test_mnist_is_cut_as_in_the_practical(tmp_path, suffix, dotted):
    made = write_images(tmp_path / "mnist", suffix=suffix, dotted=dotted)
    split = load("mnist", tmp_path)
    assert [len(y) for y in split[1::2]] == [50, 10, 12]  # as 50,000 / 10,000 / 10,000
    assert split.X_train.dtype == np.float32
    assert np.array_equal(split.X_test, made["t10k"][0].reshape(12, 6) / np.float32(255))
    assert np.array_equal(split.y_test, made["t10k"][1])
    X = np.vstack([split.X_train, split.X_val])
    y = np.concatenate([split.y_train, split.y_val])
    everything = made["train"][0].reshape(60, 6) / np.float32(255)
    order = np.lexsort(X.T), np.lexsort(everything.T)
    assert np.array_equal(X[order[0]], everything[order[1]])  # every row once
    assert np.array_equal(y[order[0]], made["train"][1][order[1]])
    assert not np.array_equal(y, made["train"][1])  # shuffled
    again = load("mnist", tmp_path)
    assert all(np.array_equal(a, b) for a, b in zip(split, again, strict=True))


def test_mini_mnist_is_the_first_rows_of_mnist(tmp_path, monkeypatch):
    write_images(tmp_path / "mnist")
    monkeypatch.setattr(sources, "MINI", 20)
    whole, mini = load("mnist", tmp_path), load("mini-mnist", tmp_path)
    assert np.array_equal(mini.X_train, whole.X_train[:20])
    assert np.array_equal(mini.y_train, whole.y_train[:20])
    assert all(np.array_equal(a, b) for a, b in zip(mini[2:], whole[2:], strict=True))


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
    with pytest.raises(FileError, match="neither a data set nor a file; data sets are digits, "):
        load("minst")


def test_embeddings(tmp_path, monkeypatch):
    folder = tmp_path / "cifar100_embeddings"
    with pytest.raises(catalogue.MissingDataError) as caught:
        load("cifar100")
    for part in ("cifar100: not found;", "X_train.npy", "folder cifar100_embeddings/"):
        assert part in str(caught.value)
    folder.mkdir()
    made = {"X_train": data(30)[0], "y_train": data(30)[1], "X_test": data(9)[0]}
    for part, array in made.items():
        np.save(folder / f"{part}.npy", array.astype(np.float16) if array.ndim == 2 else array)
    monkeypatch.setenv("SLENDER_DATA", str(tmp_path))
    with pytest.raises(catalogue.MissingDataError, match=r"lacks y_test\.npy; put it there"):
        load("cifar100")
    np.save(folder / "y_test.npy", data(9)[1])
    found = catalogue.whole("cifar100")
    assert found.X_train.dtype == found.X_test.dtype == np.float32
    assert np.array_equal(found.X_train, made["X_train"].astype(np.float16))
    assert len(load("cifar100").y_val) == 3


def test_files_that_do_not_belong_together(tmp_path):
    write_images(tmp_path / "mnist")
    labels = tmp_path / "mnist" / "train-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(idx(np.zeros(59, np.uint8))))
    with pytest.raises(FileError, match=r"no images with a label each"):
        load("mnist", tmp_path)
    labels.write_bytes(gzip.compress(idx(np.zeros(60, np.uint8)))[:-9])
    with pytest.raises(FileError, match=r"train-labels-idx1-ubyte.gz: cut short or damaged"):
        load("mnist", tmp_path)


@pytest.mark.skipif(not Path(DATA, "mnist").is_dir(), reason="SLENDER_DATA has no mnist/")
def test_the_real_mnist():
    split = load("mnist", DATA)
    assert [X.shape for X in split[::2]] == [(50_000, 784), (10_000, 784), (10_000, 784)]
    assert split.X_train.max() == 1.0
    assert set(split.y_val) == set(range(10))
    assert load("mini-mnist", DATA).X_train.shape == (1000, 784)


# -- paths -----------------------------------------------------------------------------------------


def data(n, d=4):
    return rng.standard_normal((n, d)).astype(np.float32), np.arange(n) % 3


def test_digits():
    split = load("digits")
    assert len(split.y_test) == 497
    assert 120 <= len(split.y_val) <= 140
    assert len(split.y_train) + len(split.y_val) == 1300


def test_a_folder_with_all_parts_is_taken_as_it_is(tmp_path):
    parts = {"train": data(30), "val": data(9), "test": data(6)}
    for part, (X, y) in parts.items():
        np.save(tmp_path / f"X_{part}.npy", X)
        np.save(tmp_path / f"y_{part}.npy", y)
    split = load(str(tmp_path))
    expected = [*parts["train"], *parts["val"], *parts["test"]]
    assert all(np.array_equal(a, b) for a, b in zip(split, expected, strict=True))


def test_a_part_that_is_missing_is_a_tenth_of_each_class(tmp_path):
    X, y = data(300)
    np.save(tmp_path / "X_train.npy", X)
    np.save(tmp_path / "y_train.npy", y)
    split = load(str(tmp_path))
    assert np.array_equal(np.bincount(split.y_test), [10, 10, 10])
    assert np.array_equal(np.bincount(split.y_val), [9, 9, 9])
    assert np.array_equal(np.bincount(split.y_train), [81, 81, 81])
    rows = np.vstack(split[::2])
    assert len(np.unique(rows, axis=0)) == 300
    np.save(tmp_path / "X_test.npy", X[:6])
    np.save(tmp_path / "y_test.npy", y[:6])
    assert np.array_equal(np.bincount(load(str(tmp_path)).y_train), [90, 90, 90])


def test_other_formats(tmp_path):
    X, y = data(60)
    np.savez(tmp_path / "d.npz", X=X, y=y)
    assert load(str(tmp_path / "d.npz")).X_train.shape[1] == 4
    lines = [f"{label} 1:{row[0]:.3f} 4:{row[3]:.3f}" for label, row in zip(y, X, strict=True)]
    (tmp_path / "d.svm").write_text("\n".join(lines))
    split = load(str(tmp_path / "d.svm"))
    assert sparse.issparse(split.X_train)
    assert split.X_train.shape[1] == split.X_test.shape[1] == 4
    assert len(fingerprint(split)) == 16
    unit = prepared(split, "standard").X_train
    assert sparse.issparse(unit)
    assert np.allclose(np.sqrt(unit.multiply(unit).sum(axis=1)), 1)


def test_paths_that_are_refused(tmp_path):
    X, y = data(30)
    np.savez(tmp_path / "several.npz", X=X, y=np.eye(3, dtype=int)[y])
    with pytest.raises(FileError, match="one label per row"):
        load(str(tmp_path / "several.npz"))
    np.savez(tmp_path / "few.npz", X=X[:3], y=y[:3])
    with pytest.raises(FileError, match="too few"):
        load(str(tmp_path / "few.npz"))
    np.save(tmp_path / "X_train.npy", X)
    np.save(tmp_path / "y_train.npy", y)
    np.save(tmp_path / "X_test.npy", X[:, :2])
    np.save(tmp_path / "y_test.npy", y)
    with pytest.raises(FileError, match=r"X_test.npy has 2 features but X_train.npy has 4"):
        load(str(tmp_path))


# -- what is done with a split ---------------------------------------------------------------------


def split_of(n):
    return Split(*data(n), *data(10), *data(12))


def test_standard_preprocessing_is_that_of_the_slides():
    split = split_of(50)
    split = split._replace(X_train=split.X_train * [1, 10, 100, 0] + [0, 5, 0, 3])
    found = prepared(split, "standard")
    mean, deviation = split.X_train.mean(axis=0), split.X_train.std(axis=0)
    deviation[3] = 1  # a constant column
    for before, after in ((split.X_train, found.X_train), (split.X_test, found.X_test)):
        naive = (before - mean) / deviation
        naive /= np.linalg.norm(naive, axis=1, keepdims=True)
        assert np.allclose(after, naive, atol=1e-6)
    assert prepared(split, "none") is split
    assert prepared(split_of(50), "standard").X_train.dtype == np.float32
    with pytest.raises(ValueError, match="preprocess='whiten' must be one of"):
        prepared(split, "whiten")


def test_fewer_rows_are_among_more_and_the_test_rows_stay():
    split = split_of(40)
    few, more = permuted(split, 10, seed=3), permuted(split, 25, seed=3)
    assert np.array_equal(few.X_train, more.X_train[:10])
    assert np.array_equal(few.y_train, more.y_train[:10])
    assert few.X_test is split.X_test
    assert not np.array_equal(few.X_train, permuted(split, 10, seed=4).X_train)
    assert not np.array_equal(few.X_train, split.X_train[:10])


def test_fingerprints_tell_data_apart():
    split = split_of(40)
    same = Split(*(np.copy(part) for part in split))
    assert fingerprint(split) == fingerprint(same)
    for part in range(6):
        other = [np.copy(each) for each in split]
        other[part][-1] += 1
        assert fingerprint(Split(*other)) != fingerprint(split)
