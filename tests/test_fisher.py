"""Fisher vectors: the encoder against naive versions and skimage; FisherVectorizer in use."""

import inspect
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import typer
from benchmarks.textures import stripes, texture
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

import naive_fisher as naive
from slender import FisherVectorizer, SLNDClassifier
from slender.features import encoding, fisher
from slender.features.encoding import FisherSums, Mixture
from slender.features.pixels import prepared

SMALL = {"n_gaussians": 3, "n_components": 8, "scales": (4, 6), "descriptors": 2000}


def random_mixture(K, D, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(K, 3.0))
    return Mixture(weights, rng.standard_normal((K, D)), rng.uniform(0.1, 2.0, (K, D)))


def descriptors(n, D, seed=1):
    return np.random.default_rng(seed).standard_normal((n, D)).astype(np.float32)


def gradients(X, mixture):
    sums = FisherSums(mixture)
    sums.add(X)
    return sums.gradients()


@pytest.fixture(scope="module")
def images():
    return [texture(48 + seed, 60 - seed, seed) for seed in range(6)]


@pytest.fixture(scope="module")
def fitted(images):
    return FisherVectorizer(**SMALL, random_state=0).fit(images)


# -- the encoder ---------------------------------------------------------------------------------


@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 40), st.integers(0, 1000))
def test_the_encoder_is_what_its_formulas_say(K, D, n, seed):
    mixture, X = random_mixture(K, D, seed), descriptors(n, D, seed)
    expected = naive.gradients(X.astype(float), *mixture)
    largest = abs(expected).max()
    np.testing.assert_allclose(gradients(X, mixture), expected, atol=1e-5 * max(1, largest))
    found = encoding.fisher_vector(X, mixture)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, naive.improved(expected), atol=2e-3)  # √ near 0
    assert np.linalg.norm(found) == pytest.approx(1, abs=1e-5)


def test_the_parts_are_derivatives_of_the_mean_log_likelihood():
    (w, m, v), X = random_mixture(3, 4), descriptors(30, 4).astype(float)

    def likelihood(means, deviations):
        logs = norm.logpdf(X[:, None], means, deviations).sum(axis=2)
        return logsumexp(logs + np.log(w), axis=1).mean()

    by_mean, by_deviation = np.empty(m.shape), np.empty(m.shape)
    h, s = 1e-6, np.sqrt(v)
    for k, d in np.ndindex(m.shape):
        e = np.zeros(m.shape)
        e[k, d] = h
        by_mean[k, d] = (likelihood(m + e, s) - likelihood(m - e, s)) / (2 * h)
        by_deviation[k, d] = (likelihood(m, s + e) - likelihood(m, s - e)) / (2 * h)
    information = s / np.sqrt(w)[:, None]  # times the inverse root of the Fisher information
    expected = [(information * by_mean).ravel(), (information / np.sqrt(2) * by_deviation).ravel()]
    found = gradients(X.astype(np.float32), Mixture(w, m, v))
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-5)


@pytest.mark.parametrize("K", [16, 256])
def test_the_encoder_agrees_with_skimage(K):
    """But for skimage's K terms of the weights, which come first, and its sign of deviations."""
    theirs = pytest.importorskip("skimage.feature").fisher_vector
    D = 64
    mixture, X = random_mixture(K, D), descriptors(3000, D)
    gmm = GaussianMixture(K, covariance_type="diag")
    gmm.weights_, gmm.means_, gmm.covariances_ = mixture
    gmm.precisions_cholesky_ = 1 / np.sqrt(mixture.variances)
    plain = theirs(X.astype(float), gmm)[K:] * np.repeat([1, -1], K * D)
    np.testing.assert_allclose(gradients(X, mixture), plain, atol=1e-5)
    np.testing.assert_allclose(encoding.improved(plain), naive.improved(plain), atol=1e-7)
    roots = np.sign(plain) * np.sqrt(abs(plain))
    ours = encoding.fisher_vector(X, mixture)
    np.testing.assert_allclose(ours, roots / np.linalg.norm(roots), atol=1e-5)


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=4))
def test_descriptors_may_come_in_parts(sizes):
    mixture, X = random_mixture(4, 5), descriptors(sum(sizes), 5)
    sums = FisherSums(mixture)
    for part in np.split(X, np.cumsum(sizes)[:-1]):
        sums.add(part)
    assert sums.n == sum(sizes)
    np.testing.assert_allclose(sums.gradients(), gradients(X, mixture), atol=1e-5)


def test_descriptors_far_from_all_gaussians_are_finite():
    mixture = random_mixture(4, 8)
    for scale in (0, 1e2, 1e4):
        found = encoding.fisher_vector(scale * descriptors(20, 8), mixture)
        assert np.isfinite(found).all()
        assert np.linalg.norm(found) == pytest.approx(1, abs=1e-5)


def test_without_descriptors_a_vector_is_zeros():
    assert not encoding.improved(FisherSums(random_mixture(2, 3)).gradients()).any()


# -- images --------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"joint": True}, {"channels": ("colour",)}, {"step": 7}])
def test_a_vector_is_what_the_formulas_say(images, settings):
    vectorizer = FisherVectorizer(**{**SMALL, **settings}, random_state=0).fit(images)
    image = images[0][:30, :26]
    found = vectorizer.encode(image)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, naive.fisher_vector(image, vectorizer), atol=2e-3)


def test_a_vector_depends_on_its_image_only(images, fitted):
    X = fitted.transform(images)
    assert X.shape == (6, fitted.n_features_out_)
    assert X.dtype == np.float32
    np.testing.assert_array_equal(fitted.transform(images[::-1])[::-1], X)
    np.testing.assert_array_equal(fitted.transform(images[2:3]), X[2:3])
    np.testing.assert_array_equal([fitted.encode(image) for image in images], X)


def test_the_number_of_processes_changes_nothing(images, fitted):
    two = FisherVectorizer(**SMALL, n_jobs=2, random_state=0).fit(images)
    for name, array in fitted.arrays().items():
        np.testing.assert_array_equal(two.arrays()[name], array)
    np.testing.assert_array_equal(two.transform(images), fitted.transform(images))


def test_the_seed_decides(images):
    few = {**SMALL, "descriptors": 300}  # of a thousand
    first, same, other = (
        FisherVectorizer(**few, random_state=seed).fit(images).arrays() for seed in (0, 0, 1)
    )
    for name, array in first.items():
        np.testing.assert_array_equal(same[name], array)
        assert (other[name] != array).any()


def test_paths_and_arrays_are_the_same(images, fitted, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    paths = [tmp_path / f"{i}.png" for i in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        Image.fromarray(image).save(path)
    X = fitted.transform(images)
    np.testing.assert_array_equal(fitted.transform(paths), X)
    np.testing.assert_array_equal(fitted.transform(np.array([str(p) for p in paths])), X)
    np.testing.assert_array_equal(fitted.transform([paths[0], images[1]]), X[:2])


def test_grey_images_are_images(fitted):
    grey = texture(40, 50)[:, :, 0]
    expected = fitted.encode(np.repeat(grey[:, :, None], 3, axis=2))
    np.testing.assert_array_equal(fitted.encode(grey), expected)
    np.testing.assert_array_equal(fitted.transform(np.stack([grey, grey]))[1], expected)


def test_a_large_image_is_shrunk():
    pytest.importorskip("PIL")
    for shape, expected in {(200, 100): (40, 20), (3, 500): (16, 40), (40, 30): (40, 30)}.items():
        assert prepared(texture(*shape), 40, (6, 4)).shape == (*expected, 3)
        assert prepared(texture(*shape), None, (4,)).shape[0] == max(16, shape[0])


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (15, 15), (16, 16), (17, 23), (300, 2)])
def test_small_images_have_vectors(fitted, shape):
    sift, colour = np.split(fitted.encode(texture(*shape)), 2)
    assert np.linalg.norm(colour) == pytest.approx(1, abs=1e-5)
    if shape == (1, 1):  # nothing but one colour
        assert not sift.any()
    else:
        assert np.linalg.norm(sift) == pytest.approx(1, abs=1e-5)


def test_scales_that_do_not_fit_are_left_out(images):
    small = FisherVectorizer(**{**SMALL, "scales": (4, 40)}, random_state=0).fit(images)
    alone = FisherVectorizer(**{**SMALL, "scales": (4,)}, random_state=0).fit(images)
    np.testing.assert_array_equal(small.transform(images), alone.transform(images))


def test_256_gaussians_of_both_channels_are_65536_numbers(images):
    for joint in (False, True):
        vectorizer = FisherVectorizer(256, joint=joint, descriptors=1500, random_state=0)
        X = vectorizer.fit_transform(images[:3])
        assert X.shape == (3, 65_536)
        assert np.isfinite(X).all()
        assert np.linalg.norm(X[0]) == pytest.approx(1 if joint else np.sqrt(2), abs=1e-4)


def test_the_defaults_are_4096_numbers(images):
    vectorizer = FisherVectorizer(random_state=0).fit(images)
    assert vectorizer.n_features_out_ == 4096
    assert {*vectorizer.mixtures_} == {"sift", "colour"}


def test_only_so_many_images_are_read(images, monkeypatch):
    read = []
    monkeypatch.setattr(fisher, "prepared", lambda *image: read.append(1) or prepared(*image))
    vectorizer = FisherVectorizer(**SMALL, fit_images=2, random_state=0).fit(images)
    assert len(read) == 2
    vectorizer.transform(images)
    assert len(read) == 2 + len(images)


# -- classes -------------------------------------------------------------------------------------


def test_textures_are_told_apart_where_pixels_cannot():
    (train, y), (test, y_test) = stripes(120, 0), stripes(80, 1)
    vectorizer = FisherVectorizer(8, 24, ("sift",), descriptors=4000, random_state=0)
    fishers = make_pipeline(vectorizer, SLNDClassifier(random_state=0)).fit(train, y)
    pixels = [np.stack(part).reshape(len(part), -1).astype(np.float32) for part in (train, test)]
    raw = SLNDClassifier(random_state=0).fit(pixels[0], y)
    assert fishers.score(test, y_test) > raw.score(pixels[1], y_test) + 0.2


@pytest.mark.slow
def test_photographs_are_told_apart_20_points_better_than_by_pixels():
    Image = pytest.importorskip("PIL.Image")
    folder = Path(os.environ.get("SLENDER_DATA", "")) / "photos"
    if "SLENDER_DATA" not in os.environ or not folder.is_dir():
        pytest.skip("SLENDER_DATA names no folder that holds photos/")
    files = {part: sorted((folder / part).glob("*/*.jpg")) for part in ("train", "test")}
    y, y_test = ([path.parent.name for path in of] for of in files.values())

    def pixels(paths):
        return np.stack([np.asarray(Image.open(p).convert("RGB").resize((32, 32))) for p in paths])

    raw, raw_test = (pixels(of).reshape(len(of), -1) / np.float32(255) for of in files.values())
    baseline = SLNDClassifier(random_state=0).fit(raw, y).score(raw_test, y_test)
    vectorizer = FisherVectorizer(descriptors=30_000, n_jobs=2, random_state=0)
    X = vectorizer.fit_transform(files["train"])
    model = SLNDClassifier(random_state=0).fit(X, y)
    assert model.score(vectorizer.transform(files["test"]), y_test) > baseline + 0.2


OTHER = {  # of every parameter that has an influence on vectors
    "n_gaussians": 2,
    "n_components": 7,
    "channels": ("colour", "sift"),
    "joint": True,
    "step": 5,
    "scales": (4,),
    "max_size": 40,
    "fit_images": 3,
    "descriptors": 300,
    "random_state": 1,
}


@pytest.mark.parametrize("name", inspect.signature(FisherVectorizer).parameters)
def test_every_parameter_changes_the_vectors(images, fitted, name):
    if name in ("n_jobs", "progress"):
        assert name not in OTHER  # tests of their own say that they change nothing
        return
    other = clone(fitted).set_params(**{name: OTHER[name]}).fit(images)
    assert not np.array_equal(other.transform(images), fitted.transform(images))


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"channels": ("sift", "texture")}, "'texture' must be one of"),
        ({"channels": "sift"}, "channels='sift' must be a sequence"),
        ({"channels": ()}, "must be a sequence"),
        ({"channels": ("sift", "sift")}, "the same entry twice"),
        ({"step": 0}, "step=0 must be an integer > 0"),
        ({"step": 1.5}, "step=1.5 must be an integer"),
        ({"scales": ()}, "scales=.* must be integers from 2"),
        ({"scales": (4, 1)}, "scales=.* must be integers from 2"),
        ({"scales": (4, 4)}, "the same entry twice"),
        ({"scales": (4.5,)}, "scales=.* must be integers"),
        ({"max_size": 12}, "max_size=12 is smaller than a patch"),
        ({"n_components": 100}, "more than the 96 numbers of a descriptor of the channel 'colour'"),
        ({"joint": True, "channels": ("sift",)}, "joint=True joins channels"),
        ({"n_gaussians": 0}, "n_gaussians=0 must be an integer > 0"),
        ({"fit_images": -1}, "fit_images=-1"),
        ({"descriptors": 5}, "5 .* are too few to learn n_components=8 and n_gaussians=3"),
    ],
)
def test_settings_that_make_no_sense_are_refused(images, settings, message):
    with pytest.raises(ValueError, match=message):
        FisherVectorizer(**{**SMALL, **settings}, random_state=0).fit(images[:1])


def test_images_that_cannot_be_used_are_refused(images, fitted):
    with pytest.raises(ValueError, match="there are no images"):
        fitted.transform([])
    with pytest.raises(ValueError, match="there are no images"):
        FisherVectorizer().fit([])
    with pytest.raises(ValueError, match="a single image was given"):
        fitted.transform(images[0])
    with pytest.raises(ValueError, match="a single image was given"):
        fitted.transform("photo.jpg")
    with pytest.raises(ValueError, match="the image has type float64 and shape"):
        fitted.encode(images[0] / 255)
    with pytest.raises(ValueError, match="image 1 has type float64"):
        fitted.transform([images[0], images[0] / 255])
    with pytest.raises(ValueError, match=r"shape \(20, 20, 4\)"):
        fitted.encode(np.zeros((20, 20, 4), np.uint8))
    with pytest.raises(ValueError, match="has no pixels"):
        fitted.encode(np.zeros((0, 20, 3), np.uint8))
    with pytest.raises(ValueError, match=r"not-there\.jpg"):
        fitted.transform(["not-there.jpg"])


def test_too_little_to_learn_from_is_an_error():
    flat = np.full((60, 60, 3), 200, np.uint8)
    with pytest.raises(ValueError, match=r"0 sift descriptors .* give more or larger images"):
        FisherVectorizer(**SMALL, random_state=0).fit([flat])
    with pytest.raises(ValueError, match="only 1 different descriptors"):
        FisherVectorizer(**SMALL, channels=("colour",), random_state=0).fit([flat])
    with pytest.raises(ValueError, match="only 2 different descriptors"):
        FisherVectorizer(**SMALL, joint=True, random_state=0).fit([flat, flat // 2])
    with pytest.raises(ValueError, match=r"1 sift descriptors .* are too few"):
        FisherVectorizer(**SMALL, random_state=0).fit([texture(16, 16)])


# -- scikit-learn --------------------------------------------------------------------------------


def test_before_fit_nothing_is_transformed(images):
    for call in ("transform", "encode"):
        with pytest.raises(NotFittedError):
            getattr(FisherVectorizer(), call)(images)
    with pytest.raises(NotFittedError):
        FisherVectorizer().arrays()
    with pytest.raises(NotFittedError):
        FisherVectorizer().get_feature_names_out()


def test_it_is_a_transformer_of_scikit_learn(images, fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "mixtures_")
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(images[:2]), fitted.transform(images[:2]))
    names = fitted.get_feature_names_out()
    assert len(set(names)) == fitted.n_features_out_ == 2 * 2 * 3 * 8
    assert names[0] == "sift_mean_0_0"
    assert names[-1] == "colour_deviation_2_7"
    assert names[3 * 8] == "sift_deviation_0_0"
    pytest.importorskip("pandas")
    frame = pickle.loads(pickle.dumps(fitted)).set_output(transform="pandas").transform(images[:2])
    assert list(frame.columns) == names.tolist()


def test_a_failed_fit_changes_nothing(images):
    vectorizer = FisherVectorizer(**SMALL, random_state=0).fit(images)
    before = vectorizer.arrays()
    with pytest.raises(ValueError, match="too few"):
        vectorizer.fit([texture(16, 16)])
    assert all(a is b for a, b in zip(before.values(), vectorizer.arrays().values(), strict=True))


@pytest.mark.parametrize("joint", [False, True])
def test_the_way_to_arrays_and_back(images, joint):
    vectorizer = FisherVectorizer(**SMALL, joint=joint, random_state=0).fit(images)
    settings = {**vectorizer.get_params(), "scales": [4, 6], "channels": ["sift", "colour"]}  # JSON
    back = FisherVectorizer.restored(settings, vectorizer.arrays())
    assert back.n_features_out_ == vectorizer.n_features_out_
    np.testing.assert_array_equal(back.transform(images), vectorizer.transform(images))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda a: a.pop("sift.means"), "its settings need"),
        (lambda a: a.update({"more": np.zeros(3)}), "its settings need"),
        (lambda a: a.update({"sift.mean": a["sift.mean"][1:]}), "its settings need"),
        (lambda a: a.update({"sift.weights": -a["sift.weights"]}), r"sift\.weights .* values"),
        (lambda a: a.update({"sift.means": np.nan * a["sift.means"]}), r"sift\.means .* values"),
    ],
)
def test_damaged_arrays_are_refused(fitted, damage, message):
    arrays = fitted.arrays()
    damage(arrays)
    with pytest.raises(ValueError, match=message):
        FisherVectorizer.restored(fitted.get_params(), arrays)


def test_progress_is_shown_on_a_terminal_only(images, fitted, monkeypatch, capsys):
    settings = {**fitted.get_params(), "progress": True}
    vectorizer = FisherVectorizer.restored(settings, fitted.arrays())
    vectorizer.transform(images)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    vectorizer.transform(images)
    assert "Fisher vectors" in capsys.readouterr().err


def test_channels_are_described_in_the_docs_of_the_class():
    for name in fisher.CHANNELS:
        assert f'"{name}"' in FisherVectorizer.__doc__


# -- the benchmark -------------------------------------------------------------------------------


def test_the_benchmark_runs(tmp_path):
    for package in ("cv2", "skimage", "PIL"):
        pytest.importorskip(package)
    from benchmarks import fisher as benchmark

    path, app = tmp_path / "results.json", typer.Typer()
    app.command()(benchmark.main)
    options = ["--quick", "--only", "sift,encoding,images", "--json", str(path)]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 0, result.output
    written = json.loads(path.read_text())
    assert written["sift"]["found"]["scales"]["4"]["correlation"] > 0.99
    (encoded,) = written["encoding"]["found"]
    assert encoded["apart"] < 1e-4
    assert written["images"]["found"]["per_core_1"]["median"] > 0
    assert "images per second and core" in result.stdout
