"""Rows of an experiment: data sets by name or path, cut, prepared, told apart."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from dataset_trees import caltech256
from idx_files import write_images
from slender import datasets
from slender.lab.splits import Split, fingerprint, load, locate, permuted, prepared
from slender.storage import FileError

DATA = os.environ.get("SLENDER_DATA", "")
MINI = datasets.DATASETS["mini-mnist"]

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """No data set but those that a test makes."""
    monkeypatch.delenv("SLENDER_DATA", raising=False)


# -- data sets by name -----------------------------------------------------------------------------


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
    monkeypatch.setitem(datasets.DATASETS, "mini-mnist", replace(MINI, rows=20))
    whole, mini = load("mnist", tmp_path), load("mini-mnist", tmp_path)
    assert np.array_equal(mini.X_train, whole.X_train[:20])
    assert np.array_equal(mini.y_train, whole.y_train[:20])
    assert all(np.array_equal(a, b) for a, b in zip(mini[2:], whole[2:], strict=True))
    assert np.array_equal(datasets.load("mini-mnist", tmp_path).X_train, mini.X_train)


def test_vectors_of_the_registry_are_taken_and_images_are_not(tmp_path):
    with pytest.raises(FileError, match="neither a data set nor a file; slender datasets lists"):
        load("minst")
    with pytest.raises(FileError, match="cifar10-pixels: not found"):
        locate("cifar10-pixels", tmp_path)
    caltech256(tmp_path)
    for name in ("caltech256", "caltech256:seed=1", str(tmp_path / "256_ObjectCategories")):
        with pytest.raises(ValueError, match="is a data set of images") as caught:
            load(name, tmp_path)
        assert f"slender extract {name} --features fisher --out FOLDER" in str(caught.value)


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
    with pytest.raises(FileError, match="labels too, or a folder with X_train"):
        load(str(tmp_path / "X_train.npy"))
    np.save(tmp_path / "X_test.npy", X[:, :2])
    np.save(tmp_path / "y_test.npy", y)
    with pytest.raises(FileError, match="its test part has 2 features but its train part has 4"):
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
