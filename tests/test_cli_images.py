"""From a folder of images to a classifier, in three commands, in one, and in the library."""

import errno
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline, make_pipeline

from bad_images import bad_files, encoded, picture
from killing import contents
from onnx_models import colours
from processes import SLENDER
from slender import LogisticClassifier, SLNDClassifier, load_model, save_model
from slender.features.images import find_images
from slender.features.onnx import OnnxEncoder
from slender.model import FORMAT, _read
from slender.registry import ENCODERS
from slender.storage import FileError, checksum

CLASSES = ("ant", "bee", "cat, big")
SMALL = "--n-gaussians 2 --n-components 8 --scales 4 --step 8 --descriptors 2000"
ONNX = ("--features", "onnx:network.onnx")


def photographs(root, per_class, seed):
    """Of different colours and textures for each class, so that both encoders can tell them."""
    rng = np.random.default_rng(seed)
    for c, name in enumerate(CLASSES):
        (root / name).mkdir(parents=True)
        for k in range(per_class):
            y, x = np.mgrid[:40, :50]
            waves = np.sin((c + 1) * (x * (c != 1) + y * (c > 0)) / 3 + rng.uniform(0, 6))
            image = 110 + 50 * waves[:, :, None] + 30 * np.roll([1, 0, -1], c)
            image = image + rng.normal(0, 8, image.shape)
            content = encoded(np.clip(image, 0, 255).astype(np.uint8), "PNG")
            (root / name / f"{k}.png").write_bytes(content)
    return root


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder: images for training and testing, and a network with its JSON file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLENDER_DEBUG", raising=False)
    photographs(tmp_path / "train", 8, 0)
    photographs(tmp_path / "test", 4, 1)
    colours(tmp_path / "network.onnx")
    Path("network.json").write_text('{"mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2]}')
    return tmp_path


def encoder(**more):
    return OnnxEncoder("network.onnx", mean=(0.5,) * 3, std=(0.2,) * 3, **more)


def done(result):
    code, out, err = result
    assert (code, err) == (0, ""), err
    return out


def refused(result, *parts):
    """Exit code 2, nothing on stdout, one line on stderr that says all of `parts`."""
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.startswith("slender: ")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err


def truth(folder="test"):
    return [path.parent.name for path in find_images(folder).files]


# -- in three commands -----------------------------------------------------------------------------


def test_extract_fit_score(here, slender):
    out = done(slender("extract", "train", "--out", "X", *SMALL.split()))
    for words in ("rows 24", "features 64", "classes 3", "skipped 0", "images per second"):
        assert words in " ".join(out.split())
    done(slender("extract", "test", "--model", "X", "--out", "X_test", "--dtype", "float16"))
    done(slender("fit", "X", "--out", "model", "--val", "X_test"))
    assert load_model("model").classes_.tolist() == list(CLASSES)
    found = json.loads(done(slender("score", "model", "X_test", "--json", "-")))
    assert found["rows"] == 12
    assert found["top1"] > 0.8
    assert np.load("X_test/X.npy").dtype == np.float16
    labels = done(slender("predict", "model", "X_test/X.npy")).splitlines()
    assert np.mean([a.strip('"') == b for a, b in zip(labels, truth(), strict=True)]) > 0.8


def test_extract_for_machines(here, slender):
    Path("train/bee/x.txt").write_text("text")
    words = ("extract", "train", *ONNX, "--out", "X", "--json", "-", "--jobs", 2)
    found = json.loads(done(slender(*words)))
    assert (found["files"], found["rows"], found["features"], found["classes"]) == (25, 24, 5, 3)
    assert found["skipped"] == [{"file": "bee/x.txt", "reason": "not an image"}]
    assert found["done_before"] == 0
    assert found["settings"]["features"] == "onnx:network.onnx"
    before = contents(here / "X")
    assert "1: 1 not an image" in done(slender("extract", "train", *ONNX, "--out", "Y"))
    again = json.loads(done(slender(*words)))
    assert (again["done_before"], again["images_per_second"]) == (25, None)
    assert contents(here / "X") == contents(here / "Y") == before
    out = done(slender("extract", "train", *ONNX, "--out", "X"))
    assert "X was complete: there was nothing to do" in out
    assert done(slender("extract", "train", *ONNX, "--out", "X", "-q")) == ""


def test_every_bad_file_has_its_reason(here, slender):
    for name, (content, _) in bad_files().items():
        Path("train/ant", name).write_bytes(content)
    found = json.loads(done(slender("extract", "train", *ONNX, "--out", "X", "--json", "-")))
    reasons = {each["file"]: each["reason"] for each in found["skipped"]}
    assert reasons.keys() == {f"ant/{name}" for name in bad_files()}
    for name, (_, why) in bad_files().items():
        assert why in reasons[f"ant/{name}"]
    strict = slender("extract", "train", *ONNX, "--out", "Y", "--strict")
    refused(strict, "train/ant/bomb.jpg: too many pixels")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("train --out X --features sift", ["--features sift is not one of fisher, onnx"]),
        ("train --out X --features onnx", ["which model?", "onnx:MODEL.onnx"]),
        ("train --out X --features fisher:a", ["fisher takes no file"]),
        ("train --out X --features onnx:none.onnx", ["none.onnx: no such file"]),
        ("train --out X --features onnx:network.onnx --step 3", ["features onnx", "--step"]),
        ("train --out X --features onnx:network.onnx --mean a,b", ["--mean a,b", "1,2,3"]),
        ("train --out X --features onnx:network.onnx --size 9", ["--size 9", "8 x 8"]),
        ("train --out X --features onnx:network.onnx --pool max", ["--pool max is not one of"]),
        ("train --out X --step 0", ["--step 0 must"]),
        ("train --out X --channels smell", ["'smell'"]),
        ("train --out X --model none", ["none: lacks classes.json"]),
        ("train --out X --model none --features fisher", ["--model none", "remove --features"]),
        ("train --out X --model none --step 3", ["--model none", "remove --step 3"]),
        ("train --out X --dtype int8", ["--dtype int8 is not one of float32, float16"]),
        ("train --out X --jobs 0", ["--jobs 0"]),
        ("none --out X", ["none: no such folder"]),
        ("train --out train/X", ["lies in the folder of images"]),
        ("train", ["--out"]),
    ],
)
def test_extract_refuses(here, slender, words, parts):
    refused(slender("extract", *words.split()), *parts)


def test_another_extraction_is_refused_in_options(here, slender):
    done(slender("extract", "train", *ONNX, "--out", "X"))
    other = slender("extract", "train", *ONNX, "--out", "X", "--batch-size", 3)
    refused(other, "X: holds an extraction with --batch-size 16, now --batch-size 3")
    Path("X/X.npy").rename("X/X.npy.part")
    refused(slender("fit", "X", "--out", "model"), "X: is not complete", "slender extract")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_what_is_done(here, slender, sent):
    """And leaves no process behind that would hold the folder."""
    photographs(here / "many", 40, 2)
    words = ["extract", "many", "--out", "X", *SMALL.split(), "--jobs", "2"]
    running = subprocess.Popen([*SLENDER, *words], stderr=subprocess.PIPE, text=True)
    try:
        while not Path("X/X.npy.part").exists():
            assert running.poll() is None, running.stderr.read()
            time.sleep(0.01)
        running.send_signal(sent)
        _, err = running.communicate(timeout=60)
    finally:
        running.kill()
        running.communicate()
    assert running.returncode == 130, err
    assert err == "slender: interrupted; the same command continues with X\n"
    done(slender(*words, "-q"))
    done(slender("extract", "many", "--out", "Y", *SMALL.split(), "-q"))
    assert contents(here / "X") == contents(here / "Y")


@pytest.mark.parametrize("disks", [1, 2])
def test_unfinished_work_is_kept_in_a_folder_of_its_own(here, slender, monkeypatch, disks):
    def killed(self):
        raise RuntimeError("killed")

    def renamed(self, target):
        if disks == 2 and self.name == "kept":
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return rename(self, target)

    rename = Path.rename
    monkeypatch.setattr(Path, "rename", renamed)
    words = ("extract", "train", *ONNX, "-q", "--out")
    done(slender(*words, "whole"))
    words += ("X", "--checkpoint", "kept")
    with monkeypatch.context() as patch:
        patch.setattr("slender.features.folder.VectorFile.finish", killed)
        assert slender(*words)[0] == 1
    assert not any(Path("X").iterdir())
    refused(slender(*words), "kept: holds an unfinished job; --resume continues it")
    done(slender(*words, "--resume"))
    assert contents(here / "X") == contents(here / "whole")
    assert not Path("kept").exists()
    done(slender(*words, "--resume"))  # it is complete
    assert not Path("kept").exists()
    assert not list(here.glob(".slender-*"))
    refused(slender(*words[:-3], "train/X", "--checkpoint", "kept"), "lies in the folder of images")


# -- in one command --------------------------------------------------------------------------------


@pytest.mark.parametrize("features", ["onnx:network.onnx", "fisher"])
def test_a_model_of_images(here, slender, features):
    done(slender("fit", "train", "--features", features, "--out", "model"))
    Path("network.onnx").unlink()  # the model holds all of it
    found = json.loads(done(slender("score", "model", "test", "--json", "-", "--per-class")))
    assert found["rows"] == 12
    assert found["top1"] > 0.8
    assert [each["class"] for each in found["per_class"]] == list(CLASSES)
    model = load_model("model")
    files = find_images("test").files
    assert [type(step).__name__ for step in model] == [
        {"fisher": "FisherVectorizer"}.get(features, "OnnxEncoder"),
        "LogisticClassifier",
    ]
    assert model.score(files, truth()) == found["accuracy"]
    lines = done(slender("predict", "model", "test")).splitlines()
    label = model.predict(files[:1])[0]
    assert lines[0] == f"test/ant/0.png,{label}"
    assert len(lines) == 12


def test_fit_takes_any_method_and_its_options(here, slender):
    words = ("fit", "train", *ONNX, "--method", "slnd", "--passes", 3, "--out", "model")
    found = json.loads(done(slender(*words, "--val", "test", "--json", "-", "--seed", 5)))
    assert (found["encoder"], found["skipped"], found["passes"]) == ("onnx:network.onnx", [], 3)
    assert "validation_top1" in found["trace"][-1]
    assert type(load_model("model")[-1]).__name__ == "SLNDClassifier"


def test_the_encoder_of_an_extraction(here, slender):
    """Settings of the encoder are those of `extract`; its vectors need not be computed again."""
    done(slender("extract", "train", "--out", "X", *SMALL.split()))
    done(slender("extract", "test", "--out", "X_test", "--model", "X"))
    done(slender("fit", "train", "--features", "X", "--out", "a"))
    done(slender("fit", "X", "--features", "X", "--out", "b"))
    a, b = load_model("a"), load_model("b")
    assert a[0].n_gaussians == b[0].n_gaussians == 2
    assert np.array_equal(a[1].coef_, b[1].coef_)
    by_images = json.loads(done(slender("score", "b", "test", "--json", "-")))
    by_vectors = json.loads(done(slender("score", "b", "X_test", "--json", "-")))
    assert by_images["top1"] == by_vectors["top1"]
    refused(
        slender("fit", "X", "--features", "fisher", "--out", "c"),
        "X holds vectors, not images",
        "--features X",
    )
    done(slender("extract", "test", "--out", "other", *ONNX))
    refused(slender("score", "b", "other"), "another encoder than the model's")


def test_predict_of_files(here, slender):
    done(slender("fit", "train", *ONNX, "--out", "model"))
    model = load_model("model")
    photo = "test/ant/0.png"
    (label,) = model.predict([photo])
    assert done(slender("predict", "model", photo)) == f"{photo},{label}\n"
    several = [photo, "test/cat, big/1.png"]
    out = done(slender("predict", "model", *several, "--top-k", 2))
    assert len(out.splitlines()) == 2
    assert out.splitlines()[1].startswith('"test/cat, big/1.png",')
    done(slender("predict", "model", *several, "--proba", "--out", "p.csv", "-q"))
    heading, first, _ = Path("p.csv").read_text().splitlines()
    assert heading == 'file,ant,bee,"cat, big"'
    wanted = model.predict_proba(several)[0]
    np.testing.assert_allclose([float(word) for word in first.split(",")[1:]], wanted, rtol=1e-6)
    done(slender("predict", "model", *several, "--out", "y.npy", "--json", "r.json", "-q"))
    assert np.load("y.npy").tolist() == model.predict(several).tolist()
    assert json.loads(Path("r.json").read_text())["files"] == several


@pytest.mark.filterwarnings("default")  # the command shows them
def test_bad_files_in_predict_and_score(here, slender):
    done(slender("fit", "train", *ONNX, "--out", "model"))
    Path("test/ant/0.png").write_bytes(b"")
    Path("test/bee/text.txt").write_text("text")
    code, out, err = slender("predict", "model", "test")
    assert (code, len(out.splitlines())) == (0, 11)
    assert err == "slender: warning: 2 files were skipped: 1 empty file, 1 not an image\n"
    refused(slender("predict", "model", "test/ant/0.png"), "test/ant/0.png: empty file")
    refused(slender("predict", "model", "none.jpg"), "none.jpg: no such file")
    code, out, err = slender("score", "model", "test", "--json", "-")
    assert (code, json.loads(out)["rows"]) == (0, 11)
    code, out, err = slender("fit", "test", *ONNX, "--out", "new", "--json", "-")
    assert code == 0
    assert {each["reason"] for each in json.loads(out)["skipped"]} == {"empty file", "not an image"}
    _, out, _ = slender("fit", "test", *ONNX, "--out", "new")
    assert "skipped 1 empty file, 1 not an image" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (
            "fit train y.npy --features onnx:network.onnx --out m",
            ["a folder of images, whose folders are the labels"],
        ),
        ("fit train --features sift --out m", ["--features sift is not one of"]),
        ("fit train/ant --features onnx:network.onnx --out m", ["train/ant: has no folders"]),
        ("fit none --features onnx:network.onnx --out m", ["none: no such folder"]),
        ("fit empty --features onnx:network.onnx --out m", ["empty: holds no images"]),
        ("score model test y.npy", ["takes a folder of images"]),
        ("score model test/ant", ["test/ant: has no folders"]),
        ("score model X_test.npy", ["X_test.npy: is not a folder"]),
        ("predict vectors test", ["test: a folder of shards holds nothing but files of rows"]),
        ("predict model X_test.npy", ["X_test.npy: not an image"]),
        ("export model --to torch --out m.safetensors", ["model takes images", "slender extract"]),
    ],
)
def test_commands_refuse(here, slender, words, parts):
    X = np.random.default_rng(0).standard_normal((9, 5)).astype(np.float32)
    classifier = SLNDClassifier(random_state=0).fit(X, np.arange(9) % 3)
    save_model(classifier, "vectors")
    save_model(Pipeline([("features", encoder().fit()), ("classifier", classifier)]), "model")
    np.save("X_test.npy", X)
    Path("empty").mkdir()
    refused(slender(*words.split()), *parts)


def test_info_says_what_a_model_takes(here, slender):
    done(slender("fit", "train", *ONNX, "--out", "model"))
    out = " ".join(done(slender("info", "model")).split())
    assert "takes images, by --features onnx: batch_size 16, model network.onnx" in out
    assert "LogisticClassifier" in out
    found = json.loads(done(slender("info", "model", "--json", "-")))
    assert found["images"]["features"] == "onnx"
    assert found["features"] == 5


def test_help_of_fit_stays_readable(slender, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    out = done(slender("fit", "--help"))
    assert "--features" in out
    assert "--n-gaussians" not in out
    out = done(slender("extract", "--help"))
    assert "--n-gaussians" in out
    assert "--batch-size" not in out
    assert "slender extract images --features fisher --out vectors" in out
    out = done(slender("extract", "--features", "onnx:network.onnx", "--help"))
    assert "--n-gaussians" not in out
    for flag in ("--size", "--mean", "--std", "--output", "--pool", "--batch-size"):
        assert flag in out


# -- in the library --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["onnx", "fisher"])
def test_a_pipeline_is_saved_and_loaded(here, kind):
    first = encoder()
    if kind == "fisher":
        first = ENCODERS["fisher"].load()(2, 8, scales=(4,), descriptors=2000, random_state=0)
    files = find_images("train").files
    model = make_pipeline(first, LogisticClassifier()).fit(files, truth("train"))
    save_model(model, "model")
    again = load_model("model")
    assert list(again.named_steps) == list(model.named_steps)
    tests = find_images("test").files
    assert np.array_equal(again.predict_proba(tests), model.predict_proba(tests))
    assert b"pickle" not in Path("model").read_bytes()
    save_model(again, "again")
    assert np.array_equal(load_model("again").predict(tests), model.predict(tests))


def test_other_pipelines_are_not_saved(here):
    X, y = np.eye(6, 5), np.arange(6) % 2
    classifier = SLNDClassifier(random_state=0)
    for steps, said in (
        ([PCA(2), classifier], "PCA cannot be saved; slender saves FisherVectorizer and OnnxEnc"),
        ([PCA(3), PCA(2), classifier], "a pipeline of 3 steps cannot be saved"),
    ):
        with pytest.raises(FileError, match=said):
            save_model(make_pipeline(*steps).fit(X, y), "model")
    unlike = Pipeline([("a", encoder().fit()), ("b", SLNDClassifier().fit(np.eye(6), y))])
    with pytest.raises(FileError, match=r"vectors of 5 numbers, but the classifier takes 6"):
        save_model(unlike, "model")
    assert not Path("model").exists()


def test_a_damaged_pipeline_is_refused(here):
    """With a correct checksum too."""
    from safetensors.numpy import save_file

    X, y = np.random.default_rng(0).standard_normal((6, 5)), np.arange(6) % 2
    classifier = SLNDClassifier(random_state=0).fit(X, y)
    save_model(Pipeline([("features", encoder().fit()), ("classifier", classifier)]), "model")
    text, arrays = _read(Path("model"))
    for change, said in (
        (lambda document, arrays: document["pipeline"].update(features="hog"), "features 'hog'"),
        (lambda document, arrays: arrays.pop("features.model"), "cannot be read as a model"),
        (lambda document, arrays: document["pipeline"].update(steps=["one"]), "cannot be read"),
        (
            lambda document, arrays: arrays.update({"features.model": np.zeros(9, np.uint8)}),
            "cannot be read as an ONNX model",
        ),
        (lambda document, arrays: document.update(version=4), "upgrade slender"),
    ):
        document, tensors = json.loads(text), dict(arrays)
        change(document, tensors)
        changed = json.dumps(document)
        save_file(tensors, "bad", {FORMAT: changed, "sha256": checksum(changed, tensors)})
        with pytest.raises(FileError, match=said):
            load_model("bad")


@pytest.mark.skipif("SLENDER_DATA" not in os.environ, reason="SLENDER_DATA is not set")
@pytest.mark.slow
def test_photographs(tmp_path, slender):
    """Real ones, where there are any: a classifier of few of them is far better than chance."""
    photos = Path(os.environ["SLENDER_DATA"]) / "photos"
    if not photos.is_dir():
        pytest.skip(f"{photos} is not there")
    for part, most in (("train", 10), ("test", 5)):
        for home in sorted((photos / part).iterdir())[:5]:
            (tmp_path / part / home.name).mkdir(parents=True)
            for path in sorted(home.iterdir())[:most]:
                (tmp_path / part / home.name / path.name).symlink_to(path)
    small = ("--n-gaussians", 8, "--step", 8, "--descriptors", 10_000)
    done(slender("extract", tmp_path / "train", "--out", tmp_path / "X", *small))
    done(slender("fit", tmp_path / "X", "--features", tmp_path / "X", "--out", tmp_path / "m"))
    out = done(slender("score", tmp_path / "m", tmp_path / "test", "--json", "-"))
    assert json.loads(out)["top1"] > 0.5


def test_a_photo_of_another_shape(here, slender):
    done(slender("fit", "train", *ONNX, "--out", "model"))
    Path("wide.jpg").write_bytes(encoded(picture(3, 20_000), "JPEG"))
    assert done(slender("predict", "model", "wide.jpg")).startswith("wide.jpg,")


def test_parts_of_a_folder_and_of_a_data_set(here, slender):
    Path("photos").mkdir()
    for part in ("train", "test"):
        Path(part).rename(f"photos/{part}")
    code, _, err = slender("extract", "photos", *ONNX, "--out", "a")
    assert (code, err) == (
        2,
        "slender: photos holds train and test: give --part train or --part test\n",
    )
    assert slender("extract", "photos", "--part", "train", *ONNX, "--out", "a", "-q")[0] == 0
    assert (
        slender("extract", "photos", "--part", "test", "--model", "a", "--out", "b", "-q")[0] == 0
    )
    name = "folder:path=photos"  # the same files, by the registry of data sets
    assert slender("extract", name, *ONNX, "--out", "c", "-q")[0] == 0
    words = ("--part", "test", "--model", "c", "--out", "d", "-q")
    assert slender("extract", name, *words)[0] == 0
    for one, other, n in (("a", "c", 24), ("b", "d", 12)):
        X = np.load(f"{one}/X.npy")
        assert len(X) == n
        np.testing.assert_array_equal(np.load(f"{other}/X.npy"), X)
        np.testing.assert_array_equal(np.load(f"{other}/y.npy"), np.load(f"{one}/y.npy"))
    for words, said in (
        ("photos/train --part test", "photos/train is neither a data set nor holds train and test"),
        ("photos --part val", "--part val is not one of train, test"),
        ("digits", "digits is a data set of vectors, not of images"),
    ):
        code, _, err = slender("extract", *words.split(), *ONNX, "--out", "e")
        assert code == 2
        assert said in err
