"""slender reproduce as people use it: results on disk, claims, what is kept, what is refused."""

import csv
import json
import os
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from slender.lab.plots import written
from slender.lab.reproduce import carrying_out, catalogue
from slender.lab.reproduce.base import TINY, Claim, Experiment, verdict
from slender.lab.reproduce.carrying_out import Order, carry_out, prepare
from slender.lab.reproduce.catalogue import EXPERIMENTS
from slender.lab.reproduce.drawing import below, brief, named, sheet

QUICK = ("slnd-losses", "slnd-eigenvalues", "slnd-theorem2", "slnd-lemma1", "sgdqn-onepass")
EDGE = 1.0  # pixels that a box may round to beyond the paper
NEVER = {"trace-quoted"}  # its data sets are images


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLENDER_DEBUG", raising=False)
    monkeypatch.delenv("SLENDER_DATA", raising=False)
    return tmp_path


def params():
    for each in EXPERIMENTS:
        if each.name not in NEVER:
            marks = () if each.name in QUICK else pytest.mark.slow
            yield pytest.param(each, marks=marks, id=each.name)


def apart(boxes, side):
    """These boxes follow each other along a side of the figure without touching."""
    spans = sorted((getattr(box, f"{side}0"), getattr(box, f"{side}1")) for box in boxes)
    return all(end <= start for (_, end), (start, _) in pairwise(spans))


def check_readable(figure, what):
    """What a person looks for: whose figure it is, axes with names, nothing cut off or covered."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(150)  # of the files: letters are not as wide at every size
    FigureCanvasAgg(figure).draw()
    size = figure.bbox
    texts = [figure._suptitle, *figure.legends[0].get_texts()]
    assert what in figure._suptitle.get_text().replace("\n", " ")
    for ax in filter(lambda ax: ax.get_visible(), figure.axes):
        texts += [ax.xaxis.label, ax.yaxis.label, *ax.texts]
        texts += [ax.title, ax._left_title]
        for axis, side in ((ax.xaxis, "x"), (ax.yaxis, "y")):
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            labels = [tick.label1 for tick in ticks if tick.label1.get_text()]
            assert labels, (ax.get_title("left"), side)
            assert apart([label.get_window_extent() for label in labels], side), side
            texts += labels
            if not any(character.isalpha() for label in labels for character in label.get_text()):
                shared = side == "y" and ax.get_subplotspec().colspan.start > 0
                assert axis.label.get_text() or shared, side
    for text in texts:
        box = text.get_window_extent()
        over = max(-box.x0, -box.y0, box.x1 - size.x1, box.y1 - size.y1)
        assert over <= EDGE or not text.get_text(), f"{text.get_text()!r} is cut off"


@pytest.mark.parametrize("each", list(params()))
def test_an_experiment_writes_its_numbers_figures_and_claims(each, tmp_path, monkeypatch):
    if each.packages:
        pytest.importorskip("faiss")
    figures = []

    def seen(figure, path):
        figures.append(figure)
        return written(figure, path)

    monkeypatch.setattr(carrying_out, "written", seen)
    order = Order((each,), tmp_path, scale=TINY)
    prepare(order)
    (done,) = carry_out(order, lambda name, line: None)
    assert done.reason == ""
    check_readable(figures[0], each.what)
    folder = tmp_path / each.name
    document = json.loads((folder / "results.json").read_text())
    assert document == done.document
    assert document["kind"] == "reproduce"
    assert document["name"] == each.name
    assert each.what in document["title"]
    assert document["figures"] == [f"{each.name}.png"]
    assert (folder / document["figures"][0]).read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (folder / document["drawings"][0]).read_bytes()
    for name in document["tables"]:
        rows = list(csv.DictReader((folder / name).read_text().splitlines()))
        assert rows
        assert None not in rows[0]
    assert document["claims"]
    for claim in document["claims"]:
        assert isinstance(claim["holds"], bool)
        assert claim["numbers"]
        assert claim["text"] in verdict(claim)
    assert {"slender", "numpy", "python"} <= document["versions"].keys()
    assert document["command"].startswith(f"slender reproduce {each.name}")


@pytest.mark.parametrize("name", ["slnd-eigenvalues", "slnd-theorem2"])
def test_long_paths_of_data_are_cut_in_figures_only(name, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    paths = [str(tmp_path / ("a long folder " * 6) / f"rows {k}.npz") for k in (1, 2)]
    Path(paths[0]).parent.mkdir()
    for path in paths:
        np.savez(path, X=rng.standard_normal((80, 5)) + y[:, None], y=y)
    figures = []
    monkeypatch.setattr(carrying_out, "written", lambda figure, path: figures.append(figure))
    each = catalogue.experiment(name)
    order = Order((each,), tmp_path / "out", tuple(paths), scale=TINY)
    prepare(order)
    (done,) = carry_out(order, lambda name, line: None)
    check_readable(figures[0], each.what)
    texts = [
        text.get_text() for text in figures[0].findobj(lambda artist: hasattr(artist, "get_text"))
    ]
    assert {path[-23:] for path in paths} <= {text.removeprefix("…") for text in texts}
    (table,) = done.document["tables"]
    rows = csv.DictReader((tmp_path / "out" / name / table).read_text().splitlines())
    assert {row["data"] for row in rows} == set(paths)


@pytest.mark.parametrize("decades", [0.5, 0.79, 0.9, 1.0, 1.9, 3.0])
def test_numbers_of_an_upright_axis_do_not_touch(decades):
    """Seconds are measured: any range may come."""
    for first in (1.0, 2.0, 5.0, 8.5):
        figure, axes = sheet("a heading", 3, 2, 2.7)
        for ax in axes.flat:
            ax.plot([1, 2], [first, first * 10**decades], label="seconds")
            ax.set_yscale("log")
            named(ax, "training rows", "seconds")
        check_readable(below(figure, axes), "a heading")


def test_names_that_end_alike_are_not_cut():
    ends = [f"{start}/{'x' * 40}" for start in "ab"]
    rows = {"points": [{"data": name, "y": 1} for name in ends]}
    assert brief(rows, ends) == rows
    assert brief(rows, ends[:1])["points"][0] == {"data": "…" + "x" * 23, "y": 1}


def test_names_and_aliases_are_told_apart():
    words = [word for each in EXPERIMENTS for word in (each.name, *each.aliases)]
    assert len(set(words)) == len(words)
    assert catalogue.experiment("slnd-fig6").name == "slnd-passes"


# -- the command -----------------------------------------------------------------------------------


def made(name, measure=None, holds=True, data=("tiny",), **more):
    """An experiment that takes no time."""
    from slender.lab.reproduce.drawing import sheet

    def draw(tables):
        figure, axes = sheet("a heading", 1)
        axes[0, 0].plot([row["x"] for row in tables["points"]])
        return figure

    return Experiment(
        name, "Nobody 2000", "Figure 9", "a line",
        measure or (lambda material: {"points": [{"x": 1.0, "y": None}, {"x": 2.0, "y": 3}]}),
        lambda tables: [Claim("it is so", "tiny", holds, {"x": tables["points"][0]["x"]})],
        draw, data=data, **more,
    )  # fmt: skip


@pytest.fixture
def known(monkeypatch):
    """Replace the experiments that there are."""

    def known(*experiments):
        monkeypatch.setattr(catalogue, "EXPERIMENTS", experiments)

    return known


def test_one_experiment(here, slender, known):
    known(made("one"))
    code, out, err = slender("reproduce", "one")
    assert (code, err) == (0, "")
    assert "Nobody 2000, Figure 9: a line" in out
    assert "holds: tiny: it is so (x 1)" in out
    assert "1 of 1 claims hold; 1 experiment in reproduced" in out
    assert sorted(path.name for path in (here / "reproduced" / "one").iterdir()) == [
        "one.png", "one.svg", "points.csv", "results.json",
    ]  # fmt: skip
    assert (here / "reproduced/one/points.csv").read_text().splitlines() == ["x,y", "1.0,", "2.0,3"]


def test_a_claim_that_fails_is_said_and_only_strict_makes_it_an_error(here, slender, known):
    known(made("one", holds=False))
    code, out, _ = slender("reproduce", "one")
    assert code == 0
    assert "DOES NOT HOLD: tiny: it is so" in out
    assert slender("reproduce", "one", "--strict")[0] == 1


def test_what_is_there_is_kept_while_the_settings_are_the_same(here, slender, known):
    calls = []

    def measure(material):
        calls.append(list(material.sets))
        return {"points": [{"x": 1.0}]}

    known(made("one", measure))
    assert slender("reproduce", "--all")[0] == 0
    code, out, _ = slender("reproduce", "--all")
    assert code == 0
    assert "(was there)" in out
    assert calls == [["tiny"]]
    slender("reproduce", "--all", "--again")
    slender("reproduce", "--all", "--data", "digits")  # other data
    slender("reproduce", "--all", "--data", "digits", "--scale", "tiny")  # another scale
    assert calls == [["tiny"], ["tiny"], ["digits"], ["digits"]]
    os.remove("reproduced/one/one.svg")
    slender("reproduce", "--all", "--data", "digits", "--scale", "tiny")
    assert len(calls) == 5
    Path("reproduced/one/results.json").write_text("no JSON")
    slender("reproduce", "--all", "--data", "digits", "--scale", "tiny")
    assert len(calls) == 6


def test_code_that_changed_is_run_again(here, slender, known, monkeypatch):
    calls = []

    def measure(material):
        calls.append(material)
        return {"points": [{"x": 1.0}]}

    known(made("one", measure))
    slender("reproduce", "one")
    slender("reproduce", "one")
    assert len(calls) == 1
    monkeypatch.setattr("inspect.getsource", lambda module: f"{module} of tomorrow")
    slender("reproduce", "one")
    slender("reproduce", "one")
    assert len(calls) == 2


def test_an_interrupted_command_continues(here, slender, known, monkeypatch):
    def stop(material):
        raise KeyboardInterrupt

    codes = []
    monkeypatch.setattr("slender.cli.os._exit", lambda code: codes.append(code))
    known(made("one"), made("two", stop), made("three"))
    _, _, err = slender("reproduce", "--all")
    assert codes == [130]
    assert "1 of 3 experiments are done; the same command continues with what reproduced" in err
    assert not Path("reproduced/two/results.json").exists()
    known(made("one", stop), made("two"), made("three"))  # the first is not measured again
    code, out, _ = slender("reproduce", "--all")
    assert code == 0
    assert "3 of 3 claims hold" in out


def test_what_cannot_run_is_left_out_with_its_reason(here, slender, known):
    def refuse(material):
        raise ValueError("too few rows")

    known(made("one", refuse), made("two"), made("three", least=2), made("four", data=("mnist",)))
    code, out, err = slender("reproduce", "--all")
    assert code == 0
    assert "slender: one left out: too few rows\n" in err
    assert "slender: three left out: needs 2 data sets" in err
    assert "slender: four left out: mnist: not found" in err
    assert "1 experiment in reproduced, 3 left out" in out
    assert [folder.name for folder in Path("reproduced").iterdir()] == ["two"]
    code, _, err = slender("reproduce", "one")
    assert (code, err) == (2, "slender: one could not be measured: too few rows\n")
    code, _, err = slender("reproduce", "one", "four")
    assert code == 2
    assert err.splitlines()[2] == "slender: none of 2 experiments could be measured"


def test_missing_packages_are_named(here, slender, known, monkeypatch):
    known(made("one", packages=("no_such_package",)), made("two"))
    assert "one left out: one needs the package no_such_package" in slender("reproduce", "--all")[2]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = slender("reproduce", "two")
    assert code == 2
    assert "slender reproduce needs the package matplotlib: pip install matplotlib" in err


def test_warnings_are_told(here, slender, known):
    import warnings

    def measure(material):
        warnings.warn("it is\nlate; give time=2", stacklevel=1)  # which slender reproduce has not
        return {"points": [{"x": 1.0}]}

    known(made("one", measure))
    assert "slender: warning: one: it is late\n" in slender("reproduce", "one")[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give names of experiments, or --all"),
        (["one", "--all"], "give names of experiments, or --all"),
        (["on"], "on is no experiment (did you mean one?); there are one, none"),
        (["one", "--data", "nowhere"], "nowhere: neither a data set nor a file"),
        (["one", "--data", "tiny,tiny"], "--data tiny,tiny: give names with a comma"),
        (["one", "--data", "fungus"], "fungus is a data set of images; extract vectors first"),
        (["none", "--data", "tiny"], "--data is not used by none, which makes its rows"),
        (["one", "--data-dir", "."], "--data-dir is used by data sets that --data names"),
        (["one", "--scale", "huge"], "--scale huge is not one of full, tiny"),
        (["one", "--out", "file"], "file: is a file; choose another --out"),
        (["one", "--out", "file/below"], "choose another --out"),
    ],
)
def test_bad_usage_is_one_line(here, slender, known, words, message):
    Path("file").write_text("")
    known(made("one"), made("none", data=()))
    code, out, err = slender("reproduce", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(here, slender, known):
    def never(material):
        raise AssertionError

    known(made("one", never))
    Path("out/one/results.json").mkdir(parents=True)
    code, _, err = slender("reproduce", "one", "--out", "out")
    assert code == 2
    assert "results.json: cannot be written" in err


def test_json(here, slender, known):
    def refuse(material):
        raise ValueError("too few rows")

    known(made("one"), made("two", refuse))
    code, out, _ = slender("reproduce", "--all", "--json", "-")
    document = json.loads(out)
    assert code == 0
    assert document["command"] == "reproduce"
    assert [each["name"] for each in document["experiments"]] == ["one"]
    assert document["left_out"] == [{"name": "two", "reason": "too few rows"}]


def test_the_list(slender):
    code, out, _ = slender("reproduce", "--list")
    assert code == 0
    for each in EXPERIMENTS:
        assert each.name in out
        assert each.title in out
    rows = json.loads(slender("reproduce", "--list", "--json", "-")[1])["experiments"]
    assert rows[0]["aliases"] == ["slnd-fig1"]


def test_a_folder_of_files_as_data(here, slender):
    """One's own data, of two classes, and the rows that are named in the results."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    np.savez("mine.npz", X=rng.standard_normal((80, 5)) + y[:, None], y=y)
    words = ("slnd-eigenvalues", "--data", "mine.npz", "--out", "out", "--quiet")
    assert slender("reproduce", *words) == (0, "", "")
    document = json.loads(Path("out/slnd-eigenvalues/results.json").read_text())
    assert [each["name"] for each in document["settings"]["data"]] == ["mine.npz"]
    assert document["command"] == (
        "slender reproduce slnd-eigenvalues --data mine.npz --out out --again"
    )


def test_results_are_written_last(here, monkeypatch):
    """Whoever is killed before leaves nothing that looks complete."""
    each = made("one")
    order = Order((each,), Path("out"))
    prepare(order)

    def full(*args):
        raise OSError("no space")

    monkeypatch.setattr(carrying_out, "written", full)
    with pytest.raises(OSError, match="no space"):
        list(carry_out(order, lambda name, line: None))
    assert not Path("out/one/results.json").exists()
