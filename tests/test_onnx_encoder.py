"""A network in an ONNX file sees what its trainers showed it, and errors say what to do."""

import json
import pickle
import sys

import numpy as np
import onnx
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from bad_images import encoded, picture
from onnx_models import any_size, colours, colours_of, identity, tokens, two_inputs, write
from slender.extras import MissingPackageError
from slender.features.images import BadImageError
from slender.features.onnx import OnnxEncoder
from slender.features.preprocessing import LONGEST, Preprocessing
from slender.storage import FileError

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)
IMAGES = [picture(32, 48, seed) for seed in range(5)]


def naive(image, side=8, resize=None, mean=MEAN, std=STD, filtered=Image.Resampling.BICUBIC):
    """Resized, cropped, scaled: pixel by pixel as the documentation says."""
    resize = resize or side
    h, w = image.shape[:2]
    size = (resize, resize * h // w) if w <= h else (resize * w // h, resize)
    pixels = np.asarray(Image.fromarray(image).resize(size, filtered)).astype(float)
    top, left = (pixels.shape[0] - side) // 2, (pixels.shape[1] - side) // 2
    out = np.empty((side, side, 3))
    for i in range(side):
        for j in range(side):
            for c in range(3):
                out[i, j, c] = (pixels[top + i, left + j, c] / 255 - mean[c]) / std[c]
    return out


def encoder(path, **settings):
    return OnnxEncoder(path, **{"mean": MEAN, "std": STD, **settings})


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("batch", [None, 1, 3])
def test_vectors_of_all_layouts(tmp_path, dtype, last, batch):
    path = colours(tmp_path / "m.onnx", 8, last, dtype, batch)
    X = encoder(path, batch_size=2).fit(IMAGES).transform(IMAGES)
    wanted = [colours_of(naive(image)) for image in IMAGES]
    assert (X.shape, X.dtype) == ((5, 5), np.float32)
    np.testing.assert_allclose(X, wanted, atol=0.05 if dtype == "float16" else 1e-4)


def test_paths_and_arrays_are_the_same(tmp_path):
    fitted = encoder(colours(tmp_path / "m.onnx")).fit()
    files = []
    for k, image in enumerate(IMAGES):
        files.append(tmp_path / f"{k}.png")
        files[-1].write_bytes(encoded(image, "PNG"))
    X = fitted.transform(IMAGES)
    assert np.array_equal(fitted.transform(files), X)
    assert np.array_equal(fitted.transform(map(str, files)), X)
    assert np.array_equal(fitted.encode(IMAGES[0]), fitted.transform(IMAGES[:1])[0])
    assert fitted.transform([]).shape == (0, 5)
    several = fitted.set_params(batch_size=2, n_jobs=2).transform(files)
    np.testing.assert_allclose(several, X, atol=1e-5)
    files[1].write_bytes(b"")
    with pytest.raises(BadImageError, match="empty file"):
        fitted.transform(files)


def test_resize_then_crop(tmp_path):
    path = colours(tmp_path / "m.onnx")
    X = encoder(path, resize=12, resample="bilinear").fit().transform(IMAGES)
    wanted = [colours_of(naive(i, 8, 12, filtered=Image.Resampling.BILINEAR)) for i in IMAGES]
    np.testing.assert_allclose(X, wanted, atol=1e-4)


def test_a_long_image_is_no_bomb(tmp_path):
    """The ends of a line of pixels are cut off, which the crop would do anyway."""
    fitted = encoder(colours(tmp_path / "m.onnx")).fit()
    line = np.full((1, 20_000, 3), 9, np.uint8)
    line[:, 9_990:10_010] = picture(1, 20)
    middle = line[:, 10_000 - LONGEST // 2 : 10_000 + LONGEST // 2]
    assert np.array_equal(fitted.encode(line), fitted.encode(middle))
    assert np.array_equal(
        fitted.encode(line.transpose(1, 0, 2)), fitted.encode(middle.transpose(1, 0, 2))
    )


def test_a_saved_encoder_needs_no_file(tmp_path):
    (tmp_path / "m.json").write_text(json.dumps({"mean": MEAN, "std": STD, "resize": 10}))
    fitted = OnnxEncoder(colours(tmp_path / "m.onnx")).fit()
    X = fitted.transform(IMAGES)
    (tmp_path / "m.json").unlink()
    (tmp_path / "m.onnx").unlink()
    settings = json.loads(json.dumps({**fitted.get_params(), "model": "m.onnx"}))
    again = OnnxEncoder.restored(settings, fitted.arrays())
    assert np.array_equal(again.transform(IMAGES), X)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).transform(IMAGES), X)
    with pytest.raises(NotFittedError):
        clone(fitted).transform(IMAGES)


# -- the JSON file beside the model ----------------------------------------------------------------

HALF = {"image_mean": [0.5] * 3, "image_std": [0.25] * 3}
PROCESSED = Preprocessing((8,), (8, 8), (0.5,) * 3, (0.25,) * 3)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"mean": [0.5] * 3, "std": 0.25}, PROCESSED),
        (HALF, PROCESSED),
        ({**HALF, "size": 8}, PROCESSED),
        ({**HALF, "size": {"shortest_edge": 8}}, PROCESSED),
        ({**HALF, "size": {"shortest_edge": 10}, "crop_size": 8}, PROCESSED._replace(resize=(10,))),
        (
            {**HALF, "size": 10, "crop_size": {"height": 8, "width": 8}, "resample": 2},
            PROCESSED._replace(resize=(10,), resample="bilinear"),
        ),
        ({**HALF, "size": {"height": 8, "width": 8}}, PROCESSED._replace(resize=(8, 8))),
        ({**HALF, "rescale_factor": 0.5}, PROCESSED._replace(rescale=0.5)),
        ({**HALF, "do_rescale": False}, PROCESSED._replace(rescale=1.0)),
        ({"do_normalize": False}, PROCESSED._replace(mean=(0.0,) * 3, std=(1.0,) * 3)),
    ],
)
@pytest.mark.parametrize("name", ["m.json", "preprocessor_config.json"])
def test_settings_beside_the_model(tmp_path, given, wanted, name):
    path = colours(tmp_path / "m.onnx")
    (tmp_path / name).write_text(json.dumps(given))
    assert OnnxEncoder(path).fit().preprocessing_ == wanted


def test_both_sides_exactly(tmp_path):
    exact = Preprocessing((8, 8), (8, 8), (0.0,) * 3, (1.0,) * 3)
    found = exact(IMAGES[0])
    wanted = np.asarray(Image.fromarray(IMAGES[0]).resize((8, 8), Image.Resampling.BICUBIC)) / 255
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_what_is_given_counts_more_than_the_file(tmp_path):
    path = any_size(tmp_path / "m.onnx")
    (tmp_path / "m.json").write_text(json.dumps({**HALF, "size": 300, "crop_size": 256}))
    found = OnnxEncoder(path, size=8, std=STD).fit().preprocessing_
    assert found == PROCESSED._replace(std=STD)
    assert OnnxEncoder(path).fit().preprocessing_.resize == (300,)


# -- what cannot be used ---------------------------------------------------------------------------


def test_outputs(tmp_path):
    """The first (n, d); a named one; tokens are pooled if that is asked for."""
    path = tokens(tmp_path / "m.onnx")
    with pytest.raises(ValueError, match=r"no output is one vector per image.*pool=mean"):
        encoder(path).fit()
    pixels = np.array([naive(image) for image in IMAGES])
    mean = encoder(path, output="tokens", pool="mean").fit().transform(IMAGES)
    np.testing.assert_allclose(mean, pixels.mean(axis=(1, 2)), atol=1e-5)
    of_map = encoder(path, pool="mean").fit()
    assert of_map._network.output == "map"
    np.testing.assert_allclose(of_map.transform(IMAGES), mean, atol=1e-5)
    first = encoder(path, pool="first").fit().transform(IMAGES)
    np.testing.assert_allclose(first, pixels[:, 0, 0], atol=1e-5)
    for settings, said in (
        ({"output": "tokens"}, "tokens is not one vector per image"),
        ({"output": "vectors"}, r"output='vectors': .*m.onnx has map, tokens"),
        ({"pool": "max"}, "pool='max' is not one of first, mean"),
        ({"output": "map", "pool": "first"}, "nothing to pool in map"),
    ):
        with pytest.raises(ValueError, match=said):
            encoder(path, **settings).fit()
    path = any_size(tmp_path / "a.onnx")
    assert encoder(path, size=6).fit()._network.output == "vectors"
    with pytest.raises(ValueError, match="nothing to pool in vectors"):
        encoder(path, size=6, output="vectors", pool="mean").fit()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"mean": None}, r"mean is not known: give mean=.*JSON file beside the model"),
        ({"std": None}, "std is not known"),
        ({"std": (0.1, 0.0, 0.1)}, "must be three numbers > 0"),
        ({"mean": (0.1, 0.2)}, "must be three numbers"),
        ({"size": 9}, r"size=9 x 9, but the model takes images of 8 x 8"),
        ({"size": -8}, "must be a whole number of pixels"),
        ({"resize": 4}, "resize=4 is smaller than size=8"),
        ({"resample": "sinc"}, "resample='sinc' is not one of nearest"),
        ({"batch_size": 0}, "batch_size=0 must be"),
        ({"model": None}, "needs a model"),
    ],
)
def test_settings_that_cannot_be(tmp_path, settings, said):
    path = colours(tmp_path / "m.onnx")
    with pytest.raises(ValueError, match=said):
        OnnxEncoder(**{"model": path, "mean": MEAN, "std": STD, **settings}).fit()


def test_a_size_is_needed_where_the_network_has_none(tmp_path):
    with pytest.raises(ValueError, match="takes images of any size: give size=224"):
        encoder(any_size(tmp_path / "m.onnx")).fit()


def test_networks_that_cannot_be(tmp_path):
    path = tmp_path / "m.onnx"
    for make, said in (
        (lambda: two_inputs(path), r"m.onnx: has 2 inputs \(image, text\)"),
        (lambda: identity(path, ["n", 1, 8, 8]), "no axis of three channels"),
        (lambda: identity(path, ["n", 4, 8, 8]), "no axis of three channels"),
        (lambda: identity(path, ["n", 192]), "has 2 axes"),
        (lambda: path.write_bytes(b"text"), "cannot be read as an ONNX model"),
        (lambda: path.write_bytes(b""), "cannot be read as an ONNX model"),
    ):
        make()
        with pytest.raises(FileError, match=said) as caught:
            encoder(path).fit()
        assert "\n" not in str(caught.value)
    with pytest.raises(FileError, match="no such file"):
        encoder(tmp_path / "none.onnx").fit()


def test_integers_are_no_images(tmp_path):
    path = tmp_path / "m.onnx"
    node = onnx.helper.make_node("Cast", ["image"], ["out"], to=onnx.TensorProto.FLOAT)
    shape = onnx.helper.make_tensor_value_info("image", onnx.TensorProto.UINT8, ["n", 3, 8, 8])
    out = onnx.helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, None)
    write(path, [node], [shape], [out])
    with pytest.raises(FileError, match=r"takes tensor\(uint8\), not images in float32"):
        encoder(path).fit()


def test_weights_in_other_files(tmp_path):
    model = onnx.load(colours(tmp_path / "m.onnx"))
    onnx.save(
        model,
        tmp_path / "m.onnx",
        save_as_external_data=True,
        location="weights",
        size_threshold=0,
    )
    with pytest.raises(FileError, match="its weights lie in other files"):
        encoder(tmp_path / "m.onnx").fit()


def test_a_json_file_that_cannot_be_used(tmp_path):
    path = colours(tmp_path / "m.onnx")
    for text in ("{", "[]", '{"do_resize": false}', '{"size": {"longest_edge": 8}}'):
        (tmp_path / "m.json").write_text(text)
        with pytest.raises(FileError, match=r"m.json: cannot be used"):
            encoder(path).fit()


def test_an_array_that_is_no_image(tmp_path):
    fitted = encoder(colours(tmp_path / "m.onnx")).fit()
    with pytest.raises(ValueError, match=r"an image is an \(h, w, 3\) array of uint8"):
        fitted.transform([np.zeros((4, 4, 3))])


def test_onnxruntime_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setattr("slender.extras.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match="pip install onnxruntime"):
        encoder(colours(tmp_path / "m.onnx")).fit()
