"""slender report as people use it: pages from all results, bad input, what is left out."""

import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from bad_images import encoded
from slender import (
    BCFWClassifier,
    LinearProbe,
    LogisticClassifier,
    SLNDClassifier,
    TraceNormProbe,
    load_model,
    save_model,
)
from slender.lab.evaluation import answers
from slender.lab.report.charts import Chart, Curve, figure
from slender.lab.report.elements import written
from slender.lab.report.scales import scale, tick_label
from slender.model import read_document

rng = np.random.default_rng(0)
NAMES = np.array(['<script>alert("1")</script>', "a & b", "c\x00d", "naïve"])
PLACES = np.arange(320) % 4
X = (1.5 * rng.standard_normal((4, 6))[PLACES] + rng.standard_normal((320, 6))).astype(np.float32)
VOID = {"meta", "link", "input", "img", "br"}


class Page(HTMLParser):
    """A page whose elements are closed in order; texts, ids and data as a browser has them."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.words, self.data, self.tags = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []
        assert len(set(self.ids)) == len(self.ids)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append((tag, found))
        self.ids += [found["id"]] if "id" in found else []
        for name in ("src", "href"):
            address = found.get(name, "#")
            assert address.startswith(("#", "data:")), address  # nothing from a network
        if tag not in VOID:
            self.open.append((tag, found.get("type")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, text):
        if self.open and self.open[-1] == ("script", "application/json"):
            self.data.append(json.loads(text))
        elif not self.open or self.open[-1][0] not in ("script", "style"):
            self.words.append(text)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder, with rows in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLENDER_DEBUG", raising=False)
    np.save("X.npy", X)
    np.save("y.npy", PLACES)
    return tmp_path


def page_of(slender, *words):
    code, _, err = slender("report", *words, "--out", "r.html")
    assert (code, err) == (0, ""), err
    return Page(Path("r.html").read_text(encoding="utf-8"))


def refused(result, *parts):
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err
    assert not Path("r.html").exists()


DATA = ("--data", "X.npy", "--data-y", "y.npy")


# -- results ---------------------------------------------------------------------------------------


def test_a_model_with_its_rows(here, slender):
    fit = ("fit", "X.npy", "y.npy", "--out", "my model", "--C", "0.5", "-q")
    assert slender(*fit)[0] == 0
    page = page_of(slender, "my model", *DATA)
    model = load_model("my model")
    assert f"{100 * model.score(X, PLACES):.2f} %" in page.text
    assert shlex.join(["slender", *fit]) in page.text  # how to rerun it
    assert "slender report 'my model'" in page.text
    for heading in ("Convergence", "Spectrum of W", "Classes, worst first", "Most confused pairs"):
        assert heading in page.text
    classes, pairs = (each for each in page.data if isinstance(each, dict))
    said = answers(model, X, PLACES)
    recall = {str(c): np.mean(said.said[PLACES == c] == c) for c in range(4)}
    assert [row[1] for row in classes["rows"]] == sorted(recall.values())
    assert {row[0]: row[1] for row in classes["rows"]} == pytest.approx(recall)
    confusion = np.zeros((4, 4), int)
    np.add.at(confusion, (PLACES, said.said), 1)
    np.fill_diagonal(confusion, 0)
    assert {(row[0], row[1]): row[2] for row in pairs["rows"]} == {
        (str(t), str(o)): confusion[t, o] for t, o in zip(*np.nonzero(confusion), strict=True)
    }
    assert [row[2] for row in pairs["rows"]] == sorted(confusion[confusion > 0], reverse=True)
    assert "Thumbnails of mistakes: the rows are not of images." in page.text


def test_what_the_page_says_for_machines(here, slender):
    assert slender("fit", "X.npy", "y.npy", "--out", "m", "--json", "fit.json", "-q")[0] == 0
    code, out, err = slender("report", "m", "fit.json", *DATA, "--out", "r.html", "--json", "-")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["command"], found["out"]) == ("report", "r.html")
    assert found["bytes"] == Path("r.html").stat().st_size
    assert [each["name"] for each in found["results"]] == ["m", "fit.json"]
    (figures,) = found["results"][0]["figures"].values()
    score = load_model("m").score(X, PLACES)
    assert any(value == pytest.approx(score) for value in figures.values()), figures
    assert found["command_line"][:2] == ["slender", "report"]
    assert slender("report", "m", "--out", "r.html", "--json", "r.html")[0] == 2


def test_the_calibration_error_is_that_of_score(here, slender):
    save_model(LogisticClassifier(C=0.01).fit(X, PLACES), "m")
    code, out, _ = slender("score", "m", "X.npy", "y.npy", "--json", "-")
    assert code == 0
    ece = json.loads(out)["ece"]
    assert f"expected calibration error {100 * ece:.2f} %" in page_of(slender, "m", *DATA).text


def test_every_result_in_one_page(here, slender):
    path = ("path", "X.npy", "y.npy", "--cs", "0.01,0.1,1", "--out", "probe", "--json", "path.json")
    runs = [
        (*path, "-q"),
        ("fit", "X.npy", "y.npy", "--method", "slnd", "--out", "slnd", "--json", "fit.json", "-q"),
        ("score", "slnd", "X.npy", "y.npy", "--per-class", "--json", "score.json", "-q"),
        ("run", "--opt", "bcfw", "--passes", 3, "--json", "run.json", "-q"),
        ("compare", "--opt", "sgd,bcfw", "--obj", "svm", "--rates", 2, "--seeds", 2, "--passes", 2,
         "--json", "compare.json", "-q"),
        ("compare", "--opt", "slnd", "--sizes", "100,300", "--passes", 2, "--json", "s.json", "-q"),
    ]  # fmt: skip
    for words in runs:
        code, _, err = slender(*words)
        assert code == 0, err
    every = ("probe", "slnd", "path.json", "fit.json", "score.json", "run.json", "compare.json")
    page = page_of(slender, *every, "s.json", *DATA)
    for words in runs:
        assert shlex.join(["slender", *map(str, words)]) in page.text
    for number in range(8):
        assert f"r{number}" in page.ids
    assert "All results" in page.text
    for text in ("chosen C = ", "Validation log loss", "Gap: multi-class SVM", "Seconds of fit",
                 "First steps", "seconds ~ rows^"):  # fmt: skip
        assert text in page.text
    first = Path("r.html").read_bytes()
    page_of(slender, *every, "s.json", *DATA)
    assert Path("r.html").read_bytes() == first


def test_an_unfinished_comparison(here, slender):
    words = (
        "compare",
        "--opt",
        "sgd,bcfw",
        "--obj",
        "svm",
        "--passes",
        2,
        "--json",
        "c.json",
        "-q",
    )
    assert slender(*words)[0] == 0
    document = json.loads(Path("c.json").read_text())
    for name in ("summary", "choices", "left_out", "compared", "large_scale", "datasets"):
        del document[name]
    document |= {"finished": False, "fits": document["fits"][:1]}
    Path("c.json").write_text(json.dumps(document))
    assert "Unfinished: 1 of 2 fits" in page_of(slender, "c.json").text


def test_a_path_over_two_penalties(here, slender):
    probe = TraceNormProbe(lambda1s=[1e-2, 1e-3], lambda2s=[1e-3, 1e-4], random_state=0)
    save_model(probe.fit(X, PLACES), "m")
    page = page_of(slender, "m")
    assert "Rank of the model" in page.text
    assert f"chosen λ1 = {probe.lambda1_:.3g}" in page.text
    assert "slender.TraceNormProbe(" in page.text  # saved from Python: no command
    assert "made without rows with known labels (--data)" in page.text


def test_a_reproduced_figure(here, slender):
    from PIL import Image

    for name, place in (("one", "b"), ("two", "a")):
        folder = Path("papers") / place
        folder.mkdir(parents=True)
        Image.new("RGB", (8, 8), "red").save(folder / "x.png")
        (folder / "x.csv").write_text(
            "k,top1,how\n" + "".join(f"{k},{0.1 + 1e-9 * k!r},ours\n" for k in range(60))
        )
        claims = [
            {"text": "rank <matters>", "holds": True, "numbers": {"k": 64, "top1, sure": True}},
            {"text": "SGD is slower", "holds": False, "numbers": {}},
        ]
        document = {
            "kind": "reproduce", "name": name, "title": f"Figure {name}", "paper": "A paper",
            "claims": claims, "figures": ["x.png", "gone.png"], "tables": ["x.csv"],
            "settings": {"passes": 3}, "versions": {"slender": "0.1.0"},
            "command": ["slender", "reproduce", name],
        }  # fmt: skip
        (folder / "results.json").write_text(json.dumps(document))
    page = page_of(slender, "papers")
    for text in ("Figure one", "Figure two", "1 of 2", "does not hold SGD is slower",
                 "holds rank <matters> (k 64; top1, sure True)", "the first 20 of 60 rows",
                 "gone.png: No such file", "slender reproduce two", "19 0.1 ours"):  # fmt: skip
        assert text in page.text
    assert page.text.index("Figure one") < page.text.index("Figure two")  # whatever the folders
    images = [found for tag, found in page.tags if tag == "img"]
    assert [(each["width"], each["height"]) for each in images] == [("8", "8")] * 2
    assert not any("loading" in each for each in images)  # links would lead beside their sections


# -- models of all kinds ---------------------------------------------------------------------------


def test_names_of_classes_are_never_markup(here, slender):
    labels = NAMES[PLACES]
    labels[:3] = "naïve"  # so that there are mistakes
    np.save("y.npy", labels)
    save_model(LogisticClassifier().fit(X, labels), "m")
    page = page_of(slender, "m", *DATA)
    shown = {row[0] for row in page.data[-2]["rows"]}
    assert shown == {*NAMES[:2], "c\ufffdd", "naïve"}
    assert NAMES[0] in page.text
    assert Path("r.html").read_text().count("<script>alert") == 0


def test_two_classes_and_no_probabilities(here, slender):
    y = PLACES % 2
    np.save("y.npy", y)
    save_model(BCFWClassifier(random_state=0).fit(X, y), "m")
    page = page_of(slender, "m", *DATA)
    assert "Calibration: this model gives no probabilities." in page.text
    save_model(LogisticClassifier().fit(X, y), "m")
    page = page_of(slender, "m", *DATA)
    assert "Spectrum of W: its rank is below two." in page.text
    assert "expected calibration error" in page.text


def test_several_labels_per_row(here, slender):
    Y = np.stack([PLACES == 0, PLACES < 2, PLACES == 3], axis=1).astype(int)
    np.save("y.npy", Y)
    save_model(SLNDClassifier(random_state=0).fit(X, Y), "m")
    page = page_of(slender, "m", *DATA)
    assert "mean average precision" in page.text
    assert (
        "Confused pairs, calibration and mistakes: they are of models with one class" in page.text
    )


def test_a_model_without_a_trace(here, slender):
    model = LogisticClassifier().fit(X, PLACES)
    model.trace_ = []
    save_model(model, "m")
    assert "Convergence: the model has no trace." in page_of(slender, "m").text


def test_ten_thousand_classes_stay_light(here, slender):
    C = 10_000
    model = LogisticClassifier().fit(X, PLACES)
    model.coef_ = np.repeat(model.coef_, C // 4, axis=0)
    model.coef_ += 1e-3 * rng.standard_normal(model.coef_.shape).astype(np.float32)
    model.intercept_, model.classes_ = np.repeat(model.intercept_, C // 4), np.arange(C)
    save_model(model, "m")
    np.save("y.npy", rng.integers(C, size=len(X)))
    page = page_of(slender, "m", *DATA)
    assert Path("r.html").stat().st_size < 2e6
    assert [tag for tag, _ in page.tags].count("tr") < 100
    assert "the first 20 of 10,000 classes" in page.text


def test_thumbnails_of_mistakes(here, slender):
    """Both ways to images: a model that takes them, and vectors that were extracted."""
    from onnx_models import colours

    for k in range(24):
        folder = Path("photos", "ab"[k % 2])
        folder.mkdir(parents=True, exist_ok=True)
        image = np.broadcast_to(rng.integers(0, 256, 3), (20, 30, 3)).astype(np.uint8)
        (folder / f"{k} <b>.png").write_bytes(encoded(image, "PNG"))
    colours(here / "network.onnx")
    settings = {"mean": [0.5] * 3, "std": [0.2] * 3}
    Path("network.json").write_text(json.dumps(settings))
    onnx = ("--features", "onnx:network.onnx")
    assert slender("fit", "photos", *onnx, "--out", "m", "--C", "1e-4", "-q")[0] == 0
    page = page_of(slender, "m", "--data", "photos", "-q")
    wrong = sum(tag == "img" for tag, _ in page.tags)
    assert 0 < wrong < 24
    assert all(a["src"].startswith("data:image/jpeg;base64,") for t, a in page.tags if t == "img")
    assert re.search(r"\d+ <b>\.png", page.text)
    assert slender("extract", "photos", *onnx, "--out", "vectors", "-q")[0] == 0
    assert slender("fit", "vectors", "--out", "v", "--C", "1e-4", "-q")[0] == 0
    page = page_of(slender, "v", "--data", "vectors", "-q")
    assert "--images names the folder" in page.text
    page = page_of(slender, "v", "--data", "vectors", "--images", "photos", "-q")
    assert sum(tag == "img" for tag, _ in page.tags) == wrong
    Path("r.html").unlink()
    bad = slender("report", "v", "--data", "vectors", "--images", ".", "--out", "r.html")
    refused(bad, "--images is the folder that was extracted")


# -- bad input -------------------------------------------------------------------------------------


def test_bad_results(here, slender):
    def bad(*words):
        return slender("report", *words, "--out", "r.html")

    refused(bad("none"), "none: no such file")
    refused(bad("X.npy"), "X.npy: no result of slender; give a model, a file of --json")
    Path("empty").mkdir()
    refused(bad("empty"), "empty: a folder without results.json")
    for text, said in {
        "[1]": "no result",
        "{": "cannot be read as JSON",
        '{"a": 1}': "r.json: no result; give",
        '{"command": "extract"}': "a result of slender extract, which has nothing to draw",
        '{"command": "fit"}': "not as slender fit writes it (KeyError",
        '{"command": "compare", "finished": false, "fits": []}': "there is no fit in it",
        '{"command": "fit", "version": "99.0"}': "written by slender 99.0; this is slender",
        '{"kind": "reproduce", "versions": {"slender": "99.0"}}': "upgrade slender",
    }.items():
        Path("r.json").write_text(text)
        refused(bad("r.json"), said)
    score = {"command": "score", "model": "m", "rows": 9, "classes": 4, "top1": 0.5, "top5": 1.0,
             "settings": {}}  # fmt: skip
    for name, value in {"rows": [], "classes": "four", "top1": "half", "settings": None}.items():
        Path("r.json").write_text(json.dumps({**score, name: value}))
        refused(bad("r.json"), "r.json: holds a value that slender does not write")


def test_bad_options(here, slender):
    save_model(LogisticClassifier().fit(X, PLACES), "m")
    np.save("wide.npy", np.ones((320, 7), np.float32))
    np.save("words.npy", np.array(["w"] * 320))

    def bad(*words, out="r.html"):
        return slender("report", *words, "--out", out)

    refused(bad("m", "--data", "wide.npy", "--data-y", "y.npy"), "7 features but m takes 6")
    refused(bad("m", "--data", "X.npy", "--data-y", "words.npy"), "the model's classes are int64")
    refused(bad("m", "--data-y", "y.npy"), "--data-y without --data")
    refused(bad("m", *DATA, "--images", "."), "--images is for vectors of slender extract")
    refused(bad("m", out="r.pdf"), "name it .html")
    refused(bad("m", out="no/r.html"), "there is no folder")
    refused(bad("m", out="m/r.html"), "m is a file; choose another name")
    assert slender("run", "--opt", "bcfw", "--passes", 1, "--json", "run.json", "-q")[0] == 0
    refused(bad("run.json", *DATA), "--data judges models, but no result is one")


def test_models_and_documents_keep_their_command(here, slender):
    words = ("fit", "X.npy", "y.npy", "--out", "m", "--json", "f.json", "-q")
    assert slender(*words)[0] == 0
    assert read_document("m")["command_line"] == ["slender", *words]
    assert json.loads(Path("f.json").read_text())["command_line"] == ["slender", *words]
    save_model(LinearProbe([1.0, 2.0]).fit(X, PLACES), "m")
    assert read_document("m")["command_line"] == []


# -- drawing ---------------------------------------------------------------------------------------


def test_passes_are_whole():
    """Also where there are two or three of them."""
    for last, ticks in {2: ["1", "2"], 3: ["1", "2", "3"], 20: ["5", "10", "15", "20"]}.items():
        passes = [float(k) for k in range(1, last + 1)]
        curve = Curve("", {"passes": passes}, passes, [""] * last)
        made = figure(Chart("Rank", "rank", {"passes": "passes"}, [curve]), "c")
        svg = next(made.iter("svg"))
        across = [text.text for text in svg.iter("text") if text.get("text-anchor") == "middle"]
        assert across == [*ticks, "passes"]


@pytest.mark.parametrize(("low", "high"), [(1e-12, 1e9), (0.02, 0.03), (3.0, 3.0), (7.0, 60.0)])
@pytest.mark.parametrize("log", [True, False])
def test_ticks_are_round_numbers_on_the_axis(low, high, log):
    axis = scale([low, high], 0.0, 100.0, log)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 12
    places = [axis(tick) for tick in ticks]
    assert places == sorted(places)
    assert 0.0 <= places[0] < places[-1] <= 100.0
    assert len({tick_label(tick) for tick in ticks}) == len(ticks)
    assert axis(low) < 50 < axis(high) or low == high


def test_a_curve_is_drawn_where_its_numbers_are():
    y = [1.0, None, 0.01, float("nan"), 100.0]
    line = Curve("a<b", {"seconds": [0.0, 1.0, 2.0, 3.0, 4.0]}, y, list("abcde"))
    page = Page(written(figure(Chart("t", "y", {"seconds": "s"}, [line], y_log=True), "f")))
    tracks = [found for tag, found in page.tags if tag == "polyline"]
    assert len(tracks) == 2  # log, linear
    for track in tracks:
        assert track["data-k"] == "0 2 4"
        (x0, y0), (x1, y1), (x2, y2) = (
            map(float, point.split(",")) for point in track["points"].split()
        )
        assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
        assert y2 < y0 < y1  # up is less
    (_, a), (_, b), (_, c) = (map(float, p.split(",")) for p in tracks[0]["points"].split())
    assert (b - a) == pytest.approx(a - c, abs=0.2)  # log: 0.01, 1, 100 are equally far apart


def test_a_curve_with_nothing_positive_has_no_log_axis():
    line = Curve("a", {"passes": [1.0, 2.0]}, [0.0, 1.0], "ab")
    page = Page(written(figure(Chart("t", "y", {"passes": "p"}, [line], y_log=True), "f")))
    assert [tag for tag, _ in page.tags].count("svg") == 1
    assert not any(tag == "input" for tag, _ in page.tags)


def test_long_curves_are_thinned_but_keep_their_ends():
    n = 5000
    x = list(range(n))
    line = Curve("a", {"passes": x}, [float(k + 1) for k in x], [str(k) for k in x])
    page = Page(written(figure(Chart("t", "y", {"passes": "p"}, [line]), "f")))
    (tips,) = page.data[0]
    assert len(tips) <= 300
    assert (tips[0], tips[-1]) == ("0", "4999")
