"""Data sets of images: small trees with the real layouts, their checks and their splits."""

import os
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataset_trees as trees
from slender.datasets import DATASETS, Size, folder, load_images, named
from slender.datasets.imagenet import leaves_below
from slender.storage import FileError

MAKERS = {
    "caltech256": trees.caltech256,
    "caltech101": trees.caltech101,
    "sun397": trees.sun397,
    "ilsvrc2010": lambda root: trees.ilsvrc2010(root)[0],
    "imagenet": trees.imagenet,
}


@pytest.fixture(autouse=True)
def nowhere(monkeypatch):
    monkeypatch.delenv("SLENDER_DATA", raising=False)


def names(files):
    return [path.name for path in files]


# -- what all of them promise ----------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKERS)
def test_a_complete_tree(tmp_path, name):
    entry = MAKERS[name](tmp_path)
    report = entry.status(tmp_path)
    assert report.missing == []
    assert report.complete
    found = entry.load(tmp_path)
    assert len(found.classes) == entry.size.classes
    assert found.classes == sorted(found.classes)
    assert len(found.files_train) == len(found.y_train)
    assert len(found.files_test) == len(found.y_test)
    if entry.size.train is not None:
        assert (len(found.files_train), len(found.files_test)) == entry.size[:2]
    assert all(path.is_file() for path in (*found.files_train, *found.files_test))
    assert not set(found.files_train) & set(found.files_test)
    for y in (found.y_train, found.y_test):
        assert y.dtype == np.int64
        assert set(y) == set(range(len(found.classes)))  # every class in both
    again = entry.load(tmp_path)
    assert found.files_train == again.files_train


@pytest.mark.parametrize("name", MAKERS)
def test_the_real_sizes_are_asked_for(tmp_path, name):
    made = MAKERS[name](tmp_path)
    real = DATASETS[made.name]
    report = real.status(tmp_path)
    assert not report.complete
    assert report.folder is not None
    classes = made.size.classes
    assert f"{classes:,} classes instead of {real.size.classes:,}" in report.missing


@pytest.mark.parametrize("name", ["caltech256", "caltech101", "sun397", "imagenet"])
def test_seeds_and_first_classes(tmp_path, name):
    entry = MAKERS[name](tmp_path)
    found = entry.load(tmp_path)
    other = replace(entry, seed=1).load(tmp_path)
    assert set(found.files_train) != set(other.files_train)
    assert sorted([*found.files_train, *found.files_test]) == sorted(
        [*other.files_train, *other.files_test]
    )
    two = replace(entry, classes=2)
    assert two.status(tmp_path).complete
    few = two.load(tmp_path)
    assert few.classes == found.classes[:2]
    inside = found.y_train < 2
    assert few.files_train == [f for f, keep in zip(found.files_train, inside, strict=True) if keep]
    assert np.array_equal(few.y_train, found.y_train[inside])


@given(
    n=st.integers(2, 40),
    seed=st.integers(0, 2**32 - 1),
    train=st.one_of(st.integers(1, 39), st.floats(0.05, 0.95)),
    name=st.text(min_size=1),
)
def test_a_draw_is_a_partition(n, seed, train, name):
    entry = replace(DATASETS["caltech256"], train=train, seed=seed)
    count = train if isinstance(train, int) else int(train * n + 0.5)
    if not 0 < count < n:
        with pytest.raises(FileError, match="too few to train on"):
            entry.drawn(name, n)
        return
    first, rest = entry.drawn(name, n)
    assert len(first) == count
    assert sorted([*first, *rest]) == list(range(n))
    key = zlib.crc32(name.encode("utf-8", "surrogateescape"))
    order = np.random.RandomState([seed, key]).permutation(n)
    assert set(first) == set(order[:count])


# -- Caltech ---------------------------------------------------------------------------------------


def test_caltech256_has_what_it_should(tmp_path):
    entry = trees.caltech256(tmp_path)
    counts = entry.status(tmp_path).counts
    assert counts == {"001.ak47": 8, "056.dog": 8, "198.spider": 8, "257.clutter": 8}
    found = entry.load(tmp_path)
    assert np.bincount(found.y_train).tolist() == [3] * 4
    assert np.bincount(found.y_test).tolist() == [5] * 4
    assert replace(entry, classes=3).load(tmp_path).classes[-1] == "198.spider"
    assert len(found.files_train[0].relative_to(tmp_path).parts) == 3
    # where torchvision puts it, and the folder itself
    (tmp_path / "caltech256").mkdir()
    (tmp_path / "256_ObjectCategories").rename(tmp_path / "caltech256" / "256_ObjectCategories")
    assert entry.status(tmp_path).complete
    assert entry.status(tmp_path / "caltech256" / "256_ObjectCategories").complete


def test_caltech256_that_is_not_complete(tmp_path):
    entry = trees.caltech256(tmp_path)
    home = tmp_path / "256_ObjectCategories"
    (home / "001.ak47" / "001_0008.jpg").unlink()
    report = entry.status(tmp_path)
    assert report.missing == [
        "1 classes have fewer than 8 images: 001.ak47 (7)",
        "31 images instead of 32",
    ]
    with pytest.warns(UserWarning, match=r"is not the complete data set \(1 classes have fewer"):
        found = entry.load(tmp_path)
    assert np.bincount(found.y_test).tolist() == [4, 5, 5, 5]
    for number in range(3, 8):
        (home / "001.ak47" / f"001_{number:04d}.jpg").unlink()
    with (
        pytest.warns(UserWarning, match="not the complete"),
        pytest.raises(FileError, match=r"class 001.ak47 has 2 images, too few to train on 3"),
    ):
        entry.load(tmp_path)
    for path in home.rglob("*.jpg"):
        path.unlink()
    assert "no folder with images in it" in entry.status(tmp_path).missing
    with pytest.raises(FileError, match=r"has 0 classes instead of 4; unpack 256_Object"):
        entry.load(tmp_path)
    with pytest.raises(FileError, match=r"256: not found \(looked in .*datasets get caltech256"):
        entry.load(tmp_path / "elsewhere")


def test_the_background_of_caltech101_is_no_class(tmp_path):
    assert trees.caltech101(tmp_path).load(tmp_path).classes == ["Faces", "accordion"]


# -- SUN-397 ---------------------------------------------------------------------------------------


def test_scenes_are_named_by_their_paths(tmp_path):
    found = trees.sun397(tmp_path).load(tmp_path)
    assert found.classes == [f"/{scene}" for scene in trees.SCENES]
    for path, y in zip(found.files_test, found.y_test, strict=True):
        assert str(path.parent).endswith(found.classes[y])


@pytest.mark.parametrize("place", ["SUN397", "SUN397/Partitions", "Partitions", "."])
def test_official_partitions(tmp_path, place):
    trees.sun397(tmp_path)
    entry = trees.sun_lists(tmp_path / place)
    assert entry.status(tmp_path).complete
    found = entry.load(tmp_path)
    assert len(found.classes) == 4
    assert names(found.files_train) == [f"sun_{k:016d}.jpg" for _ in range(4) for k in (0, 1)]
    assert found.y_train.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert names(found.files_test) == ["sun_0000000000000004.jpg"] * 4
    assert len(replace(entry, classes=2).load(tmp_path).files_train) == 4
    second = replace(entry, partition=2)
    assert second.status(tmp_path).missing == ["Training_02.txt", "Testing_02.txt"]
    with pytest.raises(FileError, match=r"lacks Training_02\.txt; unpack Partitions\.zip there"):
        second.load(tmp_path)
    (tmp_path / "SUN397" / "a" / "abbey" / "sun_0000000000000004.jpg").unlink()
    with pytest.raises(FileError, match=r"1 of its images are not there, such as .*0004\.jpg"):
        entry.load(tmp_path)


# -- ILSVRC-2010 -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kit", [".", "data", "devkit-1.0/data"])
@pytest.mark.parametrize("heap", ["test", "val"])
def test_ground_truth_is_translated(tmp_path, kit, heap):
    entry, truth = trees.ilsvrc2010(tmp_path, kit)
    entry = replace(entry, heap=heap)
    assert entry.status(tmp_path).complete
    found = entry.load(tmp_path)
    assert found.classes == trees.WNIDS
    assert [found.classes[y] for y in found.y_test] == truth[heap]
    assert names(found.files_test)[0] == f"ILSVRC2010_{heap}_00000001.JPEG"
    for path, y in zip(found.files_train, found.y_train, strict=True):
        assert path.parent.name == found.classes[y]


def test_synsets_as_text(tmp_path):
    entry, truth = trees.ilsvrc2010(tmp_path)
    home = tmp_path / "ILSVRC2010"
    (home / "devkit-1.0" / "data" / "meta.mat").unlink()
    assert entry.status(tmp_path).missing == [
        f"{home} lacks meta.mat of the development kit, or synsets.txt"
    ]
    trees.touch(home / "synsets.txt", "\n".join(reversed(trees.WNIDS)).encode())
    found = entry.load(tmp_path)
    assert [found.classes[y] for y in found.y_test] == truth["test"]


def test_lists_instead_of_folders(tmp_path):
    entry, _ = trees.ilsvrc2010(tmp_path)
    home = tmp_path / "ILSVRC2010"
    trees.touch(home / "test.txt", b"ILSVRC2010_test_00000002.JPEG n03100897\n\n")
    lines = [f"{wnid}/{wnid}_{k}.JPEG {wnid}" for k in range(2) for wnid in trees.WNIDS]
    trees.touch(home / "train.txt", "\n".join(lines).encode())
    found = entry.load(tmp_path)
    assert found.files_test == [home / "test" / "ILSVRC2010_test_00000002.JPEG"]
    assert found.y_test.tolist() == [3]
    assert found.y_train.tolist() == [0, 1, 2, 3] * 2
    assert all(path.is_file() for path in found.files_train)
    trees.touch(home / "test.txt", b"a.JPEG n03100897\nb.JPEG\n")
    with pytest.raises(FileError, match=r"test\.txt: line 2 is no path and synset"):
        entry.load(tmp_path)
    trees.touch(home / "test.txt", b"a.JPEG n00000001\n")
    with pytest.raises(FileError, match="1 images of test are of classes without a training image"):
        entry.load(tmp_path)


def test_ilsvrc_that_is_not_complete(tmp_path):
    entry, _ = trees.ilsvrc2010(tmp_path)
    home = tmp_path / "ILSVRC2010"
    (home / "train" / "n02834778" / "n02834778_0.JPEG").unlink()
    truth = home / "ILSVRC2010_test_ground_truth.txt"
    whole = truth.read_text()
    truth.write_text(whole[:-2])
    assert entry.status(tmp_path).missing == [
        "train has 11 images instead of 12",
        f"{home / 'test'} has 8 images, {truth.name} 7 lines",
    ]
    truth.write_text("9" + whole[1:])
    with pytest.raises(FileError, match=r"ground_truth\.txt: 9 is the number of no synset"):
        entry.load(tmp_path)
    truth.unlink()
    with pytest.raises(FileError, match=r"lacks ILSVRC2010_test_ground_truth\.txt"):
        entry.load(tmp_path)
    truth.write_text(whole)
    trees.touch(home / "devkit-1.0" / "data" / "meta.mat", b"MATLAB")
    with pytest.raises(FileError, match=r"meta\.mat: cannot be read as the development kit's"):
        entry.load(tmp_path)
    for path in (home / "test").iterdir():
        path.unlink()
    (home / "test").rmdir()
    assert f"{home} has neither test/ nor test.txt" in entry.status(tmp_path).missing


# -- subtrees of ImageNet --------------------------------------------------------------------------


def test_a_subtree_by_its_root(tmp_path):
    entry = trees.imagenet(tmp_path)
    found = entry.load(tmp_path)
    assert found.classes == ["n02834778", "n02835271", "n03100897"]
    assert np.bincount(found.y_train).tolist() == [3, 3, 3]  # of five
    assert np.bincount(found.y_test).tolist() == [2, 2, 2]
    with pytest.warns(UserWarning, match="1 classes instead of 134"):
        assert load_images("fungus", tmp_path).classes == ["n13000000"]


def test_a_subtree_by_a_list(tmp_path):
    entry = trees.imagenet(tmp_path)
    home = tmp_path / "imagenet"
    trees.touch(home / "vehicle.txt", b"n03100897 conveyance\n\nn02834778\nn02951358\n")
    assert entry.load(tmp_path).classes == ["n02834778", "n02951358", "n03100897"]
    ten = replace(named("v10"), least=5)  # the list is that of vehicle
    assert ten.status(tmp_path).missing == ["3 classes instead of 10"]
    trees.touch(home / "vehicle.txt", b"n03100897\nn02834778\nn09999999\n")
    assert "1 classes have fewer than 5 images: n09999999 (0)" in entry.status(tmp_path).missing
    trees.touch(home / "vehicle.txt", b"n03100897\nvehicles\n")
    with pytest.raises(FileError, match=r"vehicle\.txt: line 2 does not begin with 1 of n"):
        entry.load(tmp_path)


def test_a_subtree_of_ones_own(tmp_path, monkeypatch):
    trees.imagenet(tmp_path)
    monkeypatch.chdir(tmp_path)
    trees.touch(tmp_path / "mine.txt", b"n13000000\nn02834778\n")
    assert load_images("imagenet:synsets=mine.txt", tmp_path).classes == ["n02834778", "n13000000"]
    assert load_images("imagenet:root=n12992868", tmp_path).classes == ["n13000000"]
    with pytest.raises(FileError, match=r"there is no file yours\.txt"):
        load_images("imagenet:synsets=yours.txt", tmp_path)
    with pytest.raises(FileError, match=r"which synsets\? put a list.* and give root=SYNSET"):
        load_images("imagenet", tmp_path)
    (tmp_path / "imagenet" / "wordnet.is_a.txt").unlink()
    with pytest.raises(FileError, match=r"as vehicle\.txt into .*, or wordnet\.is_a\.txt there$"):
        load_images("vehicle", tmp_path)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25))
def test_leaves(pairs):
    """Against the definition: reached by steps from parent to child, and parent of nobody."""
    found = leaves_below("0", [str(word) for pair in pairs for word in pair])
    reached = {0}
    for _ in pairs:
        reached |= {child for parent, child in pairs if parent in reached}
    parents = {parent for parent, _ in pairs}
    assert found == {str(each) for each in reached - parents - {0}}


# -- folders of one's own --------------------------------------------------------------------------


def test_a_folder_of_ones_own(tmp_path):
    trees.photos(tmp_path / "photos")
    trees.touch(tmp_path / "photos" / "notes.txt")
    trees.touch(tmp_path / "photos" / "cat" / ".hidden.jpg")
    trees.touch(tmp_path / "photos" / ".cache" / "x.jpg")
    (tmp_path / "photos" / "empty").mkdir()
    for found in (
        load_images(str(tmp_path / "photos")),
        load_images(f"folder:path={tmp_path / 'photos'}"),
    ):
        assert found.classes == ["cat", "dog", "éléphant"]
        assert np.bincount(found.y_train).tolist() == [8, 8, 8]
        assert np.bincount(found.y_test).tolist() == [2, 2, 2]
    half = load_images(f"folder:path={tmp_path / 'photos'}:train=0.5:classes=2:seed=4")
    assert np.bincount(half.y_train).tolist() == [5, 5]
    three = load_images(f"folder:path={tmp_path / 'photos'}:train=3")
    assert np.bincount(three.y_train).tolist() == [3, 3, 3]
    assert folder(tmp_path / "photos").status().counts == {"cat": 10, "dog": 10, "éléphant": 10}
    with pytest.raises(FileError, match="give its path, as in folder:path=photos"):
        load_images("folder")
    with pytest.raises(FileError, match="there is no folder"):
        load_images("folder:path=nowhere")
    with pytest.raises(FileError, match="has no folder with images in it; make one folder"):
        load_images(str(tmp_path / "photos" / "empty"))


@pytest.mark.parametrize("test", ["test", "val"])
def test_a_split_that_is_given_is_kept(tmp_path, test):
    trees.photos(tmp_path / "train", n=4)
    trees.photos(tmp_path / test, classes=("dog", "éléphant"), n=3)
    found = load_images(str(tmp_path))
    assert found.classes == ["cat", "dog", "éléphant"]
    assert np.bincount(found.y_train).tolist() == [4, 4, 4]
    assert np.bincount(found.y_test).tolist() == [0, 3, 3]
    assert all(path.is_file() for path in (*found.files_train, *found.files_test))
    assert {path.relative_to(tmp_path).parts[0] for path in found.files_test} == {test}
    assert folder(tmp_path).status().counts == {"cat": 4, "dog": 7, "éléphant": 7}
    trees.photos(tmp_path / test, classes=("new",), n=1)
    with pytest.raises(FileError, match="train: has no image of class new"):
        load_images(str(tmp_path))


def test_links_are_followed_and_loops_end(tmp_path):
    home = trees.photos(tmp_path / "photos", classes=("cat",), n=4)
    trees.photos(tmp_path / "others", classes=("dog",), n=4)
    (home / "dog").symlink_to(tmp_path / "others" / "dog")
    (home / "cat" / "loop").symlink_to(home / "cat")
    (home / "cat" / "up").symlink_to(home)
    assert folder(home).status().counts == {"cat": 4, "dog": 4}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission(tmp_path):
    home = trees.photos(tmp_path)
    (home / "cat").chmod(0)
    try:
        with pytest.raises(FileError, match="cannot be read"):
            DATASETS["caltech256"].tree(home)
    finally:
        (home / "cat").chmod(0o700)


def test_a_file_where_a_folder_should_be(tmp_path):
    trees.touch(tmp_path / "256_ObjectCategories")
    entry = replace(DATASETS["caltech256"], size=Size(1, 1, 1))
    assert entry.status(tmp_path).folder is None
    with pytest.raises(FileError, match=r"Categories: cannot be read \(Not a directory\)"):
        entry.tree(tmp_path / "256_ObjectCategories")
