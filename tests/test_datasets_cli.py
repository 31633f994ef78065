"""slender datasets, and data sets by name in slender run and compare."""

import json
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

import dataset_trees as trees
from idx_files import write_images
from slender.datasets import DATASETS

DOC = Path(__file__).resolve().parent.parent / "docs" / "datasets.md"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty folder as the current one; whoever tries to download fails."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLENDER_DATA", raising=False)
    monkeypatch.delenv("SLENDER_DEBUG", raising=False)
    fashion = replace(DATASETS["fashion-mnist"], elsewhere=None)
    monkeypatch.setitem(DATASETS, "fashion-mnist", fashion)

    def refuse(*_):
        raise AssertionError("a download that nobody asked for")

    monkeypatch.setattr(urllib.request, "build_opener", refuse)
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    return tmp_path


def refused(result, *parts):
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.startswith("slender: ")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err


# -- listing and showing ---------------------------------------------------------------------------


def test_the_list(here, slender):
    trees.caltech256(here / "data")
    code, out, err = slender("datasets", "--data-dir", "data")
    assert (code, err) == (0, "")
    lines = {line.split()[0]: line for line in out.splitlines()[1:] if line.strip()}
    assert set(DATASETS) < set(lines)
    assert lines["digits"].rstrip().endswith("needs no files")
    assert lines["caltech256"].rstrip().endswith("incomplete")
    assert lines["mnist"].split() == ["mnist", "vectors", "60,000", "10,000", "784", "10", "no"]


def test_the_list_for_machines(here, slender, monkeypatch):
    monkeypatch.setitem(DATASETS, "sun397", trees.sun397(here))
    monkeypatch.setenv("SLENDER_DATA", ".")
    results = json.loads(slender("datasets", "--json", "-")[1])
    assert results["command"] == "datasets"
    rows = {row["name"]: row for row in results["datasets"]}
    assert list(rows) == list(DATASETS)
    assert rows["sun397"]["complete"]
    assert rows["sun397"]["folder"] == "SUN397"
    assert rows["sun397"]["counts"]["/a/apartment_building/outdoor"] == 6
    assert rows["rcv1"] == {
        "name": "rcv1",
        "kind": "vectors",
        "about": DATASETS["rcv1"].about,
        "train": 20_242,
        "test": 677_399,
        "classes": 2,
        "features": 47_236,
        "state": "no",
        "complete": False,
        "folder": None,
        "missing": [f"not found (looked in rcv1); {DATASETS['rcv1'].help}"],
        "counts": {},
        "download": False,
    }


@pytest.mark.parametrize("name", DATASETS)
def test_one_of_them(here, slender, name):
    code, out, err = slender("datasets", name)
    assert (code, err) == (0, "")
    for line in DATASETS[name].layout.splitlines():
        assert line.strip() in out
    assert ("slender datasets get" in out) == bool(DATASETS[name].archives)
    results = json.loads(slender("datasets", name, "--json", "-")[1])
    assert results["split"] == DATASETS[name].split
    assert results["source"] == DATASETS[name].source


def test_quiet_and_a_file(here, slender):
    assert slender("datasets", "mnist", "-q", "--json", "r.json") == (0, "", "")
    assert json.loads(Path("r.json").read_text())["help"].startswith("put its four IDX files")


# -- check -----------------------------------------------------------------------------------------


def test_check(here, slender, monkeypatch):
    monkeypatch.setitem(DATASETS, "caltech256", trees.caltech256(here / "data"))
    code, out, err = slender("datasets", "check", "caltech256", "--data-dir", "data")
    assert (code, err) == (0, "")
    assert "caltech256 is complete, in data/256_ObjectCategories" in out
    assert "8  257.clutter" in out
    (here / "data" / "256_ObjectCategories" / "001.ak47" / "001_0001.jpg").unlink()
    words = ("datasets", "check", "caltech256", "--data-dir", "data")
    refused(slender(*words), "data/256_ObjectCategories is not complete: 1 classes have fewer")
    code, out, err = slender(*words, "--json", "-")
    assert code == 2
    assert json.loads(out)["missing"][1] == "31 images instead of 32"
    refused(slender("datasets", "check", "mnist"), "mnist: not found; put its four IDX files")


def test_check_of_a_path_or_with_options(here, slender, monkeypatch):
    trees.photos(here / "photos")
    assert "10  éléphant" in slender("datasets", "check", "photos")[1]
    assert slender("datasets", "check", "folder:path=photos:classes=2")[0] == 0
    monkeypatch.setitem(DATASETS, "vehicle", trees.imagenet(here))
    words = ("datasets", "check", "vehicle:classes=2", "--data-dir", ".", "--json", "-")
    results = json.loads(slender(*words)[1])
    assert list(results["counts"]) == ["n02834778", "n02835271"]
    assert results["classes"] == 2


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("minst", "minst: no data set is called so; there are digits, "),
        ("mnist digits", "give nothing, NAME, check NAME or get NAME"),
        ("check", "give nothing, NAME, check NAME or get NAME"),
        ("get", "give nothing, NAME, check NAME or get NAME"),
        ("check mnist --keep", "--keep is used by slender datasets get only"),
        ("get mnist", "where to? give --data-dir FOLDER"),
        (
            "get vehicle --data-dir .",
            "no public address is known for certain; by hand (from www.image-net.org",
        ),
        ("get digits --data-dir .", "needs no download"),
        ("mnist:classes=2", "its options are none"),
        ("--json none/r.json", "no folder"),
    ],
)
def test_refuses(here, slender, words, part):
    refused(slender("datasets", *words.split()), part)


# -- run and compare -------------------------------------------------------------------------------


def test_vectors_by_name(here, slender, monkeypatch):
    for maker, name in ((trees.cifar100, "cifar100-pixels"), (trees.alpha, "alpha")):
        monkeypatch.setitem(DATASETS, name, maker(here)[0])
    write_images(here / "fashion-mnist", n=600)
    words = ("--opt", "sgd", "--passes", 1, "--data-dir", ".", "--json", "-")
    results = json.loads(slender("run", "--dataset", "fashion-mnist", *words)[1])
    assert (results["dataset"], results["rows"], results["classes"]) == ("fashion-mnist", 500, 3)
    code, out, err = slender("compare", "--dataset", "fashion-mnist,tiny", *words)
    assert (code, err) == (0, "")
    assert set(json.loads(out)["datasets"]) == {"fashion-mnist", "tiny"}
    for name in ("cifar100-pixels:labels=coarse", "alpha:seed=2"):  # read, and too few to be cut
        refused(slender("run", "--dataset", name, *words), "too few")


@pytest.mark.parametrize("command", ["run", "compare"])
def test_images_are_to_be_extracted_first(here, slender, command):
    trees.photos(here / "photos")
    for name in ("caltech256", "v10", "photos"):
        refused(
            slender(command, "--dataset", name, "--opt", "sgd"),
            f"{name} is a data set of images; extract vectors first "
            f"(slender extract {name} --features fisher --out FOLDER) and give that folder",
        )


@pytest.mark.parametrize("command", ["run", "compare"])
def test_help_points_to_the_list(slender, command):
    words = slender(command, "--help")[1].replace("│", " ").split()
    assert "slender datasets lists them" in " ".join(words)
